#include "common/hmac.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <cstdlib>

namespace nerf {

std::string HmacSha256(std::string_view key, std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> mac;
  unsigned int length = 0;
  // Fails only where OpenSSL lacks SHA-256 or memory.
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), mac.data(),
           &length) == nullptr ||
      length != kHmacBytes) {
    std::abort();
  }
  return {reinterpret_cast<const char*>(mac.data()), length};
}

bool EqualInConstantTime(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace nerf
