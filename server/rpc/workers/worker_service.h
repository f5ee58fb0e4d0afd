#pragma once

#include "nerf/v1/worker_service.grpc.pb.h"
#include "server/rpc/calls/service_context.h"
#include "server/rpc/workers/worker_stream.h"

namespace nerf {

// nerf.v1.WorkerService, for workers with the worker token.
class WorkerService final : public v1::WorkerService::CallbackService {
 public:
  explicit WorkerService(const ServiceContext* services) : services_(*services) {}

  grpc::ServerBidiReactor<v1::SynchronizeRequest, v1::SynchronizeResponse>* Synchronize(
      CallContext* context) override;
  UnaryReactor* CommitPoses(CallContext* context, const v1::CommitPosesRequest* request,
                            v1::CommitPosesResponse* response) override;
  UnaryReactor* CommitFrames(CallContext* context, const v1::CommitFramesRequest* request,
                             v1::CommitFramesResponse* response) override;
  UnaryReactor* CommitCheckpoint(CallContext* context, const v1::CommitCheckpointRequest* request,
                                 v1::CommitCheckpointResponse* response) override;

  // Ends the streams of silent workers. Call a few times a second.
  void Tick() { streams_.EndSilent(); }

 private:
  const ServiceContext& services_;
  WorkerStreams streams_;
};

}  // namespace nerf
