#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/aabb.h"
#include "engine/base/encoded_space.h"
#include "engine/base/local_origin.h"
#include "engine/scene/camera.h"
#include "engine/scene/pictures/image.h"

namespace nerf {

enum class SceneFlavor { kBlender, kInstantNgp, kNerfstudio, kColmap };

// One photograph with its camera.
struct View {
  std::string file;  // relative to the data set's folder, with its extension
  Camera camera;     // in the training frame
  ImageU8 image;
};

// The similarity from the data set's own frame to the training frame:
//   training = scale * linear * (own - origin) + translation, linear orthonormal (a rotation or an
//   axis permutation).
// Own cameras and boxes that are held as floats are relative to the origin, too: it is subtracted
// where they are read, and added where they are written. Stored with checkpoints; outputs (cameras,
// depth) are transformed back to the own frame.
struct SceneFrame {
  Mat34 own_to_training;     // of own - origin; linear part includes the scale
  float scale = 1.0f;        // training units per own unit
  Vec3d origin = {0, 0, 0};  // own frame; 0 but for coordinates of a map
  bool operator==(const SceneFrame&) const = default;
};

inline constexpr float kNoFar = 1e10f;  // Ray::t_far: rays end where they leave the boxes

// The part of a scene that training and rendering need besides its pictures. Stored in checkpoints.
struct SceneGeometry {
  SceneFlavor flavor = SceneFlavor::kBlender;
  SceneFrame frame;
  Aabb box;  // level-0 box of the occupancy grid, training frame; level l is box scaled by 2^l
  int n_levels = 1;           // occupancy grid levels
  float near = 0;             // training units
  float far = kNoFar;         // where rays end, training units
  float step = 0;             // marching step: diagonal of box / 512
  float cone = 0;             // step grows with t: max(step, t * cone)
  Vec3 mean_up{0, 0, 1};      // mean of the cameras' up vectors, training frame, for orbits
  float median_distance = 0;  // of the cameras from the center of the box, training units
  float median_height = 0;    // of the cameras above that center along mean_up, training units
  Frustum frustum;            // of the training views, where they look one way (view_frustum.h)
  bool operator==(const SceneGeometry&) const = default;
};

// Whether the local origins of two scenes of one flavor make their training frames differ. Frames
// that follow from the scene's contents do not depend on it.
bool OriginsDiffer(const SceneGeometry& a, const SceneGeometry& b);

// A point of the scene's surface that a training view shows, training frame.
struct SeenPoint {
  int32_t view = 0;  // index in Scene::train
  Vec3 position;
};

// Of a DepthMap, every eighth pixel is held out of the training, from the first on.
inline constexpr size_t kDepthHeldOut = 8;

// Depths of a training picture, from a file that belongs to it.
struct DepthMap {
  int32_t view = 0;   // index in Scene::train
  GrayImage16 image;  // depths; 0: not known. At most as large as the picture
  float unit = 0;     // training units of 1
  // Depths are measured along the camera's axis; else along each pixel's ray, as those of lenses
  // without an image plane are.
  bool along_axis = true;
  float pixels_x = 1, pixels_y = 1;  // of the picture, for one of the map

  // The image position in the picture of the middle of a pixel in column x, in row y.
  float PictureX(int x) const { return (static_cast<float>(x) + 0.5f) * pixels_x; }
  float PictureY(int y) const { return (static_cast<float>(y) + 0.5f) * pixels_y; }
};

// A posed data set, decoded. Views are sorted by file name.
struct Scene {
  SceneGeometry geometry;
  bool has_alpha = false;  // any image has alpha: the default training background is then random
  // The alpha of images is how much a pixel counts, not its opacity; has_alpha is then false.
  bool alpha_is_mask = false;
  std::vector<View> train;
  std::vector<View> test;
  // Runs of pixels of `train` that training draws from (FindShownRuns); empty: from all.
  std::vector<uint32_t> shown_runs;
  // Of the largest training picture in its file, before it was reduced; 0: not known.
  int picture_width = 0, picture_height = 0;
  // Of COLMAP's points; every eighth point is held out, to measure depth at. Those held out also
  // have some of the depth maps.
  std::vector<SeenPoint> points, held_out_points;
  std::vector<DepthMap> depth_maps;   // where they were asked for
  std::vector<std::string> warnings;  // shown to the user once
};

// "blender", "instant-ngp", "nerfstudio", "colmap".
const char* SceneFlavorName(SceneFlavor flavor);
std::optional<SceneFlavor> SceneFlavorFromName(const std::string& name);

}  // namespace nerf
