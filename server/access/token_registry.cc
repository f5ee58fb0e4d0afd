#include "server/access/token_registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "absl/strings/escaping.h"
#include "common/access_reason.h"
#include "common/error_reason.h"
#include "common/sha256.h"
#include "common/status_macros.h"

namespace nerf {
namespace {

constexpr size_t kMaxTokens = 10'000;
// Expired tokens stay in lists for this long, and are refused as expired.
constexpr absl::Duration kKeepExpired = absl::Hours(24);

absl::Status NotFound(std::string_view id) {
  return WithReason(absl::NotFoundError(fmt::format("tokens/{} not found", id)),
                    reason::kResourceNotFound, {{"resource", fmt::format("tokens/{}", id)}});
}

}  // namespace

std::string DrawSecret(RandomSource& random) {
  std::array<uint8_t, 32> bytes;
  random.Fill(bytes);
  return absl::BytesToHexString({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

TokenRegistry::TokenRegistry(AccessStore* store, std::vector<TokenRecord> tokens,
                             const Clock* clock, RandomSource* random)
    : store_(*store), clock_(*clock), random_(*random) {
  MutexLock lock(mu_);
  for (TokenRecord& token : tokens) {
    std::string digest = token.digest;
    tokens_.emplace(std::move(digest), std::move(token));
  }
}

void TokenRegistry::AddFixed(std::string_view secret, Principal principal) {
  MutexLock lock(mu_);
  fixed_.insert_or_assign(Sha256Hex(secret), std::move(principal));
}

absl::StatusOr<std::optional<Principal>> TokenRegistry::Identify(std::string_view token) const {
  // A map of digests: how far a comparison went says nothing about any token.
  const std::string digest = Sha256Hex(token);
  MutexLock lock(mu_);
  if (const auto found = fixed_.find(digest); found != fixed_.end()) return found->second;
  const auto found = tokens_.find(digest);
  if (found == tokens_.end()) return std::nullopt;
  const TokenRecord& record = found->second;
  if (record.expire_time <= clock_.WallNow()) {
    return WithReason(absl::UnauthenticatedError(
                          fmt::format("tokens/{} expired at {}", record.id,
                                      absl::FormatTime(record.expire_time, absl::UTCTimeZone()))),
                      reason::kTokenExpired);
  }
  return Principal{"tokens/" + record.id, {{record.role, record.project}}, record.expire_time};
}

absl::StatusOr<TokenRegistry::NewToken> TokenRegistry::Create(TokenRecord wanted) {
  DropExpired();
  wanted.create_time = clock_.WallNow();
  if (wanted.expire_time <= wanted.create_time) {
    return InvalidFieldsError({{"token.expire_time", "must be in the future"}});
  }
  const std::string secret = DrawSecret(random_);
  wanted.digest = Sha256Hex(secret);
  {
    MutexLock lock(mu_);
    if (tokens_.size() >= kMaxTokens) {
      return WithReason(
          absl::ResourceExhaustedError(fmt::format("there are {} tokens already", kMaxTokens)),
          reason::kQuotaExceeded);
    }
  }
  do {
    wanted.id = NewShortId("t", random_);
  } while (Get(wanted.id).ok());
  NERF_RETURN_IF_ERROR(store_.AddToken(wanted));
  MutexLock lock(mu_);
  tokens_.emplace(wanted.digest, wanted);
  return NewToken{wanted, secret};
}

std::vector<TokenRecord> TokenRegistry::List(std::optional<std::string_view> project) const {
  std::vector<TokenRecord> list;
  MutexLock lock(mu_);
  for (const auto& [digest, token] : tokens_) {
    if (!project.has_value() || token.project == *project) list.push_back(token);
  }
  std::sort(list.begin(), list.end(), [](const TokenRecord& a, const TokenRecord& b) {
    return std::tie(a.create_time, a.id) < std::tie(b.create_time, b.id);
  });
  return list;
}

absl::StatusOr<TokenRecord> TokenRegistry::Get(std::string_view id) const {
  MutexLock lock(mu_);
  for (const auto& [digest, token] : tokens_) {
    if (token.id == id) return token;
  }
  return NotFound(id);
}

absl::Status TokenRegistry::Delete(const std::string& id) {
  NERF_ASSIGN_OR_RETURN(const TokenRecord token, Get(id));
  {
    // Refused from here on, whatever the disk says.
    MutexLock lock(mu_);
    tokens_.erase(token.digest);
  }
  absl::Status status = store_.DeleteToken(id);
  if (!status.ok()) {
    // It would be back after a restart: say that it still is.
    MutexLock lock(mu_);
    tokens_.emplace(token.digest, token);
  }
  return status;
}

void TokenRegistry::DropExpired() {
  std::vector<std::string> expired;
  for (const TokenRecord& token : List(std::nullopt)) {
    if (token.expire_time + kKeepExpired < clock_.WallNow()) expired.push_back(token.id);
  }
  for (const std::string& id : expired) Delete(id).IgnoreError();
}

}  // namespace nerf
