#pragma once

#include <string>

namespace google::protobuf {
class MessageLite;
}

namespace nerf {

// Equal messages give equal bytes: maps are sorted by key.
std::string DeterministicBytes(const google::protobuf::MessageLite& message);

}  // namespace nerf
