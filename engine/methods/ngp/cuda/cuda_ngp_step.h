#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "engine/base/buffer.h"
#include "engine/base/half_float.h"
#include "engine/field/kernels/cuda/device.h"
#include "engine/field/kernels/ngp_mlp.h"
#include "engine/methods/ngp/cuda/cuda_buffers.h"
#include "engine/methods/ngp/cuda/cuda_ranks.h"
#include "engine/methods/ngp/cuda/cuda_state.h"
#include "engine/methods/ngp/cuda/cuda_step_shape.h"
#include "engine/methods/ngp/cuda/cuda_views.h"
#include "engine/methods/ngp/cuda_warp.h"
#include "engine/methods/ngp/depth_rays.h"
#include "engine/methods/ngp/learned_views.h"
#include "engine/methods/ngp/state.h"
#include "engine/train/batch/cuda_pictures.h"
#include "engine/train/cuda_occupancy.h"
#include "engine/train/cuda_ray_work.h"
#include "engine/train/ray_step.h"

namespace nerf {

// The fused step of the ngp method on a device (docs/inside/engine.md): one recorded graph from
// rays to updated parameters, whose counts the host sees when it is over. With several ranks it is
// two graphs, one to the gradients and one for the update; what ranks send each other comes between
// and behind them. T is Half or float.
template <typename T>
class NgpCudaStep : public RayStep {
 public:
  NgpCudaStep(const TrainConfig& config, const SceneGeometry& geometry, ThreadPool* pool,
              std::span<const View> views, const RaySource* source, Group* group,
              const KnownDepths& depths, std::unique_ptr<NgpCudaWarp> warp);

  StepResult Run(const PixelBatch& batch) override;
  StepResult RunRays(const RayBatch& batch) override;
  const PictureErrors* Errors() const override {
    const PictureErrors& errors = views_.learned().errors;
    return errors.empty() ? nullptr : &errors;
  }
  std::vector<LensScale> FoundLenses() const override { return views_.learned().focals.Scales(); }
  Mat34 FoundPose(int view, const Mat34& stated) const override {
    return views_.learned().poses.Corrected(view, stated);
  }
  IndexRange OwnPixels(int n_pixels, double) const override { return ranks_.RaysOf(n_pixels, 1); }
  void CollectState() override;
  void MeasureCosts() override { costs_.emplace(); }
  RankCosts CostsOf(int) const override { return costs_.value_or(RankCosts()); }
  double BytesOfStep(const StepOutlook& step, int n_ranks) const override;
  bool DrawsPixels() const override { return !pictures_.empty(); }
  void DrawFrom(std::span<const uint32_t> runs) override {
    if (!DrawsPixels() || runs.empty()) return;
    pictures_.DrawFrom(runs, stream_);
    RecordGraphs();  // what was recorded draws from all pixels
  }
  void Save(TensorFile* file) const override;
  absl::Status Load(const TensorFile& file) override;
  void SaveModel(TensorFile* file) const override;
  absl::Status Initialize(const TensorFile& file) override;
  std::unique_ptr<TrainedModel> Snapshot() const override;
  void Remember() override;
  absl::Status Restore() override;
  double OccupiedFraction() const override { return grid_.occupied_fraction(); }
  void ReopenGrid() override;
  void KeepEmpty(const EmptyCells& cells) override;

 protected:
  void MakeRays(const PixelBatch& batch, std::vector<Ray>* rays,
                std::vector<float>* jitters) const override {
    RayStep::MakeRays(batch, rays, jitters);
    views_.learned().CorrectRays(batch, rays);
  }

 private:
  StepResult RunAllRays(const RayBatch& batch);
  void TakeViews(LearnedViews read) {
    views_.Take(std::move(read));
    views_.learned().focals.Apply(&cameras());
  }
  void FindRayGradients();
  kernels::HashGridShape ActiveShape() const;
  // What the field is evaluated with: the masters, or their copies in half precision.
  static const T* Trained(const Buffer<float>& masters, const Buffer<Half>& copies) {
    if constexpr (CudaTraining<T>::kHalf) {
      return copies.data();
    } else {
      return masters.data();
    }
  }
  void Reshape(const CudaStepShape& shape);
  void CopyBatch(const RayBatch& batch);
  void WriteControl(const RayBatch& batch);
  CudaRankCounts RunToFit(const RayBatch& batch);
  void UpdateWithRanks();
  void AddCosts(uint64_t n_trained, SteadyTime begin, const GroupTraffic& before);
  void RecordGraphs();
  void Record();
  kernels::cuda::NgpDensityParams<T> Density(const kernels::DeviceRange& range);
  bool IsContracted() const { return ContractionOf(config_) != Contraction::kNone; }
  void Contract(const kernels::DeviceRange& range, const Aabb& from);
  // Where samples are encoded.
  const Vec3* EncodedPositions() const {
    return warp_ != nullptr ? warp_->positions() : samples_.positions.data();
  }
  void AddHorizons(const kernels::cuda::MarchParams& march);
  kernels::cuda::NgpRayTerms Terms() const { return {views_.terms(), rays_.batch.views.data()}; }
  void Encode(const kernels::DeviceRange& range);
  void TrainSamples(const CudaRayWork& work, const kernels::DeviceRange& kept);
  void BackwardMlps(const kernels::DeviceRange& kept);
  void BackwardTable(const kernels::DeviceRange& kept);
  void BackwardWarp(const kernels::DeviceRange& kept);
  void UpdateWeights(kernels::Stream stream);
  void UpdateTable();
  void UpdateAverages();
  void UpdateGrid(uint32_t step);
  void Upload();

  const TrainConfig config_;
  // The host's side of the state: its arrays are those of the device after Download.
  const std::unique_ptr<NgpState> state_;
  const std::unique_ptr<NgpCudaWarp> warp_;  // null but for moving scenes
  kernels::cuda::OwnedStream owned_stream_, side_stream_;
  const kernels::Stream stream_ = owned_stream_.get();
  CudaGraphRuns runs_{stream_};
  const int n_backward_blocks_;
  NgpCudaRanks ranks_;
  CudaState arrays_;
  CudaTraining<T> training_;
  CudaOccupancy grid_;
  CudaState remembered_arrays_;
  TensorFile remembered_views_;
  uint32_t remembered_updates_ = 0;
  RayCountState remembered_ray_count_;
  CudaPictures pictures_;

  const CudaRayNeeds needs_;
  NgpCudaViews views_;
  CudaStepShape shape_;
  CudaRays<T> rays_;
  CudaSamples<T> samples_;
  Buffer<CudaStepControl> control_;
  Buffer<CudaStepCounts> counts_;
  // The host's ends of the graph's copies.
  Buffer<CudaStepControl> host_control_;
  Buffer<CudaStepCounts> host_counts_;
  CudaBatch host_batch_;
  CudaRayResults host_results_;
  const KnownDepths depths_;                            // none where depth is not learned
  RayBatch with_depth_;                                 // kept for its memory
  double graph_seconds_ = 0;                            // on the device, of this step's graphs
  std::unique_ptr<kernels::cuda::Graph> graph_;         // of shape_; null after it changed
  std::unique_ptr<kernels::cuda::Graph> update_graph_;  // with several ranks
  const RealClock clock_;                               // for costs_ alone
  std::optional<RankCosts> costs_;  // of the group's ranks, without the time of exchanges
};

}  // namespace nerf
