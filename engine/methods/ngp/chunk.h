#pragma once

#include <vector>

#include "engine/base/buffer.h"
#include "engine/base/config/train_config.h"
#include "engine/field/kernels/ray_marching.h"
#include "engine/field/ray_wave.h"
#include "engine/methods/ngp/lane_output.h"
#include "engine/methods/ngp/network.h"
#include "engine/methods/ngp/parameters.h"
#include "engine/methods/ngp/view_parameters/view_poses.h"
#include "engine/train/batch/ray_batch.h"
#include "engine/train/composited_ray.h"
#include "engine/train/ray_roulette.h"

namespace nerf {

// A round is this many samples of each ray, then a check of its transmittance. A chunk of few rays
// takes more of each, so that a round has kMinRoundRows samples.
inline constexpr int kMinRoundSamples = 4, kMinRoundRows = 128;
// Rays of several chunks march this many rounds together. Most of them end within these; the few
// that go on would leave most vector lanes empty.
inline constexpr int kRoundsAhead = 4;
static_assert(kRoundsAhead * kMinRoundSamples == kNgpSamplesAhead &&
              sizeof(kernels::MarchRay) == kNgpMarchRayBytes);
inline constexpr int kRaysInFlight = 512;  // that march together, in whole chunks

// What a chunk reads; the same for all chunks of a step.
struct ChunkInput {
  const TrainConfig* config = nullptr;
  NgpNetwork network;
  const float* transposed_weights = nullptr;
  const uint32_t* transposed_pairs = nullptr;  // of these, or null (PackNgpWeightPairs)
  kernels::MarchGrid grid;
  kernels::MarchSteps steps;        // of this step's samples
  kernels::MarchSteps scene_steps;  // of the scene
  int round_samples = kMinRoundSamples;
  // Where views have exposures (ViewExposures): their gains, and where each ray's gradient by the
  // logarithm of its gain goes, [batch->n_rays]. Else null.
  const Vec3* view_gains = nullptr;
  Vec3* grad_log_gains = nullptr;
  // Where views have appearances (ViewAppearances): their terms [n_views][kHiddenWidth], and where
  // each ray's gradient by its view's goes, [batch->n_rays][kHiddenWidth], zeros at first. Else
  // null.
  const float* view_terms = nullptr;
  float* grad_view_terms = nullptr;
  // Where gradients by rays go, [batch->n_rays], zeros at first; null: poses are not learned.
  // They are computed for one ray in kPoseRays.
  RayGradient* grad_rays = nullptr;
  // Where each ray's error goes, [batch->n_rays]: the mean over channels of |color - target|. Null:
  // it is not wanted.
  float* ray_errors = nullptr;
  const RayBatch* batch = nullptr;

  int SamplesAhead() const { return kRoundsAhead * round_samples; }
};

// Rays from `begin` on of a batch, marched SamplesAhead() samples into the grid. They are those of
// several chunks: together they fill the vector lanes and need the occupancy grid in the cache
// once; each chunk's reads of the hash table push it out.
struct RaysInFlight {
  int begin = 0;
  std::vector<kernels::MarchRay> rays;
  RayWave wave;  // in which all of them are active

  // Rays [first, end) of the batch.
  void Start(const ChunkInput& input, int first, int end);
};

// Forward and backward pass of a few rays, with every activation in buffers small enough for the L2
// cache: march a few samples of each ray, encode, density, drop what lies behind the transmittance
// limit, repeat until all rays are through, and let a roulette choose among samples of little
// weight (RayRoulette); then color of the surviving samples, composite, loss and the whole backward
// pass. One for each thread. Sources: Mueller et al. 2022 (method), Max 1995 (compositing).
class NgpChunk {
 public:
  NgpChunk();
  // Rays [begin, end) of the batch, which are some of those under way.
  void Run(const ChunkInput& input, const RaysInFlight& in_flight, int begin, int end,
           LaneOutput* output);

 private:
  struct RayState : CompositedRay {
    float near_depth = 0;  // sum of weights by how near to batch.depths they lie
    RayRoulette roulette;
  };

  void Reserve(int n_rows);
  void March(const ChunkInput& input, const RayWave& ahead, int first_slot, LaneOutput* output);
  bool CollectActiveRays();
  void EvaluateDensity(const ChunkInput& input, const RayWave& wave, int offset,
                       LaneOutput* output);
  int DropHidden(const ChunkInput& input, int begin, int end);
  void PlayRoulette(const ChunkInput& input, int begin);
  void MoveRow(int from, int to);
  void AddBackground(const ChunkInput& input, int begin, LaneOutput* output);
  void AddViewTerms(const ChunkInput& input);
  void ForwardColor(const ChunkInput& input);
  void CompositeAndLoss(const ChunkInput& input, int begin, LaneOutput* output);
  void CompositeBackward(const ChunkInput& input);
  float DepthAttraction(const ChunkInput& input, int row) const;
  void ScaleNearGradients(const ChunkInput& input);
  void BackwardColorInput(const ChunkInput& input, int begin, int n, LaneOutput* output);
  void BackwardLayer(const ChunkInput& input, NgpLayerIndex layer, int n, const float* grad_outputs,
                     bool inputs_are_relu, float* inputs, LaneOutput* output);
  void BackwardRay(const ChunkInput& input, int row, const float* grad_encoding);
  void BackwardRows(const ChunkInput& input, int begin, int n, LaneOutput* output);

  std::vector<RayState> rays_;
  std::vector<kernels::MarchRay> marches_;          // of the same rays
  std::vector<int> active_;                         // rays that take part in a look
  std::vector<int> slots_;                          // of rays in the wave that they marched in
  RayWave wave_;                                    // of rays that march on
  std::vector<float> harmonics_, direction_terms_;  // of rays, see NgpDirectionTerms
  int first_ray_ = 0;                               // of the chunk, in the batch
  int n_rows_ = 0;                                  // samples kept so far
  int first_background_ = 0;                        // rows from here on are backgrounds of rays
  int capacity_ = 0;                                // rows that the buffers hold
  Buffer<Vec3> positions_;                          // where the network encodes them
  Buffer<int> ray_of_;
  Buffer<float> deltas_, sigmas_, alphas_;
  Buffer<float> weights_;                                 // that a row trains for
  Buffer<float> light_;                                   // transmittance behind the row
  Buffer<float> factors_;                                 // of weights_ over the row's own weight
  Buffer<float> normalized_t_;                            // see DistortionCoordinate
  Buffer<float> encodings_, density_hidden_, geometry_;   // density
  Buffer<float> color_hidden0_, color_hidden1_, colors_;  // color
  Buffer<float> grad_geometry_;
  Buffer<float> color_inputs_;  // of the rows in the backward pass: direction, geometry
};

}  // namespace nerf
