// Which methods have a policy, what of a request it looks at, and who gets through.
#include "server/rpc/calls/authorizer.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "google/bytestream/bytestream.pb.h"
#include "nerf/v1/admin_service.pb.h"
#include "nerf/v1/blob_service.pb.h"
#include "nerf/v1/export_job_service.pb.h"
#include "nerf/v1/model_service.pb.h"
#include "nerf/v1/pose_job_service.pb.h"
#include "nerf/v1/render_job_service.pb.h"
#include "nerf/v1/render_service.pb.h"
#include "nerf/v1/scene_service.pb.h"
#include "nerf/v1/training_service.pb.h"
#include "nerf/v1/view_service.pb.h"
#include "nerf/v1/worker_service.pb.h"

namespace nerf {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::MethodDescriptor;
using testing::ElementsAre;
using testing::IsEmpty;

// Texts of requests that name no resource, by the last part of their path.
const std::set<std::string> kPlainTexts = {
    // Of the caller's making, or for people.
    "display_name", "request_id",  "scene_id",     "training_job_id", "model_id", "page_token",
    "resume_token", "path",        "sha256",       "method",          "scope",    "queue_reason",
    "reason",       "message",     "file",         "field",           "dtype",    "background",
    "key",          "value",       "secret",       "filter",          "etag",     "render_job_id",
    "order_by",     "pose_job_id", "export_job_id"};

std::string MethodName(const MethodDescriptor& method) {
  return method.service()->full_name() + "/" + method.name();
}

std::vector<const MethodDescriptor*> AllMethods() {
  v1::SynchronizeRequest::descriptor();
  v1::FindMissingBlobsRequest::descriptor();
  v1::ListWorkersRequest::descriptor();
  v1::Scene::descriptor();
  v1::Model::descriptor();
  v1::RenderImageRequest::descriptor();
  v1::TrainingJob::descriptor();
  v1::RenderJob::descriptor();
  v1::PoseJob::descriptor();
  v1::ExportJob::descriptor();
  v1::View::descriptor();
  google::bytestream::ReadRequest::descriptor();
  const auto* pool = google::protobuf::DescriptorPool::generated_pool();
  std::vector<const MethodDescriptor*> methods;
  for (const char* file : {"nerf/v1/scene_service.proto", "nerf/v1/blob_service.proto",
                           "nerf/v1/training_service.proto", "nerf/v1/model_service.proto",
                           "nerf/v1/render_service.proto", "nerf/v1/render_job_service.proto",
                           "nerf/v1/pose_job_service.proto", "nerf/v1/export_job_service.proto",
                           "nerf/v1/view_service.proto", "nerf/v1/admin_service.proto",
                           "nerf/v1/worker_service.proto", "google/bytestream/bytestream.proto"}) {
    const auto* descriptor = pool->FindFileByName(file);
    EXPECT_NE(descriptor, nullptr) << file;
    for (int i = 0; descriptor != nullptr && i < descriptor->service_count(); ++i) {
      for (int k = 0; k < descriptor->service(i)->method_count(); ++k) {
        methods.push_back(descriptor->service(i)->method(k));
      }
    }
  }
  return methods;
}

// A method that somebody adds without a policy must not be open by accident.
TEST(AuthorizerTest, EveryMethodOfTheContractHasAPolicyAndEveryPolicyAMethod) {
  std::set<std::string> names;
  for (const MethodDescriptor* method : AllMethods()) {
    names.insert(MethodName(*method));
    EXPECT_NE(FindMethodPolicy(MethodName(*method)), nullptr) << MethodName(*method);
  }
  for (const MethodPolicy& policy : MethodPolicies()) {
    EXPECT_EQ(names.count(std::string(policy.method)), 1U) << policy.method;
  }
  EXPECT_GE(names.size(), 25U);
  EXPECT_EQ(FindMethodPolicy("nerf.v1.QuotaService/SetQuota"), nullptr);
  EXPECT_EQ(FindMethodPolicy("nerf.v1.SceneServiceX/GetScene"), nullptr);
  EXPECT_EQ(FindMethodPolicy(""), nullptr);
}

// Calls `visit` with the path of each text below a message, five levels deep.
void ForEachText(const Descriptor& message, const std::string& prefix, int depth,
                 const std::function<void(const std::string&, const FieldDescriptor&)>& visit) {
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    const std::string path = prefix.empty() ? field.name() : prefix + "." + field.name();
    if (field.type() == FieldDescriptor::TYPE_STRING) visit(path, field);
    const bool is_ours =
        field.message_type() != nullptr && field.message_type()->full_name().rfind("nerf.", 0) == 0;
    if (is_ours && depth > 0) ForEachText(*field.message_type(), path, depth - 1, visit);
  }
}

// Fields that only the server sets: read by no handler.
bool IsOutput(const std::string& path) {
  static const std::set<std::string> kOutputs = {"scene.name",
                                                 "training_job.name",
                                                 "training_job.worker",
                                                 "token.name",
                                                 "training_job.retry_of",
                                                 "training_job.extension_of",
                                                 "render_job.name",
                                                 "render_job.workers",
                                                 "token.secret",
                                                 "share.name",
                                                 "share.secret",
                                                 "pose_job.name",
                                                 "pose_job.worker",
                                                 "pose_job.queue_message",
                                                 "export_job.name",
                                                 "export_job.worker",
                                                 "export_job.queue_message"};
  return kOutputs.count(path) != 0 || path.rfind("training_job.checkpoints", 0) == 0 ||
         path.rfind("training_job.effective_config", 0) == 0 ||
         path.rfind("pose_job.progress", 0) == 0 || path.rfind("pose_job.report", 0) == 0 ||
         path.rfind("export_job.progress", 0) == 0 || path.rfind("export_job.result", 0) == 0 ||
         path.rfind("training_job.progress", 0) == 0 ||
         path.rfind("training_job.members", 0) == 0 || path == "training_job.queue_message" ||
         path.rfind("training_job.problems", 0) == 0 || path.rfind("training_job.wait", 0) == 0 ||
         path.rfind("training_job.error", 0) == 0 || path == "training_job.init_reason" ||
         path == "training_job.parts" || path == "training_job.part_of" ||
         path.rfind("share.files", 0) == 0;
}

// A request that names a resource which its policy does not look at would let its caller reach any
// project.
TEST(AuthorizerTest, EveryResourceThatARequestNamesIsSeenByItsPolicy) {
  for (const MethodDescriptor* method : AllMethods()) {
    const MethodPolicy* policy = FindMethodPolicy(MethodName(*method));
    ASSERT_NE(policy, nullptr) << MethodName(*method);
    // Needs a role in every project anyway, or checks the one resource itself.
    if (policy->scope != Scope::kProject || method->name() == "DeleteToken") continue;
    // Their masks take no field that names a resource.
    if (method->name() == "UpdateTrainingJob" || method->name() == "UpdateModel") continue;
    ForEachText(*method->input_type(), "", 5,
                [&](const std::string& path, const FieldDescriptor& field) {
                  if (IsOutput(path) || kPlainTexts.count(field.name()) != 0) return;
                  const bool is_seen =
                      std::any_of(std::begin(policy->fields), std::end(policy->fields),
                                  [&](const ResourceField& seen) { return seen.path == path; });
                  EXPECT_TRUE(is_seen) << policy->method << " reads " << path;
                });
  }
}

TEST(AuthorizerTest, FieldsOfPoliciesAreTextsOfTheirRequests) {
  for (const MethodDescriptor* method : AllMethods()) {
    std::set<std::string> texts;
    ForEachText(*method->input_type(), "", 5,
                [&](const std::string& path, const FieldDescriptor&) { texts.insert(path); });
    for (const ResourceField& field : FindMethodPolicy(MethodName(*method))->fields) {
      if (field.path.empty()) continue;
      EXPECT_EQ(texts.count(std::string(field.path)), 1U) << MethodName(*method) << field.path;
    }
  }
}

TEST(AuthorizerTest, ResourcesOfARequestAreItsNamesAndTheDefaultProject) {
  v1::CreateTrainingJobRequest request;
  request.mutable_training_job()->set_scene("projects/b/scenes/s");
  request.mutable_training_job()->mutable_config()->mutable_init()->set_model(
      "projects/c/models/m");
  EXPECT_THAT(ResourcesOf(*FindMethodPolicy("nerf.v1.TrainingService/CreateTrainingJob"), request),
              ElementsAre(ResourceRef{"default", "projects/default"},
                          ResourceRef{"b", "projects/b/scenes/s"},
                          ResourceRef{"c", "projects/c/models/m"}));
  // What the server chooses is of the parent.
  request.mutable_training_job()->mutable_config()->mutable_init()->set_model("auto");
  EXPECT_THAT(ResourcesOf(*FindMethodPolicy("nerf.v1.TrainingService/CreateTrainingJob"), request),
              ElementsAre(ResourceRef{"default", "projects/default"},
                          ResourceRef{"b", "projects/b/scenes/s"}));
  request.mutable_training_job()->mutable_config()->mutable_init()->set_model("none");
  EXPECT_EQ(
      ResourcesOf(*FindMethodPolicy("nerf.v1.TrainingService/CreateTrainingJob"), request).size(),
      2u);
  request.mutable_training_job()->mutable_config()->mutable_init()->set_model("automatic");
  EXPECT_THAT(ResourcesOf(*FindMethodPolicy("nerf.v1.TrainingService/CreateTrainingJob"), request),
              ElementsAre(ResourceRef{"default", "projects/default"},
                          ResourceRef{"b", "projects/b/scenes/s"}, ResourceRef{"", "automatic"}));
  // A name of anything else is one.
  request.mutable_training_job()->set_scene("auto");
  EXPECT_THAT(ResourcesOf(*FindMethodPolicy("nerf.v1.TrainingService/CreateTrainingJob"), request),
              testing::Contains(ResourceRef{"", "auto"}));
  EXPECT_THAT(
      ResourcesOf(*FindMethodPolicy("nerf.v1.RenderService/RenderImage"), v1::RenderImageRequest()),
      IsEmpty());
}

}  // namespace
}  // namespace nerf
