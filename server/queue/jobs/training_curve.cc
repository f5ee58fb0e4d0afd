#include "server/queue/jobs/training_curve.h"

#include <algorithm>
#include <string>

#include "server/queue/jobs/thin_out.h"

namespace nerf {
namespace {

double FigureOf(const JobProgress& progress, const std::string& name) {
  const auto found = progress.figures.find(name);
  return found == progress.figures.end() ? 0 : found->second;
}

}  // namespace

std::optional<CurvePoint> PointOf(const JobProgress& progress) {
  CurvePoint point{progress.step,
                   FigureOf(progress, "seconds"),
                   FigureOf(progress, "loss"),
                   FigureOf(progress, "psnr_train"),
                   FigureOf(progress, "rays_per_second"),
                   FigureOf(progress, "samples_per_second"),
                   std::nullopt};
  if (point.step == 0 || point.loss == 0) return std::nullopt;
  if (progress.preview_step == progress.step) point.psnr_preview = progress.preview_psnr;
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

std::optional<PreviewRecord> NotePreview(const JobProgress& progress, Job* job) {
  if (!progress.preview_image.has_value()) return std::nullopt;
  std::vector<PreviewRecord>& previews = job->previews;
  const PreviewRecord preview{progress.preview_step.value_or(progress.step), progress.preview_psnr,
                              *progress.preview_image};
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
