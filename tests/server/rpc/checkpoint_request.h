#pragma once

#include <cstdint>
#include <string>

#include "nerf/v1/worker_service.pb.h"
#include "tests/server/rpc/rpc_test_server.h"

namespace nerf {

// The commit of a checkpoint of the leased job, whose two small files are stored before.
inline v1::CommitCheckpointRequest CheckpointRequest(RpcTestServer& server,
                                                     const v1::DesiredJob& lease, uint32_t step) {
  v1::CommitCheckpointRequest request;
  request.set_training_job(lease.training_job());
  request.set_lease_epoch(lease.lease_epoch());
  request.set_step(step);
  *request.mutable_checkpoint_blob() = server.Put("checkpoint " + std::to_string(step));
  *request.mutable_model_blob() = server.Put("model " + std::to_string(step));
  request.set_psnr(20 + step / 100.0);
  return request;
}

}  // namespace nerf
