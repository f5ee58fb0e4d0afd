#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/bench.h"
#include "engine/base/config/method_description.h"
#include "engine/base/config/train_config.h"
#include "engine/base/parallel_for.h"
#include "engine/field/files/checkpoint.h"
#include "engine/field/files/tensor_file.h"
#include "engine/field/trained_model.h"
#include "engine/scene/scene.h"
#include "engine/train/group/group.h"
#include "engine/train/training_step.h"
#include "engine/views/render/render_device.h"

namespace nerf {

// What a training step is made for. Everything pointed to outlives the step.
struct StepRequest {
  const TrainConfig& config;      // of the method; CheckDeviceHonors is OK
  const SceneGeometry& geometry;  // with the config's own near, step and cone
  const Scene& scene;
  std::optional<int> cuda_device;  // its index; nullopt: the CPU
  ThreadPool* pool = nullptr;
  Group* group = nullptr;  // the ranks that train together; null: this process alone
};

// A model file, one of several that are merged.
struct ModelPart {
  std::string path;  // for errors
  TensorFile file;
  TrainState state;  // that the file stores
};

// A training method: everything that the engine asks of one. engine/methods/registry.h has all.
// Stateless; lives as long as the process. Used from one thread at a time.
class Method {
 public:
  virtual ~Method() = default;
  virtual const MethodDescription& description() const = 0;

  // Errors: Unimplemented FEATURE_NOT_BUILT where this installation lacks a part of the method.
  virtual absl::Status CheckInstalled() const { return absl::OkStatus(); }
  // The same for training on one of `devices`.
  virtual absl::Status CheckInstalledFor(DeviceSet /*devices*/) const { return CheckInstalled(); }

  // The step, used from the calling thread. Requires: no group unless description().CheckRanks is
  // OK. Errors:
  // that of CheckInstalled; FailedPrecondition where the device cannot train this config;
  // ResourceExhausted GPU_OUT_OF_MEMORY with the sizes. Throws kernels::cuda::CudaError.
  virtual absl::StatusOr<std::unique_ptr<TrainingStep>> NewStep(
      const StepRequest& request) const = 0;

  // Whether its steps can record the operations of the library that they run on
  // (TrainingStep::StartProfile).
  virtual bool HasProfile() const { return false; }

  // The model in a model or checkpoint file trained with `config`. A checkpoint's evaluation
  // weights are rounded as a model's are, so that both render the same bytes. Errors:
  // InvalidArgument naming the tensor.
  virtual absl::StatusOr<std::unique_ptr<TrainedModel>> LoadModel(
      const TensorFile& file, const TrainConfig& config, const SceneGeometry& geometry) const = 0;

  // Changes the contents of a model or checkpoint file so that LoadModel shows the appearance of
  // training view `view`, from 0 on, in place of the mean of all. Errors: InvalidArgument where the
  // file has no such view.
  virtual absl::Status ShowAsView(int view, TensorFile* file) const {
    return absl::InvalidArgumentError("method " + std::string(description().name()) +
                                      " learns no appearances of pictures");
  }

  // One model of those that the trainings of MethodDescription::Parts have written, in any order:
  // contents of a file, with the state. Errors: InvalidArgument naming the file that is no part of
  // the model, or the part that is missing.
  virtual absl::StatusOr<TensorFile> Merge(std::vector<ModelPart> parts) const {
    return absl::InvalidArgumentError("method " + std::string(description().name()) +
                                      " has no models to merge");
  }

  // Renders the method's models on CUDA device `index`, which the calling thread uses from now on.
  // Requires: kOnCuda is one of rendering_devices().
  virtual std::unique_ptr<RenderDevice> NewCudaRenderDevice(int index) const { return nullptr; }

  // What `nerf-engine bench` measures of it. scene: a small one, outlives the benches.
  virtual std::vector<Bench> Benches(const Scene& scene) const { return {}; }
};

}  // namespace nerf
