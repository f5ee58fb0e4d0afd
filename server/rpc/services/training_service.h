#pragma once

#include "nerf/v1/training_service.grpc.pb.h"
#include "server/rpc/calls/service_context.h"

namespace nerf {

// nerf.v1.TrainingService on top of the job queue.
class TrainingService final : public v1::TrainingService::CallbackService {
 public:
  explicit TrainingService(const ServiceContext* services) : services_(*services) {}

  grpc::ServerUnaryReactor* CreateTrainingJob(grpc::CallbackServerContext* context,
                                              const v1::CreateTrainingJobRequest* request,
                                              v1::TrainingJob* response) override;
  grpc::ServerUnaryReactor* GetTrainingJob(grpc::CallbackServerContext* context,
                                           const v1::GetTrainingJobRequest* request,
                                           v1::TrainingJob* response) override;
  grpc::ServerUnaryReactor* ListTrainingJobs(grpc::CallbackServerContext* context,
                                             const v1::ListTrainingJobsRequest* request,
                                             v1::ListTrainingJobsResponse* response) override;
  grpc::ServerUnaryReactor* UpdateTrainingJob(grpc::CallbackServerContext* context,
                                              const v1::UpdateTrainingJobRequest* request,
                                              v1::TrainingJob* response) override;
  grpc::ServerUnaryReactor* PauseTrainingJob(grpc::CallbackServerContext* context,
                                             const v1::PauseTrainingJobRequest* request,
                                             v1::TrainingJob* response) override;
  grpc::ServerUnaryReactor* ResumeTrainingJob(grpc::CallbackServerContext* context,
                                              const v1::ResumeTrainingJobRequest* request,
                                              v1::TrainingJob* response) override;
  grpc::ServerUnaryReactor* RetryTrainingJob(grpc::CallbackServerContext* context,
                                             const v1::RetryTrainingJobRequest* request,
                                             v1::TrainingJob* response) override;
  grpc::ServerUnaryReactor* ExtendTrainingJob(grpc::CallbackServerContext* context,
                                              const v1::ExtendTrainingJobRequest* request,
                                              v1::TrainingJob* response) override;
  grpc::ServerUnaryReactor* CancelTrainingJob(grpc::CallbackServerContext* context,
                                              const v1::CancelTrainingJobRequest* request,
                                              v1::TrainingJob* response) override;
  grpc::ServerUnaryReactor* DeleteTrainingJob(grpc::CallbackServerContext* context,
                                              const v1::DeleteTrainingJobRequest* request,
                                              google::protobuf::Empty* response) override;
  grpc::ServerUnaryReactor* ListTrainingMetrics(grpc::CallbackServerContext* context,
                                                const v1::ListTrainingMetricsRequest* request,
                                                v1::ListTrainingMetricsResponse* response) override;
  grpc::ServerWriteReactor<v1::WatchTrainingJobResponse>* WatchTrainingJob(
      grpc::CallbackServerContext* context, const v1::WatchTrainingJobRequest* request) override;
  grpc::ServerWriteReactor<v1::WatchTrainingJobsResponse>* WatchTrainingJobs(
      grpc::CallbackServerContext* context, const v1::WatchTrainingJobsRequest* request) override;

 private:
  const ServiceContext& services_;
};

}  // namespace nerf
