#include "common/files/made_folder.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files/file_io.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;

}  // namespace

MadeFolder::MadeFolder(std::vector<std::string> made) : made_(std::move(made)) {}

MadeFolder::MadeFolder(MadeFolder&& other) noexcept : made_(std::exchange(other.made_, {})) {}

MadeFolder::~MadeFolder() {
  // Does not remove a folder that holds something.
  std::error_code ignored;
  for (const std::string& path : made_) fs::remove(path, ignored);
}

absl::StatusOr<MadeFolder> MadeFolder::Make(const std::string& path) {
  std::vector<std::string> missing;
  std::error_code error;
  for (fs::path p = fs::absolute(path, error).lexically_normal(); !p.empty(); p = p.parent_path()) {
    if (fs::is_directory(p, error)) break;
    if (!p.has_filename()) continue;  // of a slash at the end
    if (fs::exists(fs::symlink_status(p, error))) {
      return absl::InvalidArgumentError(
          absl::StrCat(p.string(), ": is a file; a folder is needed there"));
    }
    missing.push_back(p.string());
  }
  MadeFolder made(std::move(missing));
  fs::create_directories(path, error);
  if (error) return ErrnoToStatus(error.value(), absl::StrCat("create folder ", path));
  return made;
}

}  // namespace nerf
