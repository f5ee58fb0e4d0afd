#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/scene_reading.h"
#include "engine/base/view_style.h"
#include "engine/program/commands/render_flags.h"
#include "engine/program/session/loaded_model.h"
#include "engine/scene/camera.h"
#include "engine/scene/cameras/camera_file.h"

namespace nerf {

// A view to render.
struct WantedView {
  Camera camera;  // training frame
  std::string name, photograph;
};

struct WantedViews {
  std::vector<WantedView> views;
  std::string words;         // "12 views on an orbit"
  std::string path;          // that they lie on; empty for cameras
  PictureSize reduced_from;  // of the first view that is reduced to the default size; 0: none is
};

// How the data set of the model was read.
SceneReading ReadingOf(const LoadedModel& model);

// The views that the flags ask for: those of --camera, else on a path that suits the training
// cameras. Says warnings of the file, and in which frame it was read. Errors: those of reading it;
// InvalidArgument if it is in another program's frame, or for --frames that do not fit it.
absl::StatusOr<WantedViews> WantedViewsOf(const RenderFlags& flags, const ViewStyle& style,
                                          const LoadedModel& model);

}  // namespace nerf
