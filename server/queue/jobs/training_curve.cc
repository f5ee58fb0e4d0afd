#include "server/queue/jobs/training_curve.h"

#include "common/messages/deterministic_bytes.h"
#include "server/queue/jobs/thin_out.h"

namespace nerf {

std::optional<v1::TrainingMetrics> PointOf(const v1::Progress& progress) {
  if (progress.step() == 0 || progress.loss() == 0) return std::nullopt;
  v1::TrainingMetrics point;
  point.set_step(progress.step());
  point.set_seconds(progress.seconds());
  point.set_loss(progress.loss());
  point.set_psnr_train(progress.psnr_train());
  point.set_rays_per_second(progress.rays_per_second());
  point.set_samples_per_second(progress.samples_per_second());
  const bool has_preview =
      progress.has_preview_step() && progress.preview_step() == progress.step();
  if (has_preview && progress.has_psnr_preview()) point.set_psnr_preview(progress.psnr_preview());
  return point;
}

uint32_t TrainingCurve::LastStep() const {
  return record_.points().empty() ? 0 : record_.points().rbegin()->step();
}

void TrainingCurve::Append(const v1::TrainingMetrics& point) {
  auto& points = *record_.mutable_points();
  *points.Add() = point;
  changed_ = true;
  if (points.size() > kMaxPoints) points.DeleteSubrange(MostCrowded(points), 1);
}

void TrainingCurve::Add(const v1::TrainingMetrics& point) {
  auto& points = *record_.mutable_points();
  if (!points.empty() && AreEqual(*points.rbegin(), point)) return;
  while (!points.empty() && LastStep() >= point.step()) points.RemoveLast();
  Append(point);
}

void TrainingCurve::AddMissing(const std::vector<v1::TrainingMetrics>& points) {
  for (const v1::TrainingMetrics& point : points) {
    if (point.step() > LastStep()) Append(point);
  }
}

std::optional<v1::TrainingPreview> NotePreview(const v1::Progress& progress, Job* job) {
  if (!progress.has_preview_image()) return std::nullopt;
  std::vector<v1::TrainingPreview>& previews = job->previews;
  v1::TrainingPreview preview;
  preview.set_step(progress.has_preview_step() ? progress.preview_step() : progress.step());
  if (progress.has_psnr_preview()) preview.set_psnr(progress.psnr_preview());
  *preview.mutable_image() = progress.preview_image();
  if (!previews.empty() && AreEqual(previews.back().image(), preview.image())) return std::nullopt;
  std::optional<v1::TrainingPreview> removed;
  // A job that resumes repeats steps.
  while (!previews.empty() && previews.back().step() >= preview.step()) {
    removed = previews.back();
    previews.pop_back();
  }
  previews.push_back(preview);
  if (previews.size() > kMaxPreviews) {
    const auto crowded = previews.begin() + MostCrowded(previews);
    removed = *crowded;
    previews.erase(crowded);
  }
  return removed;
}

}  // namespace nerf
