#include "client/flags/photograph_flags.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "absl/strings/numbers.h"
#include "common/usage_error.h"
#include "fmt/format.h"

namespace nerf {

void AddPhotographFlags(CLI::App& app, PhotographFlags* flags) {
  app.add_option("--camera", flags->camera,
                 "What photographs without poses were taken with: perspective,\nequirectangular "
                 "(panoramas of all directions) or auto: as they say")
      ->type_name("KIND")
      ->check(OneOf({"auto", "perspective", "equirectangular"}))
      ->capture_default_str();
  app.add_option("--mask-below", flags->mask_below,
                 "Mask what panoramas show more than so many degrees under the horizon")
      ->type_name("DEGREES")
      ->check([](const std::string& text) {  // CLI::Range takes NaN
        double degrees = 0;
        const bool is_good = absl::SimpleAtod(text, &degrees) && degrees >= 0 && degrees <= 90;
        return std::string(is_good ? "" : "must be 0 to 90");
      });
}

std::vector<std::string> EngineWords(const PhotographFlags& flags) {
  std::vector<std::string> words;
  if (flags.camera != "auto") words.insert(words.end(), {"--camera", flags.camera});
  if (flags.mask_below != 0) {
    words.insert(words.end(), {"--mask-below", fmt::format("{}", flags.mask_below)});
  }
  return words;
}

}  // namespace nerf
