#include "common/trace_context.h"

#include <fmt/format.h>

#include <cstdint>
#include <vector>

namespace nerf {
namespace {

bool IsHex(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool IsId(std::string_view text) {
  return IsHex(text) && text.find_first_not_of('0') != std::string_view::npos;
}

std::string RandomHex(size_t n_bytes, RandomSource& random) {
  std::vector<uint8_t> bytes(n_bytes);
  random.Fill(bytes);
  bytes.back() |= 1;  // an id of zeros is invalid
  std::string hex;
  for (const uint8_t byte : bytes) hex += fmt::format("{:02x}", byte);
  return hex;
}

}  // namespace

std::string TraceContext::ToString() const {
  return fmt::format("00-{}-{}-{}", trace_id, span_id, flags);
}

std::optional<TraceContext> ParseTraceparent(std::string_view text) {
  constexpr size_t kSize = 55;  // 2 + 1 + 32 + 1 + 16 + 1 + 2
  if (text.size() < kSize || text[2] != '-' || text[35] != '-' || text[52] != '-') {
    return std::nullopt;
  }
  const std::string_view version = text.substr(0, 2);
  if (!IsHex(version) || version == "ff") return std::nullopt;
  // Version 00 ends here; a later one may have more parts.
  if (text.size() > kSize && (version == "00" || text[kSize] != '-')) return std::nullopt;
  TraceContext context{std::string(text.substr(3, 32)), std::string(text.substr(36, 16)),
                       std::string(text.substr(53, 2))};
  if (!IsId(context.trace_id) || !IsId(context.span_id) || !IsHex(context.flags)) {
    return std::nullopt;
  }
  return context;
}

TraceContext NewSpan(const std::optional<TraceContext>& parent, RandomSource& random) {
  TraceContext context;
  context.trace_id = parent.has_value() ? parent->trace_id : RandomHex(16, random);
  context.span_id = RandomHex(8, random);
  if (parent.has_value()) context.flags = parent->flags;
  return context;
}

}  // namespace nerf
