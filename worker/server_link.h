#pragma once

#include <functional>
#include <stop_token>

#include "nerf/v1/worker_service.pb.h"
#include "worker/call_result.h"

namespace nerf {

// The worker's line to the server: one Synchronize stream at a time, and CommitCheckpoint.
// Open, Write and Close belong to one thread; Commit may be called from any.
class ServerLink {
 public:
  // Called from other threads, one call at a time, in order; nothing comes after on_closed.
  struct Listener {
    std::function<void(v1::SynchronizeResponse)> on_message;
    std::function<void()> on_written;           // the last Write is out, the next may follow
    std::function<void(CallResult)> on_closed;  // the stream is over
  };

  virtual ~ServerLink() = default;

  // Begins a stream. Requires: the one before is over.
  virtual void Open(Listener listener) = 0;

  // Sends one message. Requires: an open stream and no write in flight.
  virtual void Write(v1::SynchronizeRequest message) = 0;

  // Ends the stream; on_closed follows. Without a stream it does nothing.
  virtual void Close() = 0;

  // Blocks until the server has answered, stop was requested or a deadline passed.
  virtual CallResult Commit(const v1::CommitCheckpointRequest& request, std::stop_token stop) = 0;
};

}  // namespace nerf
