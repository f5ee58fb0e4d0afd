#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/parallel_for.h"
#include "engine/base/placement.h"
#include "engine/base/scene_reading.h"
#include "engine/scene/depth_files.h"
#include "engine/scene/files/problem_text.h"
#include "engine/scene/pictures/image_io.h"
#include "engine/scene/scene.h"

namespace nerf {

class PictureSink;  // picture_sink.h

// How far the reading of pictures is: "headers of pictures", 120 of 300.
using OnPictures = std::function<void(std::string_view what, size_t done, size_t of)>;

// Of a check, about: ten seconds of two cores.
inline constexpr uint64_t kMaxCheckedPixels = 2'000'000'000;

struct SceneOptions {
  // If the data set states no split, every Nth image by sorted name, starting with the first, is a
  // test view. 0: none. Unset: 8.
  std::optional<int> test_every;
  Placement placement = {};         // where the scene lies, as far as the user says
  SceneReading reading = {};        // how its files are read, likewise
  bool alpha_is_mask = false;       // of images: Scene::alpha_is_mask
  uint64_t memory_limit_bytes = 0;  // for decoded images held at the same time; 0: no limit
  ThreadPool* pool = nullptr;       // borrowed for the call; unset: a pool of n_threads is made
  int n_threads = 0;                // 0: one per core
  // DescribeScene: decode every image to find damaged ones, within the memory limit. LoadScene:
  // fill View::image.
  bool decode_images = true;
  // DescribeScene with decode_images: of more pixels, pictures chosen evenly are decoded, and those
  // whose files do not end as they should. 0: all.
  uint64_t max_checked_pixels = kMaxCheckedPixels;
  // LoadScene: decode the depth files of the training views. DescribeScene with decode_images does
  // so for all views, to find damaged ones.
  bool with_depth = false;
  // LoadScene with decode_images: takes the pictures of the training views, whose View::image then
  // has sizes and no pixels. They do not count for memory_limit_bytes.
  PictureSink* train_sink = nullptr;
  // Larger pictures are reduced by averages, their intrinsics with them. The longer side in pixels;
  // 0: no limit.
  int max_side = 0;
  double max_test_pixels = 0;  // of a test view, besides; 0: no limit
  ImageLimits image_limits = {};
  // Too few pictures to train on are a problem.
  bool to_train = false;
  bool follow_links = false;  // symbolic links that lead out of the folder: for the user's own
  std::stop_token stop = {};  // after a stop no further image is read
  // If set, called on the caller's thread between reads of images or their headers.
  std::function<void()> between_images = nullptr;
  OnPictures on_pictures = nullptr;  // likewise
};

// A view without its pixels.
struct ViewDescription {
  std::string file;               // relative to the data set's folder
  std::string mask_file;          // likewise; empty: none. With a mask the decoded image has alpha.
  Camera camera;                  // in the training frame; of the reduced picture
  ImageHeader header;             // of the file, or of the upright picture
  DepthFile depth = {};           // that belongs to it
  int orientation = 1;            // by which the decoded picture is turned upright (ExifTags)
  bool mask_is_inverted = false;  // its white is left out

  // Of the decoded and reduced image.
  int n_channels() const { return mask_file.empty() ? header.n_channels : 4; }
  uint64_t DecodedBytes() const {
    return static_cast<uint64_t>(camera.width) * static_cast<uint64_t>(camera.height) *
           static_cast<uint64_t>(n_channels());
  }
};

// A data set without its pixels. Complete if problems is empty, else as far as it could be read.
struct SceneDescription {
  SceneGeometry geometry;
  bool has_alpha = false;
  bool alpha_is_mask = false;          // Scene::alpha_is_mask
  std::vector<ViewDescription> train;  // sorted by file name
  std::vector<ViewDescription> test;
  std::vector<SeenPoint> points, held_out_points;  // as in Scene
  // Depths of what views show, training units: LLFF's bounds, or by points (FindDepths); 0:
  // unknown.
  float nearest = 0, farthest = 0;
  std::string source;  // the files that list the views: "transforms.json", "sparse/0 (binary)"
  std::vector<std::string> list_files;  // those files, each by its path in the folder
  std::string split;  // how the test views were chosen: "transforms_test.json", "every 8th image"
  std::vector<std::string> camera_models;  // distinct, sorted: "OPENCV 1080x1920"
  int n_listed = 0;                        // views that the data set lists
  int n_missing = 0;                       // listed views without an image file
  int n_unposed = 0;                       // images that the COLMAP model has no pose for
  int n_checked = 0;                       // images that DescribeScene decoded
  uint64_t image_bytes = 0;                // of all images, decoded and reduced
  Problems problems;                       // errors: the data set is refused
  std::vector<std::string> warnings;       // the data set can be used

  bool ok() const { return problems.empty(); }
};

}  // namespace nerf
