#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/clock.h"
#include "server/store/blob_store.h"

namespace nerf {

struct ScrubOptions {
  // From the begin of a pass to that of the next one; zero: never.
  absl::Duration interval = absl::Hours(24);
  double bytes_per_second = 16e6;
};

// Reads every blob from the disk again and compares it with its digest, slowly. A damaged one is
// moved aside (BlobReader): it counts as missing, and the next upload of its digest replaces it.
// The first pass begins one interval after the start. Not thread-safe. Store and clock outlive it.
class BlobScrubber {
 public:
  BlobScrubber(BlobStore* store, const Clock* clock, const ScrubOptions& options);

  // Reads as much as the time since the last call allows. Call about once a second.
  void Tick();

 private:
  // Opens the next blob of the pass. False at its end.
  bool OpenNext();
  // Reads a piece of the open blob. Returns the bytes read.
  uint64_t ReadPiece();

  BlobStore& store_;
  const Clock& clock_;
  const ScrubOptions options_;
  SteadyTime next_pass_;
  SteadyTime ticked_at_;
  double allowance_ = 0;  // bytes that may be read now
  bool in_pass_ = false;
  int next_folder_ = 0;
  std::vector<BlobRef> blobs_;          // of the folder in progress, the next one last
  std::unique_ptr<BlobReader> reader_;  // of the open blob
};

}  // namespace nerf
