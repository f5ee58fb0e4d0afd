#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/base/vec3.h"
#include "engine/field/trained_model.h"
#include "engine/scene/camera.h"

namespace nerf {

// Tells which parts of a surface photographs show. Borrows model and cameras (training frame). Used
// from one thread.
class SeenParts {
 public:
  // near: where rays start; tolerance: how far behind what a ray shows a point may lie; both in
  // training units. time: see RayTile::time.
  SeenParts(const TrainedModel& model, std::span<const Camera> cameras, float near, float tolerance,
            float time);

  // Whether at least a tenth of the points is seen by two cameras, or by the only one; of many
  // points and cameras some are asked. Where a picture ends is not considered. True without
  // cameras.
  bool Sees(const std::vector<Vec3>& points);

 private:
  const TrainedModel& model_;
  std::span<const Camera> cameras_;
  const float near_, tolerance_, time_;
  std::unique_ptr<TrainedModel::Workspace> workspace_;
};

}  // namespace nerf
