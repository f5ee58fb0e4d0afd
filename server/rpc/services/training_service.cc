#include "server/rpc/services/training_service.h"

#include <utility>
#include <vector>

#include "common/error_reason.h"
#include "common/status_macros.h"
#include "engine/methods/describe/method_descriptions.h"
#include "server/queue/resources/resource_key.h"
#include "server/rpc/calls/unary_call.h"
#include "server/rpc/convert/convert_job.h"
#include "server/rpc/convert/job_converter.h"
#include "server/rpc/convert/paging.h"
#include "server/rpc/services/job_list_watch.h"
#include "server/rpc/services/job_watch.h"
#include "server/rpc/services/start_choice.h"

namespace nerf {

namespace {

// OK if a job of this config can be initialized from a file with these tensors.
absl::Status CheckInit(const TrainConfig& config, const std::vector<TensorRecord>& tensors) {
  std::vector<TensorShape> held;
  for (const TensorRecord& tensor : tensors) {
    held.push_back({tensor.name, tensor.dtype, tensor.shape});
  }
  const absl::Status fits = CheckInitFits(config, held);
  if (fits.ok()) return absl::OkStatus();
  return WithReason(absl::FailedPreconditionError(fits.message()), reason::kInitMismatch);
}

}  // namespace

grpc::ServerUnaryReactor* TrainingService::CreateTrainingJob(
    grpc::CallbackServerContext* context, const v1::CreateTrainingJobRequest* request,
    v1::TrainingJob* response) {
  return AnswerUnary(services_, "nerf.v1.TrainingService/CreateTrainingJob", context, *request,
                     [=, this]() -> absl::Status {
                       NERF_ASSIGN_OR_RETURN(JobSpec spec, FromProto(*request));
                       const CallOrigin origin = services_.origins->Of(context);
                       spec.origin = {origin.traceparent, origin.request_id};
                       spec.check_init = [&](const std::vector<TensorRecord>& tensors) {
                         return CheckInit(EffectiveConfig(*request), tensors);
                       };
                       spec.choose_start = [&](const StartQuestion& question) {
                         return ChooseStart(EffectiveConfig(*request), question);
                       };
                       NERF_ASSIGN_OR_RETURN(
                           const Job job, services_.queue.Create(spec, request->validate_only()));
                       *response = JobConverter(services_).ToProto(job);
                       return absl::OkStatus();
                     });
}

grpc::ServerUnaryReactor* TrainingService::GetTrainingJob(grpc::CallbackServerContext* context,
                                                          const v1::GetTrainingJobRequest* request,
                                                          v1::TrainingJob* response) {
  return AnswerUnary(services_, "nerf.v1.TrainingService/GetTrainingJob", context, *request,
                     [=, this]() -> absl::Status {
                       NERF_ASSIGN_OR_RETURN(const ResourceKey key,
                                             ParseJobName("name", request->name()));
                       NERF_ASSIGN_OR_RETURN(const Job job, services_.queue.Get(key));
                       *response = JobConverter(services_).ToProto(job);
                       return absl::OkStatus();
                     });
}

grpc::ServerUnaryReactor* TrainingService::ListTrainingJobs(
    grpc::CallbackServerContext* context, const v1::ListTrainingJobsRequest* request,
    v1::ListTrainingJobsResponse* response) {
  return AnswerUnary(
      services_, "nerf.v1.TrainingService/ListTrainingJobs", context, *request,
      [=, this]() -> absl::Status {
        NERF_ASSIGN_OR_RETURN(const JobFilter filter, JobFilter::Parse(request->filter()));
        JobConverter converter(services_);
        return AnswerList(
            *request, response,
            [&](const PageRequest& page) { return services_.queue.List(page, filter); },
            [&](const ListedJob& listed, v1::ListTrainingJobsResponse* list) {
              const auto wait = converter.WaitOf(listed.row->job(), listed.place);
              AddBytes(list->kTrainingJobsFieldNumber, converter.ToBytes(*listed.row, wait), list);
            });
      });
}

grpc::ServerUnaryReactor* TrainingService::UpdateTrainingJob(
    grpc::CallbackServerContext* context, const v1::UpdateTrainingJobRequest* request,
    v1::TrainingJob* response) {
  return AnswerUnary(services_, "nerf.v1.TrainingService/UpdateTrainingJob", context, *request,
                     [=, this]() -> absl::Status {
                       NERF_ASSIGN_OR_RETURN(
                           const ResourceKey key,
                           ParseJobName("training_job.name", request->training_job().name()));
                       NERF_ASSIGN_OR_RETURN(const JobUpdate update, FromProto(*request));
                       NERF_ASSIGN_OR_RETURN(const Job job, services_.queue.Update(key, update));
                       *response = JobConverter(services_).ToProto(job);
                       return absl::OkStatus();
                     });
}

grpc::ServerUnaryReactor* TrainingService::PauseTrainingJob(
    grpc::CallbackServerContext* context, const v1::PauseTrainingJobRequest* request,
    v1::TrainingJob* response) {
  return AnswerUnary(services_, "nerf.v1.TrainingService/PauseTrainingJob", context, *request,
                     [=, this]() -> absl::Status {
                       NERF_ASSIGN_OR_RETURN(const ResourceKey key,
                                             ParseJobName("name", request->name()));
                       NERF_ASSIGN_OR_RETURN(const Job job, services_.queue.Pause(key));
                       *response = JobConverter(services_).ToProto(job);
                       return absl::OkStatus();
                     });
}

grpc::ServerUnaryReactor* TrainingService::ResumeTrainingJob(
    grpc::CallbackServerContext* context, const v1::ResumeTrainingJobRequest* request,
    v1::TrainingJob* response) {
  return AnswerUnary(services_, "nerf.v1.TrainingService/ResumeTrainingJob", context, *request,
                     [=, this]() -> absl::Status {
                       NERF_ASSIGN_OR_RETURN(const ResourceKey key,
                                             ParseJobName("name", request->name()));
                       NERF_ASSIGN_OR_RETURN(const Job job, services_.queue.Resume(key));
                       *response = JobConverter(services_).ToProto(job);
                       return absl::OkStatus();
                     });
}

grpc::ServerUnaryReactor* TrainingService::RetryTrainingJob(
    grpc::CallbackServerContext* context, const v1::RetryTrainingJobRequest* request,
    v1::TrainingJob* response) {
  return AnswerUnary(services_, "nerf.v1.TrainingService/RetryTrainingJob", context, *request,
                     [=, this]() -> absl::Status {
                       NERF_ASSIGN_OR_RETURN(JobSpec spec, FromProto(*request));
                       const CallOrigin origin = services_.origins->Of(context);
                       spec.origin = {origin.traceparent, origin.request_id};
                       NERF_ASSIGN_OR_RETURN(const Job job, services_.queue.Create(spec));
                       *response = JobConverter(services_).ToProto(job);
                       return absl::OkStatus();
                     });
}

grpc::ServerUnaryReactor* TrainingService::ExtendTrainingJob(
    grpc::CallbackServerContext* context, const v1::ExtendTrainingJobRequest* request,
    v1::TrainingJob* response) {
  return AnswerUnary(services_, "nerf.v1.TrainingService/ExtendTrainingJob", context, *request,
                     [=, this]() -> absl::Status {
                       NERF_ASSIGN_OR_RETURN(JobSpec spec, FromProto(*request));
                       const CallOrigin origin = services_.origins->Of(context);
                       spec.origin = {origin.traceparent, origin.request_id};
                       NERF_ASSIGN_OR_RETURN(const Job job, services_.queue.Create(spec));
                       *response = JobConverter(services_).ToProto(job);
                       return absl::OkStatus();
                     });
}

grpc::ServerUnaryReactor* TrainingService::CancelTrainingJob(
    grpc::CallbackServerContext* context, const v1::CancelTrainingJobRequest* request,
    v1::TrainingJob* response) {
  return AnswerUnary(services_, "nerf.v1.TrainingService/CancelTrainingJob", context, *request,
                     [=, this]() -> absl::Status {
                       NERF_ASSIGN_OR_RETURN(const ResourceKey key,
                                             ParseJobName("name", request->name()));
                       NERF_ASSIGN_OR_RETURN(
                           const Job job, services_.queue.Cancel(key, request->keep_checkpoint()));
                       *response = JobConverter(services_).ToProto(job);
                       return absl::OkStatus();
                     });
}

grpc::ServerUnaryReactor* TrainingService::DeleteTrainingJob(
    grpc::CallbackServerContext* context, const v1::DeleteTrainingJobRequest* request,
    google::protobuf::Empty* /*response*/) {
  return AnswerUnary(services_, "nerf.v1.TrainingService/DeleteTrainingJob", context, *request,
                     [=, this]() -> absl::Status {
                       NERF_ASSIGN_OR_RETURN(const ResourceKey key,
                                             ParseJobName("name", request->name()));
                       return services_.queue.Delete(key);
                     });
}

grpc::ServerUnaryReactor* TrainingService::ListTrainingMetrics(
    grpc::CallbackServerContext* context, const v1::ListTrainingMetricsRequest* request,
    v1::ListTrainingMetricsResponse* response) {
  return AnswerUnary(services_, "nerf.v1.TrainingService/ListTrainingMetrics", context, *request,
                     [=, this]() -> absl::Status {
                       NERF_ASSIGN_OR_RETURN(const ResourceKey key,
                                             ParseJobName("name", request->name()));
                       NERF_ASSIGN_OR_RETURN(const JobCurve curve, services_.queue.GetCurve(key));
                       *response = ToProto(curve);
                       return absl::OkStatus();
                     });
}

grpc::ServerWriteReactor<v1::WatchTrainingJobResponse>* TrainingService::WatchTrainingJob(
    grpc::CallbackServerContext* context, const v1::WatchTrainingJobRequest* request) {
  return JobWatch<TrainingWatch>::Begin(services_, context, *request);
}

grpc::ServerWriteReactor<v1::WatchTrainingJobsResponse>* TrainingService::WatchTrainingJobs(
    grpc::CallbackServerContext* context, const v1::WatchTrainingJobsRequest* request) {
  return JobListWatch::Begin(services_, context, *request);
}

}  // namespace nerf
