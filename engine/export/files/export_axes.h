#pragma once

#include <span>
#include <string>
#include <string_view>

#include "engine/base/vec3.h"
#include "engine/scene/pose.h"
#include "engine/scene/scene.h"

namespace nerf {

// Axes of an exported file.
//   dataset  the data set's own
//   blender  right-handed, z up
//   unity    left-handed, y up
//   unreal   left-handed, z up
//   opencv   right-handed, y down
enum class AxesName { kDataset, kBlender, kUnity, kUnreal, kOpenCv };

// From the training frame to the frame of a file. The unit is the data set's own. Points are
// relative to origin(), where files that hold them as floats say it; poses of cameras are not.
class ExportAxes {
 public:
  // is_y_up: of a file such as a GLB, whose axes are right-handed with y up for every program,
  // which turns them on import; dataset and opencv write theirs all the same.
  ExportAxes(AxesName name, bool is_y_up, const SceneGeometry& geometry);

  Vec3 Point(Vec3 training) const;
  Vec3d PointFromZero(Vec3 training) const;  // not relative to the origin
  Vec3 Direction(Vec3 training) const;       // of unit length, as is its result
  Pose CameraPose(const Mat34& camera_to_world) const;
  // The scene's local origin, in the frame of the file.
  Vec3d origin() const { return Turned(own_origin_); }
  bool has_origin() const { return own_origin_ != Vec3d{0, 0, 0}; }
  // Lengths in own units.
  float Length(float training) const { return static_cast<float>(to_own_.scale * training); }
  // Triangles change their order, and cameras have no pose.
  bool is_mirrored() const { return is_mirrored_; }
  // "z up, right-handed"; of dataset: "the data set's own".
  const std::string& words() const { return words_; }

 private:
  Vec3d Turned(const Vec3d& own) const;

  Similarity to_own_;  // relative to the origin
  Vec3d own_origin_;
  double turn_[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};  // from own axes to the file's
  bool is_mirrored_ = false;
  std::string words_;
};

}  // namespace nerf
