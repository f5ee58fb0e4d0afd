#include "server/rpc/workers/worker_service.h"

#include <vector>

#include "common/rpc/metadata.h"
#include "common/status_macros.h"
#include "server/queue/kinds/pose_kind.h"
#include "server/queue/records/job_message.h"
#include "server/queue/resources/request_check.h"
#include "server/rpc/calls/unary_call.h"
#include "server/rpc/convert/convert_common.h"
#include "server/rpc/convert/convert_pose.h"
#include "server/rpc/convert/convert_render.h"
#include "server/rpc/convert/convert_report.h"
#include "server/rpc/convert/convert_training.h"
#include "server/rpc/workers/made_blobs.h"

namespace nerf {

grpc::ServerBidiReactor<v1::SynchronizeRequest, v1::SynchronizeResponse>*
WorkerService::Synchronize(CallContext* context) {
  return WorkerStream::Begin(services_, &streams_, context);
}

UnaryReactor* WorkerService::CommitCheckpoint(CallContext* context,
                                              const v1::CommitCheckpointRequest* request,
                                              v1::CommitCheckpointResponse* response) {
  return AnswerUnary(
      services_, "nerf.v1.WorkerService/CommitCheckpoint", context, *request, [=, this] {
        RequestCheck check;
        LeaseRef lease = TakeOr(ParseLease("", request->job(), request->lease_epoch()), check);
        lease.worker = request->worker_id();
        const CheckpointRecord checkpoint = TakeOr(FromProto(*request), check);
        NERF_RETURN_IF_ERROR(check.Result());
        NERF_RETURN_IF_ERROR(services_.authorizer.Counted(
            services_.worker_keys.Check(lease.worker, MetadataOf(*context, kWorkerKeyMetadata))));
        OwnMade(services_, lease.job.project, {checkpoint.checkpoint_blob, checkpoint.model_blob});
        NERF_ASSIGN_OR_RETURN(const auto committed,
                              services_.leases.CommitCheckpoint(lease, checkpoint));
        if (const auto worker = services_.workers.Find(lease.worker); worker.has_value()) {
          services_.metrics.CheckpointCommitted(
              lease.worker, worker->description.device,
              absl::ToDoubleSeconds(services_.clock.WallNow() - absl::UnixEpoch()));
        }
        *response->mutable_checkpoint() = ToProto(lease.job, committed.checkpoint);
        return absl::OkStatus();
      });
}

UnaryReactor* WorkerService::CommitFrames(CallContext* context,
                                          const v1::CommitFramesRequest* request,
                                          v1::CommitFramesResponse* /*response*/) {
  return AnswerUnary(services_, "nerf.v1.WorkerService/CommitFrames", context, *request, [=, this] {
    NERF_ASSIGN_OR_RETURN(const CommittedFrames committed, FromProto(*request));
    NERF_RETURN_IF_ERROR(services_.authorizer.Counted(services_.worker_keys.Check(
        committed.lease.worker, MetadataOf(*context, kWorkerKeyMetadata))));
    std::vector<BlobRef> made;
    for (const auto& [index, frame] : committed.frames) {
      made.insert(made.end(), frame.images.begin(), frame.images.end());
    }
    if (committed.movie.has_value()) made.push_back(*committed.movie);
    OwnMade(services_, committed.lease.job.project, made);
    return services_.leases.CommitFrames(committed.lease, committed.frames, committed.movie);
  });
}

UnaryReactor* WorkerService::CommitPoses(CallContext* context,
                                         const v1::CommitPosesRequest* request,
                                         v1::CommitPosesResponse* /*response*/) {
  return AnswerUnary(services_, "nerf.v1.WorkerService/CommitPoses", context, *request, [=, this] {
    NERF_ASSIGN_OR_RETURN(const CommittedPoses poses, FromProto(*request));
    NERF_RETURN_IF_ERROR(services_.authorizer.Counted(
        services_.worker_keys.Check(poses.lease.worker, MetadataOf(*context, kWorkerKeyMetadata))));
    std::vector<BlobRef> made;
    for (const SceneFileRecord& file : poses.files) made.push_back(file.blob);
    AddBlobs(poses.report, &made);
    OwnMade(services_, poses.lease.job.project, made);
    return services_.leases.CommitPoses(poses.lease, poses.report, poses.files);
  });
}

}  // namespace nerf
