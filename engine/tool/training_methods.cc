#include "engine/tool/training_methods.h"

#include <optional>

#include "common/status_macros.h"
#include "engine/methods/ngp/state.h"
#include "engine/methods/ngp/steps.h"
#include "engine/tool/autograd_library.h"
#include "engine/tool/cuda_training.h"
#include "engine/tool/device.h"
#include "engine/train/memory_estimate.h"

namespace nerf {
namespace {

// LibTorch keeps this much per sample until the backward pass, most of it for the eight corners of
// sixteen levels.
constexpr uint64_t kAutogradSampleBytes = uint64_t{16} << 10;

}  // namespace

std::vector<std::string> TrainingMethods(std::string_view device) {
  std::vector<std::string> methods = {TrainConfig().method};
  if (device == "cpu" && HasAutogradLibrary()) methods.push_back(kAutogradMethod);
  return methods;
}

absl::StatusOr<std::unique_ptr<TrainingStep>> NewTrainingStep(const TrainConfig& config,
                                                              const SceneGeometry& geometry,
                                                              const Scene& scene,
                                                              std::string_view device,
                                                              ThreadPool* pool) {
  if (config.method == kAutogradMethod) return NewAutogradStep(config, geometry, pool);
  NERF_RETURN_IF_ERROR(CheckDevice(device));
  const std::optional<int> cuda_index = CudaIndex(device);
  if (!cuda_index.has_value()) return NewNgpCpuStep(config, geometry, pool);
  return NewCudaStepWithPictures(config, geometry, scene, *cuda_index);
}

uint64_t TrainingStepBytes(const TrainConfig& config, const SceneGeometry& geometry,
                           int n_threads) {
  if (config.method != kAutogradMethod) return NgpCpuStepBytes(config, geometry, n_threads);
  return NgpCpuStepBytes(WithoutHalfTable(config), geometry, n_threads) +
         MaxStepSamples(config) * kAutogradSampleBytes;
}

}  // namespace nerf
