#include "engine/methods/ngp/learned_views.h"

#include "common/status_macros.h"
#include "engine/field/parameters/lens_scales.h"
#include "engine/methods/ngp/describe/ngp_settings.h"

namespace nerf {
namespace {

std::vector<Vec3> PositionsOf(std::span<const View> views) {
  std::vector<Vec3> positions;
  for (const View& view : views) positions.push_back(view.camera.camera_to_world.Column(3));
  return positions;
}

}  // namespace

LearnedViews::LearnedViews(const TrainConfig& config, const SceneGeometry& geometry,
                           std::span<const View> views)
    : poses(Ngp(config).pose_rate > 0 ? PositionsOf(views) : std::vector<Vec3>(),
            geometry.box.Size().x / 2),
      focals(Ngp(config).focal_rate > 0 ? views : std::span<const View>()),
      exposures(ExposureRate(config) > 0 ? static_cast<int>(views.size()) : 0),
      appearances(Ngp(config).appearance_rate > 0 ? static_cast<int>(views.size()) : 0,
                  config.seed),
      errors(views, Ngp(config).error_share),
      seed_(config.seed) {}

LearnedViews::LearnedViews(const LearnedViews& other, uint32_t seed)
    : poses(other.poses),
      focals(other.focals),
      exposures(other.exposures),
      appearances(other.appearances.n_views(), seed),
      errors(other.errors),
      seed_(seed) {}

void LearnedViews::CorrectRays(const PixelBatch& batch, std::vector<Ray>* rays) const {
  if (poses.empty()) return;
  for (size_t i = 0; i < rays->size(); ++i) poses.Apply(batch.pixels[i].view, &(*rays)[i]);
}

void LearnedViews::UpdateFromRays(const TrainConfig& config, const NgpParameters& parameters,
                                  const RayBatch& batch, int t,
                                  std::span<const RayGradient> gradients,
                                  std::vector<LensCamera>* cameras) {
  if (!focals.empty()) {
    const float rate = batch.learning_rate * FocalRate(config, batch.fraction);
    focals.Update(parameters.TableAdam(rate, t), batch, *cameras, poses, gradients);
    focals.Apply(cameras);
  }
  if (!poses.empty()) {
    const float rate = batch.learning_rate * PoseRate(config, batch.fraction);
    poses.Update(parameters.TableAdam(rate, t), batch.views, batch.rays, gradients);
  }
}

void LearnedViews::Save(TensorFile* file) const {
  exposures.Save(file);
  appearances.Save(file);
  poses.Save(file);
  focals.Save(file);
  errors.Save(file);
}

void LearnedViews::SaveModel(TensorFile* file) const {
  appearances.SaveModel(file);
  SaveLensScales(focals.Scales(), file);
}

absl::StatusOr<LearnedViews> LearnedViews::Read(const TensorFile& file) const {
  LearnedViews read(*this, seed_);
  NERF_RETURN_IF_ERROR(read.exposures.Load(file));
  NERF_RETURN_IF_ERROR(read.appearances.Load(file));
  NERF_RETURN_IF_ERROR(read.poses.Load(file));
  NERF_RETURN_IF_ERROR(read.focals.Load(file));
  NERF_RETURN_IF_ERROR(read.errors.Load(file));
  return read;
}

}  // namespace nerf
