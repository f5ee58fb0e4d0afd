#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace nerf {

// SHA-256 piece by piece. Not thread-safe. Movable; a moved-from object may only be destroyed.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void Update(std::string_view bytes);

  // The digest of everything so far in 64 lower-case hexadecimal characters. The object can go on
  // taking bytes afterwards.
  std::string HexDigest() const;

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

// The digest of `bytes` in 64 lower-case hexadecimal characters.
std::string Sha256Hex(std::string_view bytes);

// The digest of a file's content. NotFound, or Internal with the system's words.
absl::StatusOr<std::string> Sha256OfFile(const std::string& path);

// True for exactly 64 lower-case hexadecimal characters.
bool IsSha256Hex(std::string_view text);

}  // namespace nerf
