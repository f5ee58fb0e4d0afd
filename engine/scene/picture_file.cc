#include "engine/scene/picture_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files/sha256.h"
#include "common/status_macros.h"

namespace nerf {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kAlignment = 64;  // of pictures: a cache line
// Names format and decoders. A change of what pictures decode to needs another one.
constexpr char kMagic[] = "nerf pictures 1";

uint64_t RoundedUp(uint64_t n) { return (n + kAlignment - 1) / kAlignment * kAlignment; }

// Where the pictures begin; the last element is the file's size.
std::vector<uint64_t> OffsetsOf(std::span<const uint64_t> byte_sizes) {
  std::vector<uint64_t> offsets = {kPage};
  for (const uint64_t size : byte_sizes) offsets.push_back(RoundedUp(offsets.back() + size));
  return offsets;
}

std::string HeadOf(const std::string& key, uint64_t size) {
  std::string head = absl::StrCat(kMagic, "\n", key, "\n", size, "\n");
  head.resize(kPage, '\0');
  return head;
}

absl::Status Failed(const char* action, const std::string& path) {
  return ErrnoToStatus(errno, absl::StrCat(action, " ", path));
}

// The digest of what decides the decoded pictures: contents of the files and sizes.
absl::StatusOr<std::string> KeyOf(const std::string& dataset,
                                  const std::vector<ViewDescription>& views, ThreadPool* pool,
                                  const OnPictures& on_pictures) {
  std::atomic<size_t> n_done = 0;
  std::vector<std::string> lines(views.size());
  std::vector<absl::Status> failures(views.size());
  pool->ParallelFor(static_cast<int64_t>(views.size()), [&](int64_t i, int thread) {
    const size_t done = n_done++;
    if (thread == 0 && on_pictures) on_pictures("digests of pictures", done, views.size());
    const ViewDescription& view = views[i];
    std::string digests;
    for (const std::string& file : {view.file, view.mask_file}) {
      if (file.empty()) continue;
      const absl::StatusOr<std::string> digest = Sha256OfFile(absl::StrCat(dataset, "/", file));
      if (!digest.ok()) {
        failures[i] = absl::Status(digest.status().code(),
                                   absl::StrCat(file, ": ", digest.status().message()));
        return;
      }
      absl::StrAppend(&digests, *digest, " ");
    }
    if (view.orientation != 1) absl::StrAppend(&digests, "turned by ", view.orientation, " ");
    if (view.mask_is_inverted) absl::StrAppend(&digests, "inverted ");
    lines[i] = absl::StrCat(digests, view.camera.width, " ", view.camera.height, "\n");
  });
  Sha256 key;
  key.Update(kMagic);
  for (size_t i = 0; i < views.size(); ++i) {
    NERF_RETURN_IF_ERROR(failures[i]);
    key.Update(lines[i]);
  }
  return key.HexDigest();
}

}  // namespace

absl::StatusOr<std::unique_ptr<PictureFile>> PictureFile::Open(
    const std::string& path, const std::string& key, std::span<const uint64_t> byte_sizes) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.ok()) return Failed("open", path);
  std::unique_ptr<PictureFile> file(new PictureFile);
  file->path_ = path;
  file->offsets_ = OffsetsOf(byte_sizes);
  file->byte_sizes_.assign(byte_sizes.begin(), byte_sizes.end());
  const uint64_t size = file->offsets_.back();
  const std::string head = HeadOf(key, size);
  std::string found(kPage, '\0');
  struct stat status = {};
  if (fstat(fd.get(), &status) != 0) return Failed("read", path);
  if (!S_ISREG(status.st_mode) || static_cast<uint64_t>(status.st_size) != size ||
      pread(fd.get(), found.data(), kPage, 0) != static_cast<ssize_t>(kPage) || found != head) {
    return absl::FailedPreconditionError(absl::StrCat(path, " was made from other pictures"));
  }
  void* const mapped = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (mapped == MAP_FAILED) return Failed("map", path);
  file->mapped_ = static_cast<uint8_t*>(mapped);
  file->size_ = size;
  // Pixels are drawn at random: reading ahead of them would fetch pages that nobody wants.
  madvise(mapped, size, MADV_RANDOM);
  return file;
}

PictureFile::~PictureFile() {
  if (mapped_ != nullptr) munmap(mapped_, size_);
}

std::span<const uint8_t> PictureFile::Pixels(size_t i) const {
  return {mapped_ + offsets_[i], byte_sizes_[i]};
}

void PictureFile::WillNeed(const uint8_t* pixel) const {
  const uint64_t offset = static_cast<uint64_t>(pixel - mapped_) / kPage * kPage;
  madvise(mapped_ + offset, kPage, MADV_WILLNEED);
}

PictureFileMaker::PictureFileMaker(std::string dataset, std::string path)
    : dataset_(std::move(dataset)), path_(std::move(path)), part_path_(path_ + ".part") {}

PictureFileMaker::~PictureFileMaker() {
  if (part_.ok()) unlink(part_path_.c_str());
}

// Waits until this process alone has the unfinished file, which is then empty.
absl::Status PictureFileMaker::LockPart() {
  while (true) {
    UniqueFd fd(
        open(part_path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
    if (!fd.ok()) return Failed("create", part_path_);
    while (flock(fd.get(), LOCK_EX) != 0) {
      if (errno != EINTR) return Failed("lock", part_path_);
    }
    // Whoever had the lock before may have renamed or removed the file meanwhile.
    struct stat held = {}, named = {};
    if (fstat(fd.get(), &held) != 0) return Failed("read", part_path_);
    if (stat(part_path_.c_str(), &named) != 0 || held.st_ino != named.st_ino ||
        held.st_dev != named.st_dev) {
      continue;
    }
    if (ftruncate(fd.get(), 0) != 0) return Failed("write", part_path_);
    part_ = std::move(fd);
    return absl::OkStatus();
  }
}

absl::StatusOr<bool> PictureFileMaker::Begin(const std::vector<ViewDescription>& views,
                                             ThreadPool* pool) {
  NERF_ASSIGN_OR_RETURN(key_, KeyOf(dataset_, views, pool, on_pictures_));
  for (const ViewDescription& view : views) byte_sizes_.push_back(view.DecodedBytes());
  offsets_ = OffsetsOf(byte_sizes_);
  NERF_RETURN_IF_ERROR(LockPart());
  absl::StatusOr<std::unique_ptr<PictureFile>> found = PictureFile::Open(path_, key_, byte_sizes_);
  if (found.ok()) {
    found_ = *std::move(found);
    unlink(part_path_.c_str());
    part_.Reset();
    return false;
  }
  // Reserved at once, so that a full disk is an error here and not in the middle of a training.
  const int error = posix_fallocate(part_.get(), 0, static_cast<off_t>(offsets_.back()));
  if (error != 0) {
    return ErrnoToStatus(error, absl::StrCat("reserve ", offsets_.back() >> 20, " MiB for ",
                                             views.size(), " decoded pictures in ", part_path_));
  }
  return true;
}

absl::Status PictureFileMaker::Take(size_t view, const ImageU8& image) {
  if (image.pixels.size() != byte_sizes_[view]) {
    return absl::InternalError("a decoded picture has another size than its description");
  }
  const std::string_view bytes(reinterpret_cast<const char*>(image.pixels.data()),
                               image.pixels.size());
  return WriteFully(part_.get(), bytes, offsets_[view], part_path_);
}

absl::StatusOr<std::unique_ptr<PictureFile>> PictureFileMaker::Finish() {
  if (found_ != nullptr) return std::move(found_);
  NERF_RETURN_IF_ERROR(WriteFully(part_.get(), HeadOf(key_, offsets_.back()), 0, part_path_));
  if (fsync(part_.get()) != 0) return Failed("write", part_path_);
  if (rename(part_path_.c_str(), path_.c_str()) != 0) return Failed("create", path_);
  part_.Reset();
  const std::string folder = std::filesystem::path(path_).parent_path().string();
  NERF_RETURN_IF_ERROR(FsyncDirectory(folder.empty() ? "." : folder));
  return PictureFile::Open(path_, key_, byte_sizes_);
}

}  // namespace nerf
