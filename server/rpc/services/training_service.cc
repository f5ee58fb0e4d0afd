#include "server/rpc/services/services.h"

#include <memory>
#include <utility>
#include <vector>

#include "common/error_reason.h"
#include "common/status_macros.h"
#include "engine/methods/describe/method_descriptions.h"
#include "nerf/v1/training_service.grpc.pb.h"
#include "server/queue/resources/resource_key.h"
#include "server/rpc/calls/service_context.h"
#include "server/rpc/calls/unary_call.h"
#include "server/rpc/convert/convert_job.h"
#include "server/rpc/convert/job_converter.h"
#include "server/rpc/convert/paging.h"
#include "server/rpc/services/job_calls.h"
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

// nerf.v1.TrainingService on top of the job queue.
class TrainingService final : public v1::TrainingService::CallbackService {
 public:
  explicit TrainingService(const ServiceContext* services) : services_(*services) {}

  UnaryReactor* CreateTrainingJob(CallContext* context, const v1::CreateTrainingJobRequest* request,
                                  v1::TrainingJob* response) override {
    return AnswerCreateJob(services_, "nerf.v1.TrainingService/CreateTrainingJob", context, request,
                           response, [request]() -> absl::StatusOr<JobSpec> {
                             NERF_ASSIGN_OR_RETURN(JobSpec spec, FromProto(*request));
                             spec.check_init = [request](const std::vector<TensorRecord>& tensors) {
                               return CheckInit(EffectiveConfig(*request), tensors);
                             };
                             spec.choose_start = [request](const StartQuestion& question) {
                               return ChooseStart(EffectiveConfig(*request), question);
                             };
                             return spec;
                           });
  }

  UnaryReactor* GetTrainingJob(CallContext* context, const v1::GetTrainingJobRequest* request,
                               v1::TrainingJob* response) override {
    return AnswerGetJob(services_, "nerf.v1.TrainingService/GetTrainingJob", context, request,
                        response);
  }

  UnaryReactor* ListTrainingJobs(CallContext* context, const v1::ListTrainingJobsRequest* request,
                                 v1::ListTrainingJobsResponse* response) override {
    return AnswerUnary(
        services_, "nerf.v1.TrainingService/ListTrainingJobs", context, *request, [=, this] {
          NERF_ASSIGN_OR_RETURN(const JobFilter filter, JobFilter::Parse(request->filter()));
          JobConverter converter(services_);
          return AnswerList(
              *request, response,
              [&](const PageRequest& page) { return services_.queue.List(page, filter); },
              [&](const ListedJob& listed, v1::ListTrainingJobsResponse* list) {
                const auto wait = converter.WaitOf(listed.row->job(), listed.place);
                AddBytes(list->kTrainingJobsFieldNumber, converter.ToBytes(*listed.row, wait),
                         list);
              });
        });
  }

  UnaryReactor* UpdateTrainingJob(CallContext* context, const v1::UpdateTrainingJobRequest* request,
                                  v1::TrainingJob* response) override {
    return AnswerUnary(
        services_, "nerf.v1.TrainingService/UpdateTrainingJob", context, *request, [=, this] {
          NERF_ASSIGN_OR_RETURN(const ResourceKey key,
                                ParseJobName("training_job.name", request->training_job().name()));
          NERF_ASSIGN_OR_RETURN(const JobUpdate update, FromProto(*request));
          NERF_ASSIGN_OR_RETURN(const Job job, services_.queue.Update(key, update));
          *response = JobConverter(services_).ToProto(job);
          return absl::OkStatus();
        });
  }

  UnaryReactor* PauseTrainingJob(CallContext* context, const v1::PauseTrainingJobRequest* request,
                                 v1::TrainingJob* response) override {
    return AnswerJob(services_, "nerf.v1.TrainingService/PauseTrainingJob", context, request,
                     response,
                     [this](const ResourceKey& key) { return services_.queue.Pause(key); });
  }

  UnaryReactor* ResumeTrainingJob(CallContext* context, const v1::ResumeTrainingJobRequest* request,
                                  v1::TrainingJob* response) override {
    return AnswerJob(services_, "nerf.v1.TrainingService/ResumeTrainingJob", context, request,
                     response,
                     [this](const ResourceKey& key) { return services_.queue.Resume(key); });
  }

  UnaryReactor* RetryTrainingJob(CallContext* context, const v1::RetryTrainingJobRequest* request,
                                 v1::TrainingJob* response) override {
    return AnswerCreateJob(services_, "nerf.v1.TrainingService/RetryTrainingJob", context, request,
                           response, [request] { return FromProto(*request); });
  }

  UnaryReactor* ExtendTrainingJob(CallContext* context, const v1::ExtendTrainingJobRequest* request,
                                  v1::TrainingJob* response) override {
    return AnswerCreateJob(services_, "nerf.v1.TrainingService/ExtendTrainingJob", context, request,
                           response, [request] { return FromProto(*request); });
  }

  UnaryReactor* CancelTrainingJob(CallContext* context, const v1::CancelTrainingJobRequest* request,
                                  v1::TrainingJob* response) override {
    return AnswerJob(services_, "nerf.v1.TrainingService/CancelTrainingJob", context, request,
                     response, [=, this](const ResourceKey& key) {
                       return services_.queue.Cancel(key, request->keep_checkpoint());
                     });
  }

  UnaryReactor* DeleteTrainingJob(CallContext* context, const v1::DeleteTrainingJobRequest* request,
                                  google::protobuf::Empty* /*response*/) override {
    return AnswerDeleteJob(services_, "nerf.v1.TrainingService/DeleteTrainingJob",
                           JobKind::kTraining, context, request);
  }

  UnaryReactor* ListTrainingMetrics(CallContext* context,
                                    const v1::ListTrainingMetricsRequest* request,
                                    v1::ListTrainingMetricsResponse* response) override {
    return AnswerUnary(
        services_, "nerf.v1.TrainingService/ListTrainingMetrics", context, *request, [=, this] {
          NERF_ASSIGN_OR_RETURN(const ResourceKey key, ParseJobName("name", request->name()));
          NERF_ASSIGN_OR_RETURN(const JobCurve curve, services_.queue.GetCurve(key));
          *response = ToProto(curve);
          return absl::OkStatus();
        });
  }

  grpc::ServerWriteReactor<v1::WatchTrainingJobResponse>* WatchTrainingJob(
      CallContext* context, const v1::WatchTrainingJobRequest* request) override {
    return JobWatch<TrainingWatch>::Begin(services_, context, *request);
  }

  grpc::ServerWriteReactor<v1::WatchTrainingJobsResponse>* WatchTrainingJobs(
      CallContext* context, const v1::WatchTrainingJobsRequest* request) override {
    return JobListWatch::Begin(services_, context, *request);
  }

 private:
  const ServiceContext& services_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeTrainingService(const ServiceContext* services) {
  return std::make_unique<TrainingService>(services);
}

}  // namespace nerf
