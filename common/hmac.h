#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace nerf {

inline constexpr size_t kHmacBytes = 32;

// HMAC-SHA256 (RFC 2104) of `bytes` with `key`: kHmacBytes bytes.
std::string HmacSha256(std::string_view key, std::string_view bytes);

// Whether two texts are equal, in a time that depends on their lengths alone.
bool EqualInConstantTime(std::string_view a, std::string_view b);

}  // namespace nerf
