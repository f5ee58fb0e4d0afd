#include "engine/pose/pose_progress.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace nerf {

std::string PoseProgressTitle(const PoseProgress& progress) {
  return absl::StrCat(progress.stage, "/", progress.n_stages, " ", progress.doing);
}

std::string PoseProgressText(const PoseProgress& progress) {
  std::string text = PoseProgressTitle(progress);
  if (progress.done == 0 && progress.of == 0) return text;
  absl::StrAppend(&text, ": ", progress.done);
  if (progress.of > 0) absl::StrAppend(&text, " of ", progress.of);
  absl::StrAppend(&text, " ", std::string(progress.unit));
  return text;
}

PoseStages::PoseStages(std::function<void(const PoseProgress&)> report)
    : report_(std::move(report)) {}

void PoseStages::Expect(int n) { current_.n_stages = current_.stage + n; }

void PoseStages::Begin(std::string doing, std::string_view unit, int of) {
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
  Repeat();
}

void PoseStages::Repeat() const {
  if (report_) report_(current_);
}

}  // namespace nerf
