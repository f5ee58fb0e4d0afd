// Links to one model: made, listed, used and revoked over the wire.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/access_reason.h"
#include "common/error_reason.h"
#include "common/messages/blob_ref.h"
#include "common/status_macros.h"
#include "tests/server/rpc/fake_worker.h"
#include "tests/server/rpc/rpc_test_server.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using absl::StatusCode;

class ShareTest : public testing::Test {
 protected:
  using Models = v1::ModelService::Stub;

  ShareTest() {
    const v1::Job job = server_.CreateJob(server_.CreateScene());
    FakeWorker worker(server_.channel, RpcTestServer::kToken, "w-1");
    const auto grant = worker.TakeJob();
    if (!grant.has_value()) {
      ADD_FAILURE() << "the job was not granted";
      return;
    }
    v1::CommitCheckpointRequest commit;
    commit.set_job(job.name());
    commit.set_lease_epoch(grant->lease_epoch());
    commit.set_step(10);
    *commit.mutable_checkpoint_blob() = server_.Make("checkpoint");
    *commit.mutable_model_blob() = server_.Make("model");
    EXPECT_THAT(worker.Commit(commit), IsOk());
    checkpoint_ = job.name() + "/checkpoints/10";
    Promote("mic");
    Promote("other");
  }

  void Promote(const std::string& id) {
    v1::PromoteCheckpointRequest request;
    request.set_name(checkpoint_);
    request.set_model_id(id);
    v1::Model model;
    EXPECT_THAT(Call(&Models::PromoteCheckpoint, request, &model), IsOk());
  }

  template <typename Method, typename Request, typename Response>
  absl::Status Call(Method method, const Request& request, Response* response,
                    const std::string& token = "") {
    return RpcTestServer::Call(*server_.model_stub, method, request, response, token);
  }

  v1::CreateShareRequest NewShare() {
    v1::CreateShareRequest request;
    request.set_parent("projects/default/models/mic");
    request.mutable_share()->set_display_name("for the museum");
    v1::Camera& camera = *request.mutable_share()->mutable_camera();
    camera.set_width(400);
    camera.set_height(300);
    camera.set_fl_x(350.25);
    for (const double number :
         {0.6, -0.8, 0.0, 0.125, 0.8, 0.6, 0.0, 0.25, 0.0, 0.0, 1.0, 0.5, 0.0, 0.0, 0.0, 1.0}) {
      camera.add_transform_matrix(number);
    }
    for (const double number : {0.5, -1.0, 2.0}) request.mutable_share()->add_center(number);
    for (const double number : {0.0, 0.0, 1.0}) request.mutable_share()->add_up(number);
    return request;
  }
  v1::Share Create(const v1::CreateShareRequest& request) {
    v1::Share share;
    EXPECT_THAT(Call(&Models::CreateShare, request, &share), IsOk());
    return share;
  }
  absl::Status GetModel(const std::string& id, const std::string& token) {
    v1::GetModelRequest request;
    request.set_name("projects/default/models/" + id);
    v1::Model model;
    return Call(&Models::GetModel, request, &model, token);
  }
  absl::StatusOr<std::string> Read(const std::string& blob, const std::string& token) {
    grpc::ClientContext context;
    PrepareCall(absl::Seconds(20), token, &context);
    google::bytestream::ReadRequest request;
    request.set_resource_name(blob);
    const auto reader = server_.bytes_stub->Read(&context, request);
    std::string bytes;
    google::bytestream::ReadResponse response;
    while (reader->Read(&response)) bytes += response.data();
    NERF_RETURN_IF_ERROR(FromGrpcStatus(reader->Finish()));
    return bytes;
  }
  absl::Status Revoke(const std::string& name) {
    v1::RevokeShareRequest request;
    request.set_name(name);
    google::protobuf::Empty nothing;
    return Call(&Models::RevokeShare, request, &nothing);
  }

  RpcTestServer server_;
  std::string checkpoint_;
};

TEST_F(ShareTest, ItsTokenSeesTheModelAndWhereToStartAlone) {
  const v1::CreateShareRequest request = NewShare();
  const v1::Share share = Create(request);
  EXPECT_EQ(share.secret().size(), 64U);
  EXPECT_THAT(share.name(), testing::StartsWith("projects/default/models/mic/shares/sh-"));
  EXPECT_EQ(share.camera().SerializeAsString(), request.share().camera().SerializeAsString());
  EXPECT_THAT(GetModel("mic", share.secret()), IsOk());
  EXPECT_THAT(GetModel("other", share.secret()),
              FailsWith(StatusCode::kPermissionDenied, reason::kAccessDenied));
  v1::Access access;
  ASSERT_THAT(RpcTestServer::Call(*server_.admin_stub, &v1::AdminService::Stub::GetAccess,
                                  v1::GetAccessRequest(), &access, share.secret()),
              IsOk());
  EXPECT_EQ(access.principal(), share.name());
  ASSERT_EQ(access.grants_size(), 1);
  EXPECT_EQ(access.grants(0).resource(), "projects/default/models/mic");
  v1::Share without_secret = share;
  without_secret.clear_secret();
  EXPECT_EQ(access.share().SerializeAsString(), without_secret.SerializeAsString());
  v1::Access of_admin;
  ASSERT_THAT(RpcTestServer::Call(*server_.admin_stub, &v1::AdminService::Stub::GetAccess,
                                  v1::GetAccessRequest(), &of_admin),
              IsOk());
  EXPECT_FALSE(of_admin.has_share());
}

TEST_F(ShareTest, ListHasSharesOfTheModelWithoutTheirSecrets) {
  const v1::Share share = Create(NewShare());
  v1::ListSharesRequest list;
  list.set_parent("projects/default/models/mic");
  v1::ListSharesResponse shares;
  ASSERT_THAT(Call(&Models::ListShares, list, &shares), IsOk());
  ASSERT_EQ(shares.shares_size(), 1);
  EXPECT_EQ(shares.shares(0).name(), share.name());
  EXPECT_EQ(shares.shares(0).secret(), "");
  list.set_parent("projects/default/models/other");
  ASSERT_THAT(Call(&Models::ListShares, list, &shares), IsOk());
  EXPECT_EQ(shares.shares_size(), 0);
  v1::ListTokensResponse tokens;
  ASSERT_THAT(RpcTestServer::Call(*server_.admin_stub, &v1::AdminService::Stub::ListTokens,
                                  v1::ListTokensRequest(), &tokens),
              IsOk());
  EXPECT_EQ(tokens.tokens_size(), 0) << "a share is not among the tokens";
}

TEST_F(ShareTest, RevokedAndExpiredSharesOpenNothing) {
  const v1::Share share = Create(NewShare());
  ASSERT_THAT(Revoke(share.name()), IsOk());
  EXPECT_THAT(GetModel("mic", share.secret()),
              FailsWith(StatusCode::kUnauthenticated, reason::kTokenInvalid));
  EXPECT_THAT(Revoke(share.name()), FailsWith(StatusCode::kNotFound, reason::kResourceNotFound));

  v1::CreateShareRequest brief = NewShare();
  brief.mutable_share()->mutable_expire_time()->set_seconds(
      absl::ToUnixSeconds(server_.clock.WallNow()) + 60);
  const v1::Share expiring = Create(brief);
  EXPECT_THAT(GetModel("mic", expiring.secret()), IsOk());
  server_.clock.Advance(absl::Minutes(2));
  EXPECT_THAT(GetModel("mic", expiring.secret()),
              FailsWith(StatusCode::kUnauthenticated, reason::kTokenExpired));
}

TEST_F(ShareTest, DeletedModelTakesItsSharesAlong) {
  const v1::Share share = Create(NewShare());
  v1::DeleteModelRequest request;
  request.set_name("projects/default/models/mic");
  google::protobuf::Empty nothing;
  ASSERT_THAT(Call(&Models::DeleteModel, request, &nothing), IsOk());
  Promote("mic");
  EXPECT_THAT(GetModel("mic", share.secret()),
              FailsWith(StatusCode::kUnauthenticated, reason::kTokenInvalid))
      << "a later model of the same id";
}

TEST_F(ShareTest, FilesOfItsExportJobAreDownloadedByTheLinkAlone) {
  v1::CreateJobRequest wanted;
  wanted.set_job_id("viewer");
  v1::ExportSpec& spec = *wanted.mutable_job()->mutable_export_();
  spec.set_model("projects/default/models/mic");
  spec.set_format(v1::ExportSpec::VIEWER);
  const auto job = server_.Create(wanted);
  ASSERT_THAT(job, IsOk());
  v1::CreateShareRequest request = NewShare();
  request.mutable_share()->set_export_job(job->name());
  v1::Share share;
  EXPECT_THAT(Call(&Models::CreateShare, request, &share),
              FailsWith(StatusCode::kFailedPrecondition, reason::kStateConflict));

  FakeWorker worker(server_.channel, RpcTestServer::kToken, "w-2");
  worker.Hello({}, {"ngp"}, {"export"});
  const auto grant = worker.WaitForOrder(v1::DesiredJob::EXPORT);
  ASSERT_TRUE(grant.has_value());
  v1::JobReport report = FakeWorker::Report(*grant, v1::JobReport::SUCCEEDED);
  v1::ExportFile* file = report.mutable_export_result()->add_files();
  file->set_name("viewer.html");
  *file->mutable_blob() = server_.Put("a viewer");
  worker.SendReport(report);
  ASSERT_TRUE(worker.WaitForAcknowledgement(job->name()));

  share = Create(request);
  ASSERT_EQ(share.files_size(), 1);
  EXPECT_EQ(share.files(0).name(), "viewer.html");
  const v1::Share bare = Create(NewShare());
  const std::string blob = BlobResourceName(file->blob());
  EXPECT_THAT(Read(blob, share.secret()), IsOkAndHolds("a viewer"));
  EXPECT_THAT(Read("projects/default/" + blob, share.secret()), IsOkAndHolds("a viewer"));
  EXPECT_THAT(Read(blob, bare.secret()),
              FailsWith(StatusCode::kPermissionDenied, reason::kAccessDenied));
  EXPECT_THAT(Read(BlobResourceName(server_.Put("model")), share.secret()),
              FailsWith(StatusCode::kPermissionDenied, reason::kAccessDenied));
  v1::GetJobRequest get;
  get.set_name(job->name());
  v1::Job unseen;
  EXPECT_THAT(RpcTestServer::Call(*server_.job_stub, &v1::JobService::Stub::GetJob, get, &unseen,
                                  share.secret()),
              FailsWith(StatusCode::kPermissionDenied, reason::kAccessDenied));
  ASSERT_THAT(Revoke(share.name()), IsOk());
  EXPECT_THAT(Read(blob, share.secret()),
              FailsWith(StatusCode::kUnauthenticated, reason::kTokenInvalid));
}

TEST_F(ShareTest, WrongRequestsAreRefused) {
  v1::Share share;
  v1::CreateShareRequest request = NewShare();
  request.set_parent("projects/default/models/none");
  EXPECT_THAT(Call(&Models::CreateShare, request, &share),
              FailsWith(StatusCode::kNotFound, reason::kResourceNotFound));
  request = NewShare();
  request.mutable_share()->mutable_camera()->clear_transform_matrix();
  EXPECT_THAT(Call(&Models::CreateShare, request, &share),
              FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));
  for (const int64_t seconds : {int64_t{1}, int64_t{-62'135'596'801}, int64_t{253'402'300'800}}) {
    request = NewShare();
    request.mutable_share()->mutable_expire_time()->set_seconds(seconds);
    EXPECT_THAT(Call(&Models::CreateShare, request, &share),
                FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid))
        << seconds;
  }
  request = NewShare();
  request.mutable_share()->mutable_center()->RemoveLast();
  EXPECT_THAT(Call(&Models::CreateShare, request, &share),
              FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));
  request = NewShare();
  request.mutable_share()->set_up(2, 0);
  EXPECT_THAT(Call(&Models::CreateShare, request, &share),
              FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));
  request = NewShare();
  request.mutable_share()->set_export_job("projects/default/jobs/none");
  EXPECT_THAT(Call(&Models::CreateShare, request, &share),
              FailsWith(StatusCode::kNotFound, reason::kResourceNotFound));
  request.mutable_share()->set_export_job(checkpoint_.substr(0, checkpoint_.find("/checkpoints")));
  EXPECT_THAT(Call(&Models::CreateShare, request, &share),
              FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid))
      << "a training";
  request.mutable_share()->set_export_job("viewer");
  EXPECT_THAT(Call(&Models::CreateShare, request, &share),
              FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));
  request = NewShare();
  request.set_parent("");
  EXPECT_THAT(Call(&Models::CreateShare, request, &share),
              FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));
  for (const char* name :
       {"", "tokens/t-1", "projects/default/models/mic", "projects/default/models/mic/shares/",
        "projects/default/models/mic/x/y", "projects/default/models/mic/shares/a/shares/b"}) {
    EXPECT_THAT(Revoke(name), FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid))
        << name;
  }
}

}  // namespace
}  // namespace nerf
