#include "server/rpc/services/services.h"

#include <memory>

#include "common/status_macros.h"
#include "nerf/v1/pose_job_service.grpc.pb.h"
#include "server/rpc/calls/service_context.h"
#include "server/rpc/convert/convert_pose.h"
#include "server/rpc/convert/convert_scene.h"
#include "server/rpc/services/job_calls.h"
#include "server/rpc/services/job_watch.h"
#include "server/rpc/services/owned_blobs.h"

namespace nerf {
namespace {

// A worker gets the files of both in one message. Errors: ResourceExhausted SIZE_LIMIT.
absl::Status CheckOrderSize(SceneCatalog& scenes, const JobSpec& spec,
                            const v1::CreatePoseJobRequest& request) {
  if (spec.pose.into.empty()) return absl::OkStatus();
  const auto scene = scenes.Get({spec.project, spec.pose.into});
  if (!scene.ok()) return absl::OkStatus();  // Create says so, unless it was asked before
  v1::PoseTask task;
  AddManifest(scene->files, task.mutable_into_files());
  return CheckManifestSize(task.ByteSizeLong() + request.pose_job().ByteSizeLong());
}

// Pose jobs for clients.
class PoseJobService final : public v1::PoseJobService::CallbackService {
 public:
  explicit PoseJobService(const ServiceContext* services) : services_(*services) {}

  UnaryReactor* CreatePoseJob(CallContext* context, const v1::CreatePoseJobRequest* request,
                              v1::PoseJob* response) override {
    return AnswerCreateJob(
        services_, "nerf.v1.PoseJobService/CreatePoseJob", context, request, response,
        [=, this]() -> absl::StatusOr<JobSpec> {
          NERF_ASSIGN_OR_RETURN(JobSpec spec, FromProto(*request));
          NERF_RETURN_IF_ERROR(RequireOwned(services_.blob_owners, spec.project, spec.pose.files));
          NERF_RETURN_IF_ERROR(CheckOrderSize(services_.scenes, spec, *request));
          return spec;
        });
  }

  UnaryReactor* GetPoseJob(CallContext* context, const v1::GetPoseJobRequest* request,
                           v1::PoseJob* response) override {
    return AnswerGetJob(services_, "nerf.v1.PoseJobService/GetPoseJob", context, request, response);
  }

  UnaryReactor* ListPoseJobs(CallContext* context, const v1::ListPoseJobsRequest* request,
                             v1::ListPoseJobsResponse* response) override {
    return AnswerListJobs(services_, "nerf.v1.PoseJobService/ListPoseJobs", context, request,
                          response, &v1::ListPoseJobsResponse::add_pose_jobs);
  }

  grpc::ServerWriteReactor<v1::WatchPoseJobResponse>* WatchPoseJob(
      CallContext* context, const v1::WatchPoseJobRequest* request) override {
    return JobWatch<PoseWatch>::Begin(services_, context, *request);
  }

  UnaryReactor* CancelPoseJob(CallContext* context, const v1::CancelPoseJobRequest* request,
                              v1::PoseJob* response) override {
    return AnswerJob(services_, "nerf.v1.PoseJobService/CancelPoseJob", context, request, response,
                     [this](const ResourceKey& key) {
                       return services_.queue.Cancel(key, /*keep_checkpoint=*/false,
                                                     JobKind::kPose);
                     });
  }

  UnaryReactor* DeletePoseJob(CallContext* context, const v1::DeletePoseJobRequest* request,
                              google::protobuf::Empty* /*response*/) override {
    return AnswerDeleteJob(services_, "nerf.v1.PoseJobService/DeletePoseJob", JobKind::kPose,
                           context, request);
  }

 private:
  const ServiceContext& services_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakePoseJobService(const ServiceContext* services) {
  return std::make_unique<PoseJobService>(services);
}

}  // namespace nerf
