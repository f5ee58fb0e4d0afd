#include "engine/methods/ngp_autograd/autograd_library.h"
#include "engine/train/method.h"

namespace nerf {

const Method& MlpMethod();
const MethodDescription& DescribeMlpAutograd();

namespace {

class MlpAutogradMethodImpl final : public Method {
 public:
  const MethodDescription& description() const override { return DescribeMlpAutograd(); }
  absl::Status CheckInstalled() const override { return CheckAutogradInstalled("mlp-autograd"); }
  absl::StatusOr<std::unique_ptr<TrainingStep>> NewStep(const StepRequest& request) const override {
    return NewAutogradLibraryStep(request);
  }
  bool HasProfile() const override { return true; }
  // The same field in the same tensors as mlp's.
  absl::StatusOr<std::unique_ptr<TrainedModel>> LoadModel(
      const TensorFile& file, const TrainConfig& config,
      const SceneGeometry& geometry) const override {
    return MlpMethod().LoadModel(file, config, geometry);
  }
};

}  // namespace

const Method& MlpAutogradMethod() {
  static const auto& method = *new MlpAutogradMethodImpl();
  return method;
}

}  // namespace nerf
