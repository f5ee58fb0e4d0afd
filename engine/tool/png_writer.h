#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/mutex.h"
#include "engine/base/background_thread.h"
#include "engine/scene/image.h"

namespace nerf {

// Writes pictures on threads of its own, so that the device renders the next view meanwhile: to
// pack one of 800x800 takes a core some 60 ms. Used from one thread.
class PngWriter {
 public:
  // n_threads pictures are packed at once, and as many wait. At least 1.
  explicit PngWriter(int n_threads);
  // Writes what waits.
  ~PngWriter();

  // Writes the picture to a file of this path, sooner or later; waits while there is no room.
  // Errors: those of any picture before it; nothing more is written then.
  absl::Status Add(std::string path, ImageU8 image);
  // Waits until every picture is on the disk. Errors: the first of any of them.
  absl::Status Finish();

 private:
  struct Picture {
    std::string path;
    ImageU8 image;
  };

  void Write();

  const size_t capacity_;
  Mutex mu_;
  CondVar changed_;
  std::deque<Picture> waiting_ ABSL_GUARDED_BY(mu_);
  size_t n_at_work_ ABSL_GUARDED_BY(mu_) = 0;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  std::vector<BackgroundThread> threads_;  // last: they use what is above
};

}  // namespace nerf
