#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "common/messages/rpc_status.h"

namespace nerf {

// The one conversion between our errors and gRPC's. Code and message stay; the details of
// ToRpcStatus (rpc_status.h) travel in grpc-status-details-bin. gRPC drops calls whose trailers
// pass 8 KiB, so long messages and lists are cut here: a cut list ends with an entry that says how
// many are left out.
grpc::Status ToGrpcStatus(const absl::Status& status);

// Inverse. Details that cannot be read are ignored.
absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace nerf
