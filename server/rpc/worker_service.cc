#include "server/rpc/worker_service.h"

#include "common/status_macros.h"
#include "server/queue/request_check.h"
#include "server/rpc/convert_common.h"
#include "server/rpc/convert_job.h"
#include "server/rpc/convert_render.h"
#include "server/rpc/unary_call.h"

namespace nerf {

grpc::ServerBidiReactor<v1::SynchronizeRequest, v1::SynchronizeResponse>*
WorkerService::Synchronize(grpc::CallbackServerContext* context) {
  return WorkerStream::Begin(services_, &streams_, context);
}

grpc::ServerUnaryReactor* WorkerService::CommitCheckpoint(
    grpc::CallbackServerContext* context, const v1::CommitCheckpointRequest* request,
    v1::CommitCheckpointResponse* response) {
  return AnswerUnary(
      services_, "nerf.v1.WorkerService/CommitCheckpoint", context, [=, this]() -> absl::Status {
        RequestCheck check;
        LeaseRef lease =
            TakeOr(ParseLease("", request->training_job(), request->lease_epoch()), check);
        lease.worker = request->worker_id();
        const CheckpointRecord checkpoint = TakeOr(FromProto(*request), check);
        NERF_RETURN_IF_ERROR(check.Result());
        NERF_ASSIGN_OR_RETURN(const auto committed,
                              services_.leases.CommitCheckpoint(lease, checkpoint));
        *response->mutable_checkpoint() = ToProto(lease.job, committed.checkpoint);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* WorkerService::CommitFrames(grpc::CallbackServerContext* context,
                                                      const v1::CommitFramesRequest* request,
                                                      v1::CommitFramesResponse* /*response*/) {
  return AnswerUnary(
      services_, "nerf.v1.WorkerService/CommitFrames", context, [=, this]() -> absl::Status {
        NERF_ASSIGN_OR_RETURN(const CommittedFrames committed, FromProto(*request));
        return services_.leases.CommitFrames(committed.lease, committed.frames, committed.movie);
      });
}

}  // namespace nerf
