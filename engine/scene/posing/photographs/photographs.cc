#include "engine/scene/posing/photographs/photographs.h"

#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <semaphore>
#include <set>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/files/atomic_file.h"
#include "common/files/nearest_path.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "engine/base/picture_names.h"
#include "engine/scene/decode_views.h"
#include "engine/scene/files/scene_files.h"
#include "engine/scene/pictures/image_io.h"
#include "engine/scene/posing/photographs/panorama.h"
#include "engine/scene/posing/photographs/photo_masks.h"
#include "engine/scene/posing/photographs/photo_measures.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;

constexpr int kMeasuredPhotographSide = 800;  // pixels of the longer side
constexpr double kDoubleDistance = 0.02;      // of fingerprints
constexpr double kBlurShare = 0.6;  // of the median sharpness; below it a picture is blurred
constexpr double kBlurred = 0.2;    // below it a picture is blurred in any set
constexpr int kTurnedQuality = 95;  // of a JPEG that is encoded again

std::string LowerExtension(const fs::path& path) {
  std::string extension = path.extension().string();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return extension;
}

// The name in images/ of a picture that COLMAP does not read: a JPEG's.
std::string CopyName(const std::string& name) {
  const std::string extension = LowerExtension(name);
  const bool is_kept = extension == ".jpg" || extension == ".jpeg" || extension == ".png";
  return is_kept ? name : fs::path(name).replace_extension(".jpg").string();
}

// A name to which prefixes and endings can be added within what file systems allow.
std::string ShortName(const std::string& name) {
  constexpr size_t kMaxBytes = 200;
  const std::string extension = fs::path(name).extension().string();
  if (name.size() <= kMaxBytes || extension.size() >= kMaxBytes) return name;
  size_t size = kMaxBytes - extension.size();
  while (size > 1 && (name[size] & 0xc0) == 0x80) --size;  // within a character of UTF-8
  return name.substr(0, size) + extension;
}

// A name without blanks, which end a name in COLMAP's lists.
std::string SafeName(const std::string& name) {
  std::string safe = name;
  for (char& c : safe) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= 0x20 || byte == 0x7f || c == '\\' || c == '/') c = '_';
  }
  if (safe[0] == '#' || safe[0] == '-') safe[0] = '_';  // a comment, a flag
  return safe;
}

void ListFolder(const fs::path& folder, PhotoSources* sources) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    const std::string name = entry->path().filename().string();
    if (name[0] == '.' || !entry->is_regular_file(ignored)) continue;
    const std::string extension = LowerExtension(entry->path());
    if (HasPhotographEnding(name)) {
      sources->pictures.push_back(
          {entry->path().string(), Printable(name), SafeName(CopyName(name))});
    } else if (HasFilmEnding(name)) {
      sources->films.push_back(entry->path().string());
    } else if (HasOtherPictureEnding(name)) {
      sources->unreadable.push_back(absl::StrCat(Printable(name), ": ", extension.substr(1),
                                                 " is not read: save it as JPEG or PNG"));
    }
  }
}

absl::Status PrepareOne(const PhotoSources::Picture& picture, const std::string& out,
                        const std::string& masks, Photo* photo) {
  const auto unusable = [&](const absl::Status& status) {
    photo->error = std::string(status.message());
    photo->file.clear();
    return absl::OkStatus();
  };
  const ImageLimits limits;
  absl::StatusOr<std::string> bytes = ReadRegularFile(picture.path, limits.max_file_bytes);
  if (!bytes.ok()) return unusable(bytes.status());
  absl::StatusOr<ImageU8> image = DecodeImageBytes(*bytes, limits);
  if (!image.ok()) return unusable(image.status());
  const absl::StatusOr<ImageHeader> header = ParseImageHeader(*bytes);
  const bool is_heif = header.ok() && header->format == ImageFormat::kHeif;
  const bool is_copied = !is_heif && !(header.ok() && header->format == ImageFormat::kWebp);
  const std::string exif(is_copied ? FindExif(*bytes) : FindExifAnywhere(*bytes));
  photo->exif = ParseExif(exif);
  if (is_heif) photo->exif.orientation = 1;  // its decoder has turned it
  const bool is_turned = photo->exif.orientation != 1;
  if (is_turned) *image = Upright(*image, photo->exif.orientation);
  photo->width = image->width;
  photo->height = image->height;
  const GrayImage gray = ReducedGray(*image, kMeasuredPhotographSide);
  photo->sharpness = Sharpness(gray);
  photo->fingerprint = Fingerprint(gray);
  photo->is_panorama =
      image->width == 2 * image->height && (SaysEquirectangular(*bytes) || ClosesAround(gray));
  // JPEG has no alpha.
  if ((is_turned || !is_copied) && image->n_channels == 4) *image = WithoutAlphaChannel(*image);
  photo->has_alpha = image->n_channels == 4;
  photo->mask_use = UseOf(*image);
  if (!masks.empty() && !picture.mask.empty()) {
    NERF_ASSIGN_OR_RETURN(photo->mask_use,
                          WritePhotoMask(picture.mask, *image, photo->exif.orientation,
                                         absl::StrCat(masks, "/", photo->file, ".png")));
  }
  if (is_turned || !is_copied) {
    NERF_ASSIGN_OR_RETURN(const std::string upright, EncodeJpeg(*image, kTurnedQuality));
    *bytes = WithExif(upright, WithoutOrientation(exif));
  }
  return WriteFileAtomically(absl::StrCat(out, "/", photo->file), *bytes);
}

// The masks of `path`/masks that belong to its pictures, wherever in it those are.
void FindMasks(const std::string& path, PhotoSources* sources) {
  const absl::StatusOr<SceneFolder> folder = SceneFolder::Open(path, /*follow_links=*/true);
  if (!folder.ok() || !folder->HasFolder("masks")) return;
  for (PhotoSources::Picture& picture : sources->pictures) {
    const std::string name = fs::path(picture.path).filename().string();
    const std::string mask = FindMask(*folder, "images/" + name);
    if (!mask.empty()) picture.mask = folder->PathOf(mask);
  }
}

std::string MaskName(const PhotoSources::Picture& picture) {
  return "masks/" + Printable(fs::path(picture.mask).filename().string());
}

std::string StemOf(const std::string& name) { return name.substr(0, name.rfind('.')); }

// Errors: InvalidArgument of a mask that two photographs would have, of masks that leave next to
// nothing, or of some beside pictures with alpha.
absl::Status CheckMasks(const std::vector<PhotoSources::Picture>& pictures,
                        const std::vector<Photo>& photos) {
  std::vector<MaskUse> uses;
  for (const Photo& photo : photos) uses.push_back(photo.mask_use);
  const auto masked = std::find_if(pictures.begin(), pictures.end(),
                                   [](const auto& picture) { return !picture.mask.empty(); });
  if (masked == pictures.end()) return absl::OkStatus();
  std::map<std::string, const Photo*> owners;  // by mask
  for (size_t i = 0; i < pictures.size(); ++i) {
    if (pictures[i].mask.empty() || photos[i].file.empty()) continue;
    const auto [owner, is_first] = owners.emplace(pictures[i].mask, &photos[i]);
    if (is_first) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        MaskName(pictures[i]), ": ", SharedMaskText(owner->second->name, photos[i].name)));
  }
  const auto with_alpha = std::find_if(photos.begin(), photos.end(),
                                       [](const Photo& photo) { return photo.has_alpha; });
  if (with_alpha != photos.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat(with_alpha->name,
                     ": has alpha, and others have masks in masks/: take one of "
                     "them away, since one alone can be used"));
  }
  std::vector<std::string> warnings;  // the training repeats them
  Problems problems;
  JudgeMasks(uses, MaskName(*masked), /*are_inverted=*/false, &warnings, &problems);
  return problems.empty() ? absl::OkStatus() : absl::InvalidArgumentError(ToString(problems[0]));
}

void FindDoubles(std::vector<Photo>* photos) {
  for (size_t i = 0; i < photos->size(); ++i) {
    Photo& photo = (*photos)[i];
    if (!photo.error.empty()) continue;
    for (size_t j = 0; j < i && photo.double_of.empty(); ++j) {
      const Photo& other = (*photos)[j];
      if (!other.error.empty() || !other.double_of.empty()) continue;
      if (AreDoubles(photo, other)) photo.double_of = other.name;
    }
  }
}

}  // namespace

ImageU8 WithoutAlphaChannel(const ImageU8& image) {
  ImageU8 opaque{image.width, image.height, 3, {}};
  for (size_t i = 0; i < image.pixels.size(); i += 4)
    opaque.pixels.insert(opaque.pixels.end(),
                         {image.pixels[i], image.pixels[i + 1], image.pixels[i + 2]});
  return opaque;
}

absl::StatusOr<PhotoSources> ListPhotoSources(const std::string& path) {
  std::error_code error;
  PhotoSources sources;
  if (fs::is_regular_file(path, error)) {
    if (!HasFilmEnding(path)) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": is neither a folder with photographs nor a film (.mp4, .mov, .mkv, ...)"));
    }
    sources.films.push_back(path);
    return sources;
  }
  if (!fs::is_directory(path, error)) {
    return NoSuchFolder(path);
  }
  ListFolder(path, &sources);
  if (sources.pictures.empty() && fs::is_directory(fs::path(path) / "images", error)) {
    ListFolder(fs::path(path) / "images", &sources);
  }
  FindMasks(path, &sources);
  std::sort(sources.films.begin(), sources.films.end());
  std::sort(sources.unreadable.begin(), sources.unreadable.end());
  std::sort(sources.pictures.begin(), sources.pictures.end(),
            [](const auto& a, const auto& b) { return a.path < b.path; });
  if (sources.pictures.empty() && sources.films.empty()) {
    std::string message = absl::StrCat(path,
                                       ": there is no photograph (.jpg, .png, .heic, .avif, .webp) "
                                       "and no film in it or in its images/");
    if (!sources.unreadable.empty()) absl::StrAppend(&message, "; ", sources.unreadable[0]);
    return absl::InvalidArgumentError(message);
  }
  if (sources.pictures.size() > kMaxPictures) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", sources.pictures.size(), " photographs; at most ", kMaxPictures));
  }
  return sources;
}

void ForEachPicture(size_t n, const std::vector<std::string>& paths, const PrepareOptions& options,
                    const std::function<void(int64_t i, int thread)>& task) {
  std::counting_semaphore<> decoders(
      DecodesAtOnce(LargestDecoded(paths), options.max_memory_bytes, options.pool->n_threads()));
  options.pool->ParallelFor(static_cast<int64_t>(n), [&](int64_t i, int thread) {
    decoders.acquire();
    const absl::Cleanup release = [&] { decoders.release(); };
    task(i, thread);
  });
}

bool PhotoNames::IsFree(const std::string& name) const {
  return !names_.contains(name) && !stems_.contains(name) && !names_.contains(StemOf(name));
}

void PhotoNames::Add(const std::string& name) {
  names_.insert(name);
  stems_.insert(StemOf(name));
}

std::vector<size_t> FirstLinks(const std::vector<PhotoSources::Picture>& pictures) {
  std::vector<size_t> first_of(pictures.size());
  std::map<std::pair<dev_t, ino_t>, size_t> known;
  for (size_t i = 0; i < pictures.size(); ++i) {
    struct stat status {};
    first_of[i] = i;
    if (stat(pictures[i].path.c_str(), &status) != 0) continue;
    first_of[i] = known.emplace(std::pair(status.st_dev, status.st_ino), i).first->second;
  }
  return first_of;
}

absl::StatusOr<std::vector<Photo>> PreparePhotos(const std::vector<PhotoSources::Picture>& pictures,
                                                 const std::string& out,
                                                 const PrepareOptions& options) {
  std::vector<Photo> photos(pictures.size());
  PhotoNames names;
  std::vector<std::string> paths;
  for (size_t i = 0; i < pictures.size(); ++i) {
    photos[i].name = pictures[i].name;
    photos[i].note = pictures[i].note;
    const std::string wanted = ShortName(pictures[i].file);
    std::string file = wanted;
    for (int n = 2; !names.IsFree(file); ++n) file = absl::StrCat(n, "_", wanted);
    names.Add(file);
    photos[i].file = file;
    paths.push_back(pictures[i].path);
    if (!pictures[i].mask.empty()) paths.push_back(pictures[i].mask);
  }
  const std::vector<size_t> first_of = FirstLinks(pictures);
  Mutex mu;
  absl::Status first_error;
  size_t n_done = 0;
  ForEachPicture(photos.size(), paths, options, [&](int64_t i, int thread) {
    if (options.stop.stop_requested()) return;
    const auto at = static_cast<size_t>(i);
    absl::Status status;
    if (first_of[at] == at) {
      status = PrepareOne(pictures[at], out, options.masks, &photos[at]);
    }
    size_t done = 0;
    {
      MutexLock lock(mu);
      if (!status.ok() && first_error.ok()) first_error = std::move(status);
      done = ++n_done;
    }
    if (thread == 0 && options.on_progress) options.on_progress(done, photos.size());
  });
  if (options.stop.stop_requested()) {
    return absl::CancelledError("interrupted while reading photographs");
  }
  NERF_RETURN_IF_ERROR(first_error);
  for (size_t i = 0; i < photos.size(); ++i) {
    const Photo& first = photos[first_of[i]];
    if (first_of[i] == i) continue;
    Photo same = first;
    same.name = photos[i].name;
    same.file.clear();
    if (same.error.empty()) same.double_of = first.name;
    photos[i] = std::move(same);
  }
  FindDoubles(&photos);
  for (Photo& photo : photos) {
    if (photo.double_of.empty()) continue;
    std::error_code ignored;
    fs::remove(fs::path(out) / photo.file, ignored);
    if (!options.masks.empty())
      fs::remove(fs::path(options.masks) / (photo.file + ".png"), ignored);
    photo.file.clear();
  }
  if (!options.masks.empty()) NERF_RETURN_IF_ERROR(CheckMasks(pictures, photos));
  FindBlurAndLenses(&photos);
  return photos;
}

void FindBlurAndLenses(std::vector<Photo>* photos) {
  std::vector<double> sharpness;
  for (const Photo& photo : *photos) {
    if (!photo.file.empty()) sharpness.push_back(photo.sharpness);
  }
  if (sharpness.empty()) return;
  // The median of the sharper half, so that blur is found even if half of the set is blurred.
  const auto upper = sharpness.begin() + static_cast<int64_t>(sharpness.size() * 3 / 4);
  std::nth_element(sharpness.begin(), upper, sharpness.end());
  std::vector<const Photo*> lenses;
  for (Photo& photo : *photos) {
    if (photo.file.empty()) continue;
    photo.is_blurred = photo.sharpness < kBlurred || photo.sharpness < kBlurShare * *upper;
    const auto found = std::find_if(lenses.begin(), lenses.end(),
                                    [&](const Photo* lens) { return SameLens(*lens, photo); });
    photo.lens = static_cast<int>(found - lenses.begin());
    if (found == lenses.end()) lenses.push_back(&photo);
  }
}

bool SameLens(const Photo& a, const Photo& b) {
  return a.width == b.width && a.height == b.height && a.exif.make == b.exif.make &&
         a.exif.model == b.exif.model && a.exif.lens == b.exif.lens &&
         a.exif.focal_length_mm == b.exif.focal_length_mm;
}

bool AreDoubles(const Photo& a, const Photo& b) {
  return a.width * b.height == b.width * a.height &&
         FingerprintDistance(a.fingerprint, b.fingerprint) < kDoubleDistance;
}

std::string LensWords(const Photo& photo) {
  std::string words = photo.exif.model.empty() ? "" : photo.exif.model + ", ";
  if (photo.exif.focal_length_mm.has_value()) {
    absl::StrAppend(&words, absl::StrFormat("%.4g mm, ", *photo.exif.focal_length_mm));
  }
  return absl::StrCat(words, photo.width, "x", photo.height);
}

}  // namespace nerf
