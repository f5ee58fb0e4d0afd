#include "engine/scene/scene.h"

namespace nerf {
namespace {

constexpr SceneFlavour kFlavours[] = {SceneFlavour::kBlender, SceneFlavour::kInstantNgp,
                                      SceneFlavour::kNerfstudio, SceneFlavour::kColmap};

}  // namespace

const char* SceneFlavourName(SceneFlavour flavour) {
  switch (flavour) {
    case SceneFlavour::kBlender:
      return "blender";
    case SceneFlavour::kInstantNgp:
      return "instant-ngp";
    case SceneFlavour::kNerfstudio:
      return "nerfstudio";
    case SceneFlavour::kColmap:
      return "colmap";
  }
  return "unknown";
}

std::optional<SceneFlavour> SceneFlavourFromName(const std::string& name) {
  for (SceneFlavour flavour : kFlavours) {
    if (name == SceneFlavourName(flavour)) return flavour;
  }
  return std::nullopt;
}

}  // namespace nerf
