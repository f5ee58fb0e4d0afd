#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "worker/base/call_result.h"
#include "worker/engine/engine_room.h"
#include "worker/files/blob_cache.h"

namespace nerf {

// A blob in a room's `open`, pinned until this, which its users and its download share, is gone.
struct OpenBlob {
  OpenBlob(std::shared_ptr<EngineRoom> room, BlobCache& cache, v1::BlobRef blob)
      : room(std::move(room)), cache(cache), blob(std::move(blob)) {}
  ~OpenBlob() {
    if (!path.empty()) room->Close(cache, blob.sha256());
  }
  OpenBlob(const OpenBlob&) = delete;
  OpenBlob& operator=(const OpenBlob&) = delete;

  // Downloads it when needed. Blocks. Errors: those of EngineRoom::Open, with AsLostBlob.
  absl::Status Open(const std::stop_token& stop) {
    auto opened = room->Open(cache, blob, stop);
    if (opened.ok()) path = *std::move(opened);
    return AsLostBlob(opened.status());
  }

  const std::shared_ptr<EngineRoom> room;
  BlobCache& cache;
  const v1::BlobRef blob;
  std::string path;  // empty before Open
};

}  // namespace nerf
