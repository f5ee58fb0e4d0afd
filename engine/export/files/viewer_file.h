#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/embedded_file.h"
#include "engine/base/crop_box.h"
#include "engine/export/files/baked_model.h"
#include "engine/field/files/checkpoint.h"
#include "engine/field/trained_model.h"
#include "engine/views/path/capture_geometry.h"

namespace nerf {

// A viewer file: one HTML file that shows a model in a browser by WebGL 2, without a server and
// without any request. It is the page web/viewer, built into web/dist/viewer.html, with
//   the scene: JSON (SceneHeader of web/viewer/model.ts), lengths in the training frame; and
//   the model: base64 of the used entries of each level of the hash table, the layers' weights as
//   [input][output], both half floats, the occupied blocks and their empty distances; and
//   the baked model: base64 of zlib's form of the occupied blocks, their empty distances, `base`,
//   `slopes` and `horizon` of BakedModel.
// A file has the model, whose pictures are those of the CPU's views up to rounding, the baked one,
// which phones draw faster, or both: it then chooses by the device's speed.

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

// Bytes of the model in a file that has it. Requires: as ViewerFile.
size_t ViewerModelBytes(const TrainedModel& model);

// Files with both models have at most this many bytes: phones hold them in memory.
inline constexpr size_t kMaxBothBytes = 25'000'000;

// The file's content. model is that of `state`; has_exact: it is in the file. baked: a form of it
// that is, or null. Requires: CheckViewable(state.config).ok(); has_exact or baked.
std::string ViewerFile(const TrainState& state, const TrainedModel& model, const ViewerScene& scene,
                       const BakedModel* baked = nullptr, bool has_exact = true);

}  // namespace nerf
