// Whose a blob is, over the wire: two projects and one store.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/error_reason.h"
#include "common/rpc/blob_client.h"
#include "tests/server/rpc/rpc_test_server.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using absl::StatusCode;
using testing::IsEmpty;
using testing::SizeIs;

constexpr char kUuid[] = "0b5e4a2e-3c1d-4f6a-9b7e-1a2b3c4d5e6f";

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
  google::bytestream::QueryWriteStatusRequest query;
  query.set_resource_name(std::string("projects/other/uploads/") + kUuid + "/" +
                          BlobResourceName(blob_));
  google::bytestream::QueryWriteStatusResponse upload;
  ASSERT_THAT(
      RpcTestServer::Call(*server_.bytes_stub,
                          &google::bytestream::ByteStream::Stub::QueryWriteStatus, query, &upload),
      IsOk());
  EXPECT_EQ(upload.committed_size(), 0);
  EXPECT_FALSE(upload.complete());
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

TEST_F(BlobProjectsTest, WorkersReadTheBlobsOfEveryProject) {
  ASSERT_THAT(Client("lab").UploadBytes(content_, blob_), IsOk());
  EXPECT_THAT(Read("", blob_, RpcTestServer::kToken), IsOkAndHolds(content_));
}

}  // namespace
}  // namespace nerf
