#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/scene/depth_files.h"
#include "engine/scene/files/problem_text.h"
#include "engine/scene/pose.h"

namespace nerf {

enum class ViewSplit { kUndecided, kTrain, kTest, kUnused };

inline constexpr double kMaxDistortion = 100;  // of a coefficient's size

// Intrinsics as a file states them, before the size of the image is known. Lengths in pixels,
// angles in radians.
struct Intrinsics {
  std::string model;  // "OPENCV"; empty: not stated
  std::optional<double> width, height;
  std::optional<double> focal[2];  // x, y
  std::optional<double> angle[2];  // full field of view; used where focal is unset
  // The fields that they were read from, for messages.
  std::string focal_field[2];
  std::string center_field[2];
  std::string size_field;
  std::string distortion_field;
  std::optional<double> cx, cy;
  double k1 = 0, k2 = 0, k3 = 0, p1 = 0, p2 = 0, k4 = 0, k5 = 0, k6 = 0;
  // kFisheye and kEquirectangular are stated by `model`; the others follow from the distortion.
  LensModel lens = LensModel::kPinhole;
  bool is_broken = false;  // a problem was reported: do not resolve

  bool operator==(const Intrinsics&) const = default;
};

// The camera of an image of the given size. Intrinsics for another size of the same aspect ratio
// (within 1%) are rescaled, and *rescaled is set. Nullopt after adding a problem of `file`, whose
// message calls the image `image`.
std::optional<Camera> ResolveCamera(const Intrinsics& intrinsics, int image_width, int image_height,
                                    std::string_view file, std::string_view image, bool* rescaled,
                                    Problems* problems);

// The stated model's name; if none is stated, OPENCV with distortion and PINHOLE without.
std::string CameraModelName(const Intrinsics& intrinsics);

// Where a picture shows a point of the scene.
struct PointInPicture {
  Vec3d position;  // own frame
  float x, y;      // pixels of the size that the intrinsics are for
};

// An image that a data set lists, with its pose. The file exists.
struct ListedView {
  std::string file;       // relative to the folder
  std::string list_file;  // the file that lists it, or of COLMAP its camera
  std::string pose_file;  // of COLMAP the file that lists it; else empty
  std::string field;      // "frames[3]", "line 12", "image 7"
  std::string mask_file;  // as `file`; empty: none is named
  DepthFile depth = {};
  Pose pose;        // own frame
  uint32_t id = 0;  // in a COLMAP model
  float time = 0;   // as Camera has it
  Intrinsics intrinsics;
  ViewSplit split = ViewSplit::kUndecided;
  std::vector<PointInPicture> seen_points;  // some of them, where the data set says so

  // The file that holds the pose.
  const std::string& PoseFile() const { return pose_file.empty() ? list_file : pose_file; }
};

// Whether they are the same picture with the same camera, wherever they are listed.
bool IsSameView(const ListedView& a, const ListedView& b);

// A point of the scene that photographs show, in the own frame.
struct ScenePoint {
  Vec3d position = {0, 0, 0};
  uint32_t n_views = 0;          // that show it
  std::vector<uint32_t> images;  // their ids (ListedView::id), where the data set has any
};

// Where a scene lies, as placement.json says.
struct GivenPlacement {
  Similarity own_to_training;  // of own - origin
  Vec3d origin = {0, 0, 0};
  Aabb box;
  int n_levels = 1;
};

// The result of a data set reader.
struct ListedViews {
  std::vector<ListedView> views;
  Vec3d origin = {0, 0, 0};  // subtracted from all positions (SubtractOrigin)
  SceneFlavor flavor = SceneFlavor::kBlender;
  double ngp_scale = 0.33;
  Vec3d ngp_offset = {0.5, 0.5, 0.5};
  int aabb_scale = 1;
  bool has_ngp_box = false;                 // the file names scale, offset or aabb
  std::optional<GivenPlacement> placement;  // goes before what follows from the flavor
  double near_bound = 0, far_bound = 0;     // of what the cameras see, own units; 0: unknown
  std::string source;                       // SceneDescription::source
  std::vector<std::string> files;           // SceneDescription::list_files
  std::vector<ScenePoint> points;           // where the data set has any
  std::string given_split;                  // files or fields that state the split; empty: none
  int n_listed = 0;
  int n_missing = 0;
  int n_unposed = 0;                      // pictures in picture_folder
  std::string picture_folder = "images";  // of a COLMAP model
  // The pictures are reduced ones in place of those that the file was made for: another size than
  // it says is no surprise.
  bool is_reduced = false;
  std::string first_missing;
  std::vector<std::string> warnings;
};

}  // namespace nerf
