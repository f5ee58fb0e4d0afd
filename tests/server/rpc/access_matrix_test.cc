// Every method of the contract with every kind of token, over the wire.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>
#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/match.h"
#include "common/access_reason.h"
#include "common/error_reason.h"
#include "server/access/method_policy.h"
#include "tests/server/rpc/rpc_test_server.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using absl::StatusCode;

// Who may: V viewers, E editors, A admins, W workers. In capitals for a project, in small letters
// only with a role in every project; * for everybody with a token.
const std::map<std::string, std::string> kWhoMay = {
    {"nerf.v1.SceneService/CreateScene", "EA"},
    {"nerf.v1.SceneService/GetScene", "VEA"},
    {"nerf.v1.SceneService/ListScenes", "VEA"},
    {"nerf.v1.SceneService/DeleteScene", "EA"},
    {"nerf.v1.SceneService/ValidateScene", "VEA"},
    {"nerf.v1.SceneService/DescribeScene", "VEA"},
    {"nerf.v1.BlobService/FindMissingBlobs", "EAw"},
    {"nerf.v1.BlobService/CheckBlob", "VEAw"},
    {"nerf.v1.BlobService/SignBlobUrl", "VEAw"},
    {"nerf.v1.BlobService/AdoptBlob", "w"},
    {"google.bytestream.ByteStream/Read", "VEAw"},
    {"google.bytestream.ByteStream/Write", "EAw"},
    {"google.bytestream.ByteStream/QueryWriteStatus", "EAw"},
    {"nerf.v1.JobService/CreateJob", "EA"},
    {"nerf.v1.JobService/GetJob", "VEA"},
    {"nerf.v1.JobService/ListJobs", "VEA"},
    {"nerf.v1.JobService/UpdateJob", "EA"},
    {"nerf.v1.JobService/PauseJob", "EA"},
    {"nerf.v1.JobService/ResumeJob", "EA"},
    {"nerf.v1.JobService/RetryJob", "EA"},
    {"nerf.v1.JobService/ExtendJob", "EA"},
    {"nerf.v1.JobService/CancelJob", "EA"},
    {"nerf.v1.JobService/DeleteJob", "EA"},
    {"nerf.v1.JobService/WatchJob", "VEA"},
    {"nerf.v1.JobService/WatchJobs", "VEA"},
    {"nerf.v1.JobService/ListJobMetrics", "VEA"},
    {"nerf.v1.ModelService/ListCheckpoints", "VEA"},
    {"nerf.v1.ModelService/PromoteCheckpoint", "EA"},
    {"nerf.v1.ModelService/GetModel", "VEA"},
    {"nerf.v1.ModelService/ListModels", "VEA"},
    {"nerf.v1.ModelService/UpdateModel", "EA"},
    {"nerf.v1.ModelService/DeleteModel", "EA"},
    {"nerf.v1.ModelService/CreateShare", "EA"},
    {"nerf.v1.ModelService/ListShares", "EA"},
    {"nerf.v1.ModelService/RevokeShare", "EA"},
    {"nerf.v1.RenderService/RenderImage", "VEA"},
    {"nerf.v1.RenderService/ExpandCameraPath", "VEA"},
    {"nerf.v1.ViewService/StreamViews", "VEA"},
    {"nerf.v1.ViewService/UpdateView", "VEA"},
    {"nerf.v1.AdminService/ListWorkers", "vea"},
    {"nerf.v1.AdminService/DrainWorker", "a"},
    {"nerf.v1.AdminService/UndrainWorker", "a"},
    {"nerf.v1.AdminService/ListProjects", "a"},
    {"nerf.v1.AdminService/GetProject", "VEA"},
    {"nerf.v1.AdminService/UpdateProject", "a"},
    {"nerf.v1.AdminService/BackupStore", "a"},
    {"nerf.v1.AdminService/GetAccess", "*"},
    {"nerf.v1.AdminService/CreateToken", "A"},
    {"nerf.v1.AdminService/ListTokens", "A"},
    {"nerf.v1.WorkerService/Synchronize", "w"},
    {"nerf.v1.WorkerService/CommitCheckpoint", "w"},
    {"nerf.v1.WorkerService/CommitFrames", "w"},
    {"nerf.v1.WorkerService/CommitPoses", "w"},
};

// What the token of a share may call, for the model that it is of.
const std::set<std::string> kOfShares = {
    "nerf.v1.ModelService/GetModel", "nerf.v1.RenderService/RenderImage",
    "nerf.v1.ViewService/StreamViews", "nerf.v1.ViewService/UpdateView",
    "nerf.v1.AdminService/GetAccess"};

// An empty request of a method that names resources of a project wherever its policy looks, or
// `name` in all these places.
std::string RequestFor(const MethodPolicy& policy, const std::string& project,
                       const std::string& name = "") {
  const std::string method(policy.method);
  const auto* descriptor = google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(
      std::string(method).replace(method.find('/'), 1, "."));
  std::unique_ptr<google::protobuf::Message> request(
      google::protobuf::MessageFactory::generated_factory()
          ->GetPrototype(descriptor->input_type())
          ->New());
  for (const ResourceField& field : policy.fields) {
    std::string path(field.path);
    if (path.empty()) continue;
    google::protobuf::Message* message = request.get();
    for (size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.')) {
      message = message->GetReflection()->MutableMessage(
          message, message->GetDescriptor()->FindFieldByName(path.substr(0, dot)));
      path.erase(0, dot + 1);
    }
    const bool is_project = path == "parent" || path == "project";
    message->GetReflection()->SetString(
        message, message->GetDescriptor()->FindFieldByName(path),
        !name.empty() ? name : "projects/" + project + (is_project ? "" : "/jobs/none"));
  }
  return request->SerializeAsString();
}

class AccessMatrixTest : public testing::Test {
 protected:
  // The status of a call that sends one request.
  absl::Status Call(const std::string& method, const std::string& request,
                    const std::string& token) {
    grpc::GenericStub stub(server_.bare_channel);
    grpc::ClientContext context;
    PrepareCall(absl::Seconds(20), token, &context);
    grpc::CompletionQueue queue;
    const auto call = stub.PrepareCall(&context, "/" + method, &queue);
    void* tag = nullptr;
    bool ok = false;
    call->StartCall(nullptr);
    queue.Next(&tag, &ok);
    const grpc::Slice slice(request);
    call->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), nullptr);
    queue.Next(&tag, &ok);
    grpc::ByteBuffer answer;
    call->Read(&answer, nullptr);
    queue.Next(&tag, &ok);
    if (ok) context.TryCancel();  // allowed; some streams have no end
    grpc::Status status;
    call->Finish(&status, nullptr);
    queue.Next(&tag, &ok);
    return FromGrpcStatus(status);
  }

  bool May(const MethodPolicy& policy, const std::string& project, const std::string& token) {
    const absl::Status status =
        Call(std::string(policy.method), RequestFor(policy, project), token);
    EXPECT_NE(status.code(), StatusCode::kUnauthenticated) << policy.method << status;
    EXPECT_NE(status.code(), StatusCode::kDeadlineExceeded) << policy.method;
    EXPECT_NE(status.code(), StatusCode::kUnimplemented) << policy.method;
    const auto why = GetReason(status);
    return !why.has_value() || why->reason != reason::kAccessDenied;
  }

  std::string Token(Role role, const std::string& project) {
    return server_.tokens->Create({.role = role, .project = project})->secret;
  }

  // What nerfd_auth_failures_total has counted.
  double Failures(std::string_view reason) {
    for (const auto& family : server_.metrics->collectable()->Collect()) {
      if (family.name != "nerfd_auth_failures_total") continue;
      for (const auto& metric : family.metric) {
        if (metric.label[0].value == reason) return metric.counter.value;
      }
    }
    return -1;
  }

  RpcTestServer server_;
};

TEST_F(AccessMatrixTest, EachMethodWithEachRoleAndProject) {
  const std::vector<std::pair<Role, char>> roles = {
      {Role::kViewer, 'V'}, {Role::kEditor, 'E'}, {Role::kAdmin, 'A'}, {Role::kWorker, 'W'}};
  for (const auto& [role, letter] : roles) {
    const std::string mine = Token(role, "mine"), other = Token(role, "other"),
                      every = Token(role, "");
    const char small = static_cast<char>(letter + ('a' - 'A'));
    for (const MethodPolicy& policy : MethodPolicies()) {
      // Its handler finds the token, and has a test of its own.
      if (policy.method == "nerf.v1.AdminService/DeleteToken") continue;
      SCOPED_TRACE(std::string(policy.method) + " " + letter);
      const auto who = kWhoMay.find(std::string(policy.method));
      ASSERT_NE(who, kWhoMay.end()) << "say in kWhoMay who may call it";
      const bool all = who->second == "*";
      const bool in_project = all || absl::StrContains(who->second, std::string(1, letter));
      const bool in_every = in_project || absl::StrContains(who->second, std::string(1, small));
      // Workers have no project.
      if (role != Role::kWorker) {
        EXPECT_EQ(May(policy, "mine", mine), in_project);
        EXPECT_EQ(May(policy, "mine", other), all) << "a token of another project";
      }
      EXPECT_EQ(May(policy, "mine", every), in_every);
    }
  }
}

TEST_F(AccessMatrixTest, ShareOpensItsModelForViewingAndNothingElse) {
  const std::string model = "projects/mine/models/mic";
  const std::string share =
      server_.tokens->Create({.role = Role::kViewer, .project = "mine", .resource = model})->secret;
  for (const MethodPolicy& policy : MethodPolicies()) {
    SCOPED_TRACE(policy.method);
    const std::string method(policy.method);
    const auto may = [&](const std::string& name) {
      const absl::Status status = Call(method, RequestFor(policy, "mine", name), share);
      EXPECT_NE(status.code(), StatusCode::kUnauthenticated) << status;
      const auto why = GetReason(status);
      return !why.has_value() || why->reason != reason::kAccessDenied;
    };
    // Readers of the model's own name may call more; these methods then find no such resource.
    if ((policy.roles & static_cast<Roles>(Role::kViewer)) == 0 || policy.scope == Scope::kServer) {
      EXPECT_FALSE(may(model));
    } else if (kOfShares.contains(method)) {
      EXPECT_TRUE(may(model));
    }
    if (policy.scope != Scope::kProject || policy.fields[0].path.empty()) continue;
    for (const char* other :
         {"projects/mine/models/mic2", "projects/mine/models", "projects/mine", "projects/mine/",
          "projects/other/models/mic", "projects/mine/jobs/mic", "projects/mine/blobs/mic",
          "blobs/mic", "models/mic", "/projects/mine/models/mic"}) {
      EXPECT_FALSE(may(other)) << other;
    }
  }
}

TEST_F(AccessMatrixTest, NoMethodAnswersWithoutAValidToken) {
  const auto revoked = *server_.tokens->Create({.role = Role::kAdmin});
  const auto expired = *server_.tokens->Create(
      {.role = Role::kAdmin, .expire_time = server_.clock.WallNow() + absl::Seconds(1)});
  ASSERT_THAT(server_.tokens->Delete(revoked.record.id), IsOk());
  server_.clock.Advance(absl::Seconds(2));
  const std::pair<std::string, std::string_view> tokens[] = {
      {"", reason::kTokenMissing},
      {"guess", reason::kTokenInvalid},
      {revoked.secret, reason::kTokenInvalid},
      {expired.secret, reason::kTokenExpired},
      {std::string(RpcTestServer::kAdminToken) + "x", reason::kTokenInvalid}};
  for (const MethodPolicy& policy : MethodPolicies()) {
    for (const auto& [token, why] : tokens) {
      const absl::Status status =
          Call(std::string(policy.method), RequestFor(policy, "default"), token);
      EXPECT_THAT(status, FailsWith(StatusCode::kUnauthenticated, why)) << policy.method;
    }
  }
  const double n_methods = static_cast<double>(MethodPolicies().size());
  EXPECT_EQ(Failures(reason::kTokenMissing), n_methods);
  EXPECT_EQ(Failures(reason::kTokenInvalid), 3 * n_methods);
  EXPECT_EQ(Failures(reason::kTokenExpired), n_methods);
  EXPECT_EQ(Failures(reason::kAccessDenied), 0);
}

TEST_F(AccessMatrixTest, ProjectAdminMakesAndSeesTokensOfItsProjectAlone) {
  const std::string admin = Token(Role::kAdmin, "mine");
  v1::CreateTokenRequest create;
  create.mutable_token()->set_role(v1::Token::EDITOR);
  create.mutable_token()->set_project("projects/mine");
  v1::Token made;
  const auto call = [&](auto method, const auto& request, auto* response) {
    return RpcTestServer::Call(*server_.admin_stub, method, request, response, admin);
  };
  ASSERT_THAT(call(&v1::AdminService::Stub::CreateToken, create, &made), IsOk());
  EXPECT_EQ(made.secret().size(), 64U);
  create.mutable_token()->clear_project();
  EXPECT_THAT(call(&v1::AdminService::Stub::CreateToken, create, &made),
              FailsWith(StatusCode::kPermissionDenied, reason::kAccessDenied));
  v1::ListTokensRequest list;
  list.set_project("projects/mine");
  v1::ListTokensResponse tokens;
  ASSERT_THAT(call(&v1::AdminService::Stub::ListTokens, list, &tokens), IsOk());
  EXPECT_EQ(tokens.tokens_size(), 2);
  for (const v1::Token& token : tokens.tokens()) EXPECT_EQ(token.secret(), "");
  google::protobuf::Empty nothing;
  v1::DeleteTokenRequest of_other;
  of_other.set_name("tokens/" + server_.tokens->Create({.project = "other"})->record.id);
  EXPECT_THAT(call(&v1::AdminService::Stub::DeleteToken, of_other, &nothing),
              FailsWith(StatusCode::kPermissionDenied, reason::kAccessDenied));
  v1::DeleteTokenRequest of_mine;
  of_mine.set_name(tokens.tokens(1).name());
  EXPECT_THAT(call(&v1::AdminService::Stub::DeleteToken, of_mine, &nothing), IsOk());
}

TEST_F(AccessMatrixTest, WatchEndsWhenItsTokenIsRevoked) {
  const v1::Job job = server_.CreateJob(server_.CreateScene());
  const auto token = *server_.tokens->Create({.role = Role::kViewer, .project = "default"});
  grpc::ClientContext context;
  PrepareCall(absl::Seconds(20), token.secret, &context);
  v1::WatchJobRequest request;
  request.set_name(job.name());
  const auto reader = server_.job_stub->WatchJob(&context, request);
  v1::WatchJobResponse message;
  ASSERT_TRUE(reader->Read(&message));
  ASSERT_THAT(server_.tokens->Delete(token.record.id), IsOk());
  while (reader->Read(&message)) {
  }
  EXPECT_THAT(FromGrpcStatus(reader->Finish()),
              FailsWith(StatusCode::kUnauthenticated, reason::kTokenInvalid));
}

}  // namespace
}  // namespace nerf
