#include "client/show/view_folder.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "common/files/atomic_file.h"
#include "common/files/file_io.h"
#include "common/messages/render_channel.h"
#include "common/status_macros.h"
#include "engine/scene/pictures/image_compare.h"
#include "engine/scene/pictures/image_io.h"
#include "engine/views/contact_sheet.h"
#include "engine/views/view_files.h"
#include "fmt/format.h"

namespace nerf {
namespace {

// EXR files have each depth as it is; others share a scale.
bool HasDepthMaps(const RenderPlan& plan) { return plan.Has(v1::DEPTH) && !plan.is_exr(); }

}  // namespace

ViewFolder::ViewFolder(std::string path)
    : path_(std::move(path)), older_(ViewFilesIn(path_)), depths_(std::make_unique<DepthSpool>()) {}

absl::StatusOr<ViewFolder> ViewFolder::Open(const std::string& path) {
  std::string folder = path;
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  std::error_code error;
  std::filesystem::path there = std::filesystem::absolute(folder, error).lexically_normal();
  while (there.has_relative_path() && !std::filesystem::exists(there, error)) {
    there = there.parent_path();
  }
  if (!std::filesystem::is_directory(there, error) || access(there.c_str(), W_OK | X_OK) != 0) {
    return absl::InvalidArgumentError(
        fmt::format("--out: {} is not a folder to write to and cannot be made", path));
  }
  return ViewFolder(std::move(folder));
}

absl::Status ViewFolder::Make() {
  std::error_code error;
  made_ |= std::filesystem::create_directories(path_, error);
  return error ? ErrnoToStatus(error.value(), fmt::format("cannot make {}", path_))
               : absl::OkStatus();
}

std::string ViewFolder::FileOf(v1::RenderChannel channel, size_t index,
                               const RenderPlan& plan) const {
  return fmt::format("{}_{}.{}", ChannelWord(channel), plan.NameOf(index), plan.ending());
}

std::vector<std::string> ViewFolder::ReplacedFiles(const RenderPlan& plan, bool sheet) const {
  std::set<std::string> names;
  const auto add = [&](std::string name) {
    if (older_.contains(name)) names.insert(std::move(name));
  };
  for (size_t i = 0; i < plan.n_views; ++i) {
    for (const v1::RenderChannel channel : plan.channels) add(FileOf(channel, i, plan));
    if (HasDepthMaps(plan)) add(fmt::format("depth_color_{}.png", plan.NameOf(i)));
    if (!plan.PhotographOf(i).empty()) add("compare.png");
  }
  if (HasDepthMaps(plan)) add("depth.json");
  if (sheet) add("sheet.png");
  return {names.begin(), names.end()};
}

absl::Status ViewFolder::WriteView(size_t index, const RenderPlan& plan,
                                   const v1::RenderImageResponse& response) {
  NERF_RETURN_IF_ERROR(Make());
  for (const v1::RenderChannel channel : plan.channels) {
    const auto image =
        std::find_if(response.images().begin(), response.images().end(),
                     [&](const auto& candidate) { return candidate.channel() == channel; });
    if (image == response.images().end() || image->content().empty()) {
      return absl::InternalError(fmt::format("the server sent no {} image", ChannelWord(channel)));
    }
    if (channel == v1::DEPTH && !plan.is_exr()) {
      NERF_RETURN_IF_ERROR(AddDepths(plan.NameOf(index), image->content(), response.far()));
      continue;
    }
    const std::string path = path_ + "/" + FileOf(channel, index, plan);
    NERF_RETURN_IF_ERROR(WriteFileAtomically(path, image->content()));
    written_.push_back(path);
    if (channel != v1::RGB && channel != v1::RGBA) continue;
    color_views_.push_back(path);
    // Photographs show what a box leaves out.
    NERF_RETURN_IF_ERROR(UseColors(path, response.has_crop() ? "" : plan.PhotographOf(index)));
  }
  return absl::OkStatus();
}

absl::Status ViewFolder::AddDepths(const std::string& name, const std::string& png, double far) {
  if (!(far > 0) || !std::isfinite(far)) {
    return absl::InternalError("the server sent a depth map without its far distance");
  }
  const absl::StatusOr<GrayImage16> image = DecodePng16(png);
  if (!image.ok()) {
    return absl::InternalError("the server's depth map cannot be read: " +
                               std::string(image.status().message()));
  }
  std::vector<float> depths;
  depths.reserve(image->pixels.size());
  for (const uint16_t gray : image->pixels) {
    depths.push_back(static_cast<float>(gray * far / 65535));
  }
  far_ = std::max(far_, far);
  return depths_->Append(name, image->width, image->height, depths);
}

absl::Status ViewFolder::UseColors(const std::string& file, const std::string& photograph) {
  const bool has_video = video_ != nullptr && video_status_.ok();
  if (photograph.empty() && !has_video) return absl::OkStatus();
  NERF_ASSIGN_OR_RETURN(const ImageU8 view, DecodeImage(file));
  if (has_video) video_status_ = video_->Add(view, {});
  if (photograph.empty()) return absl::OkStatus();
  // Photographs with alpha are shown on white, as models of them are unless the job says black.
  const absl::StatusOr<ImageU8> real = PhotographAs(photograph, view.width, view.height, {1, 1, 1});
  // Only the engine decodes HEIC, AVIF and WebP.
  if (absl::IsFailedPrecondition(real.status())) return absl::OkStatus();
  NERF_RETURN_IF_ERROR(real.status());
  comparison_.Add(*real, CompositedOn(view, {1, 1, 1}), photograph);
  return absl::OkStatus();
}

void ViewFolder::AddVideo(VideoWriter video) {
  video_ = std::make_unique<VideoWriter>(std::move(video));
}

absl::Status ViewFolder::Finish() {
  NERF_RETURN_IF_ERROR(depths_->WriteImages(path_, static_cast<float>(far_), &written_));
  if (comparison_.n_views() == 0) return absl::OkStatus();
  written_.push_back(path_ + "/compare.png");
  return comparison_.Write(written_.back());
}

absl::Status ViewFolder::FinishVideo(const std::stop_token& stop) {
  if (video_ == nullptr) return absl::OkStatus();
  if (video_status_.ok()) video_status_ = video_->Finish(stop);
  return video_status_;
}

absl::Status ViewFolder::WriteSheet() {
  const std::string sheet = (std::filesystem::path(path_) / "sheet.png").string();
  NERF_RETURN_IF_ERROR(WriteContactSheet(color_views_, sheet));
  written_.push_back(sheet);
  return absl::OkStatus();
}

void ViewFolder::RemoveIfEmpty() const {
  std::error_code ignored;
  if (made_ && written_.empty()) std::filesystem::remove(path_, ignored);  // fails unless empty
}

void ViewFolder::RemoveImages() {
  std::error_code ignored;
  for (const std::string& path : written_) std::filesystem::remove(path, ignored);
  written_.clear();
  RemoveIfEmpty();
}

std::vector<std::string> ViewFolder::OlderFiles() const {
  std::set<std::string> left = older_;
  for (const std::string& path : written_) {
    left.erase(std::filesystem::path(path).filename().string());
  }
  return {left.begin(), left.end()};
}

}  // namespace nerf
