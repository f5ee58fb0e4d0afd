#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/file_io.h"

namespace nerf {

// Opens for reading. NotFound when missing, PermissionDenied, InvalidArgument when it is no regular
// file (a pipe would make us wait for ever). Messages do not name the file.
absl::StatusOr<UniqueFd> OpenRegularFile(const std::string& path);

// The whole of it; InvalidArgument when it has more than max_bytes. Otherwise as OpenRegularFile.
absl::StatusOr<std::string> ReadRegularFile(const std::string& path, uint64_t max_bytes);

// "prefix: message" with the same code.
absl::Status WithPrefix(const absl::Status& status, std::string_view prefix);

// Control characters become '?', so that names from files cannot steer a terminal.
std::string Printable(std::string_view text);

// A data set's folder: resolves the names that its files list and refuses whatever lies outside.
class SceneFolder {
 public:
  // NotFound when `dir` is no folder.
  static absl::StatusOr<SceneFolder> Open(const std::string& dir);

  // The path of a regular file inside, as a name relative to the folder without "." and "..".
  // NotFound when there is none; InvalidArgument for absolute names, names that leave the folder by
  // ".." or a symbolic link, and things that are no regular files. Backslashes count as slashes.
  absl::StatusOr<std::string> FindFile(std::string_view name) const;
  // As FindFile; where there is no such file, tries the endings of image files. `name` may be
  // without one.
  absl::StatusOr<std::string> FindImage(std::string_view name) const;
  bool HasFile(std::string_view name) const { return FindFile(name).ok(); }
  bool HasFolder(std::string_view name) const;

  // Of a name that FindFile or FindImage returned.
  std::string PathOf(std::string_view name) const;

 private:
  explicit SceneFolder(std::string root) : root_(std::move(root)) {}

  std::string root_;  // canonical, without a slash at the end (empty for "/")
};

}  // namespace nerf
