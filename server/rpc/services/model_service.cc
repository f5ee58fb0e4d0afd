#include "server/rpc/services/services.h"

#include <memory>
#include <utility>

#include "common/status_macros.h"
#include "nerf/v1/model_service.grpc.pb.h"
#include "server/queue/records/job_message.h"
#include "server/queue/records/resource_messages.h"
#include "server/queue/resources/resource_key.h"
#include "server/rpc/calls/service_context.h"
#include "server/rpc/calls/unary_call.h"
#include "server/rpc/convert/convert_model.h"
#include "server/rpc/convert/convert_share.h"
#include "server/rpc/convert/convert_training.h"
#include "server/rpc/convert/paging.h"

namespace nerf {
namespace {

// nerf.v1.ModelService on top of the model catalog and the jobs' checkpoints.
class ModelService final : public v1::ModelService::CallbackService {
 public:
  explicit ModelService(const ServiceContext* services) : services_(*services) {}

  UnaryReactor* ListCheckpoints(CallContext* context, const v1::ListCheckpointsRequest* request,
                                v1::ListCheckpointsResponse* response) override {
    return AnswerUnary(
        services_, "nerf.v1.ModelService/ListCheckpoints", context, *request, [=, this] {
          RequestCheck check;
          const ResourceKey key = TakeOr(ParseJobName("parent", request->parent()), check);
          const size_t size = TakeOr(EffectivePageSize(request->page_size()), check);
          // The token holds the job and the last step of the previous page.
          const std::string list = "checkpoints/" + key.id;
          const uint64_t after = TakeOr(ParsePageToken(services_.queue.token_sealer(), list,
                                                       key.project, request->page_token()),
                                        check);
          NERF_RETURN_IF_ERROR(check.Result());
          NERF_ASSIGN_OR_RETURN(const Job job, services_.queue.Get(key));
          NERF_RETURN_IF_ERROR(
              RequireKind(job, TraitsOf(job).has_checkpoints, "has no checkpoints"));
          for (const CheckpointRecord& checkpoint : job.checkpoints) {
            if (!request->page_token().empty() && checkpoint.step <= after) continue;
            const int n = response->checkpoints_size();
            if (static_cast<size_t>(n) == size) {
              response->set_next_page_token(EncodePageToken(services_.queue.token_sealer(), list,
                                                            key.project,
                                                            response->checkpoints(n - 1).step()));
              break;
            }
            *response->add_checkpoints() = ToProto(key, checkpoint);
          }
          return absl::OkStatus();
        });
  }

  UnaryReactor* PromoteCheckpoint(CallContext* context, const v1::PromoteCheckpointRequest* request,
                                  v1::Model* response) override {
    return AnswerUnary(
        services_, "nerf.v1.ModelService/PromoteCheckpoint", context, *request,
        [=, this] {
          NERF_ASSIGN_OR_RETURN(const ModelSpec spec, FromProto(*request));
          // Shares of a model that had this id, and that retention deleted.
          const ResourceKey key{spec.project, spec.id};
          if (!spec.id.empty() && !services_.models.Get(key).ok()) {
            services_.tokens.DeleteShares(ModelName(key)).IgnoreError();
          }
          NERF_ASSIGN_OR_RETURN(const ModelRecord model, services_.models.Promote(spec));
          *response = ToProto(model);
          return absl::OkStatus();
        },
        response);
  }

  UnaryReactor* GetModel(CallContext* context, const v1::GetModelRequest* request,
                         v1::Model* response) override {
    return AnswerUnary(services_, "nerf.v1.ModelService/GetModel", context, *request, [=, this] {
      NERF_ASSIGN_OR_RETURN(const ResourceKey key, ParseModelName("name", request->name()));
      NERF_ASSIGN_OR_RETURN(const ModelRecord model, services_.models.Get(key));
      *response = ToProto(model);
      return absl::OkStatus();
    });
  }

  UnaryReactor* ListModels(CallContext* context, const v1::ListModelsRequest* request,
                           v1::ListModelsResponse* response) override {
    return AnswerUnary(services_, "nerf.v1.ModelService/ListModels", context, *request, [=, this] {
      return AnswerList(
          *request, response,
          [this](const PageRequest& page) { return services_.models.List(page); },
          [](const ModelRecord& model, v1::ListModelsResponse* list) {
            *list->add_models() = ToProto(model);
          });
    });
  }

  UnaryReactor* UpdateModel(CallContext* context, const v1::UpdateModelRequest* request,
                            v1::Model* response) override {
    return AnswerUnary(services_, "nerf.v1.ModelService/UpdateModel", context, *request, [=, this] {
      NERF_ASSIGN_OR_RETURN(const auto wanted, FromProto(*request));
      NERF_ASSIGN_OR_RETURN(const ModelRecord model,
                            services_.models.SetCrop(wanted.first, wanted.second));
      *response = ToProto(model);
      return absl::OkStatus();
    });
  }

  UnaryReactor* DeleteModel(CallContext* context, const v1::DeleteModelRequest* request,
                            google::protobuf::Empty* /*response*/) override {
    return AnswerUnary(services_, "nerf.v1.ModelService/DeleteModel", context, *request, [=, this] {
      NERF_ASSIGN_OR_RETURN(const ResourceKey key, ParseModelName("name", request->name()));
      NERF_RETURN_IF_ERROR(services_.models.Delete(key));
      // A later model of this id is not the one that was shared. What the store
      // refuses now is deleted at the next start.
      services_.tokens.DeleteShares(ModelName(key)).IgnoreError();
      return absl::OkStatus();
    });
  }

  UnaryReactor* CreateShare(CallContext* context, const v1::CreateShareRequest* request,
                            v1::Share* response) override {
    return AnswerUnary(
        services_, "nerf.v1.ModelService/CreateShare", context, *request,
        [=, this] {
          NERF_ASSIGN_OR_RETURN(TokenRecord wanted, FromProto(*request));
          NERF_ASSIGN_OR_RETURN(const ResourceKey key, ParseModelName("parent", wanted.resource));
          NERF_ASSIGN_OR_RETURN(const ModelRecord model, services_.models.Get(key));
          if (const std::string& name = request->share().export_job(); !name.empty()) {
            NERF_ASSIGN_OR_RETURN(const ResourceKey job, ParseJobName("share.export_job", name));
            NERF_ASSIGN_OR_RETURN(const Job made, services_.queue.Get(job));
            NERF_RETURN_IF_ERROR(AddExport(model, made, &wanted));
          }
          NERF_ASSIGN_OR_RETURN(const auto made, services_.tokens.Create(wanted));
          // It may have been deleted meanwhile, before there was a share to delete.
          if (const absl::Status status = services_.models.Get(key).status(); !status.ok()) {
            services_.tokens.Delete(made.record.id, made.record.resource).IgnoreError();
            return status;
          }
          *response = ToShare(made.record);
          response->set_secret(made.secret);
          return absl::OkStatus();
        },
        response);
  }

  UnaryReactor* ListShares(CallContext* context, const v1::ListSharesRequest* request,
                           v1::ListSharesResponse* response) override {
    return AnswerUnary(services_, "nerf.v1.ModelService/ListShares", context, *request, [=, this] {
      NERF_ASSIGN_OR_RETURN(const ResourceKey key, ParseModelName("parent", request->parent()));
      NERF_RETURN_IF_ERROR(services_.models.Get(key).status());
      return AddPage(
          services_.queue.token_sealer(), "shares/" + ModelName(key),
          services_.tokens.ListShares(ModelName(key)), *request, response,
          [response](const TokenRecord& share) { *response->add_shares() = ToShare(share); });
    });
  }

  UnaryReactor* RevokeShare(CallContext* context, const v1::RevokeShareRequest* request,
                            google::protobuf::Empty* /*response*/) override {
    return AnswerUnary(services_, "nerf.v1.ModelService/RevokeShare", context, *request, [=, this] {
      NERF_ASSIGN_OR_RETURN(const ShareKey share, ParseShareName("name", request->name()));
      return services_.tokens.Delete(share.id, ModelName(share.model));
    });
  }

 private:
  const ServiceContext& services_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeModelService(const ServiceContext* services) {
  return std::make_unique<ModelService>(services);
}

}  // namespace nerf
