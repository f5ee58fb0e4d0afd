#include "server/rpc/services/services.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/error_reason.h"
#include "common/status_macros.h"
#include "nerf/v1/scene_service.grpc.pb.h"
#include "server/queue/records/resource_messages.h"
#include "server/queue/resources/resource_key.h"
#include "server/rpc/calls/service_context.h"
#include "server/rpc/calls/unary_call.h"
#include "server/rpc/convert/convert_scene.h"
#include "server/rpc/convert/paging.h"
#include "server/rpc/convert/scene_descriptions.h"
#include "server/rpc/services/brokered_call.h"
#include "server/rpc/services/owned_blobs.h"

namespace nerf {
namespace {

constexpr size_t kMaxDescriptionBytes = size_t{64} << 20;

// The list that a page token of the request belongs to.
std::string ViewsOf(const v1::DescribeSceneRequest& request) {
  const std::string list = "views/" + request.name();
  return request.has_test_every() ? fmt::format("{}/{}", list, request.test_every()) : list;
}

// The scene. Errors: InvalidArgument that lists every wrong field.
absl::StatusOr<ResourceKey> CheckRequest(const TokenSealer& sealer,
                                         const v1::DescribeSceneRequest& request) {
  RequestCheck check;
  const ResourceKey key = TakeOr(ParseSceneName("name", request.name()), check);
  check.Require(
      !request.has_test_every() || (request.test_every() != 1 && request.test_every() <= INT32_MAX),
      "test_every", "must be 0, or 2 or more");
  check.Add(EffectivePageSize(request.page_size()).status());
  check.Add(ParsePageToken(sealer, ViewsOf(request), "", request.page_token()).status());
  NERF_RETURN_IF_ERROR(check.Result());
  return key;
}

// nerf.v1.SceneService on top of the scene catalog; ValidateScene goes to a worker.
class SceneService final : public v1::SceneService::CallbackService {
 public:
  explicit SceneService(const ServiceContext* services) : services_(*services) {}

  UnaryReactor* CreateScene(CallContext* context, const v1::CreateSceneRequest* request,
                            v1::Scene* response) override {
    return AnswerUnary(
        services_, "nerf.v1.SceneService/CreateScene", context, *request,
        [=, this] {
          NERF_ASSIGN_OR_RETURN(const SceneSpec spec, FromProto(*request));
          NERF_RETURN_IF_ERROR(RequireOwned(services_.blob_owners, spec.project, spec.files));
          NERF_ASSIGN_OR_RETURN(const SceneRecord scene, services_.scenes.Create(spec));
          *response = ToProto(scene);
          return absl::OkStatus();
        },
        response);
  }

  UnaryReactor* GetScene(CallContext* context, const v1::GetSceneRequest* request,
                         v1::Scene* response) override {
    return AnswerUnary(services_, "nerf.v1.SceneService/GetScene", context, *request, [=, this] {
      NERF_ASSIGN_OR_RETURN(const ResourceKey key, ParseSceneName("name", request->name()));
      NERF_ASSIGN_OR_RETURN(const SceneRecord scene, services_.scenes.Get(key));
      *response = ToProto(scene);
      return absl::OkStatus();
    });
  }

  UnaryReactor* ListScenes(CallContext* context, const v1::ListScenesRequest* request,
                           v1::ListScenesResponse* response) override {
    return AnswerUnary(services_, "nerf.v1.SceneService/ListScenes", context, *request, [=, this] {
      return AnswerList(
          *request, response,
          [this](const PageRequest& page) { return services_.scenes.List(page); },
          [](const SceneRecord& scene, v1::ListScenesResponse* list) {
            *list->add_scenes() = ToProto(scene);
          });
    });
  }

  UnaryReactor* DeleteScene(CallContext* context, const v1::DeleteSceneRequest* request,
                            google::protobuf::Empty* /*response*/) override {
    return AnswerUnary(services_, "nerf.v1.SceneService/DeleteScene", context, *request, [=, this] {
      NERF_ASSIGN_OR_RETURN(const ResourceKey key, ParseSceneName("name", request->name()));
      return services_.scenes.Delete(key);
    });
  }

  UnaryReactor* ValidateScene(CallContext* context, const v1::ValidateSceneRequest* request,
                              v1::ValidateSceneResponse* response) override {
    return BrokeredCall::Begin(
        services_, "nerf.v1.SceneService/ValidateScene", context, *request,
        [=, this]() -> absl::StatusOr<BrokerRequest> {
          NERF_ASSIGN_OR_RETURN(const ResourceKey key, ParseSceneName("name", request->name()));
          NERF_ASSIGN_OR_RETURN(const SceneRecord scene, services_.scenes.Get(key));
          BrokerRequest task;
          task.message.set_project(key.project);
          AddManifest(scene.files, task.message.mutable_validate()->mutable_files());
          return task;
        },
        [response](absl::StatusOr<BrokerReply> reply) -> absl::Status {
          NERF_RETURN_IF_ERROR(reply.status());
          if (!response->ParseFromString(reply->bytes)) {
            return absl::InternalError(fmt::format("worker {} sent no answer", reply->worker));
          }
          return absl::OkStatus();
        });
  }

  UnaryReactor* DescribeScene(CallContext* context, const v1::DescribeSceneRequest* request,
                              v1::DescribeSceneResponse* response) override {
    struct Call {
      SceneDescriptions::Key key;
      SceneDescriptions::Description known;
    };
    const auto call = std::make_shared<Call>();
    return BrokeredCall::Begin(
        services_, "nerf.v1.SceneService/DescribeScene", context, *request,
        [=, this]() -> absl::StatusOr<BrokerRequest> {
          NERF_ASSIGN_OR_RETURN(const ResourceKey key,
                                CheckRequest(services_.queue.token_sealer(), *request));
          NERF_ASSIGN_OR_RETURN(const SceneRecord scene, services_.scenes.Get(key));
          call->key.scene = scene.create_sequence;
          if (request->has_test_every()) call->key.test_every = request->test_every();
          call->known = descriptions_.Find(call->key);
          BrokerRequest task;
          task.is_known = call->known != nullptr;
          task.max_reply_bytes = kMaxDescriptionBytes;
          task.message.set_project(key.project);
          v1::DescribeTask& describe = *task.message.mutable_describe();
          AddManifest(scene.files, describe.mutable_files());
          if (request->has_test_every()) describe.set_test_every(request->test_every());
          return task;
        },
        [=, this](absl::StatusOr<BrokerReply> reply) -> absl::Status {
          NERF_RETURN_IF_ERROR(reply.status());
          if (call->known == nullptr) {
            auto description = std::make_shared<v1::DescribeSceneResponse>();
            if (!description->ParseFromString(reply->bytes)) {
              return absl::InternalError(fmt::format("worker {} sent no answer", reply->worker));
            }
            call->known = description;
            descriptions_.Add(call->key, call->known, reply->bytes.size());
          }
          response->set_training_views(call->known->training_views());
          response->set_test_views(call->known->test_views());
          return AddPage(services_.queue.token_sealer(), ViewsOf(*request), call->known->views(),
                         *request, response,
                         [response](const v1::SceneView& view) { *response->add_views() = view; });
        });
  }

 private:
  const ServiceContext& services_;
  SceneDescriptions descriptions_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeSceneService(const ServiceContext* services) {
  return std::make_unique<SceneService>(services);
}

}  // namespace nerf
