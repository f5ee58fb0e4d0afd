#include "server/rpc/services/services.h"

#include <memory>

#include "common/status_macros.h"
#include "nerf/v1/export_job_service.grpc.pb.h"
#include "server/rpc/calls/service_context.h"
#include "server/rpc/convert/convert_export.h"
#include "server/rpc/convert/export_bytes.h"
#include "server/rpc/services/job_calls.h"
#include "server/rpc/services/job_watch.h"

namespace nerf {
namespace {

// Export jobs for clients.
class ExportJobService final : public v1::ExportJobService::CallbackService {
 public:
  explicit ExportJobService(const ServiceContext* services) : services_(*services) {}

  UnaryReactor* CreateExportJob(CallContext* context, const v1::CreateExportJobRequest* request,
                                v1::ExportJob* response) override {
    return AnswerCreateJob(services_, "nerf.v1.ExportJobService/CreateExportJob", context, request,
                           response, [this, request]() -> absl::StatusOr<JobSpec> {
                             NERF_ASSIGN_OR_RETURN(JobSpec spec, FromProto(*request));
                             spec.exporting.expected_bytes =
                                 BytesOfModel(services_, spec.exporting, request->export_job());
                             return spec;
                           });
  }

  UnaryReactor* GetExportJob(CallContext* context, const v1::GetExportJobRequest* request,
                             v1::ExportJob* response) override {
    return AnswerGetJob(services_, "nerf.v1.ExportJobService/GetExportJob", context, request,
                        response);
  }

  UnaryReactor* ListExportJobs(CallContext* context, const v1::ListExportJobsRequest* request,
                               v1::ListExportJobsResponse* response) override {
    return AnswerListJobs(services_, "nerf.v1.ExportJobService/ListExportJobs", context, request,
                          response, &v1::ListExportJobsResponse::add_export_jobs);
  }

  grpc::ServerWriteReactor<v1::WatchExportJobResponse>* WatchExportJob(
      CallContext* context, const v1::WatchExportJobRequest* request) override {
    return JobWatch<ExportWatch>::Begin(services_, context, *request);
  }

  UnaryReactor* CancelExportJob(CallContext* context, const v1::CancelExportJobRequest* request,
                                v1::ExportJob* response) override {
    return AnswerJob(services_, "nerf.v1.ExportJobService/CancelExportJob", context, request,
                     response, [this](const ResourceKey& key) {
                       return services_.queue.Cancel(key, /*keep_checkpoint=*/false,
                                                     JobKind::kExport);
                     });
  }

  UnaryReactor* DeleteExportJob(CallContext* context, const v1::DeleteExportJobRequest* request,
                                google::protobuf::Empty* /*response*/) override {
    return AnswerDeleteJob(services_, "nerf.v1.ExportJobService/DeleteExportJob", JobKind::kExport,
                           context, request);
  }

 private:
  const ServiceContext& services_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeExportJobService(const ServiceContext* services) {
  return std::make_unique<ExportJobService>(services);
}

}  // namespace nerf
