#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace nerf {

// What a person knows of photographs whose poses are to be found.
struct PhotographFlags {
  std::string camera = "auto";  // or perspective, equirectangular
  double mask_below = 0;        // of panoramas: degrees under the horizon; 0: no mask

  bool AnyGiven() const { return camera != "auto" || mask_below != 0; }
};

// Adds --camera and --mask-below.
void AddPhotographFlags(CLI::App& app, PhotographFlags* flags);

// The same for nerf-engine's `pose`; empty for those that are not given.
std::vector<std::string> EngineWords(const PhotographFlags& flags);

}  // namespace nerf
