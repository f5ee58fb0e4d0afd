#pragma once

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "common/clock.h"

namespace nerf {

// A frame of a live view to render next.
struct FramePlan {
  uint32_t width = 0, height = 0;  // pixels
  double share = 1;                // of the full side, 0 to 1
  bool moving = false;
  bool is_last = false;  // no finer one follows
};

// Decides which frames of a live view are rendered, in which size and when. While the camera moves,
// a frame has as many pixels as the worker renders in 1 / target_fps: its side is share =
// sqrt(pixels per second / target_fps / pixels of the full size). Once the camera has rested,
// passes of 1/4, 1/2 and 1/1 of the side follow; passes no finer than what is shown already are
// left out, and all but the last where the full size is fast enough. Passes that would take longer
// than max_rest_time are left out, too: the last one is then as large as fits. Not thread-safe.
class ViewPacer {
 public:
  static constexpr absl::Duration kIdle = absl::Milliseconds(150);

  explicit ViewPacer(double target_fps, absl::Duration max_rest_time = absl::InfiniteDuration())
      : frame_time_(absl::Seconds(1) / target_fps), max_rest_time_(max_rest_time) {}

  // The view to show, with its full size. The first one is of a camera at rest.
  void Begin(uint32_t width, uint32_t height);
  void Move(uint32_t width, uint32_t height, SteadyTime now);
  // From now on passes at rest take no longer.
  void LimitRest(absl::Duration max_rest_time) { max_rest_time_ = max_rest_time; }
  // The weights have changed: the full size is to be rendered again.
  void Renew();

  struct Decision {
    std::optional<FramePlan> plan;    // to render now
    std::optional<SteadyTime> again;  // when to ask again; unset: after the next call of the others
  };
  Decision Decide(SteadyTime now) const;

  // A frame has come. `current`: no move since its start. render_time: of the engine; total_time:
  // until the frame was here.
  void Finish(const FramePlan& plan, bool current, absl::Duration render_time,
              absl::Duration total_time);

  // A frame was given up after this time. A view at rest tries again after Renew or Move.
  void Drop(const FramePlan& plan, absl::Duration time);

  // Everything is shown that the view's full size can show, or that is worth its time.
  bool IsComplete() const { return is_complete_; }

 private:
  FramePlan PlanOf(double share, bool moving) const;
  // The largest side of a pass.
  double LastShare() const;
  double MovingShare() const;
  bool FitsFrameTime(double share) const;
  // Of moving cameras or of those at rest, of the others while there is none.
  double PixelsPerSecond(bool moving) const;

  const absl::Duration frame_time_;
  absl::Duration max_rest_time_;
  uint32_t width_ = 1, height_ = 1;
  std::optional<SteadyTime> moved_;  // unset: at rest from the beginning
  double shown_share_ = 0;           // of the frame that shows the present view; 0: none does
  bool is_complete_ = false;
  double moving_share_ = 0;  // of the last frame of a moving camera; 0: none yet
  // Means of the frames so far, of cameras at rest and moving ones, whose pixels may show fewer
  // rays; 0: no frame yet.
  double pixels_per_second_[2] = {};
  absl::Duration overhead_;  // mean of total_time - render_time
};

}  // namespace nerf
