#include "common/ids.h"

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstdlib>

#include "common/error_reason.h"

namespace nerf {
namespace {

// Crockford's base 32 in lower case: no i, l, o, u.
constexpr std::string_view kAlphabet = "0123456789abcdefghjkmnpqrstvwxyz";
constexpr std::string_view kHexDigits = "0123456789abcdef";

bool IsLowerLetter(char c) { return c >= 'a' && c <= 'z'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsHexDigit(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

}  // namespace

void SystemRandom::Fill(std::span<uint8_t> bytes) {
  size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t n = getrandom(bytes.data() + filled, bytes.size() - filled, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) std::abort();  // never on Linux; without randomness no id is safe
    filled += static_cast<size_t>(n);
  }
}

std::string NewShortId(std::string_view prefix, RandomSource& random) {
  std::array<uint8_t, 8> bytes;
  random.Fill(bytes);
  std::string id(prefix);
  id += '-';
  for (uint8_t byte : bytes) id += kAlphabet[byte % kAlphabet.size()];
  return id;
}

std::string NewUuid4(RandomSource& random) {
  std::array<uint8_t, 16> bytes;
  random.Fill(bytes);
  bytes[6] = static_cast<uint8_t>((bytes[6] & 0x0f) | 0x40);
  bytes[8] = static_cast<uint8_t>((bytes[8] & 0x3f) | 0x80);
  std::string uuid;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) uuid += '-';
    uuid += kHexDigits[bytes[i] >> 4];
    uuid += kHexDigits[bytes[i] & 0xf];
  }
  return uuid;
}

bool IsResourceId(std::string_view id) {
  if (id.empty() || id.size() > kMaxResourceIdLength) return false;
  if (!IsLowerLetter(id.front()) || id.back() == '-') return false;
  for (char c : id) {
    if (!IsLowerLetter(c) && !IsDigit(c) && c != '-') return false;
  }
  return true;
}

bool IsUuid4(std::string_view text) {
  if (text.size() != 36) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (is_dash ? text[i] != '-' : !IsHexDigit(text[i])) return false;
  }
  const char variant = text[19];
  return text[14] == '4' && (variant == '8' || variant == '9' || variant == 'a' || variant == 'b' ||
                             variant == 'A' || variant == 'B');
}

absl::Status CheckResourceId(std::string_view field, std::string_view id) {
  if (IsResourceId(id)) return absl::OkStatus();
  return InvalidFieldsError({{std::string(field),
                              "must be 1 to 63 characters of a-z, 0-9 and '-', starting with a "
                              "letter and not ending with '-'"}});
}

}  // namespace nerf
