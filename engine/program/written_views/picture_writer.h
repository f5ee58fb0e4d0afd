#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/mutex.h"
#include "engine/base/background_thread.h"
#include "engine/scene/pictures/image.h"

namespace nerf {

// Compresses and writes pictures on its own threads while the next view is rendered: compressing
// 800x800 pixels takes about 60 ms. Used from one thread.
class PictureWriter {
 public:
  // n_threads pictures are compressed at once, and as many wait. At least 1.
  explicit PictureWriter(int n_threads);
  // Writes the waiting pictures.
  ~PictureWriter();

  // Queues the picture for writing to `path`, as EXR where its name ends so (EncodeExrPicture),
  // else as PNG; blocks while the queue is full. Errors: the first of any earlier picture; nothing
  // more is written after it. xmp: see EncodePng.
  absl::Status Add(std::string path, ImageU8 image, std::string xmp = "");
  // Waits until every picture is written. Errors: the first of any picture.
  absl::Status Finish();

 private:
  struct Picture {
    std::string path;
    ImageU8 image;
    std::string xmp;
  };

  void Write();

  const size_t capacity_;
  Mutex mu_;
  CondVar changed_;
  std::deque<Picture> waiting_ ABSL_GUARDED_BY(mu_);
  size_t n_at_work_ ABSL_GUARDED_BY(mu_) = 0;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  std::vector<BackgroundThread> threads_;  // last member: the threads use those above
};

}  // namespace nerf
