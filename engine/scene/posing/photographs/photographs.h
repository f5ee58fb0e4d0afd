#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/parallel_for.h"
#include "engine/scene/pictures/exif.h"
#include "engine/scene/pictures/image.h"
#include "engine/scene/pictures/masks.h"

namespace nerf {

// The photographs and films to be posed.
struct PhotoSources {
  struct Picture {
    std::string path;
    std::string name;       // for people: the file's name, or the film's and the time in it
    std::string file;       // wanted name in images/
    std::string mask = {};  // path; empty: none
    std::string note = {};  // what people should know of its film; empty: nothing
  };
  std::vector<Picture> pictures;        // by name
  std::vector<std::string> films;       // paths
  std::vector<std::string> unreadable;  // "IMG_1.heic: HEIC is not read: ..."
};

inline constexpr size_t kMaxPictures = 5000;  // of a search, frames of films included

// Names of pictures such that no mask that FindMask finds for one is found for another: no name is
// another's, nor what another's is without its ending.
class PhotoNames {
 public:
  bool IsFree(const std::string& name) const;
  void Add(const std::string& name);

 private:
  std::set<std::string> names_, stems_;
};

// Lists `path`: a folder's pictures and films (those of its images/ if it has no other picture), or
// one film. Pictures have the masks of `path`/masks that FindMask (engine/scene/pictures/masks.h)
// finds. Other subfolders and files are ignored; pictures in unsupported formats are listed as
// unreadable. Symbolic links are followed. Errors: NotFound; InvalidArgument if there is neither a
// picture nor a film.
absl::StatusOr<PhotoSources> ListPhotoSources(const std::string& path);

// One photograph, prepared for COLMAP.
struct Photo {
  std::string name;           // shown to people
  std::string note;           // PhotoSources::Picture::note
  std::string file;           // name in images/; empty if it is left out
  int width = 0, height = 0;  // upright
  ExifTags exif;
  double sharpness = 0;      // Sharpness()
  bool is_blurred = false;   // much less sharp than most of the others
  int lens = -1;             // equal for photographs taken with the same lens and zoom
  bool is_panorama = false;  // shows all directions, as its XMP says or its borders
  std::string double_of;     // name of the photograph that shows the same
  std::string error;         // why it cannot be read
  MaskUse mask_use;          // what its mask leaves, or all; of those that can be read
  bool has_alpha = false;    // its copy has
  std::vector<float> fingerprint;
};

struct PrepareOptions {
  ThreadPool* pool = nullptr;  // borrowed for the call
  std::stop_token stop;
  std::function<void(size_t done, size_t of)> on_progress;  // on the caller's thread
  std::string masks = {};  // existing folder for masks/FILE.png of the pictures that have a mask
  uint64_t max_memory_bytes = 0;  // that pictures decoded side by side may take; 0: no limit
};

// Calls task(i, thread) for each of n pictures, of as many at once as fit into the memory if each
// decodes the largest of the files.
void ForEachPicture(size_t n, const std::vector<std::string>& paths, const PrepareOptions& options,
                    const std::function<void(int64_t i, int thread)>& task);

// Copies the pictures into `out`, which exists, under short names without blanks, turned upright by
// their EXIF orientation, which is removed; finds doubles, blur and lenses. Doubles and damaged
// pictures are not copied; of links to one file one is read. Errors: Cancelled; InvalidArgument of
// a mask that does not fit, of masks that leave less than 1%, and of masks beside copies with
// alpha, with which nothing trains; those of writing.
absl::StatusOr<std::vector<Photo>> PreparePhotos(const std::vector<PhotoSources::Picture>& pictures,
                                                 const std::string& out,
                                                 const PrepareOptions& options);

// By picture the first one that is the same file, by a hard link, as photographs are that a request
// names several times. Part of PreparePhotos.
std::vector<size_t> FirstLinks(const std::vector<PhotoSources::Picture>& pictures);

// Sets is_blurred and lens. Part of PreparePhotos.
void FindBlurAndLenses(std::vector<Photo>* photos);

// Whether they were taken with the same lens and zoom, as far as size and EXIF say.
bool SameLens(const Photo& a, const Photo& b);
// Whether they show the same picture, encoded anew perhaps.
bool AreDoubles(const Photo& a, const Photo& b);

// "OLYMPUS E-M1, 12 mm, 4608x3456".
std::string LensWords(const Photo& photo);

// The colors of a picture with alpha, alone.
ImageU8 WithoutAlphaChannel(const ImageU8& image);

}  // namespace nerf
