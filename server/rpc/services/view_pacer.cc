#include "server/rpc/services/view_pacer.h"

#include <algorithm>
#include <cmath>

namespace nerf {
namespace {

constexpr double kNewest = 0.4;  // weight of the newest frame in the means
constexpr double kPasses[] = {0.25, 0.5, 1};
// Bounds of a frame of a moving camera: an eighth of the side, and 96 pixels of the shorter one.
// Anything smaller is taken for a fault.
constexpr double kLeastShare = 0.125;
constexpr double kLeastSide = 96;
// A moving picture does not change its size for less than this.
constexpr double kSizeStep = 0.2;
// Part of the frame time that is left for rendering at the least, however slow the way is.
constexpr double kLeastRenderPart = 0.25;

}  // namespace

void ViewPacer::Begin(uint32_t width, uint32_t height) {
  width_ = std::max(width, 1u);
  height_ = std::max(height, 1u);
  shown_share_ = 0;
  is_complete_ = false;
}

void ViewPacer::Move(uint32_t width, uint32_t height, SteadyTime now) {
  Begin(width, height);
  moved_ = now;
}

void ViewPacer::Renew() {
  shown_share_ = std::min(shown_share_, kPasses[1]);
  is_complete_ = false;
}

FramePlan ViewPacer::PlanOf(double share, bool moving) const {
  const auto side = [&](uint32_t full) {
    return std::clamp(static_cast<uint32_t>(std::lround(full * share)), 1u, full);
  };
  return {side(width_), side(height_), share, moving, !moving && share >= LastShare()};
}

double ViewPacer::LastShare() const {
  const double speed = PixelsPerSecond(/*moving=*/false);
  if (max_rest_time_ == absl::InfiniteDuration() || speed <= 0) return 1;
  const absl::Duration time =
      std::max(max_rest_time_ - overhead_, kLeastRenderPart * max_rest_time_);
  const double pixels = speed * absl::ToDoubleSeconds(time);
  return std::clamp(std::sqrt(pixels / (static_cast<double>(width_) * height_)), kLeastShare, 1.0);
}

double ViewPacer::PixelsPerSecond(bool moving) const {
  const double own = pixels_per_second_[moving];
  return own > 0 ? own : pixels_per_second_[!moving];
}

bool ViewPacer::FitsFrameTime(double share) const {
  const double pixels = share * share * width_ * height_;
  const double speed = PixelsPerSecond(/*moving=*/false);
  return speed > 0 && absl::Seconds(pixels / speed) + overhead_ <= frame_time_;
}

double ViewPacer::MovingShare() const {
  const double least = std::min(1.0, std::max(kLeastShare, kLeastSide / std::min(width_, height_)));
  const double speed = PixelsPerSecond(/*moving=*/true);
  if (speed <= 0) return std::max(least, kPasses[0]);
  const double seconds =
      absl::ToDoubleSeconds(std::max(frame_time_ - overhead_, kLeastRenderPart * frame_time_));
  const double pixels = speed * seconds;
  const double share =
      std::clamp(std::sqrt(pixels / (static_cast<double>(width_) * height_)), least, 1.0);
  const bool is_near = std::abs(share - moving_share_) <= kSizeStep * moving_share_;
  return is_near && share < 1 ? std::clamp(moving_share_, least, 1.0) : share;
}

ViewPacer::Decision ViewPacer::Decide(SteadyTime now) const {
  if (moved_.has_value() && now - *moved_ < kIdle) {
    if (shown_share_ > 0) return {std::nullopt, *moved_ + kIdle};
    return {PlanOf(MovingShare(), /*moving=*/true), std::nullopt};
  }
  if (is_complete_) return {};
  double share = 1;
  for (const double pass : kPasses) {
    if (pass <= shown_share_ * 1.01 && pass < 1) continue;
    share = pass;
    break;
  }
  for (const double pass : kPasses) {
    if (pass > share && FitsFrameTime(pass)) share = pass;
  }
  return {PlanOf(std::min(share, LastShare()), /*moving=*/false), std::nullopt};
}

void ViewPacer::Drop(const FramePlan& plan, absl::Duration time) {
  // It would have taken longer; half of the speed is a first guess.
  Finish(plan, /*current=*/false, 2 * time, 2 * time);
  if (!plan.moving) is_complete_ = true;
}

void ViewPacer::Finish(const FramePlan& plan, bool current, absl::Duration render_time,
                       absl::Duration total_time) {
  const double seconds = std::max(1e-6, absl::ToDoubleSeconds(render_time));
  const double speed = static_cast<double>(plan.width) * plan.height / seconds;
  const absl::Duration overhead = std::max(total_time - render_time, absl::ZeroDuration());
  // The first frame of a worker may have loaded the model.
  if (PixelsPerSecond(plan.moving) > 0) overhead_ += kNewest * (overhead - overhead_);
  double& mean = pixels_per_second_[plan.moving];
  mean += (mean > 0 ? kNewest : 1) * (speed - mean);
  if (plan.moving) moving_share_ = plan.share;
  if (!current) return;
  shown_share_ = std::max(shown_share_, plan.share);
  is_complete_ = plan.is_last || (!plan.moving && LastShare() <= shown_share_);
}

}  // namespace nerf
