// Connections that show no token, at the gRPC server over real sockets: they cost others nothing.
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/rpc/connections/connection_table.h"
#include "tests/server/rpc/rpc_test_server.h"
#include "tests/testing/resident_bytes.h"
#include "tests/testing/slow_crowd.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/wait_until.h"

namespace nerf {
namespace {

// A frame of HTTP/2.
std::string Frame(char kind, char flags, int stream, const std::string& payload) {
  const auto byte = [](size_t number, int shift) {
    return static_cast<char>((number >> shift) & 0xff);
  };
  const size_t n = payload.size(), id = static_cast<size_t>(stream);
  return std::string{byte(n, 16),  byte(n, 8),   byte(n, 0),  kind,       flags,
                     byte(id, 24), byte(id, 16), byte(id, 8), byte(id, 0)} +
         payload;
}

std::string Preface() { return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(4, 0, 0, ""); }

// The headers of a call without a token.
std::string Headers(int stream) {
  std::string block;
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
           {":method", "POST"},
           {":scheme", "http"},
           {":path", "/nerf.v1.SceneService/ValidateScene"},
           {":authority", "localhost"},
           {"te", "trailers"},
           {"content-type", "application/grpc"}}) {
    block += '\0';
    block += static_cast<char>(name.size());
    block += name;
    block += static_cast<char>(value.size());
    block += value;
  }
  return Frame(1, 4, stream, block);
}

// The begin of a message of 4 MB that never ends.
std::string MessagePart(int stream, size_t n_bytes) {
  return Frame(0, 0, stream, std::string("\0\0\x3d\x09\0", 5) + std::string(n_bytes - 5, 'm'));
}

std::vector<SlowCrowd::Client> SlowGrpcClients() {
  std::string many = Preface(), full = Preface();
  for (int stream = 1; stream < 200; stream += 2) many += Headers(stream);
  for (int stream = 1; stream < 16; stream += 2)
    full += Headers(stream) + MessagePart(stream, 8000);
  return {{""},
          {"PRI * HTTP"},
          {Preface()},
          {Preface() + Headers(1) + MessagePart(1, 10'000)},
          {many},
          {full},
          // A byte now and then of a frame.
          {Preface() + Headers(1) + Frame(0, 0, 1, std::string(9000, 'm')).substr(0, 2000), "m"}};
}

class RpcStrangersTest : public testing::Test {
 protected:
  RpcStrangersTest()
      : ticker_([this](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            server_.rpc->Tick();
            absl::SleepFor(absl::Milliseconds(100));
            server_.clock.Advance(absl::Milliseconds(100));
          }
        }) {}

  // A call with a token, on a connection of its own if `is_fresh`.
  absl::Status List(bool is_fresh) {
    auto stub = v1::SceneService::NewStub(server_.channel);
    if (is_fresh) {
      grpc::ChannelArguments arguments;
      arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
      stub = v1::SceneService::NewStub(
          grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", server_.rpc->port()),
                                    grpc::InsecureChannelCredentials(), arguments));
    }
    v1::ListScenesResponse response;
    return RpcTestServer::Call(*stub, &v1::SceneService::Stub::ListScenes, v1::ListScenesRequest(),
                               &response, RpcTestServer::kAdminToken);
  }

  // The p99 of 100 calls, every other one on a new connection. Infinite if one failed: where its
  // client gets no time for ConnectionTable::kMinStay, a new connection may be closed before it has
  // shown its token.
  absl::Duration Round() {
    std::vector<absl::Duration> times;
    for (int i = 0; i < 100; ++i) {
      const absl::Time begin = absl::Now();
      if (const absl::Status status = List(/*is_fresh=*/i % 2 == 0); !status.ok()) {
        EXPECT_EQ(i % 2, 0) << "a connection that has shown its token: " << status;
        std::printf("call %d: %s\n", i, status.ToString().c_str());
        return absl::InfiniteDuration();
      }
      times.push_back(absl::Now() - begin);
    }
    std::sort(times.begin(), times.end());
    return times[98];
  }

  RpcTestServer server_{/*over_socket=*/true};
  std::jthread ticker_;
};

// 1,000 connections without a token, slow in every phase, beside calls with one: in a round every
// call is answered, with a p99 of at most 100 ms. A loaded machine has five rounds.
TEST_F(RpcStrangersTest, CallsWithATokenAreServedBesideACrowdWithoutOne) {
  EXPECT_LE(Round(), absl::Seconds(10));
  const size_t idle = ResidentBytes();
  const SlowCrowd crowd(server_.rpc->port(), 1000, SlowGrpcClients());
  absl::Duration p99 = absl::InfiniteDuration();
  for (int i = 0; i < 5 && p99 > absl::Milliseconds(100); ++i) p99 = std::min(p99, Round());
  // Closed connections leave holes in the heap, 15 to 65 MiB by how many were closed at once. The
  // process returns them every 2 s (server/main/clockwork.cc).
  malloc_trim(0);
  const size_t now = ResidentBytes();
  const size_t grown = now - std::min(now, idle);
  std::printf("p99 %s, %.1f MiB above idle, %zu connections closed\n",
              absl::FormatDuration(p99).c_str(), static_cast<double>(grown) / (1 << 20),
              crowd.n_closed());
  EXPECT_LE(p99, absl::Milliseconds(100));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LE(grown, size_t{32} << 20);
#endif
  EXPECT_GT(crowd.n_closed(), 0u);
}

TEST_F(RpcStrangersTest, ConnectionsThatHaveShownATokenStay) {
  EXPECT_THAT(List(/*is_fresh=*/false), IsOk());
  const SlowCrowd crowd(server_.rpc->port(), 3 * ConnectionTable::kMaxStrangers, {{Preface()}});
  EXPECT_TRUE(WaitUntil(absl::Seconds(20), [&] { return crowd.n_closed() > 0; }));
  EXPECT_EQ(server_.channel->GetState(/*try_to_connect=*/false), GRPC_CHANNEL_READY);
  EXPECT_THAT(List(/*is_fresh=*/false), IsOk());
}

}  // namespace
}  // namespace nerf
