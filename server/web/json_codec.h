#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace google::protobuf {
class Descriptor;
}

namespace nerf {

// Translates one message between protobuf's JSON form and its binary form. `type` is of the
// generated pool. Answers carry every field that is not of a message type, zeros and empty lists
// too, under its lowerCamelCase name. Requests may use both spellings of a name; a name that the
// message does not have is refused.
absl::StatusOr<std::string> JsonToBinary(const google::protobuf::Descriptor& type,
                                         std::string_view json);
absl::StatusOr<std::string> BinaryToJson(const google::protobuf::Descriptor& type,
                                         std::string_view binary);

}  // namespace nerf
