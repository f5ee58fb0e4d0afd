#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace google::protobuf {
class Descriptor;
}

namespace nerf {

// Translates one message between protobuf's JSON form and its binary form. `type` comes from the
// generated pool. Responses carry every field that is not a message, even if zero or empty, under
// its lowerCamelCase name. Requests may spell names in either way; unknown names are refused.
absl::StatusOr<std::string> JsonToBinary(const google::protobuf::Descriptor& type,
                                         std::string_view json);
absl::StatusOr<std::string> BinaryToJson(const google::protobuf::Descriptor& type,
                                         std::string_view binary);

}  // namespace nerf
