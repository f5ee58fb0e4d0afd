#include "common/messages/path_kind.h"

namespace nerf {

std::string_view PathKindWord(v1::PathKind kind) {
  switch (kind) {
    case v1::PATH_AUTO:
      return "auto";
    case v1::PATH_KIND_UNSPECIFIED:
    case v1::PATH_ORBIT:
      return "orbit";
    case v1::PATH_SPIRAL:
      return "spiral";
    case v1::PATH_FLYBY:
      return "flyby";
    case v1::PATH_CAMERAS:
      return "cameras";
    default:
      return "";
  }
}

v1::PathKind ParsePathKindWord(std::string_view word) {
  for (const v1::PathKind kind :
       {v1::PATH_AUTO, v1::PATH_ORBIT, v1::PATH_SPIRAL, v1::PATH_FLYBY, v1::PATH_CAMERAS}) {
    if (PathKindWord(kind) == word) return kind;
  }
  return v1::PATH_KIND_UNSPECIFIED;
}

uint32_t FramesOf(const v1::CameraPath& path) {
  switch (path.kind_case()) {
    case v1::CameraPath::kCameras:
      return static_cast<uint32_t>(path.cameras().cameras_size());
    case v1::CameraPath::kKeyframes:
      return path.keyframes().frames();
    case v1::CameraPath::kScene:
      return path.scene().frames();
    case v1::CameraPath::KIND_NOT_SET:
      break;
  }
  return 0;
}

}  // namespace nerf
