// Calls whose peers stand still.
#include "server/rpc/calls/stall_guard.h"

#include <gtest/gtest.h>

#include "absl/time/time.h"
#include "tests/server/rpc/rpc_test_server.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

TEST(StallGuardTest, UploadThatSendsNothingEnds) {
  RpcTestServer server(/*over_socket=*/true);
  ServiceTimes times = RpcTestServer::DefaultTimes();
  times.stall_limit = absl::Milliseconds(50);
  server.Restart(times);
  grpc::ClientContext context;
  google::bytestream::WriteResponse response;
  const auto writer = server.bytes_stub->Write(&context, &response);
  EXPECT_THAT(FromGrpcStatus(writer->Finish()), StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace nerf
