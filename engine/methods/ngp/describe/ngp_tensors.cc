#include "engine/methods/ngp/describe/ngp_tensors.h"

#include <utility>

#include "engine/base/layouts/ngp_layers.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "fmt/format.h"

namespace nerf {

std::vector<TensorShape> NgpFieldTensors(const TrainConfig& config) {
  const uint32_t entries = uint32_t{1} << Log2HashmapSize(config);
  const auto features = static_cast<uint32_t>(Ngp(config).n_features_per_level);
  std::vector<TensorShape> tensors = {
      {kHashTableName, "F16", {kEncodingWidth / features, entries, features}}};
  for (const NgpLayer& layer : kNgpLayers) {
    tensors.push_back(
        {layer.tensor_name,
         "F16",
         {static_cast<uint32_t>(layer.n_out_used), static_cast<uint32_t>(layer.n_in)}});
  }
  if (Ngp(config).sampler == Sampler::kProposals) {
    for (TensorShape& tensor : NgpFieldTensors(NgpProposalConfig(config))) {
      tensor.name = kProposalPrefix + tensor.name;
      tensors.push_back(std::move(tensor));
    }
  }
  return tensors;
}

absl::Status CheckNgpStart(const TrainedAs& start, const TrainedAs& wanted) {
  if (!start.config.method_settings.Holds<NgpSettings>()) {
    return absl::InvalidArgumentError(
        fmt::format("trained by method {}, whose field is another one", start.config.method));
  }
  const NgpSettings &held = Ngp(start.config), &asked = Ngp(wanted.config);
  const auto differs = [](const char* setting, auto there, auto here) {
    return absl::InvalidArgumentError(
        fmt::format("trained with {} {}, the config wants {}", setting, there, here));
  };
  const int finest = FinestResolution(start.config);
  if (finest != FinestResolution(wanted.config))
    return differs("finest_resolution", finest, FinestResolution(wanted.config));
  if (held.initial_density != asked.initial_density)
    return differs("initial_density", held.initial_density, asked.initial_density);
  if (ContractionOf(start.config) != ContractionOf(wanted.config)) {
    return differs("contraction", ContractionName(ContractionOf(start.config)),
                   ContractionName(ContractionOf(wanted.config)));
  }
  if (start.n_occupancy_levels != wanted.n_occupancy_levels) {
    return absl::InvalidArgumentError(
        fmt::format("trained on a scene of {} occupancy levels, the data set has {} (1 for an "
                    "object in its box, more for what reaches far beyond it)",
                    start.n_occupancy_levels, wanted.n_occupancy_levels));
  }
  return absl::OkStatus();
}

void AdaptNgpToStart(TrainConfig* config) {
  if (Ngp(std::as_const(*config)).coarse_share != 0) Ngp(*config).coarse_share = 0;
}

}  // namespace nerf
