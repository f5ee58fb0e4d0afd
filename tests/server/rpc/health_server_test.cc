#include "server/rpc/connections/health_server.h"

#include <gmock/gmock.h>
#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "fmt/format.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

// Calls grpc.health.v1.Health/Check for a service. Returns the response's status (1 serving, 2 not
// serving), or the negated code of an error. Request and response have one field each, so they are
// encoded by hand.
int Check(int port, const std::string& service) {
  auto channel =
      grpc::CreateChannel(fmt::format("127.0.0.1:{}", port), grpc::InsecureChannelCredentials());
  grpc::GenericStub stub(channel);
  const std::string request =
      service.empty() ? "" : "\x0a" + std::string(1, static_cast<char>(service.size())) + service;
  const grpc::Slice slice(request);
  const grpc::ByteBuffer sent(&slice, 1);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  grpc::CompletionQueue queue;
  auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", sent, &queue);
  call->StartCall();
  grpc::ByteBuffer received;
  grpc::Status status;
  call->Finish(&received, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  if (!status.ok()) return -static_cast<int>(status.error_code());
  grpc::Slice answer;
  received.DumpToSingleSlice(&answer);
  return answer.size() == 2 ? answer.begin()[1] : 0;
}

TEST(HealthServerTest, ReadinessChangesAndLivenessStays) {
  const auto health = HealthServer::Start("127.0.0.1:0");
  ASSERT_THAT(health, IsOk());
  const int port = (*health)->port();
  EXPECT_EQ(Check(port, "liveness"), 1);
  EXPECT_EQ(Check(port, "readiness"), 2);
  (*health)->SetReady(true);
  EXPECT_EQ(Check(port, "readiness"), 1);
  EXPECT_EQ(Check(port, ""), 1);
  (*health)->SetReady(false);
  EXPECT_EQ(Check(port, "liveness"), 1);
  EXPECT_EQ(Check(port, "readiness"), 2);
}

TEST(HealthServerTest, UnknownServicesAreNotFound) {
  const auto health = HealthServer::Start("127.0.0.1:0");
  ASSERT_THAT(health, IsOk());
  EXPECT_EQ(Check((*health)->port(), "nerf.v1.WorkerService"),
            -static_cast<int>(grpc::StatusCode::NOT_FOUND));
}

TEST(HealthServerTest, AddressInUseIsNamed) {
  const auto health = HealthServer::Start("127.0.0.1:0");
  ASSERT_THAT(health, IsOk());
  const std::string address = fmt::format("127.0.0.1:{}", (*health)->port());
  EXPECT_THAT(HealthServer::Start(address),
              StatusIs(absl::StatusCode::kFailedPrecondition, address));
}

}  // namespace
}  // namespace nerf
