#include "server/main/server_flags.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "common/status_macros.h"
#include "server/web/origin.h"

namespace nerf {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";

absl::Status CheckListen(std::string_view flag, const std::string& text, bool insecure) {
  NERF_ASSIGN_OR_RETURN(const ListenAddress address, ParseListenAddress(flag, text));
  if (insecure || IsLoopback(address)) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "{}: {} can be reached from other machines, and connections are not encrypted. Listen on "
      "127.0.0.1, name --tls-cert and --tls-key, or pass --insecure if a proxy or the network "
      "protects it",
      flag, text));
}

absl::Status CheckDuration(std::string_view flag, absl::Duration value, absl::Duration min,
                           absl::Duration max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}: must be from {} to {}, not {}", flag, absl::FormatDuration(min),
                  absl::FormatDuration(max), absl::FormatDuration(value)));
}

absl::Status CheckStore(std::string_view flag, const std::string& uri) {
  if (uri.empty()) return absl::OkStatus();
  const absl::Status status = CheckPostgresUri(uri);
  if (status.ok()) return status;
  return absl::Status(status.code(), fmt::format("{}: {}", flag, std::string(status.message())));
}

absl::Status CheckStoreFlags(const ServerFlags& flags) {
  NERF_RETURN_IF_ERROR(CheckStore("--store", flags.store));
  NERF_RETURN_IF_ERROR(CheckStore("--move-store", flags.move_store));
  if (!flags.store.empty() && !flags.move_store.empty()) {
    return absl::InvalidArgumentError("--store and --move-store exclude each other");
  }
  const bool has_database = !flags.store.empty() || !flags.move_store.empty();
  if (has_database && !flags.restore.empty()) {
    return absl::InvalidArgumentError(
        "--restore fills a data folder; restore a database with pg_restore");
  }
  return absl::OkStatus();
}

// The host of --replica-host at the port of an address.
std::string ReplicaAddress(const std::string& host, const std::string& listen) {
  const bool is_bare_v6 = host.find(':') != std::string::npos && !host.starts_with('[');
  return fmt::format("{}:{}", is_bare_v6 ? "[" + host + "]" : host,
                     ParseListenAddress("", listen)->port);
}

// One that other replicas reach at its host and port.
absl::Status CheckReplicaListen(std::string_view flag, const std::string& text,
                                const ListenAddress& host) {
  NERF_ASSIGN_OR_RETURN(const ListenAddress address, ParseListenAddress(flag, text));
  if (address.is_unix || address.port == 0) {
    return absl::InvalidArgumentError(
        fmt::format("{}: with --replica-host it must be HOST:PORT with a port above 0", flag));
  }
  if (!IsLoopback(address) || IsLoopback(host)) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "{}: other replicas do not reach {} at --replica-host {}", flag, text, host.host));
}

absl::Status CheckReplicaFlags(const ServerFlags& flags) {
  if (!flags.is_replica()) return absl::OkStatus();
  for (const auto& [flag, value] :
       {std::pair("--store", &flags.store), std::pair("--blobs", &flags.blobs),
        std::pair("--admin-token-file", &flags.admin_token_file),
        std::pair("--worker-token-file", &flags.worker_token_file)}) {
    if (value->empty()) {
      return absl::InvalidArgumentError(
          fmt::format("--replica-host needs {}, the same for every replica", flag));
    }
  }
  NERF_ASSIGN_OR_RETURN(
      const ListenAddress host,
      ParseListenAddress("--replica-host", ReplicaAddress(flags.replica_host, "0.0.0.0:1")));
  const bool has_colon = host.host.find(':') != std::string::npos;
  in6_addr v6{};
  if ((has_colon && inet_pton(AF_INET6, host.host.c_str(), &v6) != 1) || host.host == "::" ||
      host.host == "0.0.0.0") {
    return absl::InvalidArgumentError(fmt::format(
        "--replica-host: '{}' is not the name or address of one machine", flags.replica_host));
  }
  NERF_RETURN_IF_ERROR(CheckReplicaListen("--listen", flags.listen, host));
  if (flags.web_listen.empty()) return absl::OkStatus();
  return CheckReplicaListen("--web-listen", flags.web_listen, host);
}

}  // namespace

ReplicaSeat SeatOf(const ServerFlags& flags) {
  if (!flags.is_replica()) return {};
  constexpr absl::Duration kLease = absl::Seconds(3);  // renewed each second
  ReplicaSeat seat = {.lease = kLease,
                      .grpc_address = ReplicaAddress(flags.replica_host, flags.listen)};
  if (!flags.web_listen.empty()) {
    seat.web_address = ReplicaAddress(flags.replica_host, flags.web_listen);
  }
  return seat;
}

std::string ListenAddress::ToString() const {
  if (is_unix) return host;
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

absl::StatusOr<ListenAddress> ParseListenAddress(std::string_view flag, const std::string& text) {
  const absl::Status bad = absl::InvalidArgumentError(
      fmt::format("{}: '{}' is not HOST:PORT (as in 127.0.0.1:50051 or [::1]:50051)", flag, text));
  ListenAddress address;
  if (text.starts_with(kUnixPrefix)) {
    if (text.size() == kUnixPrefix.size()) return bad;
    address.host = text;
    address.is_unix = true;
    return address;
  }
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return bad;
  address.host = text.substr(0, colon);
  const bool bracketed = address.host.front() == '[' && address.host.back() == ']';
  if (bracketed) address.host = address.host.substr(1, address.host.size() - 2);
  if (!bracketed && address.host.find(':') != std::string::npos) return bad;
  if (address.host.empty() ||
      address.host.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyz"
                                     "ABCDEFGHIJKLMNOPQRSTUVWXYZ.:-_") != std::string::npos) {
    return bad;
  }
  const char* const begin = text.data() + colon + 1;
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(begin, end, address.port);
  if (begin == end || error != std::errc() || last != end || address.port < 0 ||
      address.port > 65535) {
    return bad;
  }
  return address;
}

bool IsLoopback(const ListenAddress& address) {
  if (address.is_unix || address.host == "localhost") return true;
  in_addr v4{};
  if (inet_pton(AF_INET, address.host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  return inet_pton(AF_INET6, address.host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

std::string ConnectAddress(const ListenAddress& address) {
  ListenAddress result = address;
  if (address.host == "0.0.0.0") result.host = "127.0.0.1";
  if (address.host == "::") result.host = "::1";
  return result.ToString();
}

absl::Status CheckFlags(const ServerFlags& flags) {
  const bool is_protected = flags.insecure || UsesTls(flags.tls);
  NERF_RETURN_IF_ERROR(CheckListen("--listen", flags.listen, is_protected));
  // Plain also beside TLS, because Prometheus reads it: figures, no data and no tokens.
  NERF_RETURN_IF_ERROR(CheckListen("--metrics-listen", flags.metrics_listen, is_protected));
  // The health service reveals only whether nerfd is up, so it may listen on any address without
  // --insecure.
  if (!flags.health_listen.empty()) {
    NERF_RETURN_IF_ERROR(CheckListen("--health-listen", flags.health_listen, true));
  }
  if (flags.metrics_listen.starts_with(kUnixPrefix)) {
    return absl::InvalidArgumentError("--metrics-listen: must be HOST:PORT");
  }
  if (!flags.web_listen.empty()) {
    NERF_RETURN_IF_ERROR(CheckListen("--web-listen", flags.web_listen, is_protected));
    if (flags.web_listen.starts_with(kUnixPrefix)) {
      return absl::InvalidArgumentError("--web-listen: must be HOST:PORT, or empty for none");
    }
  }
  for (const std::string& origin : flags.web_origins) {
    if (absl::Status status = ParseOrigin(origin).status(); !status.ok()) {
      return absl::InvalidArgumentError(
          fmt::format("--web-origin: '{}' is {}", origin, std::string(status.message())));
    }
  }
  if (flags.tls.cert.empty() != flags.tls.key.empty()) {
    return absl::InvalidArgumentError("--tls-cert and --tls-key go together");
  }
  if (!flags.tls.ca.empty() && flags.tls.cert.empty()) {
    return absl::InvalidArgumentError("--client-ca needs --tls-cert");
  }
  NERF_RETURN_IF_ERROR(CheckStoreFlags(flags));
  NERF_RETURN_IF_ERROR(CheckReplicaFlags(flags));
  constexpr absl::Duration kMin = absl::Milliseconds(100), kMax = absl::Hours(24);
  NERF_RETURN_IF_ERROR(CheckDuration("--lease-ttl", flags.lease_ttl, kMin, kMax));
  NERF_RETURN_IF_ERROR(
      CheckDuration("--checkpoint-interval", flags.checkpoint_interval, kMin, kMax));
  NERF_RETURN_IF_ERROR(CheckDuration("--scrub-interval", flags.scrub_interval, absl::ZeroDuration(),
                                     absl::Hours(24 * 365)));
  return CheckDuration("--shutdown-delay", flags.shutdown_delay, absl::ZeroDuration(),
                       absl::Minutes(5));
}

}  // namespace nerf
