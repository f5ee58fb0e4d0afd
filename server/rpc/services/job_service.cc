#include "server/rpc/services/services.h"

#include <memory>

#include "common/status_macros.h"
#include "nerf/v1/job_service.grpc.pb.h"
#include "server/queue/resources/resource_key.h"
#include "server/rpc/calls/service_context.h"
#include "server/rpc/calls/unary_call.h"
#include "server/rpc/convert/convert_job.h"
#include "server/rpc/convert/convert_training.h"
#include "server/rpc/convert/job_converter.h"
#include "server/rpc/convert/paging.h"
#include "server/rpc/services/job_admission.h"
#include "server/rpc/services/job_list_watch.h"
#include "server/rpc/services/job_watch.h"

namespace nerf {
namespace {

// nerf.v1.JobService on top of the job queue.
class JobService final : public v1::JobService::CallbackService {
 public:
  explicit JobService(const ServiceContext* services) : services_(*services) {}

  UnaryReactor* CreateJob(CallContext* context, const v1::CreateJobRequest* request,
                          v1::Job* response) override {
    const auto make_spec = [=, this]() -> absl::StatusOr<JobSpec> {
      NERF_ASSIGN_OR_RETURN(JobSpec spec, FromProto(*request));
      NERF_RETURN_IF_ERROR(AdmitJob(services_, *request, &spec));
      return spec;
    };
    return AnswerCreate("nerf.v1.JobService/CreateJob", context, request, response, make_spec,
                        request->validate_only());
  }

  UnaryReactor* GetJob(CallContext* context, const v1::GetJobRequest* request,
                       v1::Job* response) override {
    return AnswerJob(
        "nerf.v1.JobService/GetJob", context, request, response,
        [this](const ResourceKey& key) { return services_.queue.Get(key); }, /*whole=*/true);
  }

  UnaryReactor* ListJobs(CallContext* context, const v1::ListJobsRequest* request,
                         v1::ListJobsResponse* response) override {
    return AnswerUnary(services_, "nerf.v1.JobService/ListJobs", context, *request, [=, this] {
      NERF_ASSIGN_OR_RETURN(const JobFilter filter, JobFilter::Parse(request->filter()));
      JobConverter converter(services_);
      return AnswerList(
          *request, response,
          [&](const PageRequest& page) { return services_.queue.List(page, filter); },
          [&](const ListedJob& listed, v1::ListJobsResponse* list) {
            const auto wait = converter.WaitOf(listed.row->job(), listed.place);
            AddBytes(list->kJobsFieldNumber, converter.ToBytes(*listed.row, wait), list);
          });
    });
  }

  UnaryReactor* UpdateJob(CallContext* context, const v1::UpdateJobRequest* request,
                          v1::Job* response) override {
    return AnswerUnary(services_, "nerf.v1.JobService/UpdateJob", context, *request, [=, this] {
      NERF_ASSIGN_OR_RETURN(const ResourceKey key, ParseJobName("job.name", request->job().name()));
      NERF_ASSIGN_OR_RETURN(const JobUpdate update, FromProto(*request));
      NERF_ASSIGN_OR_RETURN(const Job job, services_.queue.Update(key, update));
      *response = JobConverter(services_).ToProto(job, /*whole=*/false);
      return absl::OkStatus();
    });
  }

  UnaryReactor* PauseJob(CallContext* context, const v1::PauseJobRequest* request,
                         v1::Job* response) override {
    return AnswerJob("nerf.v1.JobService/PauseJob", context, request, response,
                     [this](const ResourceKey& key) { return services_.queue.Pause(key); });
  }

  UnaryReactor* ResumeJob(CallContext* context, const v1::ResumeJobRequest* request,
                          v1::Job* response) override {
    return AnswerJob("nerf.v1.JobService/ResumeJob", context, request, response,
                     [this](const ResourceKey& key) { return services_.queue.Resume(key); });
  }

  UnaryReactor* RetryJob(CallContext* context, const v1::RetryJobRequest* request,
                         v1::Job* response) override {
    return AnswerCreate("nerf.v1.JobService/RetryJob", context, request, response,
                        [request] { return FromProto(*request); });
  }

  UnaryReactor* ExtendJob(CallContext* context, const v1::ExtendJobRequest* request,
                          v1::Job* response) override {
    return AnswerCreate("nerf.v1.JobService/ExtendJob", context, request, response,
                        [request] { return FromProto(*request); });
  }

  UnaryReactor* CancelJob(CallContext* context, const v1::CancelJobRequest* request,
                          v1::Job* response) override {
    return AnswerJob("nerf.v1.JobService/CancelJob", context, request, response,
                     [=, this](const ResourceKey& key) {
                       return services_.queue.Cancel(key, request->keep_checkpoint());
                     });
  }

  UnaryReactor* DeleteJob(CallContext* context, const v1::DeleteJobRequest* request,
                          google::protobuf::Empty* /*response*/) override {
    return AnswerUnary(services_, "nerf.v1.JobService/DeleteJob", context, *request, [=, this] {
      NERF_ASSIGN_OR_RETURN(const ResourceKey key, ParseJobName("name", request->name()));
      return services_.queue.Delete(key);
    });
  }

  UnaryReactor* ListJobMetrics(CallContext* context, const v1::ListJobMetricsRequest* request,
                               v1::ListJobMetricsResponse* response) override {
    return AnswerUnary(
        services_, "nerf.v1.JobService/ListJobMetrics", context, *request, [=, this] {
          NERF_ASSIGN_OR_RETURN(const ResourceKey key, ParseJobName("name", request->name()));
          NERF_ASSIGN_OR_RETURN(*response, services_.queue.GetCurve(key));
          return absl::OkStatus();
        });
  }

  grpc::ServerWriteReactor<v1::WatchJobResponse>* WatchJob(
      CallContext* context, const v1::WatchJobRequest* request) override {
    return JobWatch::Begin(services_, context, *request);
  }

  grpc::ServerWriteReactor<v1::WatchJobsResponse>* WatchJobs(
      CallContext* context, const v1::WatchJobsRequest* request) override {
    return JobListWatch::Begin(services_, context, *request);
  }

 private:
  // Answers with the job that `act` returns for the key of the one that is named.
  template <typename Request, typename Act>
  UnaryReactor* AnswerJob(std::string_view method, CallContext* context, const Request* request,
                          v1::Job* response, Act act, bool whole = false) {
    return AnswerUnary(services_, method, context, *request, [=, this] {
      NERF_ASSIGN_OR_RETURN(const ResourceKey key, ParseJobName("name", request->name()));
      NERF_ASSIGN_OR_RETURN(const Job job, act(key));
      *response = JobConverter(services_).ToProto(job, whole);
      return absl::OkStatus();
    });
  }

  // Creates the job that `make_spec` returns, without its origin; or only says what it would be.
  template <typename Request, typename MakeSpec>
  UnaryReactor* AnswerCreate(std::string_view method, CallContext* context, const Request* request,
                             v1::Job* response, MakeSpec make_spec, bool validate_only = false) {
    return AnswerUnary(
        services_, method, context, *request,
        [=, this] {
          NERF_ASSIGN_OR_RETURN(JobSpec spec, make_spec());
          spec.origin = services_.origins->Of(context);
          NERF_ASSIGN_OR_RETURN(const Job job, services_.queue.Create(spec, validate_only));
          *response = JobConverter(services_).ToProto(job, /*whole=*/true);
          return absl::OkStatus();
        },
        response);
  }

  const ServiceContext& services_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeJobService(const ServiceContext* services) {
  return std::make_unique<JobService>(services);
}

}  // namespace nerf
