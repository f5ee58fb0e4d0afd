#include "tests/torture/recorded_disk.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>

namespace nerf {
namespace {

RecordedDisk* recorded = nullptr;
std::recursive_mutex recorded_mu;

// The node of each open file below the folder.
constexpr size_t kMaxFds = 4096;
std::array<int, kMaxFds> node_of_fd;

int NodeOf(int fd) {
  if (recorded == nullptr || fd < 0 || static_cast<size_t>(fd) >= kMaxFds) return -1;
  return node_of_fd[static_cast<size_t>(fd)];
}

int Fail(int error) {
  errno = error;
  return -1;
}

int ErrorOf(DiskFault fault) { return fault == DiskFault::kNoSpace ? ENOSPC : EIO; }

bool IsRefused(const DiskOp& op) {
  const DiskFault fault = recorded->Begin(op);
  if (fault == DiskFault::kNone || fault == DiskFault::kShortWrite) return false;
  errno = ErrorOf(fault);
  return true;
}

}  // namespace

RecordedDisk::RecordedDisk(std::string folder) : folder_(std::move(folder)) {
  const std::lock_guard lock(recorded_mu);
  if (recorded != nullptr) std::abort();
  nodes_.push_back({.is_folder = true});
  Scan(folder_, 0);
  first_nodes_ = nodes_;
  for (Node& node : nodes_) node.bytes.clear();
  node_of_fd.fill(-1);
  recorded = this;
}

RecordedDisk::~RecordedDisk() {
  const std::lock_guard lock(recorded_mu);
  recorded = nullptr;
}

void RecordedDisk::Scan(const std::string& path, int node) {
  // Hard links count as files of their own.
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    const int child = MakeNode(entry.is_directory());
    entries(node)[entry.path().filename().string()] = child;
    if (entry.is_directory()) {
      Scan(entry.path().string(), child);
    } else {
      std::ifstream file(entry.path(), std::ios::binary);
      nodes_[static_cast<size_t>(child)].bytes.assign(std::istreambuf_iterator<char>(file), {});
    }
  }
}

int RecordedDisk::MakeNode(bool is_folder) {
  nodes_.push_back({.is_folder = is_folder});
  return static_cast<int>(nodes_.size()) - 1;
}

RecordedDisk* RecordedDisk::Of(std::string_view path) {
  if (recorded == nullptr || !path.starts_with(recorded->folder_)) return nullptr;
  const size_t end = recorded->folder_.size();
  return path.size() == end || path[end] == '/' ? recorded : nullptr;
}

DiskFault RecordedDisk::Begin(const DiskOp& op) {
  if (dead_) return DiskFault::kDead;
  return choose_fault_ ? choose_fault_(ops_.size(), op) : DiskFault::kNone;
}

std::optional<int> RecordedDisk::Find(std::string_view path) const {
  int node = 0;
  path.remove_prefix(folder_.size());
  while (!path.empty()) {
    const size_t begin = path.find_first_not_of('/');
    if (begin == std::string_view::npos) break;
    path.remove_prefix(begin);
    const size_t end = std::min(path.find('/'), path.size());
    const auto& entries = nodes_[static_cast<size_t>(node)].entries;
    const auto found = entries.find(std::string(path.substr(0, end)));
    if (found == entries.end()) return std::nullopt;
    node = found->second;
    path.remove_prefix(end);
  }
  return node;
}

std::optional<std::pair<int, std::string>> RecordedDisk::FindParent(std::string_view path) const {
  while (path.ends_with('/')) path.remove_suffix(1);
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos || slash < folder_.size()) return std::nullopt;
  const auto folder = Find(path.substr(0, slash));
  if (!folder.has_value()) return std::nullopt;
  return std::pair(*folder, std::string(path.substr(slash + 1)));
}

namespace {

using Kind = DiskOp::Kind;

int RealOpen(const char* path, int flags, mode_t mode) {
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

int OpenAny(const char* path, int flags, mode_t mode) {
  const std::lock_guard lock(recorded_mu);
  RecordedDisk* const disk = RecordedDisk::Of(path);
  if (disk == nullptr) {
    const int fd = RealOpen(path, flags, mode);
    if (fd >= 0 && static_cast<size_t>(fd) < kMaxFds) node_of_fd[static_cast<size_t>(fd)] = -1;
    return fd;
  }
  const bool existed = disk->Find(path).has_value();
  DiskOp make{.kind = Kind::kMake};
  const bool makes = !existed && (flags & O_CREAT) != 0;
  if (makes) {
    if (auto parent = disk->FindParent(path)) {
      make.node = parent->first;
      make.name = parent->second;
    }
    if (IsRefused(make)) return -1;
  }
  DiskOp cut{.kind = Kind::kTruncate, .node = existed ? *disk->Find(path) : -1};
  const bool cuts = existed && (flags & O_TRUNC) != 0;
  if (cuts && IsRefused(cut)) return -1;
  const int fd = RealOpen(path, flags, mode);
  if (fd < 0) return fd;
  if (static_cast<size_t>(fd) >= kMaxFds) std::abort();
  if (makes) {
    make.target = disk->MakeNode(false);
    disk->entries(make.node)[make.name] = make.target;
    disk->Add(std::move(make));
  }
  if (cuts) disk->Add(std::move(cut));
  node_of_fd[static_cast<size_t>(fd)] = *disk->Find(path);
  return fd;
}

ssize_t RealWrite(int fd, const void* bytes, size_t size, off_t offset) {
  return syscall(SYS_pwrite64, fd, bytes, size, offset);
}

ssize_t WriteAny(int fd, const void* bytes, size_t size, off_t offset) {
  const std::lock_guard lock(recorded_mu);
  const int node = NodeOf(fd);
  if (node < 0) return RealWrite(fd, bytes, size, offset);
  DiskOp op{.kind = Kind::kWrite, .node = node, .offset = static_cast<uint64_t>(offset)};
  op.bytes.assign(static_cast<const char*>(bytes), size);
  const DiskFault fault = recorded->Begin(op);
  if (fault == DiskFault::kShortWrite) op.bytes.resize((size + 1) / 2);
  if (fault != DiskFault::kNone && fault != DiskFault::kShortWrite) return Fail(ErrorOf(fault));
  const ssize_t n = RealWrite(fd, op.bytes.data(), op.bytes.size(), offset);
  if (n <= 0) return n;
  op.bytes.resize(static_cast<size_t>(n));
  recorded->Add(std::move(op));
  return n;
}

int TruncateAny(int fd, off_t size) {
  const std::lock_guard lock(recorded_mu);
  const int node = NodeOf(fd);
  DiskOp op{.kind = Kind::kTruncate, .node = node, .offset = static_cast<uint64_t>(size)};
  if (node >= 0 && IsRefused(op)) return -1;
  const int result = static_cast<int>(syscall(SYS_ftruncate, fd, size));
  if (node >= 0 && result == 0) recorded->Add(std::move(op));
  return result;
}

int AllocateAny(int fd, off_t offset, off_t size) {
  const std::lock_guard lock(recorded_mu);
  const int node = NodeOf(fd);
  DiskOp op{.kind = Kind::kTruncate, .node = node, .offset = static_cast<uint64_t>(offset + size)};
  if (node >= 0 && IsRefused(op)) return errno;
  struct stat before = {};
  if (fstat(fd, &before) != 0) return errno;
  if (syscall(SYS_fallocate, fd, 0, offset, size) != 0) return errno;
  if (node >= 0 && before.st_size < offset + size) recorded->Add(std::move(op));
  return 0;
}

int SyncAny(int fd, long number) {
  const std::lock_guard lock(recorded_mu);
  const int node = NodeOf(fd);
  if (node < 0) return static_cast<int>(syscall(number, fd));
  DiskOp op{.kind = Kind::kSync, .node = node};
  const DiskFault fault = recorded->Begin(op);
  if (fault == DiskFault::kDead) return Fail(EIO);
  op.failed = fault != DiskFault::kNone;
  recorded->Add(std::move(op));
  return fault == DiskFault::kNone ? 0 : Fail(ErrorOf(fault));
}

int RemoveAny(const char* path, int flags) {
  const std::lock_guard lock(recorded_mu);
  RecordedDisk* const disk = RecordedDisk::Of(path);
  const auto parent = disk == nullptr ? std::nullopt : disk->FindParent(path);
  DiskOp op{.kind = Kind::kUnlink};
  const bool is_recorded = parent.has_value() && disk->Find(path).has_value();
  if (is_recorded) {
    op.node = parent->first;
    op.name = parent->second;
    if (IsRefused(op)) return -1;
  }
  const int result = static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, flags));
  if (is_recorded && result == 0) {
    disk->entries(op.node).erase(op.name);
    disk->Add(std::move(op));
  }
  return result;
}

int MakeFolderAny(const char* path, mode_t mode) {
  const std::lock_guard lock(recorded_mu);
  RecordedDisk* const disk = RecordedDisk::Of(path);
  const auto parent = disk == nullptr ? std::nullopt : disk->FindParent(path);
  DiskOp op{.kind = Kind::kMake, .is_folder = true};
  const bool is_recorded = parent.has_value() && !disk->Find(path).has_value();
  if (is_recorded) {
    op.node = parent->first;
    op.name = parent->second;
    if (IsRefused(op)) return -1;
  }
  const int result = static_cast<int>(syscall(SYS_mkdirat, AT_FDCWD, path, mode));
  if (is_recorded && result == 0) {
    op.target = disk->MakeNode(true);
    disk->entries(op.node)[op.name] = op.target;
    disk->Add(std::move(op));
  }
  return result;
}

// Both paths are recorded, or neither.
int MoveAny(Kind kind, const char* from, const char* to) {
  const std::lock_guard lock(recorded_mu);
  const long number = kind == Kind::kRename ? SYS_renameat : SYS_linkat;
  const auto real = [&] {
    return static_cast<int>(number == SYS_renameat
                                ? syscall(number, AT_FDCWD, from, AT_FDCWD, to)
                                : syscall(number, AT_FDCWD, from, AT_FDCWD, to, 0));
  };
  RecordedDisk* const disk = RecordedDisk::Of(to);
  if (disk == nullptr) return real();
  const auto source = disk->FindParent(from), target = disk->FindParent(to);
  const auto node = disk->Find(from);
  if (!source.has_value() || !target.has_value() || !node.has_value()) return real();
  DiskOp op{.kind = kind};
  op.node = kind == Kind::kRename ? source->first : target->first;
  op.name = kind == Kind::kRename ? source->second : target->second;
  op.new_node = target->first;
  op.new_name = target->second;
  op.target = *node;
  if (IsRefused(op)) return -1;
  const int result = real();
  if (result != 0) return result;
  if (kind == Kind::kRename) disk->entries(source->first).erase(source->second);
  disk->entries(target->first)[target->second] = *node;
  disk->Add(std::move(op));
  return 0;
}

int MakeTemporary(char* pattern, int flags) {
  static unsigned counter = 0;
  const std::string_view path = pattern;
  for (int attempt = 0; attempt < 1000; ++attempt) {
    char ending[7];
    std::snprintf(ending, sizeof(ending), "%06x", (counter++ * 0x9E37u + 1u) & 0xffffffu);
    std::copy_n(ending, 6, pattern + path.size() - 6);
    const int fd = OpenAny(pattern, flags | O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

}  // namespace
}  // namespace nerf

// In place of libc's, for this program and the libraries that it loads.
extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return nerf::OpenAny(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return nerf::OpenAny(path, flags, mode);
}
int close(int fd) {
  const std::lock_guard lock(nerf::recorded_mu);
  if (fd >= 0 && static_cast<size_t>(fd) < nerf::kMaxFds) {
    nerf::node_of_fd[static_cast<size_t>(fd)] = -1;
  }
  return static_cast<int>(syscall(SYS_close, fd));
}
ssize_t pwrite(int fd, const void* bytes, size_t size, off_t offset) {
  return nerf::WriteAny(fd, bytes, size, offset);
}
ssize_t pwrite64(int fd, const void* bytes, size_t size, off64_t offset) {
  return nerf::WriteAny(fd, bytes, size, offset);
}
ssize_t write(int fd, const void* bytes, size_t size) {
  if (nerf::NodeOf(fd) < 0) return syscall(SYS_write, fd, bytes, size);
  const off_t offset = lseek(fd, 0, SEEK_CUR);
  const ssize_t n = nerf::WriteAny(fd, bytes, size, offset);
  if (n > 0) lseek(fd, offset + n, SEEK_SET);
  return n;
}
ssize_t sendfile(int to, int from, off_t* offset, size_t size) noexcept {
  if (nerf::NodeOf(to) < 0) return syscall(SYS_sendfile, to, from, offset, size);
  std::string bytes(std::min<size_t>(size, size_t{1} << 20), '\0');
  const ssize_t n = offset == nullptr ? read(from, bytes.data(), bytes.size())
                                      : pread(from, bytes.data(), bytes.size(), *offset);
  if (n <= 0) return n;
  const ssize_t written = write(to, bytes.data(), static_cast<size_t>(n));
  if (offset != nullptr && written > 0) *offset += written;
  return written;
}
int ftruncate(int fd, off_t size) noexcept { return nerf::TruncateAny(fd, size); }
int ftruncate64(int fd, off64_t size) noexcept { return nerf::TruncateAny(fd, size); }
int posix_fallocate(int fd, off_t offset, off_t size) {
  return nerf::AllocateAny(fd, offset, size);
}
int posix_fallocate64(int fd, off64_t offset, off64_t size) {
  return nerf::AllocateAny(fd, offset, size);
}
int fsync(int fd) { return nerf::SyncAny(fd, SYS_fsync); }
int fdatasync(int fd) { return nerf::SyncAny(fd, SYS_fdatasync); }
int unlink(const char* path) noexcept { return nerf::RemoveAny(path, 0); }
int rmdir(const char* path) noexcept { return nerf::RemoveAny(path, AT_REMOVEDIR); }
int unlinkat(int folder, const char* path, int flags) noexcept {
  if (path[0] == '/' || folder == AT_FDCWD) return nerf::RemoveAny(path, flags);
  char real[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(folder);
  const ssize_t n = readlink(link.c_str(), real, sizeof(real));
  if (n <= 0) return -1;
  return nerf::RemoveAny((std::string(real, static_cast<size_t>(n)) + "/" + path).c_str(), flags);
}
int remove(const char* path) noexcept {
  const int result = nerf::RemoveAny(path, 0);
  return result != 0 && errno == EISDIR ? nerf::RemoveAny(path, AT_REMOVEDIR) : result;
}
int mkdir(const char* path, mode_t mode) noexcept { return nerf::MakeFolderAny(path, mode); }
int rename(const char* from, const char* to) noexcept {
  return nerf::MoveAny(nerf::DiskOp::Kind::kRename, from, to);
}
int link(const char* from, const char* to) noexcept {
  return nerf::MoveAny(nerf::DiskOp::Kind::kLink, from, to);
}
int mkostemp(char* pattern, int flags) { return nerf::MakeTemporary(pattern, flags); }
int mkostemp64(char* pattern, int flags) { return nerf::MakeTemporary(pattern, flags); }

}  // extern "C"
