#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace nerf {

// Longest message between nerf-worker and nerf-engine, in bytes.
inline constexpr size_t kMaxMessageBytes = size_t{1} << 20;

// The message behind its length, as protobuf's delimited streams have it: a varint, then the bytes.
std::string Delimited(std::string_view message);

// Cuts a stream of bytes into messages. Not thread-safe.
class MessageSplitter {
 public:
  // Calls on_message(std::string) for each message that `bytes` complete, and on_too_long() once
  // for each above kMaxMessageBytes, which is skipped. A length of more than 32 bits, which no side
  // writes, ends the stream: on_too_long() is called once more and all that follows is skipped.
  template <typename OnMessage, typename OnTooLong>
  void Add(std::string_view bytes, OnMessage on_message, OnTooLong on_too_long);

 private:
  // Takes bytes up to and with the end of a message off `bytes`.
  enum class Found { kPart, kMessage, kTooLong };
  Found Take(std::string_view* bytes);

  bool in_length_ = true;
  int length_shift_ = 0;
  uint64_t left_ = 0;  // bits of the length so far; then bytes of the message that are to come
  bool skipping_ = false, broken_ = false;
  std::string message_;
};

template <typename OnMessage, typename OnTooLong>
void MessageSplitter::Add(std::string_view bytes, OnMessage on_message, OnTooLong on_too_long) {
  while (!bytes.empty()) {
    const Found found = Take(&bytes);
    if (found == Found::kTooLong) on_too_long();
    if (found == Found::kMessage) on_message(std::exchange(message_, {}));
  }
}

}  // namespace nerf
