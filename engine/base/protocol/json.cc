#include "engine/base/protocol/json.h"

#include <cmath>

#include "fmt/format.h"

namespace nerf {
namespace {

constexpr int kMaxDepth = 32;

bool NestsTooDeep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

}  // namespace

std::string JsonLine(const JsonObject& object) {
  return object.dump(-1, ' ', false, JsonObject::error_handler_t::replace) + "\n";
}

JsonObject JsonNumber(double number) {
  return std::isfinite(number) ? JsonObject(number) : JsonObject(nullptr);
}

absl::StatusOr<nlohmann::json> ParseJsonObject(std::string_view text) {
  if (NestsTooDeep(text)) {
    return absl::InvalidArgumentError(fmt::format("the JSON nests more than {} levels", kMaxDepth));
  }
  nlohmann::json value = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) return absl::InvalidArgumentError("not JSON");
  if (!value.is_object()) return absl::InvalidArgumentError("not a JSON object");
  return value;
}

}  // namespace nerf
