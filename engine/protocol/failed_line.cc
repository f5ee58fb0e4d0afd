#include "engine/protocol/failed_line.h"

#include <string_view>

namespace nerf::protocol {
namespace {

absl::StatusCode CodeNamed(std::string_view name) {
  for (int i = 1; i <= static_cast<int>(absl::StatusCode::kUnauthenticated); ++i) {
    const auto code = static_cast<absl::StatusCode>(i);
    if (absl::StatusCodeToString(code) == name) return code;
  }
  return absl::StatusCode::kUnknown;
}

}  // namespace

Error ReadFailed(KeyReader& reader) {
  return {CodeNamed(reader.Text("code", Need::kRequired)), reader.Text("reason", Need::kOptional),
          reader.Text("message", Need::kOptional)};
}

}  // namespace nerf::protocol
