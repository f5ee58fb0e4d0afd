#include "engine/program/session/device_choices.h"

#include "engine/base/config/method_description.h"
#include "engine/base/config/step_size.h"
#include "engine/base/method_list/method_descriptions.h"
#include "engine/program/session/picture_limits.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

// As the makers state them.
std::vector<NamedDevice> KnownDevices() {
  return {{"CPU", {}},
          {"NVIDIA L4", {kOnCuda, 58, 2040, 24 * kGiB}},
          {"NVIDIA A100", {kOnCuda, 108, 1410, 40 * kGiB}},
          {"NVIDIA H100", {kOnCuda, 132, 1980, 80 * kGiB}}};
}

}  // namespace

std::string DeviceChoiceTable(const std::vector<NamedDevice>& more) {
  // mic_800: 100 pictures with alpha.
  SceneFacts scene{.has_alpha = true,
                   .may_have_hull = true,
                   .pixels_along_box = 827,
                   .n_pixels = 64e6,
                   .step = 1};
  constexpr const char* kRow = "{:<12} {:<9} {:>7} {:>6} {:>10} {:>8} {:>12} {:>5} {:>13} {:>9}\n";
  std::string table = fmt::format(
      "Method ngp, 100 pictures of 800x800 with alpha, P = {}; step as a share of the scene's.\n",
      scene.pixels_along_box);
  table +=
      fmt::format(kRow, "", "", "SAMPLES", "", "TARGET_", "", "LOG2_", "", "MIN_", "RAYS_PER_");
  table += fmt::format(kRow, "DEVICE", "CLASS", "PER S", "BUDGET", "SAMPLES", "MAX_RAYS",
                       "HASHMAP_SIZE", "STEP", "TRANSMITTANCE", "PIXEL");
  std::vector<NamedDevice> devices = KnownDevices();
  devices.insert(devices.end(), more.begin(), more.end());
  for (const NamedDevice& device : devices) {
    for (const int seconds : {2, 10, 60}) {
      TrainConfig config;
      config.budget = {BudgetKind::kSeconds, static_cast<double>(seconds)};
      ChooseStepSize(ClassOf(device.facts), &config);
      scene.n_samples = SamplesOfBudget(config, device.facts);
      MethodDescriptionOf(config).ChooseSettings(scene, &config);
      const auto settings = ConfigSettings(config);
      const DeviceClass kind = ClassOf(device.facts);
      table += fmt::format(
          kRow, device.name, NameOf(kind), fmt::format("{:g} M", UsualSamplesPerSecond(kind) / 1e6),
          fmt::format("{} s", seconds),
          fmt::format("{} x {}", config.target_samples, config.batch_growth), config.max_rays,
          settings.at("log2_hashmap_size"), config.step < 0 ? 1 : config.step,
          settings.at("min_transmittance"), settings.at("rays_per_pixel"));
    }
  }
  return table;
}

}  // namespace nerf
