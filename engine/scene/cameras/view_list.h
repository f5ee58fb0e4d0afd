#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/scene_reading.h"
#include "engine/scene/camera.h"
#include "engine/scene/cameras/camera_file.h"
#include "engine/scene/cameras/camera_path_file.h"

namespace nerf {

// A view that is asked for.
struct ListedCamera {
  Camera camera;
  std::string photograph;  // path of the picture taken from there; empty where there is none
  std::string name;        // names the view's files; empty: its number does
};

struct ViewList {
  std::vector<ListedCamera> views;
  // If set, the cameras are in this program's frame, because no data set was named for them.
  // Otherwise in the data set's own frame, relative to the origin that was asked for.
  std::optional<PathTool> in_frame_of;
  // The cameras are keyframes of a path, which lasts `seconds` (0: not stated) and may be closed.
  bool are_keyframes = false, is_loop = false;
  double seconds = 0;
  std::vector<std::string> warnings;
};

// Reads the views that `path` lists: a camera file (ReadCameraFile), a camera path of nerfstudio or
// instant-ngp or keyframes (ParseCameraPath), or a data set's folder, whose test views are taken,
// or all if it has none. For photographs without poses their Source::Dataset is read, and a
// warning names it.
// Views of a folder are named after their photographs, each differently. `dataset`: the folder of
// the data set that a camera path is for; empty: not known. reading: of a data set. origin: in the
// data set's frame. Errors as ReadCameraFile and FrameOfTool.
absl::StatusOr<ViewList> ReadViewList(const std::string& named, PictureSize absent_size = {},
                                      const std::string& dataset = "",
                                      const SceneReading& reading = {}, const Vec3d& origin = {});

// Names for files from names of photographs: their stems, with their folders where two are alike.
std::vector<std::string> ViewNames(const std::vector<std::string>& photographs);

}  // namespace nerf
