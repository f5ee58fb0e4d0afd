#include "server/replica/relay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/files/file_io.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

// What comes within the patience: up to n bytes, less at the end of the stream, "timeout" for none.
std::string Receive(int socket, size_t n_bytes, int patience_ms = 20'000) {
  std::string received;
  char buffer[1 << 16];
  while (received.size() < n_bytes) {
    pollfd poll_of = {socket, POLLIN, 0};
    if (poll(&poll_of, 1, patience_ms) != 1) return received.empty() ? "timeout" : received;
    const ssize_t n = recv(socket, buffer, std::min(sizeof(buffer), n_bytes - received.size()), 0);
    if (n <= 0) break;
    received.append(buffer, static_cast<size_t>(n));
  }
  return received;
}

// A server that tells its connections apart.
class Listener {
 public:
  Listener() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(socket_.get(), 16), 0);
    EXPECT_EQ(getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  const std::string& address() const { return address_; }
  UniqueFd Accept(int patience_ms = 20'000) {
    pollfd poll_of = {socket_.get(), POLLIN, 0};
    if (poll(&poll_of, 1, patience_ms) != 1) return UniqueFd(-1);
    return UniqueFd(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }

 private:
  const UniqueFd socket_;
  std::string address_;
};

UniqueFd ConnectTo(int port) {
  UniqueFd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = Loopback(port);
  EXPECT_EQ(connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  return client;
}

void Send(int socket, const std::string& bytes) {
  ASSERT_EQ(send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
}

std::unique_ptr<Relay> StartRelayOn(const std::string& host, int max_connections = 100) {
  auto relay = Relay::Start({.host = host, .port = 0, .max_connections = max_connections});
  EXPECT_THAT(relay, IsOk());
  return *std::move(relay);
}

TEST(RelayTest, PassesBytesBothWaysAndEachEnd) {
  for (const char* host : {"127.0.0.1", "localhost", "0.0.0.0", "::"}) {
    Listener leader;
    const auto relay = StartRelayOn(host);
    relay->SetTarget(leader.address());
    const UniqueFd client = ConnectTo(relay->port());
    const UniqueFd server = leader.Accept();
    ASSERT_TRUE(server.ok()) << host;
    const std::string much(3 << 20, 'x');
    std::thread sender([&] { Send(client.get(), much + "end"); });
    EXPECT_EQ(Receive(server.get(), much.size() + 3), much + "end");
    sender.join();
    shutdown(client.get(), SHUT_WR);
    EXPECT_EQ(Receive(server.get(), 1), "") << "the end of what the client sends";
    Send(server.get(), "answer");
    EXPECT_EQ(Receive(client.get(), 6), "answer") << "although the client has ended its side";
    shutdown(server.get(), SHUT_WR);
    EXPECT_EQ(Receive(client.get(), 1), "");
  }
}

TEST(RelayTest, ConnectionsWaitForALeader) {
  Listener leader;
  const auto relay = StartRelayOn("127.0.0.1");
  const UniqueFd client = ConnectTo(relay->port());
  Send(client.get(), "hello");
  EXPECT_FALSE(leader.Accept(/*patience_ms=*/50).ok());
  relay->SetTarget(leader.address());
  const UniqueFd server = leader.Accept();
  ASSERT_TRUE(server.ok());
  EXPECT_EQ(Receive(server.get(), 5), "hello");
}

TEST(RelayTest, NewLeaderClosesConnectionsToTheOldOneEvenIfThatIsSilent) {
  Listener old_leader, new_leader;
  const auto relay = StartRelayOn("127.0.0.1");
  relay->SetTarget(old_leader.address());
  const UniqueFd client = ConnectTo(relay->port());
  const UniqueFd server = old_leader.Accept();
  ASSERT_TRUE(server.ok());
  relay->SetTarget("");
  Send(client.get(), "a");
  EXPECT_EQ(Receive(server.get(), 1), "a") << "it may lead on";
  relay->SetTarget(old_leader.address());
  Send(client.get(), "b");
  EXPECT_EQ(Receive(server.get(), 1), "b");
  relay->SetTarget(new_leader.address());
  EXPECT_EQ(Receive(client.get(), 1), "") << "closed";
  const UniqueFd again = ConnectTo(relay->port());
  EXPECT_TRUE(new_leader.Accept().ok());
}

TEST(RelayTest, LeaderThatRefusesClosesTheConnection) {
  std::string gone;
  {
    Listener leader;
    gone = leader.address();
  }
  const auto relay = StartRelayOn("127.0.0.1");
  for (const std::string& target : {gone, std::string("no-such-host.invalid:1")}) {
    relay->SetTarget(target);
    const UniqueFd client = ConnectTo(relay->port());
    EXPECT_EQ(Receive(client.get(), 1), "") << target;
  }
}

TEST(RelayTest, MoreConnectionsThanItMayHaveWait) {
  Listener leader;
  const auto relay = StartRelayOn("127.0.0.1", /*max_connections=*/1);
  relay->SetTarget(leader.address());
  UniqueFd first = ConnectTo(relay->port());
  const UniqueFd first_server = leader.Accept();
  ASSERT_TRUE(first_server.ok());
  const UniqueFd second = ConnectTo(relay->port());
  EXPECT_FALSE(leader.Accept(/*patience_ms=*/50).ok());
  first = UniqueFd(-1);
  EXPECT_EQ(Receive(first_server.get(), 1), "");
  shutdown(first_server.get(), SHUT_WR);
  EXPECT_TRUE(leader.Accept().ok());
}

TEST(RelayTest, TakenAddressIsRefused) {
  const auto relay = StartRelayOn("127.0.0.1");
  EXPECT_THAT(Relay::Start({.host = "127.0.0.1", .port = relay->port()}),
              StatusIs(absl::StatusCode::kFailedPrecondition, "cannot listen on 127.0.0.1:"));
  EXPECT_THAT(Relay::Start({.host = "no-such-host.invalid", .port = 1}),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

}  // namespace
}  // namespace nerf
