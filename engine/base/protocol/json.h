#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace nerf {

// JSON objects as nerf-engine writes them with --json: keys in the order in which they were set.
using JsonObject = nlohmann::ordered_json;

// One line, with its newline. Bytes that are not UTF-8 are replaced.
std::string JsonLine(const JsonObject& object);

// The number, or null if it is not finite.
JsonObject JsonNumber(double number);

// Reads a JSON object of at most 32 levels: deeper values would overflow the stack. Errors:
// InvalidArgument.
absl::StatusOr<nlohmann::json> ParseJsonObject(std::string_view text);

}  // namespace nerf
