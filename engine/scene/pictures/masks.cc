#include "engine/scene/pictures/masks.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace nerf {
namespace {

// instant-ngp's mask of a picture.
std::string FindDynamicMask(const SceneFolder& folder, const std::string& image_file) {
  const size_t name = image_file.rfind('/') + 1;
  const std::string stem = image_file.substr(name, image_file.rfind('.') - name);
  return folder.FindFile(absl::StrCat(image_file.substr(0, name), "dynamic_mask_", stem, ".png"))
      .value_or("");
}

}  // namespace

std::string FindMask(const SceneFolder& folder, std::string_view image_file) {
  const std::string file(image_file);
  for (const char* images : {"images", "input"}) {
    // "images/", "images_4/", in whichever folder.
    const size_t at = absl::StartsWith(file, images) ? 0 : file.find(absl::StrCat("/", images));
    if (at == std::string::npos) continue;
    const size_t begin = at == 0 ? 0 : at + 1, end = file.find('/', begin);
    const std::string reduction = file.substr(begin, end - begin).substr(std::strlen(images));
    if (end == std::string::npos || (!reduction.empty() && reduction[0] != '_')) continue;
    for (const std::string& masks : {"masks" + reduction, std::string("masks")}) {
      const std::string name = absl::StrCat(file.substr(0, begin), masks, file.substr(end));
      const std::string stem = name.substr(0, name.rfind('.'));
      for (const std::string& candidate :
           {name + ".png", stem + ".png", name + ".PNG", stem + ".PNG", name, stem + ".jpg"}) {
        absl::StatusOr<std::string> found = folder.FindFile(candidate);
        if (found.ok()) return *std::move(found);
      }
    }
  }
  return "";
}

std::string SharedMaskText(std::string_view first, std::string_view second) {
  const auto mask_of = [](std::string_view file) {
    return absl::StrCat(Printable(file.substr(file.rfind('/') + 1)), ".png");
  };
  return absl::StrCat("may belong to ", Printable(first), " or to ", Printable(second),
                      ": name it ", mask_of(first), " or ", mask_of(second));
}

FoundMask FolderMasks::Find(const std::string& image_file) {
  std::string mask = FindMask(folder_, image_file);
  const bool is_inverted = mask.empty();
  if (is_inverted) mask = FindDynamicMask(folder_, image_file);
  if (mask.empty()) return {};
  const std::string in = image_file.substr(0, image_file.rfind('/'));
  const std::string& owner = owners_.emplace(std::pair(mask, in), image_file).first->second;
  if (owner != image_file) problems_.Add(mask, "", SharedMaskText(owner, image_file));
  return {std::move(mask), is_inverted};
}

absl::Status ApplyMask(const ImageU8& mask, ImageU8* image, bool is_inverted) {
  constexpr double kMaxAspectDifference = 0.01;
  const double aspect = static_cast<double>(mask.width) / mask.height;
  const double wanted = static_cast<double>(image->width) / image->height;
  if (std::abs(aspect / wanted - 1) > kMaxAspectDifference) {
    return absl::InvalidArgumentError(
        absl::StrFormat("is %dx%d, its picture %dx%d: a mask has its picture's shape", mask.width,
                        mask.height, image->width, image->height));
  }
  if (image->n_channels == 4)
    return absl::InvalidArgumentError("belongs to a picture with alpha; one of them can be used");
  const auto width = static_cast<size_t>(image->width), height = static_cast<size_t>(image->height);
  const int white = HoldsTruthValues(mask) ? 255 : 1;
  std::vector<uint8_t> pixels(4 * width * height);
  const uint8_t* from = image->pixels.data();
  uint8_t* to = pixels.data();
  for (size_t y = 0; y < height; ++y) {
    // The nearest pixels of the mask.
    const size_t mask_y = (2 * y + 1) * static_cast<size_t>(mask.height) / (2 * height);
    const uint8_t* const row =
        mask.pixels.data() + mask_y * static_cast<size_t>(mask.width) * mask.n_channels;
    for (size_t x = 0; x < width; ++x, from += image->n_channels, to += 4) {
      const size_t mask_x = (2 * x + 1) * static_cast<size_t>(mask.width) / (2 * width);
      for (int channel = 0; channel < 3; ++channel)
        to[channel] = from[image->n_channels == 3 ? channel : 0];
      const auto value = static_cast<uint8_t>(white * row[mask_x * mask.n_channels]);
      to[3] = is_inverted ? static_cast<uint8_t>(255 - value) : value;
    }
  }
  image->n_channels = 4;
  image->pixels = std::move(pixels);
  return absl::OkStatus();
}

bool HoldsTruthValues(const ImageU8& mask) {
  uint8_t largest = 0;
  for (size_t i = 0; i < mask.pixels.size(); i += mask.n_channels)
    largest = std::max(largest, mask.pixels[i]);
  return largest == 1;
}

MaskUse UseOf(const ImageU8& image) {
  MaskUse use;
  use.n_pixels = static_cast<double>(image.width) * image.height;
  use.is_masked = image.n_channels == 4;
  if (!use.is_masked) {
    use.kept = use.n_pixels;
    return use;
  }
  uint64_t sum = 0;
  for (size_t i = 3; i < image.pixels.size(); i += 4) sum += image.pixels[i];
  use.kept = static_cast<double>(sum) / 255;
  return use;
}

void JudgeMasks(const std::vector<MaskUse>& pictures, const std::string& first_mask,
                bool are_inverted, std::vector<std::string>* warnings, Problems* problems) {
  constexpr double kMinKept = 0.01, kAll = 0.9995;
  const char* const counts = are_inverted ? "black" : "white";
  const char* const left_out = are_inverted ? "white" : "black";
  MaskUse all;
  int n_truth = 0;
  for (const MaskUse& picture : pictures) {
    all.kept += picture.kept;
    all.n_pixels += picture.n_pixels;
    all.is_masked = all.is_masked || picture.is_masked;
    n_truth += picture.is_truth;
  }
  if (!all.is_masked || all.n_pixels == 0) return;
  if (n_truth > 0) {
    warnings->push_back(
        absl::StrCat(n_truth, " masks hold 0 and 1 alone; they are read as 0 and 255"));
  }
  const double kept = all.kept / all.n_pixels;
  if (kept > kAll) return;
  if (kept >= kMinKept) {
    warnings->push_back(
        absl::StrFormat("masks leave %.0f%% of the training pictures' pixels; %s is what counts",
                        100 * kept, counts));
    return;
  }
  problems->Add(
      first_mask, "",
      absl::StrFormat(
          "the masks leave %.2g%% of the training pictures' pixels, less than 1%%: %s", 100 * kept,
          all.kept == 0
              ? absl::StrFormat("all of them are %s, and %s is what counts", left_out, counts)
              : absl::StrFormat("%s is what counts; they are likely inverted, %s for what they "
                                "should keep",
                                counts, left_out)));
}

}  // namespace nerf
