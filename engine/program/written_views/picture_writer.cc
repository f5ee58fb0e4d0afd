#include "engine/program/written_views/picture_writer.h"

#include <utility>

#include "common/files/atomic_file.h"
#include "common/status_macros.h"
#include "engine/base/check.h"
#include "engine/program/device/exception_border.h"
#include "engine/scene/pictures/exr_codec.h"
#include "engine/scene/pictures/image_io.h"

namespace nerf {
namespace {

absl::Status WritePicture(const std::string& path, const ImageU8& image, const std::string& xmp) {
  if (!path.ends_with(".exr")) return WritePng(path, image, xmp);
  NERF_ASSIGN_OR_RETURN(const std::string bytes, EncodeExrPicture(image));
  return WriteFileAtomically(path, bytes);
}

}  // namespace

PictureWriter::PictureWriter(int n_threads) : capacity_(static_cast<size_t>(n_threads)) {
  NERF_CHECK(n_threads >= 1);
  for (int i = 0; i < n_threads; ++i) threads_.emplace_back("picture_writer", [this] { Write(); });
}

PictureWriter::~PictureWriter() {
  MutexLock lock(mu_);
  closed_ = true;
  changed_.NotifyAll();
}

absl::Status PictureWriter::Add(std::string path, ImageU8 image, std::string xmp) {
  MutexLock lock(mu_);
  while (status_.ok() && waiting_.size() == capacity_) changed_.Wait(mu_);
  NERF_RETURN_IF_ERROR(status_);
  waiting_.push_back({std::move(path), std::move(image), std::move(xmp)});
  changed_.NotifyAll();
  return absl::OkStatus();
}

absl::Status PictureWriter::Finish() {
  MutexLock lock(mu_);
  while (!waiting_.empty() || n_at_work_ > 0) changed_.Wait(mu_);
  return status_;
}

void PictureWriter::Write() {
  MutexLock lock(mu_);
  while (true) {
    while (waiting_.empty() && !closed_) changed_.Wait(mu_);
    if (waiting_.empty()) return;
    const Picture picture = std::move(waiting_.front());
    waiting_.pop_front();
    ++n_at_work_;
    changed_.NotifyAll();
    mu_.Unlock();
    absl::Status status =
        Guarded([&] { return WritePicture(picture.path, picture.image, picture.xmp); });
    mu_.Lock();
    --n_at_work_;
    if (!status.ok()) {
      status_.Update(std::move(status));
      waiting_.clear();
    }
    changed_.NotifyAll();
  }
}

}  // namespace nerf
