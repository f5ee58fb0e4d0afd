#include "engine/methods/mlp/describe/mlp_settings.h"
#include "engine/methods/mlp_autograd/describe/describe_mlp_autograd.h"

namespace nerf {
namespace {

class TNerfDescription final : public MlpAutogradDescription {
 public:
  std::string_view name() const override { return "t-nerf"; }
  std::string_view summary() const override {
    return "the network of mlp with time as an input, through LibTorch: slow, to compare with "
           "dynamic";
  }
  TrainConfig Defaults() const override {
    TrainConfig config = MlpAutogradDescription::Defaults();
    Mlp(config).time = MlpTime::kInput;
    return config;
  }
};

}  // namespace

const MethodDescription& DescribeTNerf() {
  static const auto& description = *new TNerfDescription();
  return description;
}

}  // namespace nerf
