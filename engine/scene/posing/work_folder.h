#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace nerf {

// A folder that goes with everything in it unless it was kept.
class WorkFolder {
 public:
  // Beside `out`, whose parent exists.
  static absl::StatusOr<WorkFolder> Create(const std::string& out);
  ~WorkFolder();
  WorkFolder(WorkFolder&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  WorkFolder& operator=(WorkFolder&&) = delete;

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

  // Becomes `out`, which does not exist or is an empty folder, with nothing but `kept` in it.
  absl::Status BecomeAs(const std::string& out, const std::set<std::string>& kept);

 private:
  explicit WorkFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// The folder and those above it.
absl::Status MakeFolder(const std::string& path);

// Copies a file of at most `max_bytes`, and makes the folders above it. Not by copy_file, which
// changes modes: a worker's sandbox refuses that, and renames from one folder to another.
absl::Status CopyFile(const std::string& from, const std::string& to, uint64_t max_bytes);

// FailedPrecondition unless `out` does not exist or is an empty folder.
absl::Status CheckOut(const std::string& out);

}  // namespace nerf
