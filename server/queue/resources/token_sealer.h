#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/ids.h"

namespace nerf {

// A new secret for a TokenSealer: 64 hexadecimal digits.
std::string DrawTokenSecret(RandomSource& random);

// Makes the opaque tokens of watches and pages, which clients keep and send back. A token is
// readable, so nothing secret goes into it, but only who has the secret can make or change one
// (HMAC-SHA256). Thread-safe.
class TokenSealer {
 public:
  // Longer tokens are refused unread; the longest that is made has some 600 bytes.
  static constexpr size_t kMaxLength = 1024;

  explicit TokenSealer(std::string secret) : secret_(std::move(secret)) {}

  // A token of `parts` that Open accepts for the same `use` only. The use names the method and all
  // that the token depends on, such as project and filter; it is not part of the token.
  std::string Seal(const std::vector<std::string>& use,
                   const std::vector<std::string>& parts) const;

  // The parts; nullopt for a text that Seal did not make, with this secret, for this use.
  std::optional<std::vector<std::string>> Open(const std::vector<std::string>& use,
                                               std::string_view token) const;

  // The parts of a token, whoever made it; nullopt for a text without the form of one.
  static std::optional<std::vector<std::string>> Peek(std::string_view token);

  // Whether the text is a token of this version from before tokens were signed.
  static bool IsUnsigned(std::string_view token, std::string_view version);

 private:
  const std::string secret_;
};

}  // namespace nerf
