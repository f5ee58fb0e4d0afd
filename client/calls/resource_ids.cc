#include "client/calls/resource_ids.h"

#include "client/calls/session.h"
#include "nerf/v1/admin_service.grpc.pb.h"
#include "nerf/v1/export_job_service.grpc.pb.h"
#include "nerf/v1/model_service.grpc.pb.h"
#include "nerf/v1/pose_job_service.grpc.pb.h"
#include "nerf/v1/render_job_service.grpc.pb.h"
#include "nerf/v1/scene_service.grpc.pb.h"
#include "nerf/v1/training_service.grpc.pb.h"

namespace nerf {
namespace {

constexpr int kMaxIds = 100;
constexpr absl::Duration kMaxIdsWait = absl::Seconds(2);

template <typename Service, typename Request, typename Response, typename Resource>
std::vector<std::string> IdsOf(
    Session& session, Request request,
    grpc::Status (Service::Stub::*method)(grpc::ClientContext*, const Request&, Response*),
    const google::protobuf::RepeatedPtrField<Resource>& (Response::*items)() const) {
  request.set_page_size(kMaxIds);
  const auto stub = session.Stub<Service>();
  const auto page = session.Call(*stub, method, request, kMaxIdsWait);
  std::vector<std::string> ids;
  if (!page.ok()) return ids;
  for (const Resource& resource : ((*page).*items)()) ids.push_back(ShortName(resource.name()));
  return ids;
}

template <typename Request>
Request OfProject(const Session& session) {
  Request request;
  request.set_parent(ProjectName(session.flags().project).value_or(""));
  return request;
}

}  // namespace

std::vector<std::string> ListShortIds(Session& session, ResourceKind kind) {
  switch (kind) {
    case ResourceKind::kScene:
      return IdsOf<v1::SceneService>(session, OfProject<v1::ListScenesRequest>(session),
                                     &v1::SceneService::Stub::ListScenes,
                                     &v1::ListScenesResponse::scenes);
    case ResourceKind::kJob:
      return IdsOf<v1::TrainingService>(session, OfProject<v1::ListTrainingJobsRequest>(session),
                                        &v1::TrainingService::Stub::ListTrainingJobs,
                                        &v1::ListTrainingJobsResponse::training_jobs);
    case ResourceKind::kModel:
      return IdsOf<v1::ModelService>(session, OfProject<v1::ListModelsRequest>(session),
                                     &v1::ModelService::Stub::ListModels,
                                     &v1::ListModelsResponse::models);
    case ResourceKind::kRenderJob:
      return IdsOf<v1::RenderJobService>(session, OfProject<v1::ListRenderJobsRequest>(session),
                                         &v1::RenderJobService::Stub::ListRenderJobs,
                                         &v1::ListRenderJobsResponse::render_jobs);
    case ResourceKind::kPoseJob:
      return IdsOf<v1::PoseJobService>(session, OfProject<v1::ListPoseJobsRequest>(session),
                                       &v1::PoseJobService::Stub::ListPoseJobs,
                                       &v1::ListPoseJobsResponse::pose_jobs);
    case ResourceKind::kExportJob:
      return IdsOf<v1::ExportJobService>(session, OfProject<v1::ListExportJobsRequest>(session),
                                         &v1::ExportJobService::Stub::ListExportJobs,
                                         &v1::ListExportJobsResponse::export_jobs);
    case ResourceKind::kWorker:
      return IdsOf<v1::AdminService>(session, v1::ListWorkersRequest(),
                                     &v1::AdminService::Stub::ListWorkers,
                                     &v1::ListWorkersResponse::workers);
  }
  return {};
}

std::optional<v1::TrainingJob> JobNamedLike(Session& session, std::string_view model_name) {
  constexpr std::string_view kModels = "/models/";
  v1::GetTrainingJobRequest request;
  *request.mutable_name() = model_name;
  const size_t at = model_name.find(kModels);
  if (at == std::string_view::npos) return std::nullopt;
  request.mutable_name()->replace(at, kModels.size(), "/trainingJobs/");
  const auto stub = session.Stub<v1::TrainingService>();
  auto job = session.Call(*stub, &v1::TrainingService::Stub::GetTrainingJob, request, kMaxIdsWait);
  if (!job.ok()) return std::nullopt;
  return *std::move(job);
}

}  // namespace nerf
