#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/file_io.h"

namespace nerf {

// Sockets that listen, not blocking, and their port.
struct ListenSockets {
  std::vector<UniqueFd> sockets;  // at least one
  int port = 0;
};

// Listens at all addresses of a "host:port": a name such as localhost may have one of each family,
// and a wildcard of either family stands for both. Port 0 is a free one, the same for all. Leaves
// out the addresses that this machine does not have, unless that leaves none. FailedPrecondition if
// the text is wrong or an address is in use.
absl::StatusOr<ListenSockets> ListenAtHost(const std::string& listen);

// Listens at a Unix socket. Replaces the file of a server that is gone. FailedPrecondition if the
// path is in use, empty or too long.
absl::StatusOr<UniqueFd> ListenAtPath(const std::string& path);

// FailedPrecondition "cannot listen on ADDRESS: " and what errno says.
absl::Status ListenError(const std::string& address, int error);

}  // namespace nerf
