#include "common/error_reason.h"
#include "engine/methods/ngp/cuda/cuda_render_device.h"
#include "engine/methods/ngp/cuda/new_cuda_step.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp/method/bench.h"
#include "engine/methods/ngp/proposals.h"
#include "engine/methods/ngp/steps.h"
#include "engine/methods/ngp/view_parameters/view_appearances.h"
#include "engine/train/method.h"

namespace nerf {

const MethodDescription& DescribeNgp();

namespace {

class NgpMethodImpl final : public Method {
 public:
  const MethodDescription& description() const override { return DescribeNgp(); }

  absl::StatusOr<std::unique_ptr<TrainingStep>> NewStep(const StepRequest& request) const override {
    if (Ngp(request.config).depth_weight > 0 && request.scene.points.empty() &&
        request.scene.depth_maps.empty()) {
      return WithReason(
          absl::InvalidArgumentError(
              "settings.depth_weight: the data set has neither points, which COLMAP models have in "
              "points3D, nor depth files, which frames name as depth_file_path"),
          reason::kFieldInvalid);
    }
    if (Ngp(request.config).sampler == Sampler::kProposals) {
      if (request.cuda_device.has_value()) return NewNgpProposalStepOnDevice(request);
      return NewNgpProposalStep(request.config, request.geometry, request.pool,
                                request.scene.train);
    }
    if (request.cuda_device.has_value()) return NewNgpStepOnDevice(request);
    return NewNgpCpuStep(request.config, request.geometry, request.pool, request.scene.train,
                         request.group, {request.scene.points, request.scene.depth_maps});
  }
  absl::StatusOr<std::unique_ptr<TrainedModel>> LoadModel(
      const TensorFile& file, const TrainConfig& config,
      const SceneGeometry& geometry) const override {
    return LoadNgpModel(file, config, geometry);
  }
  absl::Status ShowAsView(int view, TensorFile* file) const override {
    return ShowAppearanceOf(view, file);
  }
  std::unique_ptr<RenderDevice> NewCudaRenderDevice(int index) const override {
    return NewProposalCudaRenderDevice(index);
  }
  std::vector<Bench> Benches(const Scene& scene) const override { return NgpBenches(*this, scene); }
};

}  // namespace

const Method& NgpMethod() {
  static const auto& method = *new NgpMethodImpl();
  return method;
}

}  // namespace nerf
