#pragma once

#include <span>
#include <stop_token>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/parallel_for.h"
#include "engine/base/vec3.h"
#include "engine/field/trained_model.h"
#include "engine/scene/camera.h"

namespace nerf {

// The points that photographs show: they lie in front of what a view has at their pixel, or not far
// behind it. Space beside all views and behind walls is left out, in which a model is free to have
// any density. Training units and frame.
class ShownSpace {
 public:
  // Renders small views of up to 32 of the cameras. near: where rays start; tolerance: how far
  // behind what a view shows a point may lie, besides the size of the view's pixels. time: see
  // RayTile::time. Errors: Cancelled.
  static absl::StatusOr<ShownSpace> Make(const TrainedModel& model, std::span<const Camera> cameras,
                                         float near, float tolerance, float time, ThreadPool* pool,
                                         const std::stop_token& stop);

  // Whether two views show the point, or the only one. For any thread.
  bool Has(Vec3 point) const;

 private:
  struct View {
    Camera camera;  // a pinhole
    std::vector<float> depths;
  };

  ShownSpace(std::vector<View> views, float tolerance)
      : views_(std::move(views)), tolerance_(tolerance) {}

  std::vector<View> views_;
  float tolerance_ = 0;
};

}  // namespace nerf
