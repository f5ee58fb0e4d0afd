#pragma once

#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "common/files/sha256.h"
#include "common/problems.h"

namespace nerf {

// The problems of a request.
class RequestCheck : public Problems {
 public:
  // Requires IsResourceId. An empty id may be allowed where the queue makes one.
  void RequireId(std::string_view field, std::string_view id, bool may_be_empty = false);
  // Empty or a UUID4.
  void RequireRequestId(std::string_view field, std::string_view request_id);
  // At most kMaxDisplayNameLength bytes of UTF-8 without control characters.
  void RequireDisplayName(std::string_view field, std::string_view name);
};

// A deadline by the wall clock, which says `now`.
void RequireFuture(std::string_view field, absl::Time deadline, absl::Time now,
                   RequestCheck& check);

inline constexpr size_t kMaxDisplayNameLength = 128;  // bytes

// True for well-formed UTF-8 (no overlong forms, no surrogates) without control characters.
bool IsPlainText(std::string_view text);

// The digest of a request's body, part by part. Different sequences of parts give different
// digests, also when their texts joined together are equal.
class Fingerprint {
 public:
  Fingerprint& Add(std::string_view part);
  Fingerprint& Add(uint64_t part) { return Add(std::to_string(part)); }
  std::string Hex() const { return sha_.HexDigest(); }

 private:
  Sha256 sha_;
};

}  // namespace nerf
