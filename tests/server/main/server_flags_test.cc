#include "server/main/server_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "common/files/file_io.h"
#include "server/main/free_port.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

TEST(ServerFlagsTest, AddressesAreReadAndWrittenTheSameWay) {
  for (const char* text :
       {"127.0.0.1:50051", "[::1]:0", "localhost:9", "unix:/tmp/x", "0.0.0.0:1"}) {
    const auto address = ParseListenAddress("--listen", text);
    ASSERT_THAT(address, IsOk()) << text;
    EXPECT_EQ(address->ToString(), text);
  }
  for (const char* text : {"", ":1", "host", "host:", "host:-1", "host:65536", "host:1x", "::1:5",
                           "unix:", "a b:1", "[]:1", "host:99999999999999999999"}) {
    EXPECT_THAT(ParseListenAddress("--listen", text),
                StatusIs(absl::StatusCode::kInvalidArgument, "--listen"))
        << text;
  }
}

TEST(ServerFlagsTest, TakenPortMovesToTheNextFreeOne) {
  const UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in bound{};
  bound.sin_family = AF_INET;
  bound.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(bound);
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&bound), size), 0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  ASSERT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&bound), &size), 0);
  const int taken = ntohs(bound.sin_port);
  const ListenAddress found = FirstFree({"127.0.0.1", taken});
  EXPECT_EQ(found.host, "127.0.0.1");
  EXPECT_GT(found.port, taken);
  EXPECT_LE(found.port, taken + 20);
  EXPECT_EQ(FirstFree(found).port, found.port);
  EXPECT_EQ(FirstFree({"no-address", 1}).port, 1);
}

TEST(ServerFlagsTest, OnlyThisMachineIsLoopback) {
  for (const char* text : {"127.0.0.1:1", "127.9.9.9:1", "localhost:1", "[::1]:1", "unix:x"}) {
    EXPECT_TRUE(IsLoopback(*ParseListenAddress("f", text))) << text;
  }
  for (const char* text : {"0.0.0.0:1", "[::]:1", "10.0.0.1:1", "127.0.0.1.example.com:1",
                           "example.com:1", "[::ffff:10.0.0.1]:1"}) {
    EXPECT_FALSE(IsLoopback(*ParseListenAddress("f", text))) << text;
  }
}

TEST(ServerFlagsTest, LocalWorkerConnectsToLoopbackWhereTheServerListensEverywhere) {
  EXPECT_EQ(ConnectAddress(*ParseListenAddress("f", "0.0.0.0:7")), "127.0.0.1:7");
  EXPECT_EQ(ConnectAddress(*ParseListenAddress("f", "[::]:7")), "[::1]:7");
  EXPECT_EQ(ConnectAddress(*ParseListenAddress("f", "127.0.0.1:7")), "127.0.0.1:7");
}

TEST(ServerFlagsTest, BeyondLoopbackNeedsInsecureForMetricsToo) {
  ServerFlags flags;
  EXPECT_THAT(CheckFlags(flags), IsOk());
  flags.metrics_listen = "0.0.0.0:9464";
  EXPECT_THAT(CheckFlags(flags), StatusIs(absl::StatusCode::kInvalidArgument, "--metrics-listen"));
  flags.listen = "0.0.0.0:1";
  EXPECT_THAT(CheckFlags(flags), StatusIs(absl::StatusCode::kInvalidArgument, "--insecure"));
  flags.insecure = true;
  EXPECT_THAT(CheckFlags(flags), IsOk());
  flags.insecure = false;
  flags.listen = flags.metrics_listen = "127.0.0.1:0";
  flags.web_listen = "0.0.0.0:8080";
  EXPECT_THAT(CheckFlags(flags), StatusIs(absl::StatusCode::kInvalidArgument, "--web-listen"));
  flags.tls = {"tls.pem", "tls.key", ""};
  flags.listen = flags.metrics_listen = "0.0.0.0:0";
  EXPECT_THAT(CheckFlags(flags), IsOk()) << "TLS is for gRPC and the page";
  flags.tls = {};
  flags.insecure = true;
  EXPECT_THAT(CheckFlags(flags), IsOk());
  flags.lease_ttl = absl::ZeroDuration();
  EXPECT_THAT(CheckFlags(flags), StatusIs(absl::StatusCode::kInvalidArgument, "--lease-ttl"));
}

TEST(ServerFlagsTest, TheWebServerMayBeLeftOutAndItsOriginsAreChecked) {
  ServerFlags flags;
  flags.web_listen = "";
  EXPECT_THAT(CheckFlags(flags), IsOk());
  flags.web_listen = "unix:/tmp/web";
  EXPECT_THAT(CheckFlags(flags), StatusIs(absl::StatusCode::kInvalidArgument, "--web-listen"));
  flags.web_listen = "127.0.0.1:8080";
  flags.web_origins = {"https://nerf.example.com", "http://[::1]:81"};
  EXPECT_THAT(CheckFlags(flags), IsOk());
  for (const char* origin : {"*", "null", "nerf.example.com", "https://a/path"}) {
    flags.web_origins = {origin};
    EXPECT_THAT(CheckFlags(flags), StatusIs(absl::StatusCode::kInvalidArgument, "--web-origin"))
        << origin;
  }
}

TEST(ServerFlagsTest, DatabasesAreCheckedAndExcludeWhatIsOfFiles) {
  ServerFlags flags;
  flags.store = "postgresql://nerfd@db/nerfd";
  const absl::Status status = CheckFlags(flags);
  if (absl::IsUnimplemented(status)) GTEST_SKIP() << status.message();
  EXPECT_THAT(status, IsOk());
  flags.restore = "/backup";
  EXPECT_THAT(CheckFlags(flags), StatusIs(absl::StatusCode::kInvalidArgument, "pg_restore"));
  flags.restore.clear();
  flags.move_store = flags.store;
  EXPECT_THAT(CheckFlags(flags), StatusIs(absl::StatusCode::kInvalidArgument, "exclude"));
  flags.store.clear();
  EXPECT_THAT(CheckFlags(flags), IsOk());
  flags.move_store = "postgresql://nerfd:geheim@db/nerfd";
  EXPECT_THAT(CheckFlags(flags), StatusIs(absl::StatusCode::kInvalidArgument, "--move-store"));
  EXPECT_THAT(CheckFlags(flags).message(), testing::Not(testing::HasSubstr("geheim")));
}

ServerFlags ReplicaFlags() {
  ServerFlags flags;
  flags.replica_host = "nerfd-0.example.com";
  flags.listen = "0.0.0.0:50051";
  flags.web_listen = "[::]:8080";
  flags.insecure = true;
  flags.store = "postgresql://nerfd@db/nerfd";
  flags.blobs = "s3://bucket/prefix";
  flags.admin_token_file = flags.worker_token_file = "/secrets/token";
  return flags;
}

TEST(ServerFlagsTest, ReplicaIsFoundAtItsHostAndThePortsThatItServes) {
  ServerFlags flags = ReplicaFlags();
  ASSERT_THAT(CheckFlags(flags), IsOk());
  EXPECT_EQ(SeatOf(flags).grpc_address, "nerfd-0.example.com:50051");
  EXPECT_EQ(SeatOf(flags).web_address, "nerfd-0.example.com:8080");
  EXPECT_TRUE(SeatOf(flags).is_one());
  for (const char* host : {"fd00::7", "[fd00::7]"}) {
    flags.replica_host = host;
    ASSERT_THAT(CheckFlags(flags), IsOk()) << host;
    EXPECT_EQ(SeatOf(flags).grpc_address, "[fd00::7]:50051");
  }
  flags.web_listen = "";
  EXPECT_EQ(SeatOf(flags).web_address, "");
  EXPECT_FALSE(SeatOf(ServerFlags()).is_one());
}

TEST(ServerFlagsTest, ReplicaThatOthersCouldNotReplaceIsRefused) {
  const auto refused = [](auto change, const char* words) {
    ServerFlags flags = ReplicaFlags();
    change(flags);
    EXPECT_THAT(CheckFlags(flags), StatusIs(absl::StatusCode::kInvalidArgument, words));
  };
  refused([](ServerFlags& f) { f.store = ""; }, "needs --store");
  refused([](ServerFlags& f) { f.blobs = ""; }, "needs --blobs");
  refused([](ServerFlags& f) { f.admin_token_file = ""; }, "needs --admin-token-file");
  refused([](ServerFlags& f) { f.worker_token_file = ""; }, "needs --worker-token-file");
  refused([](ServerFlags& f) { f.listen = "0.0.0.0:0"; }, "port above 0");
  refused([](ServerFlags& f) { f.listen = "unix:/x"; }, "--listen");
  refused([](ServerFlags& f) { f.listen = "127.0.0.1:5"; }, "do not reach");
  refused([](ServerFlags& f) { f.web_listen = "localhost:5"; }, "--web-listen");
  refused([](ServerFlags& f) { f.replica_host = "a b"; }, "--replica-host");
  refused([](ServerFlags& f) { f.replica_host = "host:1"; }, "--replica-host");
  ServerFlags local = ReplicaFlags();
  local.replica_host = "127.0.0.1";
  local.listen = "127.0.0.1:5";
  local.web_listen = "127.0.0.1:6";
  EXPECT_THAT(CheckFlags(local), IsOk()) << "all on one machine";
}

}  // namespace
}  // namespace nerf
