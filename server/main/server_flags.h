#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/tls.h"
#include "server/store/postgres/postgres_stores.h"

namespace nerf {

// The options of nerfd, from flags, NERFD_* variables or defaults, in this order.
struct ServerFlags {
  std::string listen = "127.0.0.1:50051";
  std::string metrics_listen = "127.0.0.1:9464";
  std::string web_listen = "127.0.0.1:8080";  // empty: no web server
  // Named by no flag: the next free ones where these are taken.
  bool metrics_port_may_move = false, web_port_may_move = false;
  std::vector<std::string> web_origins;  // as typed
  std::string health_listen;             // empty: none
  std::string data_dir;                  // absolute
  std::string store;                     // postgresql://...; empty: files of data_dir
  std::string replica_host;              // empty: the only nerfd of its stores
  std::string move_store;                // postgresql://...; empty: nothing is moved
  std::string blobs;                     // "s3://bucket/prefix"; empty: in data_dir
  bool signed_urls = false;              // of the bucket, for workers and clients
  std::string s3_endpoint;               // "https://host:port"; empty: Amazon's
  std::string admin_token_file;          // empty: admin.token in data_dir
  std::string worker_token_file;         // empty: worker.token in data_dir
  TlsFiles tls;                          // of --tls-cert, --tls-key, --client-ca
  std::string jwks;                      // empty: no JWTs
  std::string jwt_issuer;                // empty: any
  std::string jwt_audience = "nerfd";
  int max_connections = 4096;
  bool no_local_worker = false;
  absl::Duration lease_ttl = absl::Seconds(30);
  absl::Duration checkpoint_interval = absl::Seconds(30);
  absl::Duration shutdown_delay = absl::Seconds(5);
  absl::Duration scrub_interval = absl::Hours(24);
  bool insecure = false;
  bool accept_data_loss = false;
  std::string restore;       // folder of a backup; empty: none
  std::string check_backup;  // likewise; it is only checked
  bool list_backups = false;
  std::string log_level = "info";
  std::string log_format = "text";

  bool is_replica() const { return !replica_host.empty(); }
};

// An address to listen on.
struct ListenAddress {
  std::string host;  // without brackets; empty for a unix socket
  int port = 0;
  bool is_unix = false;

  // "host:port", with brackets around a host with colons.
  std::string ToString() const;
};

// "host:port", "[v6]:port" or "unix:PATH". InvalidArgument naming `flag`.
absl::StatusOr<ListenAddress> ParseListenAddress(std::string_view flag, const std::string& text);

// True if only this machine can connect: localhost, 127.0.0.0/8, ::1, unix sockets.
bool IsLoopback(const ListenAddress& address);

// The address at which a process on this machine reaches a server that listens on `address`.
std::string ConnectAddress(const ListenAddress& address);

// Where the other replicas find this one, and the lease with which it leads. Without replicas: no
// lease. Requires: CheckFlags.
ReplicaSeat SeatOf(const ServerFlags& flags);

// Checks what CLI11 cannot: addresses (beyond loopback only with `insecure`), databases, flags that
// exclude each other, and ranges of durations. Errors: InvalidArgument, for the user.
absl::Status CheckFlags(const ServerFlags& flags);

}  // namespace nerf
