#pragma once

#include <cstdint>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nerf/v1/worker_service.pb.h"
#include "tests/server/rpc/rpc_test_server.h"
#include "tests/testing/status_matchers.h"

namespace nerf {

// The commit of a checkpoint of the leased job, whose two small files are stored before.
inline v1::CommitCheckpointRequest CheckpointRequest(RpcTestServer& server,
                                                     const v1::DesiredJob& lease, uint32_t step) {
  v1::CommitCheckpointRequest request;
  request.set_job(lease.job());
  request.set_lease_epoch(lease.lease_epoch());
  request.set_step(step);
  *request.mutable_checkpoint_blob() = server.Make("checkpoint " + std::to_string(step));
  *request.mutable_model_blob() = server.Make("model " + std::to_string(step));
  request.set_psnr(20 + step / 100.0);
  return request;
}

// Makes a model of the job's newest checkpoint.
inline v1::Model PromoteNewest(RpcTestServer& server, const std::string& job,
                               const std::string& model_id) {
  v1::PromoteCheckpointRequest promote;
  promote.set_name(job + "/checkpoints/-");
  promote.set_model_id(model_id);
  v1::Model model;
  EXPECT_THAT(RpcTestServer::Call(*server.model_stub, &v1::ModelService::Stub::PromoteCheckpoint,
                                  promote, &model),
              IsOk());
  return model;
}

}  // namespace nerf
