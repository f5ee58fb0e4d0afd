#include "engine/scene/decode_views.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <semaphore>
#include <string>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "engine/scene/picture_sink.h"
#include "engine/scene/pictures/exif.h"
#include "engine/scene/pictures/image_resize.h"

namespace nerf {
namespace {

// *is_truth: HoldsTruthValues of the mask.
absl::Status MaskImage(const SceneFolder& folder, const ViewDescription& view,
                       const ImageLimits& limits, ImageU8* image, bool* is_truth) {
  NERF_ASSIGN_OR_RETURN(const std::string bytes,
                        ReadRegularFile(folder.PathOf(view.mask_file), limits.max_file_bytes));
  NERF_ASSIGN_OR_RETURN(const ImageU8 mask, DecodeImageBytes(bytes, limits));
  *is_truth = HoldsTruthValues(mask);
  return ApplyMask(mask, image, view.mask_is_inverted);
}

}  // namespace

ptrdiff_t DecodesAtOnce(uint64_t largest_bytes, uint64_t limit_bytes, int n_threads) {
  // A decoder's own planes or coefficients, the picture, and one that is turned or reduced.
  constexpr uint64_t kHeldTimes = 4;
  const uint64_t fit = limit_bytes / std::max(kHeldTimes * largest_bytes, uint64_t{1});
  if (limit_bytes == 0 || fit >= static_cast<uint64_t>(n_threads)) return n_threads;
  return std::max(static_cast<ptrdiff_t>(fit), ptrdiff_t{1});
}

uint64_t LargestDecoded(const std::vector<std::string>& paths) {
  uint64_t largest = 0;
  for (const std::string& path : paths) {
    const absl::StatusOr<ImageHeader> header = ReadImageHeader(path);
    std::error_code error;
    const uint64_t bytes =
        header.ok() ? header->DecodedBytes() : std::filesystem::file_size(path, error);
    if (!error) largest = std::max(largest, bytes);
  }
  return largest;
}

namespace {

// Whether the file has the end of its format, so that it was not cut off. What some cameras append
// may hide it.
bool HasEnd(const std::string& path, ImageFormat format) {
  constexpr size_t kEnding = size_t{1} << 16;
  if (format != ImageFormat::kPng && format != ImageFormat::kJpeg) return true;
  const absl::StatusOr<std::string> ending = ReadEnd(path, kEnding);
  return ending.ok() &&
         ending->find(format == ImageFormat::kPng ? "IEND" : "\xff\xd9") != std::string::npos;
}

}  // namespace

std::vector<bool> ViewsToCheck(const SceneFolder& folder, const std::vector<ViewDescription>& views,
                               uint64_t max_pixels) {
  uint64_t n_pixels = 0;
  for (const ViewDescription& view : views) n_pixels += view.header.Pixels();
  std::vector<bool> wanted(views.size(), true);
  if (max_pixels == 0 || n_pixels <= max_pixels) return wanted;
  const double share = static_cast<double>(max_pixels) / static_cast<double>(n_pixels);
  double due = 1;  // the first is
  for (size_t i = 0; i < views.size(); ++i) {
    wanted[i] = due >= 1;
    due += share - (wanted[i] ? 1 : 0);
    if (!wanted[i]) wanted[i] = !HasEnd(folder.PathOf(views[i].file), views[i].header.format);
  }
  return wanted;
}

ImageU8 SizeOnly(const ViewDescription& view) {
  return {view.camera.width, view.camera.height, view.n_channels(), {}};
}

void DecodeViews(const SceneFolder& folder, const std::vector<ViewDescription>& descriptions,
                 const SceneOptions& options, ThreadPool* pool, const DecodedPictures& to,
                 Problems* problems) {
  std::vector<View>* const views = to.views;
  const ImageLimits& limits = options.image_limits;
  uint64_t largest = 0, kept = 0;
  std::vector<std::string> masks;
  for (const ViewDescription& view : descriptions) {
    largest = std::max(largest, view.header.DecodedBytes());
    if (!view.mask_file.empty()) masks.push_back(folder.PathOf(view.mask_file));
    if (views != nullptr && to.sink == nullptr) kept += view.DecodedBytes();
  }
  const uint64_t limit = options.memory_limit_bytes;
  if (kept == 0 && limit > 0 && largest > limit) {
    return problems->Add("", "",
                         absl::StrCat("its largest image does not fit in the ",
                                      options.memory_limit_bytes >> 20, " MiB that are available"));
  }
  // If all pictures are kept, the caller has checked that they fit.
  const uint64_t left = limit == 0 ? 0 : std::max(limit - std::min(limit, kept), uint64_t{1});
  std::counting_semaphore<> decoders(
      DecodesAtOnce(std::max(largest, LargestDecoded(masks)), left, pool->n_threads()));
  if (views != nullptr) views->resize(descriptions.size());
  if (to.mask_uses != nullptr) to.mask_uses->resize(descriptions.size());
  std::vector<std::string> messages(descriptions.size());
  const auto is_wanted = [&](size_t i) { return to.wanted == nullptr || (*to.wanted)[i]; };
  size_t n_wanted = 0;
  for (size_t i = 0; i < descriptions.size(); ++i) n_wanted += is_wanted(i);
  std::atomic<size_t> n_done = 0;
  pool->ParallelFor(static_cast<int64_t>(descriptions.size()), [&](int64_t index, int thread) {
    if (options.stop.stop_requested()) return;
    if (thread == 0 && options.between_images) options.between_images();
    const auto i = static_cast<size_t>(index);
    if (!is_wanted(i)) return;
    if (thread == 0 && options.on_pictures) options.on_pictures("pictures", n_done, n_wanted);
    const absl::Cleanup count = [&] { ++n_done; };
    const ViewDescription& description = descriptions[i];
    // The engine finds damage in it.
    if (views == nullptr && !CanDecode(description.header.format)) return;
    decoders.acquire();
    const absl::Cleanup release = [&] { decoders.release(); };
    absl::StatusOr<std::string> bytes =
        ReadRegularFile(folder.PathOf(description.file), limits.max_file_bytes);
    if (!bytes.ok()) {
      messages[i] = std::string(bytes.status().message());
      return;
    }
    absl::StatusOr<ImageU8> image = DecodeImageBytes(*bytes, limits);
    if (!image.ok()) {
      messages[i] = std::string(image.status().message());
      return;
    }
    if (description.orientation != 1) *image = Upright(*image, description.orientation);
    if (image->width != description.header.width || image->height != description.header.height ||
        image->n_channels != description.header.n_channels) {
      messages[i] = "the file changed while it was read";
      return;
    }
    bool is_truth = false;
    if (!description.mask_file.empty()) {
      const absl::Status masked = MaskImage(folder, description, limits, &*image, &is_truth);
      if (!masked.ok()) {
        messages[i] = absl::StrCat("mask ", description.mask_file, ": ", masked.message());
        return;
      }
    }
    if (to.mask_uses != nullptr) {
      (*to.mask_uses)[i] = UseOf(*image);
      (*to.mask_uses)[i].is_truth = is_truth;
    }
    if (views == nullptr) return;
    const int width = description.camera.width, height = description.camera.height;
    const bool is_reduced = width != image->width || height != image->height;
    ImageU8 reduced = is_reduced ? AreaResized(*image, width, height) : *std::move(image);
    if (to.sink == nullptr) {
      (*views)[i].image = std::move(reduced);
      return;
    }
    (*views)[i].image = SizeOnly(description);
    const absl::Status taken = to.sink->Take(i, reduced);
    if (!taken.ok()) messages[i] = std::string(taken.message());
  });
  for (size_t i = 0; i < descriptions.size(); ++i) {
    if (!messages[i].empty()) problems->Add(descriptions[i].file, "", messages[i]);
    if (views != nullptr) {
      (*views)[i].file = descriptions[i].file;
      (*views)[i].camera = descriptions[i].camera;
    }
  }
}

}  // namespace nerf
