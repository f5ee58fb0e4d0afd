#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/file_io.h"
#include "engine/base/parallel_for.h"
#include "engine/scene/picture_sink.h"
#include "engine/scene/scene_description.h"

namespace nerf {

// Decoded pictures in one file, for trainings whose pictures exceed memory. The file is mapped: the
// kernel reads the pages that are asked for and drops them when memory is short. A page of 4096
// bytes names what the file was made from (`key`); the pictures follow, each from a multiple of 64.
// Immutable; thread-safe. If the disk fails while a page is read, the process ends (SIGBUS).
class PictureFile {
 public:
  // Opens the file made from `key` with pictures of these byte sizes. Errors: NotFound if there is
  // none at `path`; FailedPrecondition if it was made from something else or has another size.
  static absl::StatusOr<std::unique_ptr<PictureFile>> Open(const std::string& path,
                                                           const std::string& key,
                                                           std::span<const uint64_t> byte_sizes);
  ~PictureFile();
  PictureFile(const PictureFile&) = delete;
  PictureFile& operator=(const PictureFile&) = delete;

  // View::image's pixels of picture i; as long as the file lives.
  std::span<const uint8_t> Pixels(size_t i) const;
  // Starts to read the page of a pixel and does not wait for it.
  void WillNeed(const uint8_t* pixel) const;
  // Where it was opened.
  const std::string& path() const { return path_; }

 private:
  PictureFile() = default;

  std::string path_;
  uint8_t* mapped_ = nullptr;
  uint64_t size_ = 0;
  std::vector<uint64_t> offsets_;  // [n_pictures + 1]
  std::vector<uint64_t> byte_sizes_;
};

// Makes the picture file of a data set at `path`, or takes the one that is there if it was made
// from the same files and sizes. The digests of the files' contents are compared, not their dates.
// Several processes may do this for one path: the first one makes the file, the others wait.
class PictureFileMaker final : public PictureSink {
 public:
  // dataset: the folder that the views' files lie in.
  PictureFileMaker(std::string dataset, std::string path);
  // Removes what was not finished.
  ~PictureFileMaker() override;

  // Called on the caller's thread between pictures whose digests are computed.
  void set_on_pictures(OnPictures on_pictures) { on_pictures_ = std::move(on_pictures); }
  absl::StatusOr<bool> Begin(const std::vector<ViewDescription>& views, ThreadPool* pool) override;
  absl::Status Take(size_t view, const ImageU8& image) override;
  // After all pictures: the file, complete and synced to disk.
  absl::StatusOr<std::unique_ptr<PictureFile>> Finish();

 private:
  absl::Status LockPart();

  const std::string dataset_, path_, part_path_;
  OnPictures on_pictures_;
  std::string key_;
  std::vector<uint64_t> byte_sizes_, offsets_;
  UniqueFd part_;  // locked while the file is made; it gets its name when it is complete
  std::unique_ptr<PictureFile> found_;
};

}  // namespace nerf
