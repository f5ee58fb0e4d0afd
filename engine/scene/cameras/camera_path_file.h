#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/scene/camera.h"
#include "engine/scene/cameras/camera_file.h"

namespace nerf {

enum class PathTool { kNerfstudio, kInstantNgp };

// A camera path. That of another program is in the frame that the program normalizes its scenes to
// (FrameOfTool), that of nobody in the data set's own, relative to the origin that was asked for.
struct CameraPathFile {
  std::optional<PathTool> tool;
  std::vector<Camera> cameras;
  bool are_keyframes = false;  // of a path through them; otherwise each is a view
  bool is_loop = false;
  double seconds = 0;  // 0: not stated
  std::vector<std::string> warnings;
};

// Whether this JSON text is such a file: an object with `camera_path` (nerfstudio), `path`
// (instant-ngp's base_cam.json) or `keyframes` (of render jobs).
bool IsCameraPath(std::string_view json_text);

// Reads nerfstudio's camera_path.json: camera_path[] of camera_to_world (16 numbers, row by row),
// fov (vertical, degrees), aspect and render_time (0 to 1); render_width, render_height, seconds,
// is_cycle. Or instant-ngp's base_cam.json: path[] of R (quaternion x, y, z, w), T and fov
// (vertical, degrees), its axes with y down, positions in the unit cube; loop, duration_seconds.
// Or keyframes[] of transform_matrix (4 rows of 4 numbers) and fov (vertical, degrees; 50); loop,
// seconds. The last two state no size: `absent_size` is taken. origin: of the last, in its frame.
// Errors: InvalidArgument that lists every problem with its field.
absl::StatusOr<CameraPathFile> ParseCameraPath(std::string_view json_text, std::string_view source,
                                               PictureSize absent_size, const Vec3d& origin = {});

}  // namespace nerf
