#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "engine/base/vec3.h"
#include "engine/field/files/tensor_file.h"
#include "engine/field/kernels/adam.h"
#include "engine/field/kernels/hash_encoding.h"
#include "engine/field/kernels/stream.h"
#include "engine/field/trained_model.h"
#include "engine/methods/ngp/state.h"

namespace nerf {

// What moves the points of a training step on a CUDA device before they are encoded, with
// parameters that the step trains along: what method dynamic has beside ngp. The step calls it
// where its own arrays have their turn. The host has a copy of the parameters, which is that of the
// device after Upload and Download; files are those of the method's step on the CPU.
class NgpCudaWarp {
 public:
  virtual ~NgpCudaWarp() = default;

  // Makes room for so many samples. Arrays move.
  virtual void Reserve(uint32_t sample_capacity) = 0;
  // Where the last move has put points: what the step encodes.
  virtual const Vec3* positions() const = 0;

  // In stream order, also where a graph is recorded:
  // Brings the settings of the step, which are written before the graph runs.
  virtual void RecordBegin(kernels::Stream stream) = 0;
  virtual void WriteSettings(const kernels::cuda::AdamStepSettings& settings) = 0;
  // Moves points of the unit cube: samples on rays ray_of, whose pictures are `views`; and probes
  // of the occupancy grid, each at a time of its own.
  virtual void Move(const kernels::DeviceRange& range, const Vec3* unit, const uint32_t* ray_of,
                    const int32_t* views, kernels::Stream stream) = 0;
  virtual void MoveProbes(const kernels::DeviceRange& range, const Vec3* unit,
                          kernels::Stream stream) = 0;
  // The gradients by the parameters from those by the encodings of kept samples, which Move has
  // moved. Arrays as kernels::cuda::HashPositionGradientParams has them.
  struct Samples {
    kernels::HashGridShape shape;
    kernels::DeviceRange kept;
    const float* table = nullptr;
    const uint32_t* rows = nullptr;
    const Vec3* unit = nullptr;
    const uint32_t* ray_of = nullptr;
    const int32_t* views = nullptr;
    const float* grad_features = nullptr;
    uint32_t stride = 0;
  };
  virtual void Backward(const Samples& samples, kernels::Stream stream) = 0;
  // skip, not_finite: as AdamDenseParams has them.
  virtual void Update(const uint32_t* skip, uint32_t* not_finite, kernels::Stream stream) = 0;
  virtual void UpdateAverages(float decay, kernels::Stream stream) = 0;

  // As those of the step; Load and Initialize change the host's copy alone, or fail and change
  // nothing. Restore brings back, to the host, what Remember has kept on the device.
  virtual void Upload(kernels::Stream stream) = 0;
  virtual void Download(kernels::Stream stream) = 0;
  virtual void Remember(kernels::Stream stream) = 0;
  virtual void Restore(kernels::Stream stream) = 0;
  virtual void Save(TensorFile* file) const = 0;
  virtual absl::Status Load(const TensorFile& file) = 0;
  virtual void SaveModel(TensorFile* file) const = 0;
  virtual absl::Status Initialize(const TensorFile& file) = 0;
  // The model of the host's copies of both.
  virtual std::unique_ptr<TrainedModel> NewModel(const NgpState& state) const = 0;
};

// How a method adds a warp to the step of ngp. Both are called on the device in use.
struct NgpCudaWarpMaker {
  std::function<std::unique_ptr<NgpCudaWarp>()> make;  // null: no warp
  std::function<size_t()> byte_size;  // device memory, at the largest number of samples
};

}  // namespace nerf
