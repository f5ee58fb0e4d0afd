#include "engine/base/protocol/message_splitter.h"

#include <algorithm>

namespace nerf {

std::string Delimited(std::string_view message) {
  std::string bytes;
  uint64_t length = message.size();
  for (; length >= 0x80; length >>= 7) bytes += static_cast<char>(length | 0x80);
  bytes += static_cast<char>(length);
  return bytes.append(message);
}

MessageSplitter::Found MessageSplitter::Take(std::string_view* bytes) {
  if (broken_) {
    *bytes = {};
    return Found::kPart;
  }
  if (in_length_) {
    const auto byte = static_cast<unsigned char>(bytes->front());
    bytes->remove_prefix(1);
    left_ |= uint64_t{byte & 0x7fu} << length_shift_;
    length_shift_ += 7;
    broken_ = left_ > UINT32_MAX || (length_shift_ == 35 && byte >= 0x80);
    if (broken_) return Found::kTooLong;
    if (byte >= 0x80) return Found::kPart;
    in_length_ = false;
    skipping_ = left_ > kMaxMessageBytes;
  } else {
    const size_t n = std::min<uint64_t>(left_, bytes->size());
    if (!skipping_) message_.append(bytes->substr(0, n));
    bytes->remove_prefix(n);
    left_ -= n;
  }
  if (left_ > 0) return Found::kPart;
  in_length_ = true;
  length_shift_ = 0;
  return std::exchange(skipping_, false) ? Found::kTooLong : Found::kMessage;
}

}  // namespace nerf
