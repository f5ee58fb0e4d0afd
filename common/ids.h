#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace nerf {

// Where random bytes come from. Thread-safe.
class RandomSource {
 public:
  virtual ~RandomSource() = default;
  virtual void Fill(std::span<uint8_t> bytes) = 0;
};

// The kernel's generator (getrandom).
class SystemRandom final : public RandomSource {
 public:
  void Fill(std::span<uint8_t> bytes) override;
};

// Longest id of a resource (AIP-122).
inline constexpr size_t kMaxResourceIdLength = 63;

// A short random id such as "j-7f3k2c81": the prefix, a dash and eight characters of a 32-letter
// alphabet without look-alikes (40 random bits; the caller draws again when the id is taken).
std::string NewShortId(std::string_view prefix, RandomSource& random);

// A random UUID version 4 in its 36-character lower-case form.
std::string NewUuid4(RandomSource& random);

// True for 1 to 63 characters of [a-z0-9-] that start with a letter and do not end with a dash.
bool IsResourceId(std::string_view id);

// True for the 36-character hexadecimal form of a version 4 UUID, either case.
bool IsUuid4(std::string_view text);

// OK when IsResourceId(id); otherwise InvalidArgument FIELD_INVALID naming `field`.
absl::Status CheckResourceId(std::string_view field, std::string_view id);

}  // namespace nerf
