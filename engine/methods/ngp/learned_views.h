#pragma once

#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/config/train_config.h"
#include "engine/field/files/tensor_file.h"
#include "engine/methods/ngp/parameters.h"
#include "engine/methods/ngp/view_parameters/view_appearances.h"
#include "engine/methods/ngp/view_parameters/view_exposures.h"
#include "engine/methods/ngp/view_parameters/view_focals.h"
#include "engine/methods/ngp/view_parameters/view_poses.h"
#include "engine/scene/scene.h"
#include "engine/train/batch/picture_errors.h"
#include "engine/train/batch/pixel_batch.h"
#include "engine/train/batch/ray_batch.h"

namespace nerf {

// What a training of the ngp field learns of its pictures and lenses beside the field, part of its
// state on every device. Each is empty where the config does not ask for it. Movable.
struct LearnedViews {
  // views: that pixels are drawn from.
  LearnedViews(const TrainConfig& config, const SceneGeometry& geometry,
               std::span<const View> views);

  // Turns and moves the rays of the batch's pixels as their views' poses are.
  void CorrectRays(const PixelBatch& batch, std::vector<Ray>* rays) const;
  // Whether gradients by rays are wanted.
  bool HasRayGradients() const { return !poses.empty() || !focals.empty(); }

  // Update t (counted from 1) of poses and focal lengths, and with these of the views' cameras.
  // gradients: of the loss by rays [batch.n_rays], which are of batch.views.
  void UpdateFromRays(const TrainConfig& config, const NgpParameters& parameters,
                      const RayBatch& batch, int t, std::span<const RayGradient> gradients,
                      std::vector<LensCamera>* cameras);

  void Save(TensorFile* file) const;
  void SaveModel(TensorFile* file) const;
  // What a file has in place of this. Errors: InvalidArgument naming the tensor.
  absl::StatusOr<LearnedViews> Read(const TensorFile& file) const;

  ViewPoses poses;
  ViewFocals focals;
  ViewExposures exposures;
  ViewAppearances appearances;
  PictureErrors errors;

 private:
  // As new, with appearances at their start, which are not copied.
  LearnedViews(const LearnedViews& other, uint32_t seed);

  uint32_t seed_;
};

}  // namespace nerf
