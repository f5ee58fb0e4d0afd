#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/file_io.h"

namespace nerf {

// Opens for reading. Errors: NotFound, PermissionDenied, InvalidArgument if it is not a regular
// file (reading a pipe could block forever). Messages do not name the file.
absl::StatusOr<UniqueFd> OpenRegularFile(const std::string& path);

// The file's contents. InvalidArgument if larger than max_bytes; other errors as OpenRegularFile.
absl::StatusOr<std::string> ReadRegularFile(const std::string& path, uint64_t max_bytes);

// Its first bytes, `size` at most. Errors as OpenRegularFile.
absl::StatusOr<std::string> ReadHead(const std::string& path, size_t size);

// Its last bytes, likewise.
absl::StatusOr<std::string> ReadEnd(const std::string& path, size_t size);

// "prefix: message" with the same code.
absl::Status WithPrefix(const absl::Status& status, std::string_view prefix);

// Replaces control characters by '?', so that names from files cannot control a terminal.
std::string Printable(std::string_view text);

// A data set's folder: resolves the names that its files list and refuses those outside of it.
class SceneFolder {
 public:
  // NotFound if there is no `dir`; InvalidArgument if it is a file. With follow_links, files may
  // lie outside of the folder where a symbolic link in it leads to them: for folders that the user
  // chose on this machine.
  static absl::StatusOr<SceneFolder> Open(const std::string& dir, bool follow_links = false);

  // The name of an existing regular file, relative to the folder, without "." and "..". Backslashes
  // count as slashes. Errors: NotFound; InvalidArgument for absolute names, names that leave the
  // folder by ".." or a symbolic link, and anything but regular files.
  absl::StatusOr<std::string> FindFile(std::string_view name) const;
  // As FindFile. If there is no such file, appends the extensions of image files to the name.
  absl::StatusOr<std::string> FindImage(std::string_view name) const;
  bool HasFile(std::string_view name) const { return FindFile(name).ok(); }
  bool HasFolder(std::string_view name) const;

  bool follows_links() const { return follow_links_; }

  // The path of a name that FindFile or FindImage returned.
  std::string PathOf(std::string_view name) const;

 private:
  SceneFolder(std::string root, bool follow_links)
      : root_(std::move(root)), follow_links_(follow_links) {}

  std::string root_;  // canonical, without a slash at the end (empty for "/")
  bool follow_links_;
};

}  // namespace nerf
