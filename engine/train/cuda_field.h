#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "engine/base/ray.h"
#include "engine/base/vec3.h"
#include "engine/field/files/tensor_file.h"
#include "engine/field/kernels/adam.h"
#include "engine/field/kernels/field_outputs.h"
#include "engine/field/kernels/stream.h"
#include "engine/field/occupancy_grid.h"
#include "engine/field/trained_model.h"
#include "engine/train/batch/ray_batch.h"

namespace nerf {

// A field on a device reads points as (position - origin) * scale.
struct CudaFieldFrame {
  Vec3 origin;
  Vec3 scale = {1, 1, 1};
};

// The kept samples of a step, as CompactSamples lists them. Pointers are to device memory.
struct CudaKeptSamples {
  kernels::DeviceRange range;
  const uint32_t* rows = nullptr;    // of element k, in the arrays below
  const uint32_t* ray_of = nullptr;  // index into rays
  const Vec3* positions = nullptr;   // in the field's frame
  const float* sigmas = nullptr;
  const Ray* rays = nullptr;
};

// What the update of a step reads, in device memory, and writes.
struct CudaFieldUpdate {
  const kernels::cuda::AdamStepSettings* settings = nullptr;
  const float* loss_factor = nullptr;  // of the step's gradients: the scaled loss over the loss
  const uint32_t* step = nullptr;
  const uint32_t* skip = nullptr;  // not 0: the step is void
  uint32_t* not_finite = nullptr;  // becomes 1 if a parameter is not finite
};

// A radiance field in training on a CUDA device, for CudaFieldStep: what ChunkField is on the CPU.
// It has its parameters on the device and on the host, which are equal after Upload and Download;
// files are those of the method's step on the CPU. What takes a stream happens in its order and may
// be recorded in a graph, unless it says otherwise.
class CudaField {
 public:
  virtual ~CudaField() = default;

  virtual CudaFieldFrame frame() const = 0;
  // Makes room; not in a graph. Arrays move. Throws kernels::cuda::CudaOutOfMemory.
  virtual void Reserve(uint32_t ray_capacity, uint32_t sample_capacity) = 0;

  // Begins a step with these rays.
  virtual void Begin(const kernels::DeviceRange& range, const Ray* rays,
                     kernels::Stream stream) = 0;
  virtual void Density(const kernels::cuda::DensityTargets& to, const Vec3* positions,
                       kernels::Stream stream) = 0;
  // sRGB colors [k] of the kept samples.
  virtual void Color(const CudaKeptSamples& kept, Vec3* colors, kernels::Stream stream) = 0;
  // The gradients by the parameters; grads [k][4] are those of kernels/composite.h. After Color.
  virtual void Backward(const CudaKeptSamples& kept, const float* grads,
                        kernels::Stream stream) = 0;
  virtual void Update(const CudaFieldUpdate& update, kernels::Stream stream) = 0;

  // On the host, before a step runs: Adam's settings at update t, counted from 1.
  virtual kernels::AdamSettings Adam(const RayBatch& batch, int t) = 0;
  // Likewise, what Update reads beside its settings; gradient_factor: theirs.
  virtual void WriteSettings(const RayBatch& /*batch*/, int /*t*/, float /*gradient_factor*/) {}
  // After update t, not in a graph.
  virtual void EndStep(int /*t*/, kernels::Stream /*stream*/) {}
  // Whether the field wants to change its shape where the occupancy grid is updated, which it then
  // does on the host: parameters are downloaded before and uploaded after.
  virtual bool IsChangeDue(double /*fraction*/) const { return false; }
  virtual void Change(double /*fraction*/, const OccupancyGrid& /*grid*/) {}

  // Return when the copies are done.
  virtual void Upload(kernels::Stream stream) = 0;
  virtual void Download(kernels::Stream stream) = 0;
  // The host's copy, as those of TrainingStep.
  virtual void Save(TensorFile* file) const = 0;
  virtual absl::Status Load(const TensorFile& file) = 0;
  virtual void SaveModel(TensorFile* file) const = 0;
  virtual absl::Status Initialize(const TensorFile& file) = 0;
  virtual std::unique_ptr<TrainedModel> NewModel(const OccupancyGrid& grid) const = 0;
};

}  // namespace nerf
