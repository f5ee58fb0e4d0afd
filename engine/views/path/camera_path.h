#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/views/path/capture_geometry.h"

namespace nerf {

// Shapes of camera paths through a scene.
enum class PathKind {
  kAuto,     // an orbit where the cameras go around, a spiral where they look one way at something
             // in front of them, else along the cameras
  kOrbit,    // around the center, at the distance and height of the cameras on that side
  kSpiral,   // one or two turns around the mean camera, which look at what all cameras look at
  kFlyby,    // a straight line through the cameras along their widest spread
  kCameras,  // a smooth path near the cameras, which looks where they look
};

// "auto", "orbit", "spiral", "flyby", "cameras".
std::string_view PathKindName(PathKind kind);
std::optional<PathKind> ParsePathKind(std::string_view name);

// What a path is made from. The cameras are in the order in which they were taken, where that is
// known.
struct PathScene {
  std::vector<CaptureCamera> cameras;
  Vec3 up{0, 0, 1};      // length 1
  Vec3 center{0, 0, 0};  // of the scene; used where the lines of sight have no focus
  // Points of an object that stands alone; empty where the photographs show a scene without
  // borders. An orbit stands far enough off to show them with the lens of cameras.front().
  std::vector<Vec3> object;
};

struct CameraPath {
  PathKind kind = PathKind::kOrbit;  // never kAuto
  bool is_closed = false;            // the last pose leads on to the first
  std::vector<Mat34> poses;          // camera-to-world, OpenGL axes
};

// n poses, evenly spaced. Without cameras: an orbit at distance 1 from the center. Equal scenes
// give equal paths.
CameraPath MakePath(const PathScene& scene, PathKind kind, int n);

// A camera at `position` that looks at `target`, with `up` at its top. Where it looks along `up`,
// any side is at its top.
Mat34 LookAt(Vec3 position, Vec3 target, Vec3 up);

}  // namespace nerf
