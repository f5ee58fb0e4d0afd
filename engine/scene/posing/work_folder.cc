#include "engine/scene/posing/work_folder.h"

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/atomic_file.h"
#include "common/files/file_io.h"
#include "common/status_macros.h"
#include "engine/scene/files/scene_files.h"

namespace nerf {

namespace fs = std::filesystem;

absl::StatusOr<WorkFolder> WorkFolder::Create(const std::string& out) {
  std::string name = out;
  while (name.size() > 1 && name.back() == '/') name.pop_back();
  name += ".partial-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) {
    return ErrnoToStatus(errno, absl::StrCat("cannot make ", name));
  }
  return WorkFolder(name);
}

WorkFolder::~WorkFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

absl::Status WorkFolder::BecomeAs(const std::string& out, const std::set<std::string>& kept) {
  std::error_code error;
  std::vector<fs::path> gone;
  for (const auto& entry : fs::directory_iterator(path_, error)) {
    if (!kept.contains(entry.path().filename().string())) gone.push_back(entry.path());
  }
  for (const fs::path& path : gone) fs::remove_all(path, error);
  fs::permissions(path_, fs::perms(0755), error);
  fs::rename(path_, out, error);
  if (error) return ErrnoToStatus(error.value(), absl::StrCat("cannot make ", out));
  path_.clear();
  return absl::OkStatus();
}

absl::Status MakeFolder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  return error ? ErrnoToStatus(error.value(), absl::StrCat("cannot make ", path))
               : absl::OkStatus();
}

absl::Status CopyFile(const std::string& from, const std::string& to, uint64_t max_bytes) {
  NERF_RETURN_IF_ERROR(MakeFolder(fs::path(to).parent_path().string()));
  NERF_ASSIGN_OR_RETURN(const std::string bytes, ReadRegularFile(from, max_bytes));
  return WriteFileAtomically(to, bytes);
}

absl::Status CheckOut(const std::string& out) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(out, error))) return absl::OkStatus();
  if (fs::is_directory(out, error) && fs::is_empty(out, error)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(out, ": exists and is no empty folder; name another one, or remove it"));
}

}  // namespace nerf
