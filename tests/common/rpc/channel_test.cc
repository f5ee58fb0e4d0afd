#include "common/rpc/channel.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <string>

#include "nerf/v1/render_service.grpc.pb.h"
#include "nerf/v1/scene_service.grpc.pb.h"
#include "nerf/v1/worker_service.grpc.pb.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

// Answers every call with UNAVAILABLE and counts.
struct Unavailable {
  grpc::Status Count() {
    ++n_calls;
    return {grpc::StatusCode::UNAVAILABLE, "not now"};
  }
  std::atomic<int> n_calls = 0;
};

class UnavailableScenes final : public v1::SceneService::Service, public Unavailable {
  grpc::Status GetScene(grpc::ServerContext*, const v1::GetSceneRequest*, v1::Scene*) override {
    return Count();
  }
  grpc::Status ValidateScene(grpc::ServerContext*, const v1::ValidateSceneRequest*,
                             v1::ValidateSceneResponse*) override {
    return Count();
  }
};

class UnavailableRenders final : public v1::RenderService::Service, public Unavailable {
  grpc::Status RenderImage(grpc::ServerContext*, const v1::RenderImageRequest*,
                           v1::RenderImageResponse*) override {
    return Count();
  }
};

class UnavailableWorkers final : public v1::WorkerService::Service, public Unavailable {
  grpc::Status Synchronize(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<v1::SynchronizeResponse, v1::SynchronizeRequest>*) override {
    return Count();
  }
};

TEST(ChannelTest, UnavailableIsTriedAgainButNotWhereACallMayHaveEndedAnEngine) {
  UnavailableScenes scenes;
  UnavailableRenders renders;
  UnavailableWorkers workers;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&scenes);
  builder.RegisterService(&renders);
  builder.RegisterService(&workers);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const auto channel = MakeChannel({.address = "127.0.0.1:" + std::to_string(port)});
  const auto scene_stub = v1::SceneService::NewStub(channel);
  {
    grpc::ClientContext context;
    v1::ValidateSceneResponse response;
    EXPECT_FALSE(scene_stub->ValidateScene(&context, {}, &response).ok());
    EXPECT_EQ(scenes.n_calls, 1);
  }
  {
    grpc::ClientContext context;
    v1::RenderImageResponse response;
    EXPECT_FALSE(v1::RenderService::NewStub(channel)->RenderImage(&context, {}, &response).ok());
    EXPECT_EQ(renders.n_calls, 1);
  }
  {
    grpc::ClientContext context;
    EXPECT_FALSE(v1::WorkerService::NewStub(channel)->Synchronize(&context)->Finish().ok());
    EXPECT_EQ(workers.n_calls, 1);
  }
  {
    grpc::ClientContext context;
    v1::Scene response;
    EXPECT_FALSE(scene_stub->GetScene(&context, {}, &response).ok());
    EXPECT_EQ(scenes.n_calls, 1 + 4);
  }
  server->Shutdown();
}

TEST(ChannelTest, TokenFileIsReadWithoutItsNewline) {
  TempDir dir;
  std::ofstream(dir / "token") << "abc.DEF-1\n";
  EXPECT_THAT(ReadTokenFile(dir / "token"), IsOkAndHolds("abc.DEF-1"));
}

TEST(ChannelTest, BadTokenFilesAreNamed) {
  TempDir dir;
  EXPECT_THAT(ReadTokenFile(dir / "none"), StatusIs(absl::StatusCode::kNotFound, "none"));
  const struct {
    const char* name;
    std::string content;
  } kCases[] = {{"empty", " \n"},
                {"long", std::string(5000, 'a')},
                {"split", "a b"},
                {"binary", std::string("a\0b", 3)},
                {"header", "a\nx-other: 1"}};
  for (const auto& bad : kCases) {
    std::ofstream(dir / bad.name) << bad.content;
    EXPECT_THAT(ReadTokenFile(dir / bad.name),
                StatusIs(absl::StatusCode::kInvalidArgument, bad.name));
  }
}

}  // namespace
}  // namespace nerf
