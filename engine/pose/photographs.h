#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/parallel_for.h"
#include "engine/pose/exif.h"

namespace nerf {

// What somebody hands in to be posed.
struct PhotoSources {
  struct Picture {
    std::string path;
    std::string name;  // shown to people: the file's name, or a film's and the time in it
    std::string file;  // wanted in images/
  };
  std::vector<Picture> pictures;        // by name
  std::vector<std::string> films;       // paths
  std::vector<std::string> unreadable;  // "IMG_1.heic: HEIC is not read: ..."
};

// Lists `path`: a folder's pictures and films (those of its images/ where it has no other picture),
// or one film. Not the folders in it. Files of other kinds are ignored; pictures of formats that
// are not read are named. Symbolic links are followed. Errors: NotFound; InvalidArgument where
// there is neither a picture nor a film.
absl::StatusOr<PhotoSources> ListPhotoSources(const std::string& path);

// One photograph on its way to COLMAP.
struct Photo {
  std::string name;           // shown to people
  std::string file;           // in images/; empty: it was left out
  int width = 0, height = 0;  // as it is to be seen
  ExifTags exif;
  double sharpness = 0;     // Sharpness()
  bool is_blurred = false;  // much less sharp than most of the others
  int lens = -1;          // photographs with equal numbers were taken through one lens at one zoom
  std::string double_of;  // name of the photograph that shows the same
  std::string error;      // why it cannot be read
  std::vector<float> fingerprint;
};

struct PrepareOptions {
  ThreadPool* pool = nullptr;  // borrowed for the call
  std::stop_token stop;
  std::function<void(size_t done, size_t of)> on_progress;  // on the caller's thread
};

// Copies the pictures into `out`, which exists, under names without blanks, with their EXIF
// orientation applied and taken off; finds doubles, blur and lenses. Doubles and damaged pictures
// are not copied. Errors: Cancelled; what writing says.
absl::StatusOr<std::vector<Photo>> PreparePhotos(const std::vector<PhotoSources::Picture>& pictures,
                                                 const std::string& out,
                                                 const PrepareOptions& options);

// Sets is_blurred and lens. Part of PreparePhotos.
void FindBlurAndLenses(std::vector<Photo>* photos);

// "OLYMPUS E-M1, 12 mm, 4608x3456".
std::string LensWords(const Photo& photo);

}  // namespace nerf
