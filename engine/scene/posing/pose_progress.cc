#include "engine/scene/posing/pose_progress.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

namespace nerf {

std::string PoseProgressTitle(const PoseProgress& progress) {
  return absl::StrCat(progress.stage, "/", progress.n_stages, " ", progress.doing);
}

std::string PoseProgressText(const PoseProgress& progress) {
  std::string text = PoseProgressTitle(progress);
  if (progress.done > 0 || progress.of > 0) {
    absl::StrAppend(&text, ": ", progress.done);
    if (progress.of > 0) absl::StrAppend(&text, " of ", progress.of);
    absl::StrAppend(&text, " ", std::string(progress.unit));
  }
  if (progress.eta_seconds >= 100) {
    absl::StrAppend(&text, ", about ", std::lround(progress.eta_seconds / 60), " min left");
  } else if (progress.eta_seconds > 0) {
    absl::StrAppend(&text, ", about ", std::ceil(progress.eta_seconds / 5) * 5, " s left");
  }
  return text;
}

PoseStages::PoseStages(std::function<void(const PoseProgress&)> report, const Clock* clock,
                       int n_threads)
    : report_(std::move(report)), clock_(*clock), eta_(n_threads) {}

void PoseStages::Expect(int n) { current_.n_stages = current_.stage + n; }

void PoseStages::Begin(std::string doing, std::string_view unit, int of, const PlannedStage& stage,
                       std::vector<PlannedStage> later) {
  if (current_.stage > 0 && !current_.is_over) End(current_.of > 0 ? current_.of : current_.done);
  begin_ = Seconds();
  share_ = 0;
  current_.is_over = false;
  eta_.Begin(stage, std::move(later), begin_);
  n_matches_ = 0;
  ++current_.stage;
  current_.n_stages = std::max(current_.n_stages, current_.stage);
  current_.doing = std::move(doing);
  current_.unit = unit;
  current_.done = 0;
  current_.of = of;
  Repeat();
}

void PoseStages::Advance(int done, int of) {
  current_.done = std::max(current_.done, done);
  current_.of = of;
  share_ = of > 0 ? std::min(1.0, static_cast<double>(current_.done) / of) : 0;
  Repeat();
}

void PoseStages::AdvanceTo(double share) {
  share_ = std::clamp(share, share_, 1.0);
  current_.done = std::max(current_.done, static_cast<int>(share_ * current_.of));
  Repeat();
}

void PoseStages::End(int done) {
  current_.done = done;
  current_.is_over = true;
  share_ = 1;
  Repeat();
}

void PoseStages::Repeat() {
  if (!report_) return;
  const double now = Seconds(), seconds = now - begin_;
  current_.eta_seconds = eta_.Remaining(share_, now);
  if (n_matches_ > 0 && share_ > 0 && seconds > 0) {
    current_.matches_per_second = share_ * n_matches_ / seconds;
  }
  report_(current_);
}

}  // namespace nerf
