#pragma once

#include <span>
#include <vector>

#include "engine/base/config/train_config.h"
#include "engine/methods/mlp/hierarchical.h"
#include "engine/scene/scene.h"
#include "engine/train/ray_step.h"

namespace nerf {

// The rays of steps with coarse and fine network: t_near and t_far become where the samples of a
// ray lie; none lie on a ray with t_near > t_far.
class MlpPairRays : public RayStep {
 public:
  MlpPairRays(const TrainConfig& config, const SceneGeometry& geometry, std::span<const View> views,
              ThreadPool* pool)
      : RayStep(config, geometry, views, pool), ray_config_(config), ray_geometry_(geometry) {
    for (const View& view : views) axes_.push_back(view.camera.camera_to_world.Column(2) * -1.0f);
  }

 protected:
  void MakeRays(const PixelBatch& batch, std::vector<Ray>* rays,
                std::vector<float>* jitters) const override {
    RayStep::MakeRays(batch, rays, jitters);
    for (int i = 0; i < batch.n_pixels; ++i) {
      const RayBounds bounds =
          BoundsOfRay(ray_config_, ray_geometry_, (*rays)[i], axes_[batch.pixels[i].view]);
      (*rays)[i].t_near = bounds.t_near;
      (*rays)[i].t_far = bounds.t_far;
    }
  }

 private:
  const TrainConfig ray_config_;
  const SceneGeometry ray_geometry_;
  std::vector<Vec3> axes_;  // where the views' cameras look
};

}  // namespace nerf
