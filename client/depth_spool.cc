#include "client/depth_spool.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "common/atomic_file.h"
#include "common/status_macros.h"
#include "engine/scene/image_io.h"
#include "fmt/format.h"

namespace nerf {
namespace {

// The map with 65535 standing for `to` instead of `from`. Requires: from <= to.
absl::StatusOr<std::string> Rescaled(const std::string& png, double from, double to) {
  absl::StatusOr<GrayImage16> image = DecodePng16(png);
  if (!image.ok()) {
    return absl::InternalError("the server's depth map cannot be read: " +
                               std::string(image.status().message()));
  }
  for (uint16_t& gray : image->pixels) {
    gray = static_cast<uint16_t>(std::lround(gray * (from / to)));
  }
  return EncodePng16(image->width, image->height, image->pixels);
}

}  // namespace

DepthSpool::DepthSpool() : file_(std::tmpfile()) {}

DepthSpool::~DepthSpool() {
  if (file_ != nullptr) std::fclose(file_);
}

absl::Status DepthSpool::Append(const std::string& png, double far) {
  if (!(far > 0) || !std::isfinite(far)) {
    return absl::InternalError("the server sent a depth map without its far distance");
  }
  if (file_ == nullptr || std::fwrite(png.data(), 1, png.size(), file_) != png.size()) {
    return absl::UnavailableError("cannot write a temporary file for depth maps");
  }
  entries_.push_back({png.size(), far});
  far_ = std::max(far_, far);
  return absl::OkStatus();
}

absl::Status DepthSpool::WriteImages(const std::string& out, std::vector<std::string>* written) {
  if (file_ != nullptr) std::rewind(file_);
  for (size_t i = 0; i < entries_.size(); ++i) {
    std::string png(entries_[i].byte_size, '\0');
    if (std::fread(png.data(), 1, png.size(), file_) != png.size()) {
      return absl::UnavailableError("cannot read the temporary file for depth maps");
    }
    if (entries_[i].far != far_) {
      NERF_ASSIGN_OR_RETURN(std::string rescaled, Rescaled(png, entries_[i].far, far_));
      png = std::move(rescaled);
    }
    written->push_back(fmt::format("{}/depth_{:04}.png", out, i));
    NERF_RETURN_IF_ERROR(WriteFileAtomically(written->back(), png));
  }
  // Same keys and digits as nerf-engine writes: far as a float.
  nlohmann::ordered_json meta;
  meta["far"] = static_cast<float>(far_);
  meta["unit"] = "scene units of the data set";
  meta["encoding"] = "depth / far * 65535; 0: nothing was hit";
  written->push_back(out + "/depth.json");
  return WriteFileAtomically(written->back(), meta.dump() + "\n");
}

}  // namespace nerf
