#pragma once

#include <cstddef>
#include <functional>

#include "absl/status/statusor.h"
#include "nerf/internal/engine.pb.h"

namespace nerf {

// How messages are written: behind their lengths (MessageSplitter), or as protobuf's JSON, one a
// line.
enum class MessageForm { kBinary, kJson };

// The engine's end of a connected stream socket to its worker. One thread reads; one at a time
// writes. Borrows the descriptor.
class MessageSocket {
 public:
  MessageSocket(int fd, MessageForm form) : fd_(fd), form_(form) {}

  // Calls on_request with each message and its size, until the other side ends or Shutdown is
  // called: InvalidArgument for one that cannot be parsed or has more than kMaxMessageBytes. Fields
  // that are not known are ignored; of JSON, which people write, they are errors.
  using OnRequest =
      std::function<void(absl::StatusOr<internal::WorkerRequest> request, size_t byte_size)>;
  void Read(const OnRequest& on_request);

  // Writes all of it; blocks while the other side reads slowly. False if it has gone.
  bool Write(const internal::EngineMessage& message);

  // Ends reading and writing. Thread-safe.
  void Shutdown();

 private:
  absl::StatusOr<internal::WorkerRequest> Parse(const std::string& bytes) const;

  const int fd_;
  const MessageForm form_;
};

}  // namespace nerf
