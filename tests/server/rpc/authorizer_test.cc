// Which methods have a policy, what of a request it looks at, and who gets through.
#include "server/rpc/calls/authorizer.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "google/bytestream/bytestream.pb.h"
#include "nerf/v1/admin_service.pb.h"
#include "nerf/v1/blob_service.pb.h"
#include "nerf/v1/job_service.pb.h"
#include "nerf/v1/model_service.pb.h"
#include "nerf/v1/render_service.pb.h"
#include "nerf/v1/scene_service.pb.h"
#include "nerf/v1/view_service.pb.h"
#include "nerf/v1/worker_service.pb.h"

namespace nerf {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::MethodDescriptor;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// Texts of requests that name no resource, by the last part of their path.
const std::set<std::string> kPlainTexts = {
    // Of the caller's making, or for people.
    "display_name", "request_id", "scene_id", "job_id", "model_id", "page_token",   "resume_token",
    "path",         "sha256",     "method",   "scope",  "reason",   "queue_reason", "queue_message",
    "message",      "file",       "dtype",    "key",    "value",    "filter",       "etag"};

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
  v1::Job::descriptor();
  v1::View::descriptor();
  google::bytestream::ReadRequest::descriptor();
  const auto* pool = google::protobuf::DescriptorPool::generated_pool();
  std::vector<const MethodDescriptor*> methods;
  for (const char* file :
       {"nerf/v1/scene_service.proto", "nerf/v1/blob_service.proto", "nerf/v1/job_service.proto",
        "nerf/v1/model_service.proto", "nerf/v1/render_service.proto", "nerf/v1/view_service.proto",
        "nerf/v1/admin_service.proto", "nerf/v1/worker_service.proto",
        "google/bytestream/bytestream.proto"}) {
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
  static const std::set<std::string> kOutputs = {"scene.name",  "job.name",     "job.workers",
                                                 "token.name",  "token.secret", "share.name",
                                                 "share.secret"};
  if (kOutputs.contains(path)) return true;
  constexpr std::string_view kGroups[] = {"job.training_status.", "job.render_status.",
                                          "job.pose_status.",     "job.export_status.",
                                          "job.problems.",        "share.files."};
  return std::any_of(std::begin(kGroups), std::end(kGroups),
                     [&](std::string_view group) { return path.starts_with(group); });
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
    if (method->name() == "UpdateJob" || method->name() == "UpdateModel") continue;
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
    const std::string_view logged = FindMethodPolicy(MethodName(*method))->logged_field;
    EXPECT_TRUE(logged.empty() || texts.contains(std::string(logged))) << MethodName(*method);
    for (const ResourceField& field : FindMethodPolicy(MethodName(*method))->fields) {
      if (field.path.empty()) continue;
      EXPECT_EQ(texts.count(std::string(field.path)), 1U) << MethodName(*method) << field.path;
    }
  }
}

// An audit needs to know what was changed, also where rights do not depend on it.
TEST(AuthorizerTest, EveryChangeNamesWhatItChanges) {
  for (const MethodPolicy& policy : MethodPolicies()) {
    if (!policy.is_change) continue;
    EXPECT_FALSE(policy.fields[0].path.empty() && policy.logged_field.empty()) << policy.method;
  }
}

TEST(AuthorizerTest, ResourcesOfARequestAreItsNamesAndTheDefaultProject) {
  const MethodPolicy& create = *FindMethodPolicy("nerf.v1.JobService/CreateJob");
  const ResourceRef parent = {"default", "projects/default"}, scene = {"b", "projects/b/scenes/s"};
  v1::CreateJobRequest request;
  v1::TrainingSpec& training = *request.mutable_job()->mutable_training();
  v1::Init& init = *training.mutable_config()->mutable_init();
  training.set_scene(scene.name);
  init.set_model("projects/c/models/m");
  EXPECT_THAT(ResourcesOf(create, request),
              ElementsAre(parent, scene, ResourceRef{"c", "projects/c/models/m"}));
  // What the server chooses is of the parent.
  for (const char* chosen : {"auto", "none"}) {
    init.set_model(chosen);
    EXPECT_THAT(ResourcesOf(create, request), ElementsAre(parent, scene));
  }
  init.set_model("automatic");
  EXPECT_THAT(ResourcesOf(create, request),
              ElementsAre(parent, scene, ResourceRef{"", "automatic"}));
  // A name of anything else is one.
  training.set_scene("auto");
  EXPECT_THAT(ResourcesOf(create, request), testing::Contains(ResourceRef{"", "auto"}));
  EXPECT_THAT(
      ResourcesOf(*FindMethodPolicy("nerf.v1.RenderService/RenderImage"), v1::RenderImageRequest()),
      IsEmpty());
}

TEST(AuthorizerTest, ResourcesOfAJobOfEachKindAreSeen) {
  const auto seen = [&](const v1::Job& job) {
    v1::CreateJobRequest request;
    request.set_parent("projects/a");
    *request.mutable_job() = job;
    std::vector<std::string> names;
    for (const ResourceRef& resource :
         ResourcesOf(*FindMethodPolicy("nerf.v1.JobService/CreateJob"), request)) {
      names.push_back(resource.name);
    }
    return names;
  };
  const std::string checkpoint = "projects/b/jobs/j/checkpoints/5", model = "projects/b/models/m",
                    scene = "projects/b/scenes/s", old = "projects/c/scenes/old",
                    poses = "projects/b/jobs/p";
  v1::Job job;
  job.mutable_training()->set_pose_job(poses);
  job.mutable_training()->mutable_config()->mutable_init()->set_checkpoint(checkpoint);
  EXPECT_THAT(seen(job), UnorderedElementsAre("projects/a", poses, checkpoint));
  job.mutable_render()->set_model(model);
  EXPECT_THAT(seen(job), ElementsAre("projects/a", model));
  job.mutable_render()->set_checkpoint(checkpoint);
  EXPECT_THAT(seen(job), ElementsAre("projects/a", checkpoint));
  job.mutable_pose()->set_scene(scene);
  job.mutable_pose()->set_into(old);
  EXPECT_THAT(seen(job), UnorderedElementsAre("projects/a", scene, old));
  job.mutable_export_()->set_model(model);
  EXPECT_THAT(seen(job), ElementsAre("projects/a", model));
  job.mutable_export_()->set_checkpoint(checkpoint);
  EXPECT_THAT(seen(job), ElementsAre("projects/a", checkpoint));
}

}  // namespace
}  // namespace nerf
