#include "server/rpc/connections/health_server.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>

#include "absl/strings/str_cat.h"

namespace nerf {
namespace {

constexpr int kMaxStreams = 16;       // per connection; a probe needs one
constexpr int kMaxProbeBytes = 4096;  // a probe's request is a name

}  // namespace

HealthServer::HealthServer() : others_(std::make_unique<grpc::CallbackGenericService>()) {}

absl::StatusOr<std::unique_ptr<HealthServer>> HealthServer::Start(const std::string& listen) {
  grpc::EnableDefaultHealthCheckService(true);
  auto health = std::unique_ptr<HealthServer>(new HealthServer);
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(kMaxProbeBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreams);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.RegisterCallbackGenericService(health->others_.get());
  builder.AddListeningPort(listen, grpc::InsecureServerCredentials(), &health->port_);
  health->server_ = builder.BuildAndStart();
  if (health->server_ == nullptr || health->port_ == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "cannot listen on ", listen, ": the address is in use or not one of this machine's"));
  }
  health->server_->GetHealthCheckService()->SetServingStatus("liveness", true);
  health->SetReady(false);
  health->SetLeading(false);
  return health;
}

HealthServer::~HealthServer() {
  if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
}

void HealthServer::SetLeading(bool leads) {
  server_->GetHealthCheckService()->SetServingStatus("leader", leads);
}

void HealthServer::SetReady(bool ready) {
  grpc::HealthCheckServiceInterface* health = server_->GetHealthCheckService();
  health->SetServingStatus("", ready);
  health->SetServingStatus("readiness", ready);
}

}  // namespace nerf
