#include "engine/base/config/psnr_advice.h"

#include <cmath>

#include "common/counted.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr double kLittleTraining = 20e6;  // samples; the default budget has 40 M
constexpr double kOverfit = 5;            // dB between training and test views
constexpr size_t kFewViews = 20;
constexpr double kOtherFocal = 0.1;  // of the ratio of focal lengths from 1

}  // namespace

std::vector<std::string> LowPsnrAdvice(const TrainedQuality& trained) {
  if (!(trained.psnr < kLowPsnr)) return {};  // NaN: nothing was compared
  std::vector<std::string> lines = {fmt::format(
      "a {} of {:.1f} dB is low; its likely reasons:", trained.psnr_name, trained.psnr)};
  const auto add = [&lines](const std::string& reason) { lines.push_back("  - " + reason); };
  if (trained.focal_ratio > 0 && std::abs(trained.focal_ratio - 1) > kOtherFocal) {
    add(
        fmt::format("another focal length: it is {:.2f} times that of the training; see "
                    "camera_angle_x or fl_x in the data set",
                    trained.focal_ratio));
  }
  if (trained.n_far_views > 0) {
    add(fmt::format("cameras of another data set: {} of {} are far from all training views",
                    trained.n_far_views, Counted(trained.n_views, "view")));
  }
  if (trained.samples > 0 && trained.samples < kLittleTraining) {
    add(fmt::format("little training ({:.1f} M samples): --samples 60M", trained.samples / 1e6));
  }
  if (trained.n_train_views > 0 && trained.n_train_views < kFewViews) {
    add(fmt::format("few photographs ({} to train on): some dozens show a scene from all sides",
                    trained.n_train_views));
  }
  if (trained.psnr_train > trained.psnr + kOverfit) {
    add(
        fmt::format("training views are far better ({:.1f} dB): too few photographs near the test "
                    "views, or other exposure there",
                    trained.psnr_train));
  }
  add(fmt::format(
      "wrong poses: see the warnings of `{}`, and pose.txt where nerf-engine pose found them",
      trained.check_command));
  add("exposure, white balance or focus that changes between photographs; things that moved");
  return lines;
}

}  // namespace nerf
