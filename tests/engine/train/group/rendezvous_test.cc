#include "engine/train/group/rendezvous.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace nerf {
namespace {

// A port of the loopback that nobody listens at.
int FreePort() {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  return ntohs(address.sin_port);
}

TEST(RendezvousTest, RanksGatherTextsInAnyOrderOfArrival) {
  const int port = FreePort();
  const auto of_rank = [&](int rank) {
    absl::StatusOr<Rendezvous> rendezvous =
        rank == 0 ? Rendezvous::Host("127.0.0.1", port, 3, absl::Seconds(10))
                  : Rendezvous::Join("127.0.0.1", port, rank, 3, absl::Seconds(10));
    ASSERT_TRUE(rendezvous.ok()) << rendezvous.status();
    for (int round = 0; round < 2; ++round) {
      const auto texts = rendezvous->Gather(std::string(rank * 100000, 'x'));
      ASSERT_TRUE(texts.ok()) << texts.status();
      for (size_t i = 0; i < 3; ++i) EXPECT_EQ((*texts)[i].size(), i * 100000);
    }
  };
  std::vector<std::thread> threads;
  for (const int rank : {2, 1, 0}) threads.emplace_back(of_rank, rank);
  for (std::thread& thread : threads) thread.join();
}

TEST(RendezvousTest, AStrangerIsSentAwayAndARankOfAnotherGroupToldSo) {
  const int port = FreePort();
  std::thread host([&] {
    const auto rendezvous = Rendezvous::Host("127.0.0.1", port, 2, absl::Seconds(10));
    EXPECT_TRUE(rendezvous.ok()) << rendezvous.status();
  });
  const auto other = Rendezvous::Join("127.0.0.1", port, 1, 3, absl::Seconds(10));
  EXPECT_EQ(other.status().message(), "rank 0 expects rank 1 of 2");
  const auto right = Rendezvous::Join("127.0.0.1", port, 1, 2, absl::Seconds(10));
  EXPECT_TRUE(right.ok()) << right.status();
  host.join();
}

TEST(RendezvousTest, SaysWhoIsMissing) {
  const auto alone = Rendezvous::Host("127.0.0.1", FreePort(), 3, absl::Milliseconds(50));
  EXPECT_EQ(alone.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_NE(alone.status().message().find("no call from rank 1, 2"), std::string::npos)
      << alone.status();
  const auto nobody = Rendezvous::Join("127.0.0.1", FreePort(), 1, 2, absl::Milliseconds(50));
  EXPECT_NE(nobody.status().message().find("rank 0 does not listen"), std::string::npos)
      << nobody.status();
}

TEST(RendezvousTest, ReadsAddresses) {
  EXPECT_EQ(*ParseRendezvous("node7:24000"), (std::pair<std::string, int>("node7", 24000)));
  EXPECT_EQ(*ParseRendezvous("[::1]:1"), (std::pair<std::string, int>("::1", 1)));
  for (const char* bad : {"", "node7", "node7:", ":1", "node7:0", "node7:65536", "node7:1x"})
    EXPECT_FALSE(ParseRendezvous(bad).ok()) << bad;
  EXPECT_TRUE(IsLoopback("127.0.0.1") && IsLoopback("localhost") && IsLoopback("::1"));
  EXPECT_FALSE(IsLoopback("0.0.0.0") || IsLoopback("10.0.0.1") || IsLoopback("node7"));
}

}  // namespace
}  // namespace nerf
