#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "engine/field/kernels/cuda/device.h"
#include "engine/train/cuda_field.h"
#include "engine/train/cuda_field_arrays.h"
#include "engine/train/cuda_occupancy.h"
#include "engine/train/cuda_ray_work.h"
#include "engine/train/method.h"
#include "engine/train/occupancy_updater.h"
#include "engine/train/ray_step.h"

namespace nerf {

// A step on a CUDA device that trains a field on an occupancy grid: what FieldStep is on the CPU.
// The host draws the rays; one recorded graph goes from them to the updated parameters, and the
// host sees its counts when it is over.
class CudaFieldStep final : public RayStep {
 public:
  // has_weights: rays count by RayBatch::weights. Uses the current device. pool outlives the step.
  CudaFieldStep(const TrainConfig& config, const SceneGeometry& geometry,
                std::span<const View> views, ThreadPool* pool, std::unique_ptr<CudaField> field,
                bool has_weights = false);

  StepResult RunRays(const RayBatch& batch) override;
  void Save(TensorFile* file) const override;
  absl::Status Load(const TensorFile& file) override;
  void SaveModel(TensorFile* file) const override;
  absl::Status Initialize(const TensorFile& file) override;
  std::unique_ptr<TrainedModel> Snapshot() const override;
  double OccupiedFraction() const override { return grid_.occupied_fraction(); }
  void ReopenGrid() override;
  void KeepEmpty(const EmptyCells& cells) override;

 private:
  void Reshape(uint32_t n_rays, uint64_t n_samples);
  void WriteControl(const RayBatch& batch);
  void Record();
  void TrainSamples(const CudaRayWork& work, const kernels::DeviceRange& kept);
  void UpdateGrid(uint32_t step);
  void ChangeField(double fraction);
  void UploadAll();
  void DownloadAll() const;

  const TrainConfig config_;
  const SceneGeometry geometry_;
  const bool has_weights_;
  kernels::cuda::OwnedStream owned_stream_;
  const kernels::Stream stream_ = owned_stream_.get();
  CudaGraphRuns runs_{stream_};
  const std::unique_ptr<CudaField> field_;
  // The host's copy, equal to the device's after DownloadAll.
  const std::unique_ptr<OccupancyUpdater> occupancy_;
  uint32_t n_updates_ = 0;

  uint32_t ray_capacity_ = 0, sample_capacity_ = 0;
  CudaFieldRays rays_;
  CudaFieldSamples samples_;
  Buffer<float> grid_values_;
  Buffer<uint64_t> grid_blocks_;
  CudaOccupancy grid_;
  Buffer<CudaFieldControl> control_;
  Buffer<CudaStepCounts> counts_;
  // The host's ends of the graph's copies.
  CudaFieldBatch host_batch_;
  Buffer<CudaFieldControl> host_control_;
  Buffer<CudaStepCounts> host_counts_;
  std::unique_ptr<kernels::cuda::Graph> graph_;  // null after arrays have moved
};

// The step on request.cuda_device. byte_size: device memory of the field for so many rays and
// samples. Errors: as Method::NewStep.
absl::StatusOr<std::unique_ptr<TrainingStep>> NewCudaFieldStep(
    const StepRequest& request, const std::function<std::unique_ptr<CudaField>()>& new_field,
    const std::function<size_t(uint32_t n_rays, uint32_t n_samples)>& byte_size);
// Device memory of the step, at its largest, without the field.
size_t CudaFieldStepBytes(const TrainConfig& config, const SceneGeometry& geometry,
                          bool has_weights);

}  // namespace nerf
