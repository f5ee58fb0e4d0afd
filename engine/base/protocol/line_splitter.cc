#include "engine/base/protocol/line_splitter.h"

namespace nerf {

LineSplitter::Found LineSplitter::Take(std::string_view* bytes) {
  const size_t newline = bytes->find('\n');
  const std::string_view piece = bytes->substr(0, newline);
  const bool ends = newline != std::string_view::npos;
  bytes->remove_prefix(ends ? newline + 1 : bytes->size());
  const bool was_dropping = dropping_;
  if (!dropping_ && line_.size() + piece.size() > kMaxLineBytes) dropping_ = true;
  const bool dropped = dropping_;
  if (dropping_) {
    line_.clear();
  } else {
    line_.append(piece);
  }
  if (ends) dropping_ = false;
  if (dropped) return was_dropping ? Found::kPart : Found::kTooLong;
  return ends && !line_.empty() ? Found::kLine : Found::kPart;
}

}  // namespace nerf
