#include "server/access/token_registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "absl/strings/escaping.h"
#include "common/access_reason.h"
#include "common/error_reason.h"
#include "common/files/sha256.h"
#include "common/status_macros.h"

namespace nerf {
namespace {

constexpr size_t kMaxTokens = 10'000;  // and as many shares
// Expired tokens stay in lists for this long, and are refused as expired.
constexpr absl::Duration kKeepExpired = absl::Hours(24);

absl::Status NotFound(const std::string& name) {
  return WithReason(absl::NotFoundError(fmt::format("{} not found", name)),
                    reason::kResourceNotFound, {{"resource", name}});
}

std::string NameOf(std::string_view id, std::string_view resource) {
  return resource.empty() ? fmt::format("tokens/{}", id)
                          : fmt::format("{}/shares/{}", resource, id);
}

}  // namespace

std::string NameOf(const TokenRecord& token) { return NameOf(token.id, token.resource); }

std::string DrawSecret(RandomSource& random) {
  std::array<uint8_t, 32> bytes;
  random.Fill(bytes);
  return absl::BytesToHexString({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

TokenRegistry::TokenRegistry(AccessStore* store, std::vector<TokenRecord> tokens,
                             const Clock* clock, RandomSource* random, ReadsOfShare reads_of_share)
    : store_(*store), clock_(*clock), random_(*random), reads_of_share_(reads_of_share) {
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
                          fmt::format("{} expired at {}", NameOf(record),
                                      absl::FormatTime(record.expire_time, absl::UTCTimeZone()))),
                      reason::kTokenExpired);
  }
  Principal principal{
      NameOf(record), {{record.role, record.project, record.resource}}, record.expire_time};
  if (reads_of_share_ != nullptr && !record.resource.empty()) {
    for (std::string& name : reads_of_share_(record)) {
      principal.grants.push_back({Role::kViewer, record.project, std::move(name)});
    }
  }
  return principal;
}

absl::StatusOr<TokenRegistry::NewToken> TokenRegistry::Create(TokenRecord wanted) {
  DropExpired();
  const bool is_share = !wanted.resource.empty();
  wanted.create_time = clock_.WallNow();
  if (wanted.expire_time <= wanted.create_time) {
    return InvalidFieldsError(
        {{is_share ? "share.expire_time" : "token.expire_time", "must be in the future"}});
  }
  const std::string secret = DrawSecret(random_);
  wanted.digest = Sha256Hex(secret);
  const size_t n_same = is_share ? ListShares(std::nullopt).size() : List(std::nullopt).size();
  if (n_same >= kMaxTokens) {
    return WithReason(absl::ResourceExhaustedError(fmt::format(
                          "there are {} {} already", kMaxTokens, is_share ? "shares" : "tokens")),
                      reason::kQuotaExceeded);
  }
  const auto is_taken = [&] {
    return !Collect([&](const TokenRecord& token) { return token.id == wanted.id; }).empty();
  };
  do {
    wanted.id = NewShortId(is_share ? "sh" : "t", random_);
  } while (is_taken());
  NERF_RETURN_IF_ERROR(store_.AddToken(wanted));
  MutexLock lock(mu_);
  tokens_.emplace(wanted.digest, wanted);
  return NewToken{wanted, secret};
}

template <typename Matches>
std::vector<TokenRecord> TokenRegistry::Collect(Matches matches) const {
  std::vector<TokenRecord> list;
  {
    MutexLock lock(mu_);
    for (const auto& [digest, token] : tokens_) {
      if (matches(token)) list.push_back(token);
    }
  }
  std::sort(list.begin(), list.end(), [](const TokenRecord& a, const TokenRecord& b) {
    return std::tie(a.create_time, a.id) < std::tie(b.create_time, b.id);
  });
  return list;
}

std::vector<TokenRecord> TokenRegistry::List(std::optional<std::string_view> project) const {
  return Collect([&](const TokenRecord& token) {
    return token.resource.empty() && (!project.has_value() || token.project == *project);
  });
}

std::vector<TokenRecord> TokenRegistry::ListShares(std::optional<std::string_view> resource) const {
  return Collect([&](const TokenRecord& token) {
    return !token.resource.empty() && (!resource.has_value() || token.resource == *resource);
  });
}

absl::StatusOr<TokenRecord> TokenRegistry::Get(std::string_view id,
                                               std::string_view resource) const {
  const auto found = Collect(
      [&](const TokenRecord& token) { return token.id == id && token.resource == resource; });
  if (found.empty()) return NotFound(NameOf(id, resource));
  return found.front();
}

absl::Status TokenRegistry::Delete(const std::string& id, std::string_view resource) {
  NERF_ASSIGN_OR_RETURN(const TokenRecord token, Get(id, resource));
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

absl::Status TokenRegistry::DeleteShares(std::string_view resource) {
  absl::Status status;
  for (const TokenRecord& share : ListShares(resource)) {
    status.Update(Delete(share.id, share.resource));
  }
  return status;
}

void TokenRegistry::DropExpired() {
  const absl::Time now = clock_.WallNow();
  const auto expired =
      Collect([&](const TokenRecord& token) { return token.expire_time + kKeepExpired < now; });
  for (const TokenRecord& token : expired) Delete(token.id, token.resource).IgnoreError();
}

}  // namespace nerf
