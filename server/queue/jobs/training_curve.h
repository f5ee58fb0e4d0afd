#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "nerf/internal/store.pb.h"
#include "nerf/v1/training_job.pb.h"
#include "server/queue/jobs/job.h"

namespace nerf {

// The point of a curve that a progress is; nullopt before the first step and where no loss was
// measured.
std::optional<v1::TrainingMetrics> PointOf(const v1::Progress& progress);

// The curves of a job, by step: at most kMaxPoints, of which those in the most crowded places are
// left out; and the scores of its test views, once it has succeeded. Not thread-safe: guarded by
// the queue's lock.
class TrainingCurve {
 public:
  static constexpr int kMaxPoints = 2'000;

  TrainingCurve() = default;
  // What was stored.
  explicit TrainingCurve(internal::CurveRecord record) : record_(std::move(record)) {}

  // Adds a point. A job that resumes from an earlier checkpoint repeats steps: points from its step
  // on are replaced.
  void Add(const v1::TrainingMetrics& point);
  // Adds points behind the last one; others are known already.
  void AddMissing(const std::vector<v1::TrainingMetrics>& points);

  void SetTestViews(const std::vector<v1::TestViewScore>& scores) {
    *record_.mutable_test_views() = {scores.begin(), scores.end()};
  }

  const internal::CurveRecord& record() const { return record_; }
  bool empty() const { return record_.points().empty() && record_.test_views().empty(); }
  // Whether points were added since the last call.
  bool TakeChanged() { return std::exchange(changed_, false); }

 private:
  uint32_t LastStep() const;
  void Append(const v1::TrainingMetrics& point);

  internal::CurveRecord record_;
  bool changed_ = false;
};

// Adds the preview of `progress` to the job's previews unless it is the last one already. Of more
// than kMaxPreviews one in the most crowded place is removed, and returned.
inline constexpr size_t kMaxPreviews = 64;
std::optional<v1::TrainingPreview> NotePreview(const v1::Progress& progress, Job* job);

}  // namespace nerf
