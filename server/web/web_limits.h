#pragma once

#include <cstddef>

#include "absl/time/time.h"

namespace nerf {

// Limits of the gateway, for one peer and for all together. gRPC's own limits are part of HTTP/2
// and do not hold for in-process calls.
struct WebLimits {
  // A connection is a stranger until a request of it has shown a valid token. Both kinds have
  // places of their own. A new stranger takes that of an older one; a connection that shows its
  // first token, that of the longest idle one that has.
  size_t max_connections = 192;  // without strangers
  size_t max_strangers = 64;
  size_t max_header_bytes = size_t{16} << 10;    // first line and headers
  size_t max_message_bytes = size_t{4} << 20;    // of a call's request, as gRPC's own
  size_t max_buffered_bytes = size_t{64} << 20;  // requests of all connections in memory
  // For the handshake of TLS.
  absl::Duration handshake_timeout = absl::Seconds(10);
  // Between requests. The first request of a connection has header_timeout instead.
  absl::Duration idle_timeout = absl::Seconds(75);
  // From a header's first byte to its last.
  absl::Duration header_timeout = absl::Seconds(10);
  // For every 64 KiB of a body that is read or written.
  absl::Duration transfer_timeout = absl::Seconds(30);
  // Instead of a longer one of the two, for strangers.
  absl::Duration stranger_timeout = absl::Seconds(15);
  // For a peer that keeps sending a refused body.
  absl::Duration linger_timeout = absl::Seconds(2);
  // How often the limits above are checked.
  absl::Duration sweep_interval = absl::Milliseconds(100);
};

}  // namespace nerf
