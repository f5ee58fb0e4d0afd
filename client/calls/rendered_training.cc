#include "client/calls/rendered_training.h"

#include <string>

#include "client/calls/job_calls.h"
#include "client/calls/resource_calls.h"
#include "common/status_macros.h"
#include "nerf/v1/model_service.grpc.pb.h"

namespace nerf {
namespace {

absl::StatusOr<std::string> NameOfTraining(Session& session,
                                           const v1::RenderImageRequest& request) {
  if (!request.training_job().empty()) return request.training_job();
  if (const size_t end = request.checkpoint().find("/checkpoints/"); end != std::string::npos) {
    return request.checkpoint().substr(0, end);
  }
  NERF_ASSIGN_OR_RETURN(
      const v1::Model model,
      CallByName<v1::ModelService>(session, request.model(), &v1::ModelService::Stub::GetModel,
                                   kMaxQuestion));
  if (model.training_job().empty()) return absl::NotFoundError("the model names no job");
  return model.training_job();
}

}  // namespace

absl::StatusOr<v1::Job> TrainingOf(Session& session, const v1::RenderImageRequest& request) {
  NERF_ASSIGN_OR_RETURN(const std::string name, NameOfTraining(session, request));
  return GetJob(session, name, kMaxQuestion);
}

}  // namespace nerf
