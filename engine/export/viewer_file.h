#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/embedded_file.h"
#include "engine/base/crop_box.h"
#include "engine/field/trained_model.h"
#include "engine/files/checkpoint.h"
#include "engine/path/capture_geometry.h"

namespace nerf {

// A viewer file: one HTML file that shows a model in a browser by WebGL 2, without a server and
// without any request. It is the page web/viewer, built into web/dist/viewer.html, with
//   the scene: JSON (SceneHeader of web/viewer/model.ts), lengths in the training frame; and
//   the model: base64 of the used entries of each level of the hash table, the layers' weights as
//   [input][output], both half floats, the occupied blocks and their empty distances.
// Its pictures are those of the CPU's views up to rounding.

// web/dist/viewer.html, compiled in.
std::span<const EmbeddedFile> ViewerPage();

// What the viewer does beside drawing the model; training frame.
struct ViewerScene {
  Vec3 center;                             // that its camera turns around
  Vec3 up{0, 0, 1};                        // length 1
  std::vector<CaptureCamera> photographs;  // that it jumps to
  std::vector<CaptureCamera> path;         // that it plays; the first is where it starts; not empty
  bool path_is_closed = false;
  std::optional<CropBox> crop = {};  // only what lies in it is shown
};

// Whether the viewer can draw models of this config. Errors: InvalidArgument naming the method or
// setting that it lacks.
absl::Status CheckViewable(const TrainConfig& config);

// The file's content. model is that of `state`. Requires: CheckViewable(state.config).ok().
std::string ViewerFile(const TrainState& state, const TrainedModel& model,
                       const ViewerScene& scene);

}  // namespace nerf
