#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/scene/pose.h"
#include "engine/scene/scene_problem.h"

namespace nerf {

enum class ViewSplit { kUndecided, kTrain, kTest, kUnused };

// Intrinsics as a file states them, before the size of the image is known. Lengths in pixels,
// angles in radians.
struct Intrinsics {
  std::string model;  // "OPENCV"; empty: not stated
  std::optional<double> width, height;
  std::optional<double> focal[2];  // x, y
  std::optional<double> angle[2];  // full field of view; used where focal is unset
  std::string focal_field[2];      // where they were found, for messages
  std::string size_field;
  std::optional<double> cx, cy;
  double k1 = 0, k2 = 0, k3 = 0, p1 = 0, p2 = 0;
  bool is_broken = false;  // a problem was reported: do not resolve
};

// Makes a camera for an image of the given size. Intrinsics for another size of the same shape
// (within 1 %) are rescaled, and *rescaled tells so. Nullopt after adding a problem of `file`;
// `image` names the picture in it.
std::optional<Camera> ResolveCamera(const Intrinsics& intrinsics, int image_width, int image_height,
                                    std::string_view file, std::string_view image, bool* rescaled,
                                    std::vector<SceneProblem>* problems);

// The model's name as stated, else as the distortion suggests.
std::string CameraModelName(const Intrinsics& intrinsics);

// One image with its pose, as a data set lists it, found on disk.
struct ListedView {
  std::string file;       // relative to the folder
  std::string list_file;  // the file that lists it
  std::string field;      // "frames[3]", "line 12", "image 7"
  Pose pose;              // own frame
  Intrinsics intrinsics;
  ViewSplit split = ViewSplit::kUndecided;
};

// What a reader found.
struct ListedViews {
  std::vector<ListedView> views;
  SceneFlavor flavor = SceneFlavor::kBlender;
  double ngp_scale = 0.33;
  Vec3d ngp_offset = {0.5, 0.5, 0.5};
  int aabb_scale = 1;
  std::string source;              // SceneDescription::source
  std::vector<std::string> files;  // SceneDescription::list_files
  std::string given_split;         // files or fields that give the split; empty: none
  int n_listed = 0;
  int n_missing = 0;
  int n_unposed = 0;
  std::string first_missing;
  std::vector<std::string> warnings;
};

}  // namespace nerf
