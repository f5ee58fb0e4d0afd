#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/parallel_for.h"
#include "engine/scene/image_io.h"
#include "engine/scene/scene.h"
#include "engine/scene/scene_problem.h"

namespace nerf {

struct SceneOptions {
  // Where the data set gives no split: every Nth image by sorted name, the first included, is a
  // test view. 0: none. Unset: 8.
  std::optional<int> test_every;
  uint64_t memory_limit_bytes = 0;  // for the decoded images that are held at once; 0: no limit
  ThreadPool* pool = nullptr;       // borrowed for the call; unset: a pool of n_threads is made
  int n_threads = 0;                // 0: one for each core
  // DescribeScene: decode every image once to find damaged ones, as many at once as the limit
  // leaves room for. LoadScene: fill View::image.
  bool decode_images = true;
  ImageLimits image_limits = {};
  std::stop_token stop = {};  // leaves out the images that were not begun
  // Called on the caller's thread between two images whose header or pixels are read; or unset.
  std::function<void()> between_images = nullptr;
};

// A view without its pixels.
struct ViewDescription {
  std::string file;  // relative to the data set's folder
  Camera camera;     // in the training frame
  ImageHeader header;
};

// Everything but pixels. Complete where problems is empty, otherwise as far as it could be read.
struct SceneDescription {
  SceneGeometry geometry;
  bool has_alpha = false;
  std::vector<ViewDescription> train;  // sorted by file name
  std::vector<ViewDescription> test;
  std::string source;  // the files that gave the views: "transforms.json", "sparse/0 (binary)"
  std::vector<std::string> list_files;  // those files, each by its path in the folder
  std::string split;  // how the test views were chosen: "transforms_test.json", "every 8th image"
  std::vector<std::string> camera_models;  // distinct, sorted: "OPENCV 1080x1920"
  int n_listed = 0;                        // views that the data set lists
  int n_missing = 0;                       // of those, without an image file
  int n_unposed = 0;                       // images beside a COLMAP model that it does not place
  uint64_t image_bytes = 0;                // of all decoded images
  std::vector<SceneProblem> problems;      // errors: the data set is refused
  std::vector<std::string> warnings;       // the data set can be used all the same

  bool ok() const { return problems.empty(); }
};

// Finds out what lies in `dir` (transforms_{train,val,test}.json, transforms.json or a COLMAP
// model), reads all of it but the pixels and lists every problem. Never fails: a folder that does
// not exist is a problem, too. After a stop the description is incomplete, without a word of it.
SceneDescription DescribeScene(const std::string& dir, const SceneOptions& options = {});

// Reads and decodes a data set. All or nothing. Errors: NotFound when there is no folder `dir`;
// InvalidArgument when the data set has problems (all of them in *problems when given, the first
// few in the message); ResourceExhausted, before any pixel is decoded, when the images need more
// than memory_limit_bytes; Cancelled after a stop.
absl::StatusOr<Scene> LoadScene(const std::string& dir, const SceneOptions& options = {},
                                std::vector<SceneProblem>* problems = nullptr);

}  // namespace nerf
