#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/queue/resources/blob_ref.h"

namespace nerf {

// The stored images of a frame, one for each channel; none before it is rendered.
struct FrameRecord {
  std::vector<BlobRef> images;
  double far = 0;  // that the brightest depth stands for

  bool operator==(const FrameRecord&) const = default;
};

// A range of frames, or the movie: what one lease is of.
struct RenderPart {
  std::string worker;  // that holds the lease; empty: nobody
  uint64_t epoch = 0;  // of the last lease
  bool done = false;

  bool operator==(const RenderPart&) const = default;
};

// How far a render job is.
struct RenderWork {
  std::vector<RenderPart> parts;    // ranges of frames in order, then the movie
  std::vector<FrameRecord> frames;  // by index
  std::optional<BlobRef> movie;

  bool operator==(const RenderWork&) const = default;
};

}  // namespace nerf
