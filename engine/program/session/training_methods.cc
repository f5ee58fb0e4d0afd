#include "engine/program/session/training_methods.h"

#include "common/error_reason.h"
#include "common/status_macros.h"
#include "engine/base/method_list/method_descriptions.h"
#include "engine/methods/registry.h"
#include "engine/program/device/device.h"
#include "fmt/format.h"

namespace nerf {

std::vector<std::string> TrainingMethods(std::string_view device) {
  std::vector<std::string> methods;
  for (const Method* method : Methods()) {
    const MethodDescription& description = method->description();
    const bool trains = (description.training_devices() & DeviceSetOf(device)) != 0;
    if (trains && method->CheckInstalledFor(DeviceSetOf(device)).ok())
      methods.emplace_back(description.name());
  }
  return methods;
}

std::vector<std::string> MergingMethods(std::string_view device) {
  std::vector<std::string> methods = TrainingMethods(device);
  std::erase_if(methods, [](const std::string& name) {
    const MethodDescription& method = *FindMethodDescription(name);
    return method.Parts(method.Defaults()).empty();
  });
  return methods;
}

absl::Status CheckRanksShare(const TrainConfig& config, std::string_view device, int n_ranks) {
  const absl::Status shared =
      MethodDescriptionOf(config).CheckRanks(config, DeviceSetOf(device), n_ranks);
  if (shared.ok()) return shared;
  return WithReason(
      absl::Status(shared.code(), fmt::format("--ranks: {}", std::string(shared.message()))),
      reason::kFeatureNotBuilt);
}

absl::StatusOr<std::unique_ptr<TrainingStep>> NewTrainingStep(const TrainConfig& config,
                                                              const SceneGeometry& geometry,
                                                              const Scene& scene,
                                                              std::string_view device,
                                                              ThreadPool* pool, Group* group) {
  NERF_RETURN_IF_ERROR(CheckDevice(device));
  if (absl::Status status = CheckDeviceHonors(config, device); !status.ok())
    return WithReason(status, reason::kFieldInvalid);
  const Method& method = MethodOf(config);
  NERF_RETURN_IF_ERROR(method.CheckInstalledFor(DeviceSetOf(device)));
  if (group != nullptr) NERF_RETURN_IF_ERROR(CheckRanksShare(config, device, group->n_ranks()));
  return method.NewStep({config, geometry, scene, CudaIndex(device), pool, group});
}

uint64_t TrainingStepBytes(const TrainConfig& config, const SceneGeometry& geometry,
                           int n_threads) {
  return MethodDescriptionOf(config).StepBytes(config, geometry.n_levels, n_threads);
}

}  // namespace nerf
