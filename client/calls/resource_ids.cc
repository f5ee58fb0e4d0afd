#include "client/calls/resource_ids.h"

#include <utility>

#include "client/calls/job_calls.h"
#include "fmt/format.h"
#include "nerf/v1/admin_service.grpc.pb.h"
#include "nerf/v1/job_service.grpc.pb.h"
#include "nerf/v1/model_service.grpc.pb.h"
#include "nerf/v1/scene_service.grpc.pb.h"

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

std::vector<std::string> ListShortIds(Session& session, ResourceKind kind,
                                      std::string_view job_kind) {
  switch (kind) {
    case ResourceKind::kScene:
      return IdsOf<v1::SceneService>(session, OfProject<v1::ListScenesRequest>(session),
                                     &v1::SceneService::Stub::ListScenes,
                                     &v1::ListScenesResponse::scenes);
    case ResourceKind::kJob: {
      auto request = OfProject<v1::ListJobsRequest>(session);
      if (!job_kind.empty()) request.set_filter(fmt::format("kind = {}", job_kind));
      return IdsOf<v1::JobService>(session, std::move(request), &v1::JobService::Stub::ListJobs,
                                   &v1::ListJobsResponse::jobs);
    }
    case ResourceKind::kModel:
      return IdsOf<v1::ModelService>(session, OfProject<v1::ListModelsRequest>(session),
                                     &v1::ModelService::Stub::ListModels,
                                     &v1::ListModelsResponse::models);
    case ResourceKind::kWorker:
      return IdsOf<v1::AdminService>(session, v1::ListWorkersRequest(),
                                     &v1::AdminService::Stub::ListWorkers,
                                     &v1::ListWorkersResponse::workers);
  }
  return {};
}

std::optional<v1::Job> JobNamedLike(Session& session, std::string_view model_name) {
  constexpr std::string_view kModels = "/models/";
  std::string name(model_name);
  const size_t at = name.find(kModels);
  if (at == std::string::npos) return std::nullopt;
  auto job = GetJob(session, name.replace(at, kModels.size(), "/jobs/"), kMaxIdsWait);
  if (!job.ok() || !job->has_training()) return std::nullopt;
  return *std::move(job);
}

}  // namespace nerf
