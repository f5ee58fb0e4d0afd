#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/mutex.h"
#include "server/access/access_control.h"
#include "server/access/access_store.h"

namespace nerf {

// The tokens that the server knows by digest: those of files (admin.token, worker.token), and those
// that people have made, which the store keeps: tokens by admins, and shares. Thread-safe.
class TokenRegistry final : public PrincipalSource {
 public:
  struct NewToken {
    TokenRecord record;
    std::string secret;
  };

  // Names of what a share may read beside its resource, as its `start` says.
  using ReadsOfShare = std::vector<std::string> (*)(const TokenRecord& share);

  // All outlive it. `tokens` are those that the store holds. reads_of_share: nullptr for nothing.
  TokenRegistry(AccessStore* store, std::vector<TokenRecord> tokens, const Clock* clock,
                RandomSource* random, ReadsOfShare reads_of_share = nullptr);

  // A token of a file. Call before the first Identify.
  void AddFixed(std::string_view secret, Principal principal);

  absl::StatusOr<std::optional<Principal>> Identify(std::string_view token) const override;

  // Draws a token, or with a resource a share, and keeps its digest. Of `wanted` it reads
  // display_name, role, project, expire_time, resource and start. Errors: InvalidArgument
  // FIELD_INVALID (expired already); ResourceExhausted QUOTA_EXCEEDED; those of the store.
  absl::StatusOr<NewToken> Create(TokenRecord wanted);
  // Tokens, oldest first. Without a project all.
  std::vector<TokenRecord> List(std::optional<std::string_view> project) const;
  // The shares of a resource, oldest first. Without one all.
  std::vector<TokenRecord> ListShares(std::optional<std::string_view> resource) const;
  // A token, or a share of `resource`. NotFound RESOURCE_NOT_FOUND.
  absl::StatusOr<TokenRecord> Get(std::string_view id, std::string_view resource = "") const;
  absl::Status Delete(const std::string& id, std::string_view resource = "");
  // Deletes all shares of a resource.
  absl::Status DeleteShares(std::string_view resource);

 private:
  template <typename Matches>
  std::vector<TokenRecord> Collect(Matches matches) const ABSL_LOCKS_EXCLUDED(mu_);
  void DropExpired() ABSL_LOCKS_EXCLUDED(mu_);

  AccessStore& store_;
  const Clock& clock_;
  RandomSource& random_;
  const ReadsOfShare reads_of_share_;
  mutable Mutex mu_;
  std::map<std::string, Principal, std::less<>> fixed_ ABSL_GUARDED_BY(mu_);     // by digest
  std::map<std::string, TokenRecord, std::less<>> tokens_ ABSL_GUARDED_BY(mu_);  // by digest
};

// The name of a token, "tokens/{t}", or of a share, "projects/{p}/models/{m}/shares/{s}".
std::string NameOf(const TokenRecord& token);

// A new secret: 64 hexadecimal digits.
std::string DrawSecret(RandomSource& random);

}  // namespace nerf
