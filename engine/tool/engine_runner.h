#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/parallel_for.h"
#include "engine/render/render_device.h"
#include "engine/scene/scene.h"
#include "engine/tool/device_monitor.h"
#include "engine/train/checkpoint.h"
#include "engine/train/training_step.h"

namespace nerf {

// The border between libraries that throw and a program that reports Status, and the one place that
// knows which methods and devices there are.

// Runs `body`. What it throws becomes ResourceExhausted OUT_OF_MEMORY (std::bad_alloc) or
// GPU_OUT_OF_MEMORY (of a device), Internal GPU_FAILED (a device that will work no more in this
// process), or Internal.
absl::Status Guarded(const std::function<absl::Status()>& body);

// OK for "cpu", and for "cuda:N" where this build has kernels and the machine such a device.
// Errors: Unimplemented FEATURE_NOT_BUILT without kernels; FailedPrecondition that says what the
// device or its driver lacks; InvalidArgument for everything else.
absl::Status CheckDevice(std::string_view device);

// What a device that CheckDevice accepts is, in a line for people.
std::string DescriptionOf(std::string_view device);

// Tells what a CUDA device is doing; nullptr for the CPU, and where the driver does not tell.
std::unique_ptr<DeviceMonitor> NewDeviceMonitor(std::string_view device);

// Where `device`, as CheckDevice takes it and with its errors, renders views. pool outlives it.
absl::StatusOr<std::unique_ptr<RenderDevice>> NewRenderDevice(std::string_view device,
                                                              ThreadPool* pool);

// The step of config.method. The method ngp-autograd lives in libnerf_autograd.so, which is opened
// here: Unimplemented FEATURE_NOT_BUILT where it is not there. `device` as CheckDevice takes it,
// with its errors; ResourceExhausted GPU_OUT_OF_MEMORY where a device has too little memory. A
// device draws its rays itself, from a copy of the scene's training views in its memory or in the
// host's, where one of them has room. pool outlives the step, which is used from this thread.
absl::StatusOr<std::unique_ptr<TrainingStep>> NewTrainingStep(const TrainConfig& config,
                                                              const SceneGeometry& geometry,
                                                              const Scene& scene,
                                                              std::string_view device,
                                                              ThreadPool* pool);

// Bytes that such a step will take.
uint64_t TrainingStepBytes(const TrainConfig& config, const SceneGeometry& geometry, int n_threads);

// The methods that train on `device`, which CheckDevice accepts: ngp, and on the CPU ngp-autograd
// where its library is.
std::vector<std::string> TrainingMethods(std::string_view device);

// Where libnerf_autograd.so is looked for: ../lib of this program's folder.
std::string AutogradLibraryPath();

// A model or checkpoint, ready to render.
struct LoadedModel {
  TrainState state;
  TrainFileKind kind = TrainFileKind::kModel;
  std::unique_ptr<SceneRenderer> renderer;
  uint64_t byte_size = 0;  // that it takes in memory
};
// Errors: NotFound, DataLoss or InvalidArgument, naming the path. device outlives the model.
absl::StatusOr<LoadedModel> LoadModelFile(const std::string& path, RenderDevice* device);

}  // namespace nerf
