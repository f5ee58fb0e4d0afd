#include "engine/output/png_writer.h"

#include <utility>

#include "common/status_macros.h"
#include "engine/base/check.h"
#include "engine/scene/image_io.h"
#include "engine/training/exception_border.h"

namespace nerf {

PngWriter::PngWriter(int n_threads) : capacity_(static_cast<size_t>(n_threads)) {
  NERF_CHECK(n_threads >= 1);
  for (int i = 0; i < n_threads; ++i) threads_.emplace_back("png_writer", [this] { Write(); });
}

PngWriter::~PngWriter() {
  MutexLock lock(mu_);
  closed_ = true;
  changed_.NotifyAll();
}

absl::Status PngWriter::Add(std::string path, ImageU8 image, std::string xmp) {
  MutexLock lock(mu_);
  while (status_.ok() && waiting_.size() == capacity_) changed_.Wait(mu_);
  NERF_RETURN_IF_ERROR(status_);
  waiting_.push_back({std::move(path), std::move(image), std::move(xmp)});
  changed_.NotifyAll();
  return absl::OkStatus();
}

absl::Status PngWriter::Finish() {
  MutexLock lock(mu_);
  while (!waiting_.empty() || n_at_work_ > 0) changed_.Wait(mu_);
  return status_;
}

void PngWriter::Write() {
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
        Guarded([&] { return WritePng(picture.path, picture.image, picture.xmp); });
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
