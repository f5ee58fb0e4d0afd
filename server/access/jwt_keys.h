#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "server/access/access_control.h"

namespace nerf {

struct JwtOptions {
  std::string jwks_file;           // the issuer's public keys, a JSON Web Key Set (RFC 7517)
  std::string issuer;              // what `iss` has to be; empty: anything
  std::string audience = "nerfd";  // what `aud` has to be or to hold
};

// Principals of JSON Web Tokens (RFC 7519) signed with RS256 or ES256 by a key of the set. Claims:
// `exp` is required; `nbf` counts if present; both with a minute of skew. `sub` names the
// principal. `nerfd` is an object from projects to roles, such as {"lab": "editor"}, where "*" is
// every project; the roles are viewer, editor and admin. The file is read again when it has
// changed. Thread-safe.
class JwtKeys final : public PrincipalSource {
 public:
  // The clock outlives it. Errors: InvalidArgument for a file without a usable key.
  static absl::StatusOr<std::unique_ptr<JwtKeys>> Open(const JwtOptions& options,
                                                       const Clock* clock);
  ~JwtKeys() override;

  // nullopt for a token that is not three parts with dots between.
  absl::StatusOr<std::optional<Principal>> Identify(std::string_view token) const override;

  // Reads the file again if it has changed; keeps the keys that it has if it cannot be read. Call
  // once a second or so.
  void Reload();

 private:
  struct KeySet;
  JwtKeys(const JwtOptions& options, const Clock* clock);

  const JwtOptions options_;
  const Clock& clock_;
  mutable Mutex mu_;
  std::shared_ptr<const KeySet> keys_ ABSL_GUARDED_BY(mu_);
  std::string content_ ABSL_GUARDED_BY(mu_);  // of the file
};

}  // namespace nerf
