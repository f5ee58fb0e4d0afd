#pragma once

#include <optional>
#include <span>
#include <vector>

#include "engine/base/config/train_config.h"
#include "engine/base/lens.h"
#include "engine/base/parallel_for.h"
#include "engine/base/pixel_offset.h"
#include "engine/scene/pictures/image_resize.h"
#include "engine/scene/scene.h"
#include "engine/train/batch/ray_batch.h"
#include "engine/train/ray_count_controller.h"
#include "engine/train/training_step.h"

namespace nerf {

// A step that trains on the rays through its pixels, as many as a controller chooses: what most
// methods derive from. It makes the rays from the views' cameras and evaluates the schedules of
// engine/train/schedule.h; the derived class does the rest in RunRays.
class RayStep : public TrainingStep {
 public:
  // views: those that batches draw from (none: only RunRays may be called); their cameras are
  // copied. near and far of `geometry` become t_near and t_far. pool outlives the step.
  RayStep(const TrainConfig& config, const SceneGeometry& geometry, std::span<const View> views,
          ThreadPool* pool);

  StepResult Run(const PixelBatch& batch) override;
  int NextPixels(double fraction) override;
  double TimeFraction(double fraction) const override;

  // Run, for rays instead of pixels.
  virtual StepResult RunRays(const RayBatch& batch) = 0;

 protected:
  // Rays and jitters of a batch's pixels, [batch.n_pixels * TrainedRaysPerPixel], of which those of
  // OwnPixels are set. A method that learns poses overrides it; its pixels have one ray.
  virtual void MakeRays(const PixelBatch& batch, std::vector<Ray>* rays,
                        std::vector<float>* jitters) const;

  // The ray through a point of a pixel of a picture at `level`, as if the full picture had a point
  // there. offset: from the pixel's center.
  Ray PixelRay(const Pixel& pixel, int level, PixelOffset offset) const;

  // Of the views, which MakeRays reads. A method that learns cameras changes them.
  std::vector<LensCamera>& cameras() { return cameras_; }

  // Part of the state: derived classes store it in Save and Load.
  RayCountController& ray_count() { return ray_count_; }
  const RayCountController& ray_count() const { return ray_count_; }

 private:
  const TrainConfig config_;
  const float near_, far_;
  std::vector<LensCamera> cameras_;  // of the views
  std::vector<ReducedSize> sizes_;   // of the views' pictures
  std::vector<float> times_;         // of the views
  ThreadPool* const pool_;
  RayCountController ray_count_;
  std::optional<StepResult> last_result_;  // until the controller has seen it
  RayBatch rays_;                          // kept for its memory
};

}  // namespace nerf
