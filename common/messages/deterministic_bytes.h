#pragma once

#include <string>

namespace google::protobuf {
class MessageLite;
}

namespace nerf {

// Equal messages give equal bytes: maps are sorted by key.
std::string DeterministicBytes(const google::protobuf::MessageLite& message);

// Whether two messages of one type have the same fields.
bool AreEqual(const google::protobuf::MessageLite& a, const google::protobuf::MessageLite& b);

}  // namespace nerf
