// A client that cancels each call as soon as it has made it, against a server on a socket.
#include "server/rpc/connections/call_guard.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/rpc/connections/stream_census.h"
#include "tests/server/rpc/rpc_test_server.h"
#include "tests/testing/fake_clock.h"

namespace nerf {
namespace {

constexpr absl::Duration kCallGuardPatience = absl::Seconds(120);

// Writes frames of HTTP/2 that no gRPC client would send.
class RawClient {
 public:
  explicit RawClient(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    out_ = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    AddFrame(kSettings, 0, 0, "");
  }
  ~RawClient() { close(fd_); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  // A unary call. Its message is whole if `ends`. With a token unless that is empty.
  void AddCall(bool ends, const std::string& token = "") {
    std::string headers;
    std::vector<std::pair<std::string_view, std::string_view>> fields = {
        {":method", "POST"},         {":scheme", "http"},
        {":authority", "localhost"}, {":path", "/nerf.v1.SceneService/ValidateScene"},
        {"te", "trailers"},          {"content-type", "application/grpc"}};
    const std::string bearer = "Bearer " + token;
    if (!token.empty()) fields.emplace_back("authorization", bearer);
    for (const auto& [name, value] : fields) {
      headers += '\0';  // a literal that is not indexed
      headers += static_cast<char>(name.size());
      headers += name;
      headers += static_cast<char>(value.size());
      headers += value;
    }
    AddFrame(kHeaders, 4, stream_, headers);
    if (ends) AddFrame(kData, 1, stream_, std::string(5, '\0'));  // an empty message
    stream_ += 2;
  }
  void CancelLast() { AddFrame(kReset, 0, stream_ - 2, std::string("\0\0\0\x08", 4)); }
  void AddPing() { AddFrame(kPing, 0, 0, "01234567"); }

  // Sends what was added. False once the server has closed the connection.
  bool Flush() {
    while (!out_.empty()) {
      if (!SendSome(0)) return false;
    }
    return true;
  }
  // The same, and drops what the server sends meanwhile: it stops to read from one that does not.
  bool FlushAndDrain() {
    while (!out_.empty()) {
      pollfd ready{fd_, POLLIN | POLLOUT, 0};
      if (poll(&ready, 1, -1) < 0 || !Drain() || !SendSome(MSG_DONTWAIT)) return false;
    }
    return true;
  }
  // Whether the answer to a ping has come, before the end.
  bool AwaitPing() {
    std::string in;
    char bytes[4096];
    while (in.find("01234567") == std::string::npos) {
      const ssize_t n = recv(fd_, bytes, sizeof(bytes), 0);
      if (n <= 0) return false;
      in.append(bytes, static_cast<size_t>(n));
    }
    return true;
  }
  // Drops what the server has sent. False once it has closed the connection.
  bool Drain() {
    char bytes[4096];
    while (true) {
      const ssize_t n = recv(fd_, bytes, sizeof(bytes), MSG_DONTWAIT);
      if (n > 0) continue;
      return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    }
  }
  ConnectionTable::Peer peer() const {
    sockaddr_in address{};
    socklen_t size = sizeof(address);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    return *ConnectionTable::ParsePeer(absl::StrCat("ipv4:127.0.0.1:", ntohs(address.sin_port)));
  }

 private:
  enum Kind : char { kData = 0, kHeaders = 1, kReset = 3, kSettings = 4, kPing = 6 };
  // False once the server has closed the connection.
  bool SendSome(int flags) {
    const ssize_t n = send(fd_, out_.data(), out_.size(), MSG_NOSIGNAL | flags);
    if (n < 0) return errno == EAGAIN;
    out_.erase(0, static_cast<size_t>(n));
    return true;
  }
  void AddFrame(Kind kind, char flags, uint32_t stream, std::string_view payload) {
    const uint32_t size = htonl(static_cast<uint32_t>(payload.size()));
    const uint32_t id = htonl(stream);
    out_.append(reinterpret_cast<const char*>(&size) + 1, 3);
    out_ += kind;
    out_ += flags;
    out_.append(reinterpret_cast<const char*>(&id), sizeof(id));
    out_ += payload;
  }

  const int fd_;
  std::string out_;
  uint32_t stream_ = 1;
};

int64_t StreamsOf(const RawClient& client) {
  for (const StreamCount& count : CountStreams()) {
    if (count.peer == client.peer()) return count.n_streams;
  }
  return -1;
}

TEST(StreamCensusTest, FiguresOfChannelzAreRead) {
  const std::string_view json = R"({"data":{"streamsFailed":"2","streamsStarted":"12"}})";
  EXPECT_EQ(FigureOf(json, "streamsStarted"), 12);
  EXPECT_EQ(FigureOf(json, "streamsFailed"), 2);
  EXPECT_EQ(FigureOf(json, "streamsSucceeded"), 0);
  EXPECT_EQ(FigureOf("", "streamsStarted"), 0);
}

TEST(StreamCensusTest, StreamsWithoutAHandlerAreCounted) {
  RpcTestServer server(/*over_socket=*/true);
  RawClient client(server.rpc->port());
  for (int i = 0; i < 5; ++i) client.AddCall(/*ends=*/false);
  client.AddPing();
  ASSERT_TRUE(client.Flush());
  ASSERT_TRUE(client.AwaitPing());
  EXPECT_EQ(StreamsOf(client), 5);
}

// What one costs decides how often the guard may count: it takes a fifth of its thread.
TEST(StreamCensusTest, ManyConnectionsAreCountedInMicrosecondsEach) {
  RpcTestServer server(/*over_socket=*/true);
  constexpr size_t kConnections = ConnectionTable::kMaxStrangers;
  std::vector<std::unique_ptr<RawClient>> clients;
  for (size_t i = 0; i < kConnections; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.rpc->port()));
    clients.back()->AddPing();
    ASSERT_TRUE(clients.back()->Flush());
    ASSERT_TRUE(clients.back()->AwaitPing());
  }
  timespec begin{}, end{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
  const std::vector<StreamCount> counts = CountStreams();
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
  ASSERT_GE(counts.size(), kConnections);
  const absl::Duration each =
      (absl::DurationFromTimespec(end) - absl::DurationFromTimespec(begin)) /
      static_cast<double>(counts.size());
  std::printf("%s of processor time each\n", absl::FormatDuration(each).c_str());
  EXPECT_LT(each, absl::Milliseconds(1));
}

class CallGuardTest : public testing::TestWithParam<std::string> {};

TEST_P(CallGuardTest, ConnectionThatFloodsIsClosedAndOthersAreServed) {
  RpcTestServer server(/*over_socket=*/true);
  RawClient flood(server.rpc->port());
  const absl::Time deadline = absl::Now() + kCallGuardPatience;
  bool open = true;
  while (open && absl::Now() < deadline) {
    for (int i = 0; i < 1000; ++i) {
      flood.AddCall(/*ends=*/true, GetParam());
      flood.CancelLast();
    }
    open = flood.FlushAndDrain();
  }
  EXPECT_FALSE(open) << "the flood went on";

  v1::GetSceneRequest request;
  request.set_name("projects/default/scenes/none");
  v1::Scene scene;
  EXPECT_TRUE(absl::IsNotFound(
      RpcTestServer::Call(*server.scene_stub, &v1::SceneService::Stub::GetScene, request, &scene)));
}

INSTANTIATE_TEST_SUITE_P(WithATokenAndWithout, CallGuardTest,
                         testing::Values(RpcTestServer::kAdminToken, ""));

// Seconds that a new client waits for its first answer.
absl::Duration TimeToPing(const RpcTestServer& server) {
  const absl::Time begin = absl::Now();
  RawClient client(server.rpc->port());
  client.AddPing();
  EXPECT_TRUE(client.Flush());
  EXPECT_TRUE(client.AwaitPing());
  return absl::Now() - begin;
}

TEST(CallGuardWasteTest, CallsThatEndEmptyKeepTheNextConnectionsWaiting) {
  RpcTestServer server(/*over_socket=*/true);  // its clock stands
  for (int i = 0; i < 5; ++i) {
    RawClient client(server.rpc->port());
    for (int k = 0; k < 100; ++k) client.AddCall(/*ends=*/false, RpcTestServer::kAdminToken);
    client.AddPing();
    ASSERT_TRUE(client.Flush());
    ASSERT_TRUE(client.AwaitPing());
  }
  const absl::Time deadline = absl::Now() + kCallGuardPatience;
  int n_in_turn = 0;
  while (n_in_turn < 5 && absl::Now() < deadline) {
    n_in_turn = TimeToPing(server) >= absl::Milliseconds(45) ? n_in_turn + 1 : 0;
  }
  EXPECT_EQ(n_in_turn, 5);
  server.clock.Advance(absl::Seconds(1));
  absl::Duration least = TimeToPing(server);
  for (int i = 0; i < 20; ++i) least = std::min(least, TimeToPing(server));
  EXPECT_LT(least, absl::Milliseconds(45));
}

TEST(CallGuardWasteTest, WasteIsForgottenWithinASecond) {
  FakeClock clock;
  ConnectionTable connections(1 << 20, &clock);
  CallGuard guard(&connections, &clock);
  for (int i = 0; i < 400; ++i) guard.EndedEmpty();
  EXPECT_FALSE(guard.is_wasted());
  for (int i = 0; i < 100'000; ++i) guard.EndedEmpty();
  EXPECT_TRUE(guard.is_wasted());
  clock.Advance(absl::Milliseconds(850));
  EXPECT_TRUE(guard.is_wasted());
  clock.Advance(absl::Milliseconds(100));
  EXPECT_FALSE(guard.is_wasted());
}

TEST(CallGuardPatienceTest, ConnectionThatMakesManyCallsInTurnStays) {
  RpcTestServer server(/*over_socket=*/true);
  v1::GetSceneRequest request;
  request.set_name("projects/default/scenes/none");
  for (int i = 0; i < 2 * ConnectionTable::kMaxCalls; ++i) {
    v1::Scene scene;
    ASSERT_TRUE(absl::IsNotFound(RpcTestServer::Call(
        *server.scene_stub, &v1::SceneService::Stub::GetScene, request, &scene)));
  }
}

}  // namespace
}  // namespace nerf
