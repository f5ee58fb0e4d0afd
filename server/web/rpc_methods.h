#pragma once

#include <string_view>

namespace google::protobuf {
class MethodDescriptor;
}

namespace nerf {

// The method that browsers may call under `path`, "/package.Service/Method"; null for any other.
// Workers' calls are not among them.
const google::protobuf::MethodDescriptor* FindWebMethod(std::string_view path);

}  // namespace nerf
