#include "server/queue/resources/token_sealer.h"

#include <array>
#include <cstdint>

#include "absl/strings/escaping.h"
#include "common/hmac.h"
#include "common/packed_strings.h"

namespace nerf {
namespace {

constexpr size_t kUnsignedParts = 5;  // of the tokens of watches before they were signed

std::string MacOf(const std::string& secret, const std::vector<std::string>& use,
                  const std::string& packed) {
  return HmacSha256(secret, PackStrings({PackStrings(use), packed}));
}

// What a token holds, which has one spelling only: no padding, spaces or unused bits.
std::optional<std::string> Unescape(std::string_view token) {
  std::string bytes;
  if (token.size() > TokenSealer::kMaxLength ||
      !absl::WebSafeBase64Unescape(std::string(token), &bytes) ||
      absl::WebSafeBase64Escape(bytes) != token || bytes.size() < kHmacBytes) {
    return std::nullopt;
  }
  return bytes;
}

}  // namespace

std::string DrawTokenSecret(RandomSource& random) {
  std::array<uint8_t, 32> bytes;
  random.Fill(bytes);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

std::string TokenSealer::Seal(const std::vector<std::string>& use,
                              const std::vector<std::string>& parts) const {
  const std::string packed = PackStrings(parts);
  return absl::WebSafeBase64Escape(MacOf(secret_, use, packed) + packed);
}

std::optional<std::vector<std::string>> TokenSealer::Open(const std::vector<std::string>& use,
                                                          std::string_view token) const {
  const std::optional<std::string> bytes = Unescape(token);
  if (!bytes.has_value()) return std::nullopt;
  const std::string packed = bytes->substr(kHmacBytes);
  const std::string mac = MacOf(secret_, use, packed);
  if (!EqualInConstantTime(mac, bytes->substr(0, kHmacBytes))) return std::nullopt;
  return UnpackStrings(packed);
}

std::optional<std::vector<std::string>> TokenSealer::Peek(std::string_view token) {
  const std::optional<std::string> bytes = Unescape(token);
  if (!bytes.has_value()) return std::nullopt;
  return UnpackStrings(bytes->substr(kHmacBytes));
}

bool TokenSealer::IsUnsigned(std::string_view token, std::string_view version) {
  std::string bytes;
  if (token.size() > kMaxLength || !absl::WebSafeBase64Unescape(std::string(token), &bytes)) {
    return false;
  }
  const auto parts = UnpackStrings(bytes);
  return parts.has_value() && parts->size() == kUnsignedParts && parts->front() == version;
}

}  // namespace nerf
