#include "engine/scene/files/scene_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/nearest_path.h"
#include "common/status_macros.h"
#include "engine/base/folder_names.h"

namespace nerf {
namespace {

constexpr size_t kMaxNameBytes = 1024;

absl::Status StatusFromErrno(int error, std::string_view action) {
  const std::string message =
      absl::StrCat("cannot ", std::string(action), ": ", std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(message);
  if (error == EACCES || error == EPERM) return absl::PermissionDeniedError(message);
  return absl::InvalidArgumentError(message);
}

std::optional<std::string> Canonical(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> resolved(realpath(path.c_str(), nullptr), std::free);
  if (resolved == nullptr) return std::nullopt;
  return std::string(resolved.get());
}

// Removes "." and empty parts and resolves "..". Nullopt if the result is outside the folder.
std::optional<std::string> Normalized(std::string_view name) {
  std::vector<std::string_view> parts;
  size_t start = 0;
  while (start <= name.size()) {
    size_t end = name.find('/', start);
    if (end == std::string_view::npos) end = name.size();
    const std::string_view part = name.substr(start, end - start);
    if (part == "..") {
      if (parts.empty()) return std::nullopt;
      parts.pop_back();
    } else if (!part.empty() && part != ".") {
      parts.push_back(part);
    }
    start = end + 1;
  }
  std::string joined;
  for (std::string_view part : parts) {
    if (!joined.empty()) joined += '/';
    joined.append(part);
  }
  return joined;
}

}  // namespace

absl::StatusOr<UniqueFd> OpenRegularFile(const std::string& path) {
  UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.ok()) return StatusFromErrno(errno, "open");
  struct stat stat_result;
  if (fstat(file.get(), &stat_result) != 0) return StatusFromErrno(errno, "open");
  if (!S_ISREG(stat_result.st_mode)) return absl::InvalidArgumentError("not a regular file");
  return file;
}

absl::StatusOr<std::string> ReadRegularFile(const std::string& path, uint64_t max_bytes) {
  NERF_ASSIGN_OR_RETURN(const UniqueFd file, OpenRegularFile(path));
  struct stat stat_result;
  if (fstat(file.get(), &stat_result) != 0) return StatusFromErrno(errno, "read");
  const auto byte_size = static_cast<uint64_t>(stat_result.st_size);
  if (byte_size > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("file of ", byte_size, " bytes; at most ", max_bytes, " are read"));
  }
  std::string bytes(byte_size, '\0');
  size_t n_read = 0;
  while (n_read < bytes.size()) {
    const ssize_t n = read(file.get(), bytes.data() + n_read, bytes.size() - n_read);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return StatusFromErrno(errno, "read");
    if (n == 0) break;
    n_read += static_cast<size_t>(n);
  }
  bytes.resize(n_read);
  return bytes;
}

absl::StatusOr<std::string> ReadHead(const std::string& path, size_t size) {
  NERF_ASSIGN_OR_RETURN(const UniqueFd file, OpenRegularFile(path));
  std::string head(size, '\0');
  const ssize_t n = pread(file.get(), head.data(), head.size(), 0);
  head.resize(n < 0 ? 0 : static_cast<size_t>(n));
  return head;
}

absl::StatusOr<std::string> ReadEnd(const std::string& path, size_t size) {
  NERF_ASSIGN_OR_RETURN(const UniqueFd file, OpenRegularFile(path));
  const off_t length = lseek(file.get(), 0, SEEK_END);
  const off_t begin = std::max<off_t>(0, length - static_cast<off_t>(size));
  std::string ending(size, '\0');
  const ssize_t n = pread(file.get(), ending.data(), ending.size(), begin);
  ending.resize(n < 0 ? 0 : static_cast<size_t>(n));
  return ending;
}

absl::Status WithPrefix(const absl::Status& status, std::string_view prefix) {
  return absl::Status(status.code(), absl::StrCat(std::string(prefix), ": ", status.message()));
}

std::string Printable(std::string_view text) {
  std::string printable(text);
  for (char& c : printable) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return printable;
}

namespace {

// What to name in place of a file of views: the folder that it lies in.
std::string FolderOfList(const std::string& file) {
  constexpr std::string_view kLists[] = {"transforms.json", "transforms_train.json",
                                         "transforms_val.json", "transforms_test.json",
                                         "poses_bounds.npy"};
  const std::filesystem::path path(file);
  if (std::find(std::begin(kLists), std::end(kLists), path.filename().string()) == std::end(kLists))
    return "";
  const std::string parent = path.parent_path().string();
  return absl::StrCat("; did you mean ", parent.empty() ? "." : parent, "?");
}

}  // namespace

absl::StatusOr<SceneFolder> SceneFolder::Open(const std::string& dir, bool follow_links) {
  std::optional<std::string> root = Canonical(dir);
  struct stat stat_result;
  if (!root || stat(root->c_str(), &stat_result) != 0) {
    return NoSuchFolder(dir);
  }
  if (!S_ISDIR(stat_result.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(dir, ": is a file; name the folder of the data set", FolderOfList(dir)));
  }
  if (*root == "/") root->clear();
  return SceneFolder(*std::move(root), follow_links);
}

absl::StatusOr<std::string> SceneFolder::FindFile(std::string_view name) const {
  if (name.empty()) return absl::InvalidArgumentError("the name is empty");
  if (name.size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a name of ", name.size(), " bytes; at most ", kMaxNameBytes, " are allowed"));
  }
  if (name.find('\0') != std::string_view::npos) {
    return absl::InvalidArgumentError("the name holds a zero byte");
  }
  std::string slashed(name);
  for (char& c : slashed) {
    if (c == '\\') c = '/';
  }
  const bool has_drive = slashed.size() > 2 && slashed[1] == ':' && slashed[2] == '/';
  if (slashed[0] == '/' || has_drive) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", Printable(name), "\" is absolute; names are relative to the folder"));
  }
  std::optional<std::string> normalized = Normalized(slashed);
  if (!normalized) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", Printable(name), "\" leaves the data set's folder"));
  }
  const std::string path = PathOf(*normalized);
  struct stat stat_result;
  if (stat(path.c_str(), &stat_result) != 0) {
    return absl::NotFoundError(absl::StrCat("no file \"", Printable(*normalized), "\""));
  }
  const std::optional<std::string> canonical = Canonical(path);
  const bool is_inside = canonical && canonical->compare(0, root_.size() + 1, root_ + "/") == 0;
  if (!is_inside && !(canonical && follow_links_)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", Printable(name), "\" leaves the data set's folder by a symbolic link"));
  }
  if (S_ISDIR(stat_result.st_mode)) {
    return absl::NotFoundError(absl::StrCat("\"", Printable(*normalized), "\" is a folder"));
  }
  if (!S_ISREG(stat_result.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", Printable(*normalized), "\" is not a regular file"));
  }
  return *std::move(normalized);
}

absl::StatusOr<std::string> SceneFolder::FindImage(std::string_view name) const {
  absl::StatusOr<std::string> exact = FindFile(name);
  if (!absl::IsNotFound(exact.status())) return exact;
  for (const std::string_view ending : kImpliedEndings) {
    absl::StatusOr<std::string> with_ending =
        FindFile(absl::StrCat(std::string(name), std::string(ending)));
    if (with_ending.ok()) return with_ending;
    if (!absl::IsNotFound(with_ending.status())) return with_ending.status();
  }
  return exact;
}

bool SceneFolder::HasFolder(std::string_view name) const {
  struct stat stat_result;
  return stat(PathOf(name).c_str(), &stat_result) == 0 && S_ISDIR(stat_result.st_mode);
}

std::string SceneFolder::PathOf(std::string_view name) const {
  return absl::StrCat(root_, "/", std::string(name));
}

}  // namespace nerf
