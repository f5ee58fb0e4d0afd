#include "server/access/jwt_keys.h"

#include <fmt/format.h>
#include <jansson.h>

extern "C" {  // its headers lack this
#include <jose/b64.h>
#include <jose/jws.h>
}

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "common/access_reason.h"
#include "common/error_reason.h"
#include "common/files/file_io.h"
#include "common/files/flag_file.h"
#include "common/ids.h"
#include "common/logging.h"
#include "common/status_macros.h"

namespace nerf {
namespace {

constexpr uint64_t kMaxSetBytes = 1 << 20;
constexpr size_t kMaxPartBytes = 8192;
constexpr size_t kMaxSubjectBytes = 128;
// Clocks of issuer and server may differ by this much.
constexpr absl::Duration kSkew = absl::Minutes(1);

struct Release {
  void operator()(json_t* json) const { json_decref(json); }
};
using Json = std::unique_ptr<json_t, Release>;

absl::Status Invalid(std::string_view why) {
  return WithReason(absl::UnauthenticatedError(fmt::format("the JWT {}", why)),
                    reason::kTokenInvalid);
}

// A text of an object; empty for anything else.
std::string Text(const json_t* object, const char* key) {
  const char* text = json_string_value(json_object_get(object, key));
  return text == nullptr ? "" : text;
}

// The object that a part of a token encodes; null if it is none.
Json DecodePart(std::string_view part) {
  if (part.empty() || part.size() > kMaxPartBytes) return nullptr;
  std::string bytes(part.size(), '\0');
  const size_t n = jose_b64_dec_buf(part.data(), part.size(), bytes.data(), bytes.size());
  if (n == SIZE_MAX) return nullptr;
  Json json(json_loadb(bytes.data(), n, JSON_REJECT_DUPLICATES, nullptr));
  return json_is_object(json.get()) ? std::move(json) : nullptr;
}

// The algorithm that a key of the set may verify; empty for one that is of no use here. What the
// token says of itself never chooses another kind of key.
std::string AlgorithmOf(const json_t* key) {
  const std::string type = Text(key, "kty"), use = Text(key, "use"), stated = Text(key, "alg");
  if (!use.empty() && use != "sig") return "";
  std::string algorithm;
  if (type == "RSA") algorithm = "RS256";
  if (type == "EC" && Text(key, "crv") == "P-256") algorithm = "ES256";
  return stated.empty() || stated == algorithm ? algorithm : "";
}

// The time of a claim; nullopt without it or for what is no time.
std::optional<absl::Time> TimeOf(const json_t* claims, const char* key) {
  const json_t* value = json_object_get(claims, key);
  if (!json_is_number(value)) return std::nullopt;
  const double seconds = json_number_value(value);
  if (!std::isfinite(seconds) || std::abs(seconds) > 1e12) return std::nullopt;
  return absl::FromUnixSeconds(static_cast<int64_t>(seconds));
}

bool HasAudience(const json_t* claims, const std::string& wanted) {
  const json_t* audience = json_object_get(claims, "aud");
  if (json_is_string(audience)) return wanted == json_string_value(audience);
  for (size_t i = 0; i < json_array_size(audience); ++i) {
    const char* text = json_string_value(json_array_get(audience, i));
    if (text != nullptr && wanted == text) return true;
  }
  return false;
}

absl::StatusOr<std::vector<Grant>> GrantsOf(json_t* claims) {
  std::vector<Grant> grants;
  json_t* projects = json_object_get(claims, "nerfd");
  const char* project = nullptr;
  json_t* role = nullptr;
  json_object_foreach(projects, project, role) {
    const char* word = json_string_value(role);
    Grant grant;
    if (word == nullptr) return Invalid("has a role that is no text");
    if (std::strcmp(word, "viewer") == 0) {
      grant.role = Role::kViewer;
    } else if (std::strcmp(word, "editor") == 0) {
      grant.role = Role::kEditor;
    } else if (std::strcmp(word, "admin") == 0) {
      grant.role = Role::kAdmin;
    } else {
      return Invalid("has a role that is none of viewer, editor, admin");
    }
    if (std::strcmp(project, "*") != 0) {
      if (!IsResourceId(project)) return Invalid("names a project that cannot be");
      grant.project = project;
    }
    grants.push_back(std::move(grant));
  }
  return grants;
}

}  // namespace

struct JwtKeys::KeySet {
  struct Key {
    std::string id, algorithm;
    Json json;
  };
  std::vector<Key> keys;

  static absl::StatusOr<std::shared_ptr<const KeySet>> Parse(const std::string& path,
                                                             const std::string& content) {
    const Json set(json_loadb(content.data(), content.size(), JSON_REJECT_DUPLICATES, nullptr));
    const json_t* list = json_object_get(set.get(), "keys");
    auto parsed = std::make_shared<KeySet>();
    for (size_t i = 0; i < json_array_size(list); ++i) {
      json_t* key = json_array_get(list, i);
      std::string algorithm = AlgorithmOf(key);
      if (algorithm.empty()) continue;
      parsed->keys.push_back({Text(key, "kid"), std::move(algorithm), Json(json_incref(key))});
    }
    if (parsed->keys.empty()) {
      return absl::InvalidArgumentError(
          fmt::format("--jwks: {} holds no public key for RS256 or ES256", path));
    }
    return parsed;
  }
};

JwtKeys::JwtKeys(const JwtOptions& options, const Clock* clock)
    : options_(options), clock_(*clock) {}
JwtKeys::~JwtKeys() = default;

absl::StatusOr<std::unique_ptr<JwtKeys>> JwtKeys::Open(const JwtOptions& options,
                                                       const Clock* clock) {
  std::unique_ptr<JwtKeys> keys(new JwtKeys(options, clock));
  absl::StatusOr<std::string> content = ReadFile(options.jwks_file, kMaxSetBytes);
  if (!content.ok()) return FlagFileError("--jwks", content.status());
  NERF_ASSIGN_OR_RETURN(auto set, KeySet::Parse(options.jwks_file, *content));
  MutexLock lock(keys->mu_);
  keys->keys_ = std::move(set);
  keys->content_ = *std::move(content);
  return keys;
}

void JwtKeys::Reload() {
  absl::StatusOr<std::string> content = ReadFile(options_.jwks_file, kMaxSetBytes);
  if (!content.ok()) return;  // being replaced
  {
    MutexLock lock(mu_);
    if (*content == content_) return;
  }
  const auto set = KeySet::Parse(options_.jwks_file, *content);
  if (!set.ok()) {
    LogWarning("the key set was not taken", {{"error", set.status().ToString()}});
  } else {
    LogInfo("new keys for JWTs", {{"keys", (*set)->keys.size()}});
  }
  MutexLock lock(mu_);
  if (set.ok()) keys_ = *set;
  content_ = *std::move(content);  // a bad one is named once
}

absl::StatusOr<std::optional<Principal>> JwtKeys::Identify(std::string_view token) const {
  const size_t first = token.find('.'), last = token.rfind('.');
  if (first == token.npos || first == last ||
      token.substr(first + 1, last - first - 1).find('.') != token.npos) {
    return std::nullopt;
  }
  const std::string_view header_part = token.substr(0, first),
                         claims_part = token.substr(first + 1, last - first - 1),
                         signature_part = token.substr(last + 1);
  const Json header = DecodePart(header_part), claims = DecodePart(claims_part);
  if (header == nullptr || claims == nullptr) return Invalid("is not well-formed");
  if (json_object_get(header.get(), "crit") != nullptr) return Invalid("has critical headers");
  const std::string algorithm = Text(header.get(), "alg"), id = Text(header.get(), "kid");
  std::shared_ptr<const KeySet> keys;
  {
    MutexLock lock(mu_);
    keys = keys_;
  }
  const Json jws(json_pack("{s:s%,s:s%,s:s%}", "protected", header_part.data(), header_part.size(),
                           "payload", claims_part.data(), claims_part.size(), "signature",
                           signature_part.data(), signature_part.size()));
  const bool is_signed =
      jws != nullptr &&
      std::any_of(keys->keys.begin(), keys->keys.end(), [&](const KeySet::Key& key) {
        return key.algorithm == algorithm && (id.empty() || key.id.empty() || key.id == id) &&
               jose_jws_ver(nullptr, jws.get(), nullptr, key.json.get(), false);
      });
  if (!is_signed) return Invalid("is signed by no key of the set");

  const absl::Time now = clock_.WallNow();
  const std::optional<absl::Time> expires = TimeOf(claims.get(), "exp");
  if (!expires.has_value()) return Invalid("has no exp");
  if (*expires + kSkew <= now) {
    return WithReason(absl::UnauthenticatedError("the JWT has expired"), reason::kTokenExpired);
  }
  if (json_object_get(claims.get(), "nbf") != nullptr) {
    const auto begins = TimeOf(claims.get(), "nbf");
    if (!begins.has_value() || *begins > now + kSkew) return Invalid("is not valid yet");
  }
  if (!options_.issuer.empty() && Text(claims.get(), "iss") != options_.issuer) {
    return Invalid("is of another issuer");
  }
  if (!HasAudience(claims.get(), options_.audience)) return Invalid("is for another audience");
  const std::string subject = Text(claims.get(), "sub");
  if (subject.empty() || subject.size() > kMaxSubjectBytes) return Invalid("has no usable sub");
  NERF_ASSIGN_OR_RETURN(std::vector<Grant> grants, GrantsOf(claims.get()));
  return Principal{"jwt/" + subject, std::move(grants), *expires};
}

}  // namespace nerf
