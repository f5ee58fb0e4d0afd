#pragma once

#include <stop_token>

#include "absl/status/statusor.h"
#include "engine/scene/scene.h"
#include "engine/views/measure/evaluation.h"
#include "engine/views/render/render_device.h"

namespace nerf {

// The camera near `view`'s own from which the rendered picture agrees best with its photograph: for
// views whose poses a training with learned poses did not see. At most six Gauss-Newton steps on
// the six degrees of freedom of a pose, whose derivatives are differences of rendered pictures.
// distance: of the scene from the camera, training units. Errors: Cancelled after a stop.
absl::StatusOr<Camera> AlignedCamera(SceneRenderer* renderer, const View& view, float distance,
                                     const EvaluationOptions& options, std::stop_token stop);

}  // namespace nerf
