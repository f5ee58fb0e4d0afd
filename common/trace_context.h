#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/ids.h"

namespace nerf {

// The place of a call in a trace, as the header `traceparent` names it.
// Source: https://www.w3.org/TR/trace-context/, version 00.
struct TraceContext {
  std::string trace_id;      // 32 hex digits, not all 0
  std::string span_id;       // 16 hex digits, not all 0
  std::string flags = "00";  // 2 hex digits; 01: sampled

  // 00-TRACE-SPAN-FLAGS.
  std::string ToString() const;
};

// nullopt for what is no traceparent. Of later versions the known part is read.
std::optional<TraceContext> ParseTraceparent(std::string_view text);

// A new span in the parent's trace, or in a new trace without one.
TraceContext NewSpan(const std::optional<TraceContext>& parent, RandomSource& random);

}  // namespace nerf
