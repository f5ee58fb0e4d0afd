#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace nerf {

// Whether a client or worker may call this server: OK for HOST:PORT, [IPV6]:PORT, unix:PATH, and
// for replicas in a list, IPV4:PORT,IPV4:PORT or [IPV6]:PORT,[IPV6]:PORT. Errors: InvalidArgument
// that says what is wrong with --server.
absl::Status CheckServerAddress(std::string_view address);

// True for a list of replicas.
inline bool IsAddressList(std::string_view address) {
  return address.find(',') != std::string_view::npos;
}

// The address as gRPC's URI, which a list needs.
std::string GrpcTarget(std::string_view address);

}  // namespace nerf
