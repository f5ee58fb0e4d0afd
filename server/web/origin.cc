#include "server/web/origin.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <charconv>

#include "absl/strings/ascii.h"

namespace nerf {
namespace {

constexpr std::string_view kHostCharacters = "abcdefghijklmnopqrstuvwxyz0123456789.-_";
constexpr size_t kMaxHostBytes = 253;

int DefaultPort(std::string_view scheme) { return scheme == "https" ? 443 : 80; }

bool IsIpV4(const std::string& host) {
  in_addr address{};
  return inet_pton(AF_INET, host.c_str(), &address) == 1;
}

bool IsIpV6(const std::string& host) {
  in6_addr address{};
  return inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

}  // namespace

std::string Origin::ToString() const {
  return port == DefaultPort(scheme) ? fmt::format("{}://{}", scheme, host)
                                     : fmt::format("{}://{}:{}", scheme, host, port);
}

absl::StatusOr<Origin> ParseHost(std::string_view scheme, std::string_view text) {
  const absl::Status bad = absl::InvalidArgumentError("not HOST or HOST:PORT");
  Origin origin{std::string(scheme), {}, DefaultPort(scheme)};
  std::string lower(text);
  absl::AsciiStrToLower(&lower);
  size_t end = 0;
  if (lower.starts_with('[')) {
    end = lower.find(']');
    if (end == std::string::npos || !IsIpV6(lower.substr(1, end - 1))) return bad;
    ++end;
  } else {
    end = lower.find(':');
    if (end == std::string::npos) end = lower.size();
    if (lower.substr(0, end).find_first_not_of(kHostCharacters) != std::string::npos) return bad;
  }
  origin.host = lower.substr(0, end);
  if (origin.host.empty() || origin.host.size() > kMaxHostBytes) return bad;
  if (end == lower.size()) return origin;
  const std::string port = lower.substr(end + 1);
  if (lower[end] != ':' || port.empty() || port.size() > 5 ||
      port.find_first_not_of("0123456789") != std::string::npos) {
    return bad;
  }
  std::from_chars(port.data(), port.data() + port.size(), origin.port);
  if (origin.port < 1 || origin.port > 65535) return bad;
  return origin;
}

absl::StatusOr<Origin> ParseOrigin(std::string_view text) {
  for (const std::string_view scheme : {"http", "https"}) {
    const std::string prefix = fmt::format("{}://", scheme);
    if (text.starts_with(prefix)) return ParseHost(scheme, text.substr(prefix.size()));
  }
  return absl::InvalidArgumentError("not http://HOST[:PORT] or https://HOST[:PORT]");
}

bool IsFixedHost(std::string_view host) {
  if (host == "localhost" || host.starts_with('[')) return true;
  return IsIpV4(std::string(host));
}

}  // namespace nerf
