#include "engine/program/exports/view_files.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "common/files/atomic_file.h"
#include "common/files/file_io.h"
#include "common/status_macros.h"
#include "engine/field/files/zip_file.h"
#include "fmt/format.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;

// A folder that goes with what is in it, unless it is put in its place.
class StagedFolder : public ViewFiles {
 public:
  // Beside `place`, which may be an empty folder.
  static absl::StatusOr<std::unique_ptr<ViewFiles>> Make(const std::string& place) {
    std::error_code error;
    if (fs::exists(place, error) && !(fs::is_directory(place, error) && fs::is_empty(place, error)))
      return absl::InvalidArgumentError("--out: " + place + " is there already and is not empty");
    std::string path = fs::path(place + "/.").parent_path().lexically_normal();
    while (path.size() > 1 && path.back() == '/') path.pop_back();
    if (fs::is_symlink(path, error)) path = fs::canonical(path, error);
    const bool was_there = fs::exists(path, error);
    auto folder = std::make_unique<StagedFolder>(path, fmt::format("{}.part-{}", path, getpid()));
    // What cannot be replaced, such as the current folder, is refused before the work.
    if (!fs::create_directory(folder->path_, error) && error)
      return ErrnoToStatus(error.value(), "cannot make " + path);
    fs::rename(folder->path_, path, error);
    if (error) return ErrnoToStatus(error.value(), "cannot replace " + path);
    fs::rename(path, folder->path_, error);
    if (!error && was_there) fs::create_directory(path, error);
    if (error) return ErrnoToStatus(error.value(), "cannot make " + path);
    for (const char* const inner : {"/images", "/depths"}) {
      if (!fs::create_directory(folder->path_ + inner, error) && error)
        return ErrnoToStatus(error.value(), "cannot make " + path);
    }
    return folder;
  }
  StagedFolder(std::string place, std::string path)
      : place_(std::move(place)), path_(std::move(path)) {}
  ~StagedFolder() override {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }

  absl::Status Write(const std::string& name, std::string_view bytes) override {
    return WriteFileAtomically(path_ + "/" + name, bytes);
  }

  absl::Status PutInPlace() override {
    std::error_code error;
    fs::rename(path_, place_, error);
    if (error) return ErrnoToStatus(error.value(), "cannot make " + place_);
    path_.clear();
    return absl::OkStatus();
  }

 private:
  std::string place_, path_;  // path_ is empty once it is in its place
};

class Archive : public ViewFiles {
 public:
  explicit Archive(ZipFile file) : file_(std::move(file)) {}

  absl::Status Write(const std::string& name, std::string_view bytes) override {
    return file_.Add(name, bytes);
  }
  absl::Status PutInPlace() override { return file_.Commit(); }

 private:
  ZipFile file_;
};

}  // namespace

bool IsArchive(std::string_view path) { return path.ends_with(".zip"); }

absl::StatusOr<std::unique_ptr<ViewFiles>> ViewFiles::Make(const std::string& path) {
  if (!IsArchive(path)) return StagedFolder::Make(path);
  std::error_code ignored;
  if (fs::is_directory(path, ignored))
    return absl::InvalidArgumentError("--out: " + path + " is a folder, not an archive");
  NERF_ASSIGN_OR_RETURN(ZipFile file, ZipFile::Create(path));
  return std::make_unique<Archive>(std::move(file));
}

}  // namespace nerf
