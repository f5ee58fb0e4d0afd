#include "server/queue/jobs/training_curve.h"

#include <algorithm>
#include <string>

#include "server/queue/jobs/thin_out.h"

namespace nerf {

std::optional<CurvePoint> PointOf(const v1::Progress& progress) {
  if (progress.step() == 0 || progress.loss() == 0) return std::nullopt;
  CurvePoint point{progress.step(),       progress.seconds(),         progress.loss(),
                   progress.psnr_train(), progress.rays_per_second(), progress.samples_per_second(),
                   std::nullopt};
  const bool has_preview =
      progress.has_preview_step() && progress.preview_step() == progress.step();
  if (has_preview && progress.has_psnr_preview()) point.psnr_preview = progress.psnr_preview();
  return point;
}

void TrainingCurve::Append(const CurvePoint& point) {
  points_.push_back(point);
  changed_ = true;
  if (points_.size() <= kMaxPoints) return;
  points_.erase(points_.begin() + static_cast<std::ptrdiff_t>(MostCrowded(points_)));
}

void TrainingCurve::Add(const CurvePoint& point) {
  if (!points_.empty() && points_.back() == point) return;
  while (!points_.empty() && points_.back().step >= point.step) points_.pop_back();
  Append(point);
}

void TrainingCurve::AddMissing(const std::vector<CurvePoint>& points) {
  for (const CurvePoint& point : points) {
    if (points_.empty() || point.step > points_.back().step) Append(point);
  }
}

std::optional<PreviewRecord> NotePreview(const v1::Progress& progress, Job* job) {
  if (!progress.has_preview_image()) return std::nullopt;
  std::vector<PreviewRecord>& previews = job->previews;
  PreviewRecord preview;
  preview.step = progress.has_preview_step() ? progress.preview_step() : progress.step();
  if (progress.has_psnr_preview()) preview.psnr = progress.psnr_preview();
  preview.image = ToBlobRef(progress.preview_image());
  if (!previews.empty() && previews.back().image == preview.image) return std::nullopt;
  std::optional<PreviewRecord> removed;
  // A job that resumes repeats steps.
  while (!previews.empty() && previews.back().step >= preview.step) {
    removed = previews.back();
    previews.pop_back();
  }
  previews.push_back(preview);
  if (previews.size() > kMaxPreviews) {
    const auto crowded = previews.begin() + static_cast<std::ptrdiff_t>(MostCrowded(previews));
    removed = *crowded;
    previews.erase(crowded);
  }
  return removed;
}

}  // namespace nerf
