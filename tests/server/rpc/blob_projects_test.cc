// Whose a blob is, over the wire: two projects and one store.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/access_reason.h"
#include "common/error_reason.h"
#include "common/messages/blob_ref.h"
#include "common/rpc/blob_client.h"
#include "tests/server/rpc/rpc_test_server.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using absl::StatusCode;
using testing::IsEmpty;
using testing::SizeIs;

constexpr char kBlobProjectsUuid[] = "0b5e4a2e-3c1d-4f6a-9b7e-1a2b3c4d5e6f";

class BlobProjectsTest : public testing::Test {
 protected:
  BlobClient Client(const std::string& project, const std::string& token = "") {
    return BlobClient(token.empty() ? server_.channel : server_.bare_channel,
                      {.token = token, .project = project, .max_attempts = 1});
  }
  absl::StatusOr<std::string> Read(const std::string& project, const v1::BlobRef& blob,
                                   const std::string& token = "") {
    std::string bytes;
    const absl::Status status = Client(project, token).Read(blob, [&](std::string_view chunk) {
      bytes += chunk;
      return absl::OkStatus();
    });
    if (!status.ok()) return status;
    return bytes;
  }
  static std::string UploadOf(const std::string& project, const v1::BlobRef& blob) {
    return "projects/" + project + "/uploads/" + kBlobProjectsUuid + "/" + BlobResourceName(blob);
  }
  // One call that sends some bytes. Returns the committed size.
  absl::StatusOr<int64_t> Write(const std::string& project, int64_t offset,
                                const std::string& bytes, bool is_last) {
    grpc::ClientContext context;
    google::bytestream::WriteResponse response;
    const auto writer = server_.bytes_stub->Write(&context, &response);
    google::bytestream::WriteRequest request;
    request.set_resource_name(UploadOf(project, blob_));
    request.set_write_offset(offset);
    request.set_data(bytes);
    request.set_finish_write(is_last);
    writer->Write(request);
    writer->WritesDone();
    const grpc::Status status = writer->Finish();
    if (!status.ok()) return FromGrpcStatus(status);
    return response.committed_size();
  }
  int64_t Committed(const std::string& project) {
    google::bytestream::QueryWriteStatusRequest query;
    query.set_resource_name(UploadOf(project, blob_));
    google::bytestream::QueryWriteStatusResponse upload;
    EXPECT_THAT(RpcTestServer::Call(*server_.bytes_stub,
                                    &google::bytestream::ByteStream::Stub::QueryWriteStatus, query,
                                    &upload),
                IsOk());
    EXPECT_FALSE(upload.complete());
    return upload.committed_size();
  }
  absl::Status CreateScene(const std::string& project, const v1::BlobRef& blob) {
    v1::CreateSceneRequest request;
    request.set_parent("projects/" + project);
    auto* file = request.mutable_scene()->add_files();
    file->set_path("transforms.json");
    *file->mutable_blob() = blob;
    v1::Scene scene;
    return RpcTestServer::Call(*server_.scene_stub, &v1::SceneService::Stub::CreateScene, request,
                               &scene);
  }

  RpcTestServer server_;
  const std::string content_ = std::string(200'000, 'x') + "secret";
  const v1::BlobRef blob_ = BlobOfBytes(content_);
};

TEST_F(BlobProjectsTest, DigestOpensNothingInAnotherProject) {
  ASSERT_THAT(Client("lab").UploadBytes(content_, blob_), IsOk());
  EXPECT_THAT(Read("lab", blob_), IsOkAndHolds(content_));
  for (const char* other : {"other", "", "default"}) {
    EXPECT_THAT(Read(other, blob_).status(),
                FailsWith(StatusCode::kNotFound, reason::kResourceNotFound));
    EXPECT_THAT(Client(other).FindMissing({blob_}), IsOkAndHolds(SizeIs(1)));
  }
  EXPECT_THAT(CreateScene("other", blob_),
              FailsWith(StatusCode::kFailedPrecondition, reason::kBlobsMissing));
  EXPECT_THAT(CreateScene("lab", blob_), IsOk());
  // Its upload looks as if nobody had it.
  EXPECT_EQ(Committed("other"), 0);
}

TEST_F(BlobProjectsTest, DeletedBlobIsNobodys) {
  ASSERT_THAT(Client("lab").UploadBytes(content_, blob_), IsOk());
  EXPECT_EQ(server_.blob_owners->size(), 1u);
  server_.clock.Advance(absl::Hours(25));
  ASSERT_THAT(server_.blobs->Collect({}), IsOkAndHolds(1u));
  EXPECT_EQ(server_.blob_owners->size(), 0u);
  ASSERT_THAT(Client("mine").UploadBytes(content_, blob_), IsOk());
  EXPECT_THAT(Read("lab", blob_).status(),
              FailsWith(StatusCode::kNotFound, reason::kResourceNotFound));
  EXPECT_THAT(Read("mine", blob_), IsOkAndHolds(content_));
}

TEST_F(BlobProjectsTest, WhoHasTheBytesGetsTheBlobToo) {
  ASSERT_THAT(Client("lab").UploadBytes(content_, blob_), IsOk());
  std::string guess = content_;
  guess.back() = '?';
  EXPECT_FALSE(Client("other").UploadBytes(guess, blob_).ok());
  EXPECT_THAT(Read("other", blob_).status(), StatusIs(StatusCode::kNotFound));
  ASSERT_THAT(Client("other").UploadBytes(content_, blob_), IsOk());
  EXPECT_THAT(Read("other", blob_), IsOkAndHolds(content_));
  EXPECT_THAT(Client("other").FindMissing({blob_}), IsOkAndHolds(IsEmpty()));
  EXPECT_THAT(Read("lab", blob_), IsOkAndHolds(content_));
}

TEST_F(BlobProjectsTest, UploadOfWhatAnotherProjectHasGoesOnWhereItWasCut) {
  ASSERT_THAT(Client("lab").UploadBytes(content_, blob_), IsOk());
  EXPECT_THAT(Write("other", 0, content_.substr(0, 1000), /*is_last=*/false), IsOkAndHolds(1000));
  EXPECT_EQ(Committed("other"), 1000);
  EXPECT_EQ(Committed("third"), 0) << "uploads of one id in two projects are two uploads";
  EXPECT_THAT(Write("other", 1000, content_.substr(1000), /*is_last=*/true),
              IsOkAndHolds(static_cast<int64_t>(content_.size())));
  EXPECT_THAT(Read("other", blob_), IsOkAndHolds(content_));
  EXPECT_THAT(Read("third", blob_).status(), StatusIs(StatusCode::kNotFound));
}

TEST_F(BlobProjectsTest, UploadEndsInOwnershipThoughAnotherProjectWasFaster) {
  for (const char* project : {"other", "default"}) {
    EXPECT_THAT(Write(project, 0, content_.substr(0, 1000), /*is_last=*/false), IsOkAndHolds(1000));
  }
  ASSERT_THAT(Client("lab").UploadBytes(content_, blob_), IsOk());
  for (const char* project : {"other", "default"}) {
    EXPECT_THAT(Read(project, blob_).status(), StatusIs(StatusCode::kNotFound));
    EXPECT_THAT(Write(project, 1000, content_.substr(1000), /*is_last=*/true),
                IsOkAndHolds(static_cast<int64_t>(content_.size())));
    EXPECT_THAT(Read(project, blob_), IsOkAndHolds(content_));
  }
  EXPECT_THAT(Read("lab", blob_), IsOkAndHolds(content_));
}

TEST_F(BlobProjectsTest, DefaultProjectKeepsWhatAnotherUploadsToo) {
  ASSERT_THAT(Client("").UploadBytes(content_, blob_), IsOk());
  EXPECT_THAT(Read("lab", blob_).status(), StatusIs(StatusCode::kNotFound));
  ASSERT_THAT(Client("lab").UploadBytes(content_, blob_), IsOk());
  EXPECT_THAT(Read("", blob_), IsOkAndHolds(content_));
  EXPECT_THAT(Read("lab", blob_), IsOkAndHolds(content_));
}

TEST_F(BlobProjectsTest, ResourcesKeepTheirBlobsOverARestart) {
  ASSERT_THAT(Client("lab").UploadBytes(content_, blob_), IsOk());
  ASSERT_THAT(CreateScene("lab", blob_), IsOk());
  server_.Stop();
  server_.Start();
  EXPECT_THAT(Read("lab", blob_), IsOkAndHolds(content_));
  EXPECT_THAT(Read("", blob_).status(), StatusIs(StatusCode::kNotFound));
}

TEST_F(BlobProjectsTest, UploadsKeepTheirProjectsOverARestart) {
  const std::string of_default = "what the default project has uploaded";
  ASSERT_THAT(Client("lab").UploadBytes(content_, blob_), IsOk());
  ASSERT_THAT(Client("").UploadBytes(of_default, BlobOfBytes(of_default)), IsOk());
  server_.Stop();
  server_.Start();
  EXPECT_THAT(Read("", blob_).status(),
              FailsWith(StatusCode::kNotFound, reason::kResourceNotFound));
  EXPECT_THAT(Client("").FindMissing({blob_}), IsOkAndHolds(SizeIs(1)));
  EXPECT_THAT(Read("lab", blob_), IsOkAndHolds(content_));
  EXPECT_THAT(Client("lab").FindMissing({blob_}), IsOkAndHolds(IsEmpty()));
  EXPECT_THAT(CreateScene("lab", blob_), IsOk());
  EXPECT_THAT(Read("", BlobOfBytes(of_default)), IsOkAndHolds(of_default));
  EXPECT_THAT(Read("lab", BlobOfBytes(of_default)).status(), StatusIs(StatusCode::kNotFound));
}

TEST_F(BlobProjectsTest, WhatSeveralProjectsUploadedStaysTheirsOverARestart) {
  for (const char* project : {"", "lab", "other"}) {
    ASSERT_THAT(Client(project).UploadBytes(content_, blob_), IsOk());
  }
  server_.Stop();
  server_.Start();
  for (const char* project : {"", "lab", "other"}) {
    EXPECT_THAT(Read(project, blob_), IsOkAndHolds(content_)) << project;
  }
  EXPECT_THAT(Read("third", blob_).status(), StatusIs(StatusCode::kNotFound));
}

TEST_F(BlobProjectsTest, UploadOfAWorkerIsNobodysBeforeItsCommit) {
  ASSERT_THAT(Client("", RpcTestServer::kToken).UploadBytes(content_, blob_), IsOk());
  for (const bool restarted : {false, true}) {
    if (restarted) server_.Stop();
    if (restarted) server_.Start();
    for (const char* project : {"", "lab"}) {
      EXPECT_THAT(Read(project, blob_).status(), StatusIs(StatusCode::kNotFound)) << restarted;
    }
  }
  server_.blob_owners->Add("lab", blob_.sha256());
  EXPECT_THAT(Read("lab", blob_), IsOkAndHolds(content_));
  EXPECT_THAT(Read("", blob_).status(), StatusIs(StatusCode::kNotFound));
}

TEST_F(BlobProjectsTest, UnfinishedUploadsCountAsStoredBytes) {
  const auto limit = [&](const std::string& project, uint64_t bytes) {
    EXPECT_THAT(server_.admin->UpdateProject(
                    project, [&](ProjectRecord& record) { record.quota.max_stored_bytes = bytes; }),
                IsOk());
  };
  const uint64_t size = content_.size();
  limit("lab", size + size / 2);
  EXPECT_THAT(Write("lab", 0, content_.substr(0, 1000), /*is_last=*/false), IsOkAndHolds(1000));
  const std::string more = "!" + content_;
  const auto refused = [&] {
    return FailsWith(StatusCode::kResourceExhausted, reason::kQuotaExceeded);
  };
  EXPECT_THAT(Client("lab").UploadBytes(more, BlobOfBytes(more)), refused());
  // What was received before a restart counts, too.
  server_.Stop();
  server_.Start();
  limit("lab", size + 1000);
  EXPECT_THAT(Client("lab").UploadBytes(more, BlobOfBytes(more)), refused());
  // The upload itself is counted once, and as a whole when it goes on.
  EXPECT_THAT(Write("lab", 1000, content_.substr(1000), /*is_last=*/true),
              IsOkAndHolds(static_cast<int64_t>(content_.size())));
  EXPECT_EQ(server_.admin->GetProject("lab").usage.stored_bytes, size);
  // One that is given up with wrong bytes counts no more.
  limit("other", size);
  std::string wrong = content_;
  wrong.back() = '?';
  EXPECT_THAT(Write("other", 0, wrong, /*is_last=*/true), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(Client("other").UploadBytes(content_, blob_), IsOk());
}

TEST_F(BlobProjectsTest, WorkersReadTheBlobsOfEveryProject) {
  ASSERT_THAT(Client("lab").UploadBytes(content_, blob_), IsOk());
  EXPECT_THAT(Read("", blob_, RpcTestServer::kToken), IsOkAndHolds(content_));
}

}  // namespace
}  // namespace nerf
