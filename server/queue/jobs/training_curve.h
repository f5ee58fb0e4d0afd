#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "server/queue/jobs/job.h"

namespace nerf {

// One point of a job's curves: what its worker measured over about a second.
struct CurvePoint {
  uint32_t step = 0;   // finished
  double seconds = 0;  // training time up to it, over all attempts
  double loss = 0;
  double psnr_train = 0;  // dB
  double rays_per_second = 0;
  double samples_per_second = 0;
  std::optional<double> psnr_preview;  // dB; where a preview was made

  bool operator==(const CurvePoint&) const = default;
};

// How well the trained model met a test view.
struct TestViewScore {
  std::string file;  // picture, by its path in the scene
  double psnr = 0;   // dB

  bool operator==(const TestViewScore&) const = default;
};
inline constexpr size_t kMaxTestViewScores = 4'096;

// The point that a progress is; nullopt before the first step and where no loss was measured.
std::optional<CurvePoint> PointOf(const v1::Progress& progress);

// The curves of a job, by step: at most kMaxPoints, of which those in the most crowded places are
// left out; and the scores of its test views, once it has succeeded. Not thread-safe: guarded by
// the queue's lock.
class TrainingCurve {
 public:
  static constexpr size_t kMaxPoints = 2'000;

  TrainingCurve() = default;
  // Points that were stored, by step, and scores.
  explicit TrainingCurve(std::vector<CurvePoint> points, std::vector<TestViewScore> test_views = {})
      : points_(std::move(points)), test_views_(std::move(test_views)) {}

  // Adds a point. A job that resumes from an earlier checkpoint repeats steps: points from its step
  // on are replaced.
  void Add(const CurvePoint& point);
  // Adds points behind the last one; others are known already.
  void AddMissing(const std::vector<CurvePoint>& points);

  void SetTestViews(std::vector<TestViewScore> scores) { test_views_ = std::move(scores); }

  const std::vector<CurvePoint>& points() const { return points_; }
  const std::vector<TestViewScore>& test_views() const { return test_views_; }
  bool empty() const { return points_.empty() && test_views_.empty(); }
  // Whether points were added since the last call.
  bool TakeChanged() { return std::exchange(changed_, false); }

 private:
  void Append(const CurvePoint& point);

  std::vector<CurvePoint> points_;
  std::vector<TestViewScore> test_views_;
  bool changed_ = false;
};

// Adds the preview of `progress` to the job's previews unless it is the last one already. Of more
// than kMaxPreviews one in the most crowded place is removed, and returned.
inline constexpr size_t kMaxPreviews = 64;
std::optional<PreviewRecord> NotePreview(const v1::Progress& progress, Job* job);

}  // namespace nerf
