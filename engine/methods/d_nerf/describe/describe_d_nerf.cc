#include "engine/methods/mlp/describe/mlp_settings.h"
#include "engine/methods/mlp_autograd/describe/describe_mlp_autograd.h"

namespace nerf {
namespace {

class DNerfDescription final : public MlpAutogradDescription {
 public:
  std::string_view name() const override { return "d-nerf"; }
  std::string_view summary() const override {
    return "the network of mlp behind one that moves points, through LibTorch: slow, to compare "
           "with dynamic";
  }
  TrainConfig Defaults() const override {
    TrainConfig config = MlpAutogradDescription::Defaults();
    Mlp(config).time = MlpTime::kWarp;
    return config;
  }
};

}  // namespace

const MethodDescription& DescribeDNerf() {
  static const auto& description = *new DNerfDescription();
  return description;
}

}  // namespace nerf
