// The built nerfd with its queue in a PostgreSQL that the test starts; skipped without one.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <thread>

#include "common/messages/blob_ref.h"
#include "common/rpc/blob_client.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_conversion.h"
#include "common/status_macros.h"
#include "nerf/v1/admin_service.grpc.pb.h"
#include "nerf/v1/scene_service.grpc.pb.h"
#include "tests/e2e/nerfd_process.h"
#include "tests/e2e/owner_channel.h"
#include "tests/testing/postgres_cluster.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

using testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(40);

class PostgresServiceTest : public testing::Test {
 protected:
  void SetUp() override {
    if (PostgresCluster::Get() == nullptr) GTEST_SKIP() << "PostgreSQL is not installed";
    uri_ = PostgresCluster::Get()->Uri(PostgresCluster::Get()->NewDatabase());
  }

  std::unique_ptr<NerfdProcess> Start(std::vector<std::string> flags = {}) {
    flags.push_back("--no-local-worker");
    return std::make_unique<NerfdProcess>(dir_.path(), flags);
  }
  // What nerfd writes when it does not start.
  std::string Refused(std::vector<std::string> flags, int exit_code) {
    const auto nerfd = Start(std::move(flags));
    EXPECT_EQ(nerfd->Wait(kPatience), exit_code) << nerfd->errors();
    return nerfd->errors() + nerfd->output();
  }

  template <typename Stub, typename Request, typename Response>
  static absl::Status Call(Stub& stub,
                           grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                        Response*),
                           const Request& request, Response* response) {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    PrepareCall(kPatience, "", &context);
    return FromGrpcStatus((stub.*method)(&context, request, response));
  }
  static absl::Status AddScene(const std::string& address, const std::string& id) {
    const auto channel = OwnerChannel(address);
    BlobClient blobs(channel, {});
    const v1::BlobRef blob = BlobOfBytes("{}");
    NERF_RETURN_IF_ERROR(blobs.UploadBytes("{}", blob));
    v1::CreateSceneRequest request;
    request.set_scene_id(id);
    auto* file = request.mutable_scene()->add_files();
    file->set_path("transforms.json");
    *file->mutable_blob() = blob;
    v1::Scene scene;
    return Call(*v1::SceneService::NewStub(channel), &v1::SceneService::Stub::CreateScene, request,
                &scene);
  }
  // How many scenes the holder of a token sees; the admin by default.
  static int CountScenes(const std::string& address, const std::string& token = "") {
    const auto channel = token.empty() ? OwnerChannel(address) : TokenChannel(address, token);
    v1::ListScenesResponse scenes;
    const absl::Status status =
        Call(*v1::SceneService::NewStub(channel), &v1::SceneService::Stub::ListScenes,
             v1::ListScenesRequest(), &scenes);
    return status.ok() ? scenes.scenes_size() : -1;
  }
  static std::string NewToken(const std::string& address) {
    v1::CreateTokenRequest request;
    request.mutable_token()->set_role(v1::Token::VIEWER);
    request.mutable_token()->set_display_name("ana ø");
    v1::Token token;
    EXPECT_THAT(Call(*v1::AdminService::NewStub(OwnerChannel(address)),
                     &v1::AdminService::Stub::CreateToken, request, &token),
                IsOk());
    return token.secret();
  }

  const TempDir dir_;
  std::string uri_;
};

TEST_F(PostgresServiceTest, WritesGoOnAfterARestartOfPostgresAndSurviveAKill) {
  std::string token;
  {
    const auto nerfd = Start({"--store", uri_});
    const std::string address = nerfd->WaitForAddress();
    ASSERT_NE(address, "") << nerfd->errors();
    ASSERT_THAT(AddScene(address, "one"), IsOk());
    token = NewToken(address);
    PostgresCluster::Get()->Stop(SIGQUIT);
    absl::Status second = absl::UnknownError("");
    std::thread writer([&] { second = AddScene(address, "two"); });
    EXPECT_EQ(CountScenes(address), 1) << "reads need no PostgreSQL";
    absl::SleepFor(absl::Milliseconds(300));
    EXPECT_TRUE(PostgresCluster::Get()->Start());
    writer.join();
    EXPECT_THAT(second, IsOk()) << nerfd->errors();
    v1::BackupStoreResponse ignored;
    v1::BackupStoreRequest backup;
    backup.set_backup_id("b");
    EXPECT_THAT(Call(*v1::AdminService::NewStub(OwnerChannel(address)),
                     &v1::AdminService::Stub::BackupStore, backup, &ignored),
                StatusIs(absl::StatusCode::kFailedPrecondition, "pg_dump"));
    nerfd->Kill(SIGKILL);
    EXPECT_EQ(nerfd->Wait(kPatience), 128 + SIGKILL);
  }
  EXPECT_FALSE(std::filesystem::exists(dir_ / "queue.db"));
  const auto nerfd = Start({"--store", uri_});
  const std::string address = nerfd->WaitForAddress();
  ASSERT_NE(address, "") << nerfd->errors();
  EXPECT_EQ(CountScenes(address), 2);
  EXPECT_EQ(CountScenes(address, token), 2);
  EXPECT_EQ(CountScenes(address, "no such token"), -1);
  nerfd->Kill(SIGTERM);
  EXPECT_EQ(nerfd->Wait(kPatience), 0) << nerfd->errors();
}

TEST_F(PostgresServiceTest, FilesMoveAndServeFromTheDatabaseAlone) {
  std::string token;
  {
    const auto nerfd = Start();
    const std::string address = nerfd->WaitForAddress();
    ASSERT_NE(address, "") << nerfd->errors();
    ASSERT_THAT(AddScene(address, "one"), IsOk());
    token = NewToken(address);
    EXPECT_THAT(Refused({"--move-store", uri_}, 7), HasSubstr("in use by another nerfd"));
    nerfd->Kill(SIGTERM);
    EXPECT_EQ(nerfd->Wait(kPatience), 0);
  }
  EXPECT_THAT(Refused({"--store", uri_}, 7), HasSubstr("--move-store"));
  EXPECT_THAT(Refused({"--move-store", uri_}, 0), HasSubstr("rows, each read back and compared"));
  EXPECT_THAT(Refused({}, 7), HasSubstr("--store"));
  const auto nerfd = Start({"--store", uri_});
  const std::string address = nerfd->WaitForAddress();
  ASSERT_NE(address, "") << nerfd->errors();
  EXPECT_EQ(CountScenes(address, token), 1);
}

TEST_F(PostgresServiceTest, WrongFlagsAreRefusedBeforeAFolderIsMade) {
  EXPECT_THAT(Refused({"--store", "postgresql://u:geheim@h/d"}, 2),
              testing::AllOf(HasSubstr("PGPASSFILE"), testing::Not(HasSubstr("geheim"))));
  EXPECT_THAT(Refused({"--store", "mysql://h/d"}, 2), HasSubstr("postgresql://"));
  EXPECT_THAT(Refused({"--store", uri_, "--move-store", uri_}, 2), HasSubstr("exclude"));
  EXPECT_THAT(Refused({"--store", uri_, "--restore", dir_.path()}, 2), HasSubstr("pg_restore"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "nerfd.lock"));
}

}  // namespace
}  // namespace nerf
