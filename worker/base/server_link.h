#pragma once

#include <functional>
#include <stop_token>

#include "nerf/v1/worker_service.pb.h"
#include "worker/base/call_result.h"

namespace nerf {

// The worker's connection to the server: one Synchronize stream at a time, and CommitCheckpoint.
// Open, Write and Close belong to one thread; Commit may be called from any.
class ServerLink {
 public:
  // Called from other threads, one call at a time, in order. on_closed is the last.
  struct Listener {
    std::function<void(v1::SynchronizeResponse)> on_message;
    std::function<void()> on_written;           // the next Write may begin
    std::function<void(CallResult)> on_closed;  // the stream has ended
  };

  virtual ~ServerLink() = default;

  // Begins a stream. Requires: the one before has ended.
  virtual void Open(Listener listener) = 0;

  // Sends one message. Requires: an open stream and no write in flight.
  virtual void Write(v1::SynchronizeRequest message) = 0;

  // Ends the stream; on_closed follows. Does nothing without a stream.
  virtual void Close() = 0;

  // Blocks until the server answers, a stop is requested or a deadline passes.
  virtual CallResult Commit(const v1::CommitCheckpointRequest& request, std::stop_token stop) = 0;
  virtual CallResult CommitFrames(const v1::CommitFramesRequest& request, std::stop_token stop) = 0;
  virtual CallResult CommitPoses(const v1::CommitPosesRequest& request, std::stop_token stop) = 0;
};

}  // namespace nerf
