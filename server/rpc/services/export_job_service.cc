#include "server/rpc/services/export_job_service.h"

#include "common/status_macros.h"
#include "server/rpc/calls/unary_call.h"
#include "server/rpc/convert/convert_export.h"
#include "server/rpc/convert/job_converter.h"
#include "server/rpc/services/job_calls.h"
#include "server/rpc/services/job_watch.h"

namespace nerf {
namespace {

v1::ExportJob ConvertExportJob(JobConverter& converter, const Job& job, bool whole) {
  return converter.ToExportProto(job, whole);
}

}  // namespace

grpc::ServerUnaryReactor* ExportJobService::CreateExportJob(
    grpc::CallbackServerContext* context, const v1::CreateExportJobRequest* request,
    v1::ExportJob* response) {
  return AnswerUnary(services_, "nerf.v1.ExportJobService/CreateExportJob", context, *request,
                     [=, this]() -> absl::Status {
                       NERF_ASSIGN_OR_RETURN(JobSpec spec, FromProto(*request));
                       const CallOrigin origin = services_.origins->Of(context);
                       spec.origin = {origin.traceparent, origin.request_id};
                       NERF_ASSIGN_OR_RETURN(
                           const Job job, services_.queue.Create(spec, request->validate_only()));
                       *response = JobConverter(services_).ToExportProto(job, /*whole=*/true);
                       return absl::OkStatus();
                     });
}

grpc::ServerUnaryReactor* ExportJobService::GetExportJob(grpc::CallbackServerContext* context,
                                                         const v1::GetExportJobRequest* request,
                                                         v1::ExportJob* response) {
  return AnswerGetJob(services_, "nerf.v1.ExportJobService/GetExportJob", JobKind::kExport, context,
                      request, response, ConvertExportJob);
}

grpc::ServerUnaryReactor* ExportJobService::ListExportJobs(grpc::CallbackServerContext* context,
                                                           const v1::ListExportJobsRequest* request,
                                                           v1::ListExportJobsResponse* response) {
  return AnswerListJobs(services_, "nerf.v1.ExportJobService/ListExportJobs", JobKind::kExport,
                        context, request, response, &v1::ListExportJobsResponse::add_export_jobs,
                        ConvertExportJob);
}

grpc::ServerWriteReactor<v1::WatchExportJobResponse>* ExportJobService::WatchExportJob(
    grpc::CallbackServerContext* context, const v1::WatchExportJobRequest* request) {
  return JobWatch<ExportWatch>::Begin(services_, context, *request);
}

grpc::ServerUnaryReactor* ExportJobService::CancelExportJob(
    grpc::CallbackServerContext* context, const v1::CancelExportJobRequest* request,
    v1::ExportJob* response) {
  return AnswerCancelJob(services_, "nerf.v1.ExportJobService/CancelExportJob", JobKind::kExport,
                         context, request, response, ConvertExportJob);
}

grpc::ServerUnaryReactor* ExportJobService::DeleteExportJob(
    grpc::CallbackServerContext* context, const v1::DeleteExportJobRequest* request,
    google::protobuf::Empty* /*response*/) {
  return AnswerDeleteJob(services_, "nerf.v1.ExportJobService/DeleteExportJob", JobKind::kExport,
                         context, request);
}

}  // namespace nerf
