#include "client/show/depth_spool.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "common/atomic_file.h"
#include "common/status_macros.h"
#include "engine/scene/image_io.h"
#include "fmt/format.h"

namespace nerf {
namespace {

absl::StatusOr<GrayImage16> Decoded(const std::string& png) {
  absl::StatusOr<GrayImage16> image = DecodePng16(png);
  if (image.ok()) return image;
  return absl::InternalError("the server's depth map cannot be read: " +
                             std::string(image.status().message()));
}

// The distances that the map's levels stand for.
std::vector<float> DistancesOf(const GrayImage16& image, double far) {
  std::vector<float> distances;
  distances.reserve(image.pixels.size());
  for (const uint16_t gray : image.pixels) {
    distances.push_back(static_cast<float>(gray * far / 65535));
  }
  return distances;
}

}  // namespace

DepthSpool::DepthSpool() : file_(std::tmpfile()) {}

DepthSpool::~DepthSpool() {
  if (file_ != nullptr) std::fclose(file_);
}

absl::Status DepthSpool::Append(const std::string& name, const std::string& png, double far) {
  if (!(far > 0) || !std::isfinite(far)) {
    return absl::InternalError("the server sent a depth map without its far distance");
  }
  NERF_ASSIGN_OR_RETURN(const GrayImage16 image, Decoded(png));
  range_.Add(DistancesOf(image, far));
  if (file_ == nullptr || std::fwrite(png.data(), 1, png.size(), file_) != png.size()) {
    return absl::UnavailableError("cannot write a temporary file for depth maps");
  }
  entries_.push_back({name, png.size(), far});
  far_ = std::max(far_, far);
  return absl::OkStatus();
}

absl::Status DepthSpool::WriteImages(const std::string& out, std::vector<std::string>* written) {
  if (file_ != nullptr) std::rewind(file_);
  const std::array<float, 2> bounds = range_.Bounds();
  for (const Entry& entry : entries_) {
    std::string png(entry.byte_size, '\0');
    if (std::fread(png.data(), 1, png.size(), file_) != png.size()) {
      return absl::UnavailableError("cannot read the temporary file for depth maps");
    }
    NERF_ASSIGN_OR_RETURN(GrayImage16 image, Decoded(png));
    written->push_back(fmt::format("{}/depth_color_{}.png", out, entry.name));
    NERF_RETURN_IF_ERROR(
        WritePng(written->back(),
                 DepthInColor(image.width, image.height, DistancesOf(image, entry.far), bounds)));
    if (entry.far != far_) {
      for (uint16_t& gray : image.pixels) {
        gray = static_cast<uint16_t>(std::lround(gray * (entry.far / far_)));
      }
      NERF_ASSIGN_OR_RETURN(png, EncodePng16(image.width, image.height, image.pixels));
    }
    written->push_back(fmt::format("{}/depth_{}.png", out, entry.name));
    NERF_RETURN_IF_ERROR(WriteFileAtomically(written->back(), png));
  }
  // Same keys and digits as nerf-engine writes: far as a float.
  nlohmann::ordered_json meta;
  meta["far"] = static_cast<float>(far_);
  meta["unit"] = "scene units of the data set";
  meta["encoding"] = "depth / far * 65535; 0: nothing was hit";
  meta["color_near"] = bounds[0];
  meta["color_far"] = bounds[1];
  written->push_back(out + "/depth.json");
  return WriteFileAtomically(written->back(), meta.dump() + "\n");
}

}  // namespace nerf
