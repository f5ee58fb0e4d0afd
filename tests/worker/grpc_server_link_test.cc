// GrpcServerLink against an in-process WorkerService.
#include "worker/grpc_server_link.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "common/error_reason.h"
#include "common/mutex.h"
#include "common/rpc/status_conversion.h"
#include "nerf/v1/worker_service.grpc.pb.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

class FakeWorkerService final : public v1::WorkerService::Service {
 public:
  grpc::Status Synchronize(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::SynchronizeResponse, v1::SynchronizeRequest>* stream) override {
    const auto token = context->client_metadata().find("authorization");
    if (token == context->client_metadata().end() || token->second != "Bearer tok") {
      return ToGrpcStatus(
          WithReason(absl::UnauthenticatedError("no token"), reason::kTokenMissing));
    }
    v1::SynchronizeRequest request;
    while (stream->Read(&request)) {
      if (request.draining()) return grpc::Status::OK;
      v1::SynchronizeResponse response;
      response.set_finished_acknowledged(request.hello().worker_id());
      stream->Write(response);
    }
    return grpc::Status::OK;
  }
  grpc::Status CommitCheckpoint(grpc::ServerContext* context,
                                const v1::CommitCheckpointRequest* request,
                                v1::CommitCheckpointResponse* response) override {
    if (request->lease_epoch() < 2) {
      return ToGrpcStatus(WithReason(absl::FailedPreconditionError("stale"), reason::kLeaseFenced));
    }
    return grpc::Status::OK;
  }
};

class GrpcServerLinkTest : public ::testing::Test {
 protected:
  GrpcServerLinkTest() {
    grpc::ServerBuilder builder;
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    std::ofstream(dir_ / "token") << "tok\n";
    link_ = std::make_unique<GrpcServerLink>(server_->InProcessChannel({}), dir_ / "token", "key");
  }
  ~GrpcServerLinkTest() override {
    link_.reset();
    server_->Shutdown(std::chrono::system_clock::now());
  }
  ServerLink::Listener Listener() {
    return {.on_message =
                [this](v1::SynchronizeResponse message) {
                  MutexLock lock(mu_);
                  messages_.push_back(message);
                  changed_.NotifyAll();
                },
            .on_written =
                [this] {
                  MutexLock lock(mu_);
                  ++written_;
                  changed_.NotifyAll();
                },
            .on_closed =
                [this](CallResult result) {
                  MutexLock lock(mu_);
                  closed_ = std::move(result);
                  changed_.NotifyAll();
                }};
  }
  // Waits for at most 20 s.
  bool WaitFor(const std::function<bool()>& condition) {
    MutexLock lock(mu_);
    for (int i = 0; i < 200 && !condition(); ++i) changed_.WaitFor(mu_, absl::Milliseconds(100));
    return condition();
  }

  TempDir dir_;
  FakeWorkerService service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<GrpcServerLink> link_;
  Mutex mu_;
  CondVar changed_;
  std::vector<v1::SynchronizeResponse> messages_;
  int written_ = 0;
  std::optional<CallResult> closed_;
};

TEST_F(GrpcServerLinkTest, MessagesGoBothWaysAndCloseEndsTheStream) {
  link_->Open(Listener());
  for (int i = 1; i <= 20; ++i) {
    v1::SynchronizeRequest request;
    request.mutable_hello()->set_worker_id("w" + std::to_string(i));
    link_->Write(request);
    ASSERT_TRUE(WaitFor([&] { return written_ == i; }));
  }
  ASSERT_TRUE(WaitFor([&] { return messages_.size() == 20; }));
  EXPECT_EQ(messages_[19].finished_acknowledged(), "w20");
  link_->Close();
  EXPECT_TRUE(WaitFor([&] { return closed_.has_value(); }));
}

TEST_F(GrpcServerLinkTest, StreamThatTheServerEndsIsClosedAndTheNextOneWorks) {
  for (int round = 0; round < 20; ++round) {
    closed_.reset();
    link_->Open(Listener());
    v1::SynchronizeRequest request;
    request.set_draining(true);
    link_->Write(request);
    ASSERT_TRUE(WaitFor([&] { return closed_.has_value(); }));
    EXPECT_EQ(closed_->code, absl::StatusCode::kUnavailable);
  }
}

TEST_F(GrpcServerLinkTest, DestructionEndsAnOpenStream) {
  link_->Open(Listener());
  link_.reset();
  EXPECT_TRUE(closed_.has_value());
}

TEST_F(GrpcServerLinkTest, RefusedTokenComesWithItsReason) {
  std::ofstream(dir_ / "token") << "wrong";
  link_->Open(Listener());
  ASSERT_TRUE(WaitFor([&] { return closed_.has_value(); }));
  EXPECT_EQ(closed_->code, absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(closed_->reason, reason::kTokenMissing);
}

TEST_F(GrpcServerLinkTest, MissingTokenFileClosesAtOnce) {
  std::filesystem::remove(dir_ / "token");
  link_->Open(Listener());
  ASSERT_TRUE(closed_.has_value());
  EXPECT_EQ(closed_->code, absl::StatusCode::kNotFound);
}

TEST_F(GrpcServerLinkTest, FencedCommitCarriesItsReason) {
  v1::CommitCheckpointRequest request;
  request.set_lease_epoch(1);
  EXPECT_EQ(link_->Commit(request, {}).reason, reason::kLeaseFenced);
  request.set_lease_epoch(2);
  EXPECT_TRUE(link_->Commit(request, {}).ok());
}

}  // namespace
}  // namespace nerf
