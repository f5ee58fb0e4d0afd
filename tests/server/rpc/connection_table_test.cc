#include "server/rpc/connections/connection_table.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/testing/fake_clock.h"

namespace nerf {
namespace {

constexpr size_t kMib = size_t{1} << 20;

// Both ends of a connection over loopback.
class Pair {
 public:
  // The client's end has the address `from`.
  explicit Pair(const char* from = "127.0.0.1") : from_(from) {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener, 1), 0);
    EXPECT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
    client = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in own{};
    own.sin_family = AF_INET;
    EXPECT_EQ(inet_pton(AF_INET, from, &own.sin_addr), 1);
    EXPECT_EQ(bind(client, reinterpret_cast<sockaddr*>(&own), size), 0);
    EXPECT_EQ(connect(client, reinterpret_cast<sockaddr*>(&address), size), 0);
    server = accept(listener, nullptr, nullptr);
    close(listener);
  }
  ~Pair() {
    close(client);
    close(server);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  // Sends bytes, which the server's end takes.
  void Send(size_t n) const {
    const std::string chunk(64 << 10, 'x');
    std::string buffer(chunk.size(), 0);
    for (size_t sent = 0; sent < n; sent += chunk.size()) {
      ASSERT_EQ(send(client, chunk.data(), chunk.size(), 0), static_cast<ssize_t>(chunk.size()));
      ASSERT_EQ(recv(server, buffer.data(), buffer.size(), MSG_WAITALL),
                static_cast<ssize_t>(chunk.size()));
    }
  }
  // Bytes that come within `patience`, up to `max`, from a client that sends as fast as it can.
  size_t Push(size_t max, absl::Duration patience) const {
    const std::string chunk(64 << 10, 'x');
    std::string buffer(chunk.size(), 0);
    size_t come = 0;
    for (const absl::Time end = absl::Now() + patience; come < max && absl::Now() < end;) {
      send(client, chunk.data(), chunk.size(), MSG_DONTWAIT);
      const ssize_t n = recv(server, buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (n > 0) come += static_cast<size_t>(n);
      if (n <= 0) absl::SleepFor(absl::Milliseconds(1));
    }
    return come;
  }
  ConnectionTable::Peer peer() const {
    sockaddr_in address{};
    socklen_t size = sizeof(address);
    EXPECT_EQ(getsockname(client, reinterpret_cast<sockaddr*>(&address), &size), 0);
    return *ConnectionTable::ParsePeer(absl::StrCat("ipv4:", from_, ":", ntohs(address.sin_port)));
  }
  // Whether the table has closed it.
  bool ended() const {
    char byte = 0;
    const ssize_t n = recv(client, &byte, 1, MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno == ECONNRESET);
  }

  int client = -1, server = -1;

 private:
  const char* const from_;
};

TEST(ConnectionTableTest, ConnectionThatHoldsTheMostIsClosed) {
  const FakeClock clock;
  ConnectionTable table(2 * kMib, &clock);
  const Pair full, busy, small;
  for (const Pair* pair : {&full, &busy, &small}) table.Add(pair->server);
  full.Send(4 * kMib);
  busy.Send(8 * kMib);
  table.Received(busy.peer(), 8 * kMib);
  small.Send(kMib / 2);
  EXPECT_EQ(table.Shed(), 1);
  EXPECT_TRUE(full.ended());
  EXPECT_FALSE(busy.ended()) << "its messages were complete";
  EXPECT_FALSE(small.ended());
}

TEST(ConnectionTableTest, IsFullUntilWhatWasClosedIsFreed) {
  const FakeClock clock;
  ConnectionTable table(2 * kMib, &clock);
  const Pair small;
  {
    const Pair full;
    table.Add(full.server);
    EXPECT_FALSE(table.is_full());
    full.Send(4 * kMib);
    EXPECT_EQ(table.Shed(), 1);
    EXPECT_TRUE(table.is_full()) << "gRPC has not closed the socket";
    table.Add(small.server);
    small.Send(kMib / 2);
    EXPECT_EQ(table.Shed(), 0) << "an open one may hold half of the maximum";
  }
  EXPECT_FALSE(table.is_full());
}

TEST(ConnectionTableTest, IsClosingUntilTheCallsOfAFloodAreFreed) {
  const FakeClock clock;
  ConnectionTable table(160 * kMib, &clock);
  const Pair known;
  {
    const Pair flood, stranger;
    for (const Pair* pair : {&flood, &stranger, &known}) table.Add(pair->server);
    table.ShowedToken(known.peer());
    table.HasStreams(flood.peer(), 700);
    table.CloseFlooding(flood.peer());
    EXPECT_TRUE(flood.ended());
    EXPECT_FALSE(table.is_closing());
    table.CloseStranger(stranger.peer());  // counts as one of kMaxCalls streams
    table.CloseStranger(known.peer());
    EXPECT_TRUE(stranger.ended());
    EXPECT_FALSE(known.ended());
    EXPECT_TRUE(table.is_closing());
  }
  EXPECT_FALSE(table.is_closing()) << "gRPC has closed the sockets";
}

TEST(ConnectionTableTest, StreamsWithoutHandlersTakeMemoryToo) {
  const FakeClock clock;
  ConnectionTable table(kMib, &clock);
  const Pair waiting, served;
  for (const Pair* pair : {&waiting, &served}) {
    table.Add(pair->server);
    table.HasStreams(pair->peer(), 100);
  }
  for (int i = 0; i < 100; ++i) table.Began(served.peer());
  EXPECT_EQ(table.Shed(), 1);
  EXPECT_TRUE(waiting.ended());
  EXPECT_FALSE(served.ended());
}

TEST(ConnectionTableTest, CountedStreamsCountUntilTheyAreCountedAgain) {
  const FakeClock clock;
  ConnectionTable table(kMib, &clock);
  const Pair pair;
  table.Add(pair.server);
  for (int i = 0; i < 20; ++i) table.Began(pair.peer());
  table.HasStreams(pair.peer(), 60);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(table.Shed(), 0);
    EXPECT_TRUE(table.fills()) << "40 wait";
  }
  for (int i = 0; i < 20; ++i) table.Ended(pair.peer());
  EXPECT_EQ(table.Shed(), 0) << "those that ended had handlers";
  for (int i = 0; i < 50; ++i) table.Began(pair.peer());
  table.Shed();
  EXPECT_FALSE(table.fills()) << "most have handlers now";
  table.HasStreams(pair.peer(), 0);
  table.Shed();
  EXPECT_FALSE(table.fills());
}

TEST(ConnectionTableTest, ConnectionWithTooManyCallsIsClosed) {
  const FakeClock clock;
  ConnectionTable table(kMib, &clock);
  const Pair many, few;
  table.Add(many.server);
  table.Add(few.server);
  for (int i = 0; i <= ConnectionTable::kMaxCalls; ++i) {
    EXPECT_FALSE(many.ended());
    table.Began(many.peer());
    table.Began(few.peer());
    table.Ended(few.peer());
  }
  EXPECT_TRUE(many.ended());
  EXPECT_FALSE(few.ended());
}

TEST(ConnectionTableTest, BytesThatTheServerHasNotReadAreNotHeld) {
  const FakeClock clock;
  ConnectionTable table(64 << 10, &clock);
  const Pair pair;
  table.Add(pair.server);
  const std::string unread(160 << 10, 'x');
  ASSERT_GT(send(pair.client, unread.data(), unread.size(), MSG_DONTWAIT), 0);
  EXPECT_EQ(table.Shed(), 0);
}

TEST(ConnectionTableTest, HeadersOfManyCallsAreNoUnfinishedMessages) {
  const FakeClock clock;
  ConnectionTable table(kMib, &clock);
  const Pair pair;
  table.Add(pair.server);
  for (int i = 0; i < 64; ++i) {
    pair.Send(64 << 10);  // 128 calls
    for (int call = 0; call < 128; ++call) {
      table.Began(pair.peer());
      table.Ended(pair.peer());
    }
    EXPECT_EQ(table.Shed(), 0);
  }
  EXPECT_FALSE(pair.ended());
}

TEST(ConnectionTableTest, PingsOfALongTimeAreNoUnfinishedMessages) {
  FakeClock clock;
  ConnectionTable table(kMib, &clock);
  const Pair pair;
  table.Add(pair.server);
  pair.Send(2 * kMib);
  clock.Advance(absl::Hours(100));
  EXPECT_EQ(table.Shed(), 0);
  pair.Send(2 * kMib);
  EXPECT_EQ(table.Shed(), 1);
}

TEST(ConnectionTableTest, CallsOfThePastExcuseNoUnfinishedMessages) {
  const FakeClock clock;
  ConnectionTable table(kMib, &clock);
  const Pair pair;
  table.Add(pair.server);
  for (int call = 0; call < 10'000; ++call) {
    table.Began(pair.peer());
    table.Ended(pair.peer());
  }
  EXPECT_EQ(table.Shed(), 0);
  pair.Send(2 * kMib);
  EXPECT_EQ(table.Shed(), 1);
}

TEST(ConnectionTableTest, FloodingConnectionLosesWhatItHasSent) {
  const FakeClock clock;
  ConnectionTable table(kMib, &clock);
  const Pair pair;
  table.Add(pair.server);
  const std::string unread(64 << 10, 'x');
  ASSERT_EQ(send(pair.client, unread.data(), unread.size(), 0),
            static_cast<ssize_t>(unread.size()));
  table.CloseFlooding(pair.peer());
  std::string left(unread.size(), 0);
  EXPECT_LE(recv(pair.server, left.data(), left.size(), MSG_DONTWAIT), 0);
  table.CloseFlooding(pair.peer());  // is gone
}

TEST(ConnectionTableTest, NothingIsClosedBelowTheMaximum) {
  const FakeClock clock;
  ConnectionTable table(8 * kMib, &clock);
  const Pair pair;
  table.Add(pair.server);
  pair.Send(4 * kMib);
  EXPECT_EQ(table.Shed(), 0);
  EXPECT_FALSE(pair.ended());
}

TEST(ConnectionTableTest, LaterSocketWithTheSameNumberIsNotClosed) {
  const FakeClock clock;
  ConnectionTable table(kMib, &clock);
  int number = -1;
  {
    const Pair gone;
    table.Add(gone.server);
    number = gone.server;
  }
  Pair later;
  ASSERT_EQ(dup2(later.server, number), number);
  later.Send(4 * kMib);
  EXPECT_EQ(table.Shed(), 0);
  EXPECT_FALSE(later.ended());
  if (number != later.server) close(number);
}

TEST(ConnectionTableTest, OldestStrangerMakesPlaceForANewOne) {
  const FakeClock clock;
  ConnectionTable table(kMib, &clock);
  const Pair known;
  table.Add(known.server);
  table.ShowedToken(known.peer());
  std::vector<std::unique_ptr<Pair>> strangers;
  const auto add = [&] {
    strangers.push_back(std::make_unique<Pair>());
    table.Add(strangers.back()->server);
  };
  for (size_t i = 0; i < ConnectionTable::kMaxStrangers; ++i) add();
  for (const auto& stranger : strangers) EXPECT_FALSE(stranger->ended());
  add();
  EXPECT_TRUE(strangers[0]->ended());
  EXPECT_FALSE(strangers[1]->ended());
  strangers[3].reset();
  add();
  EXPECT_FALSE(strangers[1]->ended()) << "another one was gone already";
  table.ShowedToken(strangers[1]->peer());
  for (size_t i = 0; i < 2 * ConnectionTable::kMaxStrangers; ++i) add();
  EXPECT_TRUE(strangers[2]->ended());
  EXPECT_FALSE(strangers[1]->ended());
  EXPECT_FALSE(known.ended());
}

TEST(ConnectionTableTest, StrangerThatHasJustComeIsNotClosedForTheNext) {
  FakeClock clock;
  ConnectionTable table(kMib, &clock);
  std::vector<std::unique_ptr<Pair>> strangers;
  for (size_t i = 0; i < ConnectionTable::kMaxStrangers; ++i) {
    EXPECT_FALSE(table.NextStrangerMustWait());
    strangers.push_back(std::make_unique<Pair>());
    table.Add(strangers.back()->server);
  }
  EXPECT_TRUE(table.NextStrangerMustWait());
  clock.Advance(ConnectionTable::kMinStay);
  EXPECT_FALSE(table.NextStrangerMustWait()) << "the oldest has had its time";
  clock.Advance(-ConnectionTable::kMinStay / 2);
  EXPECT_TRUE(table.NextStrangerMustWait());
  table.ShowedToken(strangers[5]->peer());
  EXPECT_FALSE(table.NextStrangerMustWait()) << "there is a place";
}

TEST(ConnectionTableTest, StrangerWhoseBytesAreUnreadStaysAMomentLonger) {
  FakeClock clock;
  ConnectionTable table(kMib, &clock);
  std::vector<std::unique_ptr<Pair>> strangers;
  const auto add = [&] {
    strangers.push_back(std::make_unique<Pair>());
    table.Add(strangers.back()->server);
  };
  for (size_t i = 0; i < ConnectionTable::kMaxStrangers; ++i) add();
  ASSERT_EQ(send(strangers[0]->client, "a", 1, 0), 1);
  ASSERT_EQ(send(strangers[2]->client, "a", 1, 0), 1);
  add();
  EXPECT_FALSE(strangers[0]->ended());
  EXPECT_TRUE(strangers[1]->ended()) << "the oldest of those whose bytes are read";
  clock.Advance(absl::Seconds(1));
  add();
  EXPECT_TRUE(strangers[0]->ended()) << "it has had its time";
  EXPECT_FALSE(strangers[2]->ended());
}

TEST(ConnectionTableTest, ClientThatWaitsForRoomToSendSeesTheEndAtOnce) {
  const FakeClock clock;
  ConnectionTable table(kMib, &clock);
  const Pair full;
  table.Add(full.server);
  const std::string chunk(64 << 10, 'x');
  while (send(full.client, chunk.data(), chunk.size(), MSG_DONTWAIT) > 0) {
  }
  absl::SleepFor(absl::Seconds(2));  // its probes of the window are a second apart by now
  const absl::Time begin = absl::Now();
  table.CloseStranger(full.peer());
  EXPECT_LT(send(full.client, chunk.data(), chunk.size(), MSG_NOSIGNAL), 0);
  EXPECT_LT(absl::Now() - begin, absl::Milliseconds(500));
}

TEST(ConnectionTableTest, StrangersOfOneAddressLeaveThoseOfOthersTheirPlaces) {
  const FakeClock clock;
  ConnectionTable table(kMib, &clock);
  const Pair other("127.0.0.2");
  table.Add(other.server);
  std::vector<std::unique_ptr<Pair>> crowd;
  for (size_t i = 0; i < 2 * ConnectionTable::kMaxStrangers; ++i) {
    crowd.push_back(std::make_unique<Pair>());
    table.Add(crowd.back()->server);
  }
  EXPECT_FALSE(other.ended());
  EXPECT_TRUE(crowd.front()->ended());
}

TEST(ConnectionTableTest, StrangersHoldLessAndGoFirst) {
  const FakeClock clock;
  ConnectionTable table(128 * kMib, &clock);
  const Pair first, second;
  for (const Pair* known : {&first, &second}) {
    table.Add(known->server);
    table.ShowedToken(known->peer());
  }
  first.Send(40 * kMib);
  std::vector<std::unique_ptr<Pair>> strangers;
  for (int i = 0; i < 5; ++i) {
    strangers.push_back(std::make_unique<Pair>());
    table.Add(strangers.back()->server);
    strangers.back()->Send(8 * kMib);
  }
  EXPECT_EQ(table.Shed(), 3) << "of 40 MiB less than 16 are left";
  EXPECT_FALSE(first.ended()) << "it holds the most";
  first.Send(20 * kMib);
  second.Send(60 * kMib);
  EXPECT_EQ(table.Shed(), 3) << "the two strangers, then one of those that hold more";
  for (const auto& stranger : strangers) EXPECT_TRUE(stranger->ended());
  EXPECT_NE(first.ended(), second.ended());
}

// Whether a client that sends as fast as it can is held up, once it has sent what it was allowed
// before. What it sends meanwhile is as if calls had received it. The kernel raises the window of
// one that got much through, so the table is asked to shed, as the server does every moment.
bool IsSlow(ConnectionTable& table, const Pair& pair) {
  table.Received(pair.peer(), pair.Push(8 * kMib, absl::Milliseconds(200)));
  for (int i = 0; i < 160; ++i) {
    table.Shed();
    const size_t n_sent = pair.Push(kMib / 8, absl::Milliseconds(250));
    if (n_sent < kMib / 16) return true;
    table.Received(pair.peer(), n_sent);
  }
  return false;
}

// Whether such a client gets on. One that was held up asks for room ever less often, and a busy
// machine holds it up, too.
bool IsFast(const Pair& pair) {
  for (int i = 0; i < 60; ++i) {
    if (pair.Push(kMib, absl::Milliseconds(500)) >= kMib) return true;
  }
  return false;
}

TEST(ConnectionTableTest, StrangersThatHoldTheMostAreSlowedUntilTheyShowATokenOrHoldLittle) {
  FakeClock clock;
  ConnectionTable table(160 * kMib, &clock);
  const Pair full, second, third, known;
  for (const Pair* pair : {&full, &second, &third, &known}) table.Add(pair->server);
  table.ShowedToken(known.peer());
  known.Send(20 * kMib);
  full.Send(6 * kMib);
  second.Send(3 * kMib);
  third.Send(2 * kMib);
  EXPECT_EQ(table.Shed(), 0);
  EXPECT_TRUE(IsSlow(table, full));
  EXPECT_TRUE(IsSlow(table, second));
  EXPECT_TRUE(IsFast(third)) << "the fast ones hold little";
  EXPECT_TRUE(IsFast(known));
  table.ShowedToken(second.peer());
  EXPECT_TRUE(IsFast(second));
  table.Received(full.peer(), 32 * kMib);
  table.Received(third.peer(), 32 * kMib);
  EXPECT_EQ(table.Shed(), 0);
  EXPECT_TRUE(IsSlow(table, full)) << "a moment ago it was full";
  clock.Advance(ConnectionTable::kSlowTime);
  EXPECT_EQ(table.Shed(), 0);
  EXPECT_TRUE(IsFast(full));
}

TEST(ConnectionTableTest, FewStrangersAreClosedAtATime) {
  const FakeClock clock;
  ConnectionTable table(160 * kMib, &clock);
  std::vector<std::unique_ptr<Pair>> strangers;
  for (int i = 0; i < 10; ++i) {
    strangers.push_back(std::make_unique<Pair>());
    table.Add(strangers.back()->server);
    strangers.back()->Send(6 * kMib);
  }
  EXPECT_EQ(table.Shed(), ConnectionTable::kMaxClosedStrangers);
  EXPECT_EQ(table.Shed(), ConnectionTable::kMaxClosedStrangers) << "12 MiB are left";
  EXPECT_EQ(table.Shed(), 0);
}

TEST(ConnectionTableTest, StrangersOfACrowdAreSlowForAWhile) {
  FakeClock clock;
  ConnectionTable table(160 * kMib, &clock);
  std::vector<std::unique_ptr<Pair>> strangers;
  const auto add = [&] {
    strangers.push_back(std::make_unique<Pair>());
    table.Add(strangers.back()->server);
  };
  for (int i = 0; i < 16; ++i) {
    EXPECT_FALSE(table.has_crowd());
    add();
  }
  EXPECT_TRUE(table.has_crowd());
  add();
  EXPECT_TRUE(IsFast(*strangers[15]));
  table.Received(strangers[15]->peer(), 32 * kMib);
  for (int i = 0; i < 6; ++i) {  // the kernel raises its window as long as much comes
    strangers[16]->Push(kMib, absl::Milliseconds(50));
    table.Shed();
  }
  EXPECT_FALSE(table.has_crowd());
  add();
  EXPECT_TRUE(IsFast(*strangers[17]));
  EXPECT_TRUE(IsSlow(table, *strangers[16]));
  table.Received(strangers[17]->peer(), 32 * kMib);
  clock.Advance(ConnectionTable::kSlowTime);
  table.Shed();
  EXPECT_TRUE(IsFast(*strangers[16]));
}

TEST(ConnectionTableTest, PeersAreReadAsGrpcNamesThem) {
  EXPECT_TRUE(ConnectionTable::ParsePeer("ipv4:127.0.0.1:4711").has_value());
  EXPECT_EQ(ConnectionTable::ParsePeer("ipv6:%5B::1%5D:4711"),
            ConnectionTable::ParsePeer("ipv6:[::1]:4711"));
  EXPECT_EQ(ConnectionTable::ParsePeer("ipv6:%5Bfe80::1%25eth0%5D:4711"),
            ConnectionTable::ParsePeer("ipv6:[fe80::1]:4711"));
  for (const std::string_view other : {"", "unix:/run/nerfd.sock", "inproc", "ipv4:127.0.0.1",
                                       "ipv4:x:1", "ipv6:[::1]:99999", "ipv4:127.0.0.1:1x"}) {
    EXPECT_FALSE(ConnectionTable::ParsePeer(other).has_value()) << other;
  }
}

}  // namespace
}  // namespace nerf
