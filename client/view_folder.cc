#include "client/view_folder.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "client/contact_sheet.h"
#include "common/atomic_file.h"
#include "common/status_macros.h"
#include "fmt/format.h"

namespace nerf {
namespace {

// True for the names that a render gives its files.
bool IsOfRender(const std::string& name) {
  if (name == "depth.json" || name == "sheet.png") return true;
  return name.starts_with("rgb_") || name.starts_with("depth_") || name.starts_with("opacity_");
}

}  // namespace

ViewFolder::ViewFolder(std::string path, bool made)
    : path_(std::move(path)), made_(made), depths_(std::make_unique<DepthSpool>()) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(path_, ignored)) {
    const std::string name = entry.path().filename().string();
    if (IsOfRender(name)) older_.insert(name);
  }
}

absl::StatusOr<ViewFolder> ViewFolder::Open(const std::string& path) {
  std::string folder = path;
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  std::error_code error;
  const bool made = std::filesystem::create_directories(folder, error);
  if (error || !std::filesystem::is_directory(folder, error)) {
    return absl::InvalidArgumentError(
        fmt::format("--out: {} is not a folder and cannot be created", path));
  }
  return ViewFolder(std::move(folder), made);
}

absl::Status ViewFolder::WriteView(size_t index, const RenderPlan& plan,
                                   const v1::RenderImageResponse& response) {
  for (const RenderChannelName& channel : plan.channels) {
    const auto image =
        std::find_if(response.images().begin(), response.images().end(),
                     [&](const auto& candidate) { return candidate.channel() == channel.value; });
    if (image == response.images().end() || image->content().empty()) {
      return absl::InternalError(fmt::format("the server sent no {} image", channel.name));
    }
    if (channel.value == v1::DEPTH) {
      NERF_RETURN_IF_ERROR(depths_->Append(image->content(), response.far()));
      continue;
    }
    const std::string path =
        fmt::format("{}/{}_{:04}.{}", path_, channel.name, index, plan.ending());
    NERF_RETURN_IF_ERROR(WriteFileAtomically(path, image->content()));
    written_.push_back(path);
  }
  return absl::OkStatus();
}

absl::Status ViewFolder::Finish() {
  return depths_->far() > 0 ? depths_->WriteImages(path_, &written_) : absl::OkStatus();
}

absl::Status ViewFolder::WriteSheet() {
  std::vector<std::string> views;
  std::copy_if(written_.begin(), written_.end(), std::back_inserter(views),
               [](const std::string& path) {
                 return std::filesystem::path(path).filename().string().starts_with("rgb_");
               });
  const std::string sheet = (std::filesystem::path(path_) / "sheet.png").string();
  NERF_RETURN_IF_ERROR(WriteContactSheet(views, sheet));
  written_.push_back(sheet);
  return absl::OkStatus();
}

void ViewFolder::RemoveIfEmpty() const {
  std::error_code ignored;
  if (made_ && written_.empty()) std::filesystem::remove(path_, ignored);  // fails unless empty
}

std::vector<std::string> ViewFolder::OlderFiles() const {
  std::set<std::string> left = older_;
  for (const std::string& path : written_) {
    left.erase(std::filesystem::path(path).filename().string());
  }
  return {left.begin(), left.end()};
}

}  // namespace nerf
