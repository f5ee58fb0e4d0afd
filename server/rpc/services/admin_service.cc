#include "server/rpc/services/services.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "common/status_macros.h"
#include "nerf/v1/admin_service.grpc.pb.h"
#include "server/queue/kinds/kind_policy.h"
#include "server/queue/resources/resource_key.h"
#include "server/rpc/calls/service_context.h"
#include "server/rpc/calls/unary_call.h"
#include "server/rpc/convert/convert_project.h"
#include "server/rpc/convert/convert_share.h"
#include "server/rpc/convert/convert_token.h"
#include "server/rpc/convert/convert_worker.h"
#include "server/rpc/convert/paging.h"

namespace nerf {
namespace {

// nerf.v1.AdminService, for operators.
class AdminService final : public v1::AdminService::CallbackService {
 public:
  explicit AdminService(const ServiceContext* services) : services_(*services) {}

  UnaryReactor* ListWorkers(CallContext* context, const v1::ListWorkersRequest* request,
                            v1::ListWorkersResponse* response) override {
    return AnswerUnary(services_, "nerf.v1.AdminService/ListWorkers", context, *request, [=, this] {
      return AddPage(
          services_.queue.token_sealer(), "workers", *services_.workers.List(), *request, response,
          [response](const WorkerRecord& worker) { *response->add_workers() = ToProto(worker); });
    });
  }

  UnaryReactor* GetAccess(CallContext* context, const v1::GetAccessRequest* request,
                          v1::Access* response) override {
    return AnswerUnary(services_, "nerf.v1.AdminService/GetAccess", context, *request,
                       [response, this](const Principal& caller) {
                         *response = ToProto(caller);
                         AddShare(services_.tokens, caller, response);
                         return absl::OkStatus();
                       });
  }

  UnaryReactor* CreateToken(CallContext* context, const v1::CreateTokenRequest* request,
                            v1::Token* response) override {
    return AnswerUnary(
        services_, "nerf.v1.AdminService/CreateToken", context, *request,
        [=, this] {
          NERF_ASSIGN_OR_RETURN(const TokenRecord wanted, FromProto(*request));
          NERF_ASSIGN_OR_RETURN(const auto made, services_.tokens.Create(wanted));
          *response = ToProto(made.record);
          response->set_secret(made.secret);
          return absl::OkStatus();
        },
        response);
  }

  UnaryReactor* ListTokens(CallContext* context, const v1::ListTokensRequest* request,
                           v1::ListTokensResponse* response) override {
    return AnswerUnary(services_, "nerf.v1.AdminService/ListTokens", context, *request, [=, this] {
      std::optional<std::string> project;
      if (!request->project().empty()) {
        NERF_ASSIGN_OR_RETURN(project, ParseProjectName("project", request->project()));
      }
      return AddPage(
          services_.queue.token_sealer(), "tokens/" + project.value_or(""),
          services_.tokens.List(project), *request, response,
          [response](const TokenRecord& token) { *response->add_tokens() = ToProto(token); });
    });
  }

  UnaryReactor* DeleteToken(CallContext* context, const v1::DeleteTokenRequest* request,
                            google::protobuf::Empty* /*response*/) override {
    constexpr std::string_view kMethod = "nerf.v1.AdminService/DeleteToken";
    return AnswerUnary(services_, kMethod, context, *request, [=, this](const Principal& caller) {
      NERF_ASSIGN_OR_RETURN(const std::string id, ParseTokenName("name", request->name()));
      const absl::StatusOr<TokenRecord> token = services_.tokens.Get(id);
      // An admin of one project learns nothing about the tokens of others.
      const ResourceRef resource{token.ok() ? token->project : "", request->name()};
      NERF_RETURN_IF_ERROR(Authorize(caller, FindMethodPolicy(kMethod), {&resource, 1}));
      NERF_RETURN_IF_ERROR(token.status());
      return services_.tokens.Delete(id);
    });
  }

  UnaryReactor* DrainWorker(CallContext* context, const v1::DrainWorkerRequest* request,
                            v1::Worker* response) override {
    return AnswerUnary(services_, "nerf.v1.AdminService/DrainWorker", context, *request, [=, this] {
      NERF_ASSIGN_OR_RETURN(const std::string worker, ParseWorkerName("name", request->name()));
      NERF_ASSIGN_OR_RETURN(const WorkerRecord drained, services_.admin->SetDrained(worker, true));
      *response = ToProto(drained);
      return absl::OkStatus();
    });
  }

  UnaryReactor* UndrainWorker(CallContext* context, const v1::UndrainWorkerRequest* request,
                              v1::Worker* response) override {
    return AnswerUnary(
        services_, "nerf.v1.AdminService/UndrainWorker", context, *request, [=, this] {
          NERF_ASSIGN_OR_RETURN(const std::string worker, ParseWorkerName("name", request->name()));
          NERF_ASSIGN_OR_RETURN(const WorkerRecord undrained,
                                services_.admin->SetDrained(worker, false));
          *response = ToProto(undrained);
          return absl::OkStatus();
        });
  }

  UnaryReactor* ListProjects(CallContext* context, const v1::ListProjectsRequest* request,
                             v1::ListProjectsResponse* response) override {
    return AnswerUnary(services_, "nerf.v1.AdminService/ListProjects", context, *request,
                       [=, this] {
                         return AddPage(services_.queue.token_sealer(), "projects",
                                        services_.admin->ListProjects(), *request, response,
                                        [response](const ProjectView& project) {
                                          *response->add_projects() = ToProto(project);
                                        });
                       });
  }

  UnaryReactor* GetProject(CallContext* context, const v1::GetProjectRequest* request,
                           v1::Project* response) override {
    return AnswerUnary(services_, "nerf.v1.AdminService/GetProject", context, *request, [=, this] {
      NERF_ASSIGN_OR_RETURN(const std::string project, ParseProjectName("name", request->name()));
      *response = ToProto(services_.admin->GetProject(project));
      return absl::OkStatus();
    });
  }

  UnaryReactor* UpdateProject(CallContext* context, const v1::UpdateProjectRequest* request,
                              v1::Project* response) override {
    return AnswerUnary(
        services_, "nerf.v1.AdminService/UpdateProject", context, *request, [=, this] {
          NERF_ASSIGN_OR_RETURN(const ProjectUpdate update, FromProto(*request));
          NERF_ASSIGN_OR_RETURN(const ProjectView changed,
                                services_.admin->UpdateProject(update.project, update.change));
          *response = ToProto(changed);
          return absl::OkStatus();
        });
  }

  UnaryReactor* BackupStore(CallContext* context, const v1::BackupStoreRequest* request,
                            v1::BackupStoreResponse* response) override {
    return AnswerUnary(services_, "nerf.v1.AdminService/BackupStore", context, *request, [=, this] {
      RequestCheck check;
      check.RequireId("backup_id", request->backup_id(), /*may_be_empty=*/true);
      NERF_RETURN_IF_ERROR(check.Result());
      if (!services_.backup) return absl::UnimplementedError("this server makes no backups");
      const std::string id =
          request->backup_id().empty()
              ? absl::FormatTime("b%Y%m%d-%H%M%S", services_.clock.WallNow(), absl::UTCTimeZone())
              : request->backup_id();
      NERF_ASSIGN_OR_RETURN(const BackupSummary backup, services_.backup(id));
      response->set_path(backup.path);
      response->set_blobs(static_cast<double>(backup.n_blobs));
      response->set_blob_bytes(static_cast<double>(backup.blob_bytes));
      return absl::OkStatus();
    });
  }

 private:
  const ServiceContext& services_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeAdminService(const ServiceContext* services) {
  return std::make_unique<AdminService>(services);
}

}  // namespace nerf
