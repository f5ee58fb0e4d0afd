#include <utility>

#include "common/status_macros.h"
#include "engine/methods/mlp/cuda_mlp.h"
#include "engine/methods/mlp/describe/mlp_settings.h"
#include "engine/methods/mlp/parameters.h"
#include "engine/methods/mlp/steps.h"
#include "engine/train/method.h"
#include "engine/train/occupancy_file.h"
#include "engine/train/step_bench.h"

namespace nerf {

const MethodDescription& DescribeMlp();

namespace {

bool IsPair(const TrainConfig& config) { return Mlp(config).coarse_samples > 0; }

class MlpMethodImpl final : public Method {
 public:
  const MethodDescription& description() const override { return DescribeMlp(); }

  absl::StatusOr<std::unique_ptr<TrainingStep>> NewStep(const StepRequest& request) const override {
    if (request.cuda_device.has_value()) {
      return IsPair(request.config) ? NewMlpPairStepOnDevice(request) : NewMlpStepOnDevice(request);
    }
    const auto new_step = IsPair(request.config) ? NewMlpPairStep : NewMlpGridStep;
    return new_step(request.config, request.geometry, request.scene.train, request.pool);
  }
  absl::StatusOr<std::unique_ptr<TrainedModel>> LoadModel(
      const TensorFile& file, const TrainConfig& config,
      const SceneGeometry& geometry) const override {
    NERF_ASSIGN_OR_RETURN(std::vector<Buffer<float>> parameters, ReadMlpEvaluation(file, config));
    if (IsPair(config)) return NewMlpPairModel(config, geometry, std::move(parameters));
    NERF_ASSIGN_OR_RETURN(OccupancyGrid grid,
                          LoadModelGrid(file, geometry, GridResolution(config)));
    return NewMlpGridModel(config, geometry, std::move(parameters), std::move(grid));
  }
  std::unique_ptr<RenderDevice> NewCudaRenderDevice(int index) const override {
    return NewMlpCudaRenderDevice(index);
  }
  std::vector<Bench> Benches(const Scene& scene) const override {
    return {StepBench("mlp_step", *this, scene, 32)};
  }
};

}  // namespace

const Method& MlpMethod() {
  static const auto& method = *new MlpMethodImpl();
  return method;
}

}  // namespace nerf
