#include "server/rpc/connections/connection_acceptor.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

constexpr absl::Duration kConnectionAcceptorPatience = absl::Seconds(60);

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() { Close(); }
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket(const Socket&) = delete;
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

Socket Connect(int port) {
  Socket connection(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(connection.fd(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  return connection;
}

// The sockets that an acceptor has handed over.
class Taken {
 public:
  ConnectionAcceptor::Take Taker() {
    return [this](int /*listener*/, int socket) {
      MutexLock lock(mu_);
      sockets_.emplace_back(socket);
      changed_.NotifyAll();
    };
  }
  bool Await(size_t count) {
    MutexLock lock(mu_);
    while (sockets_.size() < count) {
      if (!changed_.WaitFor(mu_, kConnectionAcceptorPatience)) return false;
    }
    return true;
  }
  size_t count() {
    MutexLock lock(mu_);
    return sockets_.size();
  }
  void CloseAll() {
    MutexLock lock(mu_);
    sockets_.clear();
  }

 private:
  Mutex mu_;
  CondVar changed_;
  std::vector<Socket> sockets_ ABSL_GUARDED_BY(mu_);
};

TEST(ConnectionAcceptorTest, LackOfDescriptorsPassesAndConnectionsAreAcceptedAgain) {
  Taken taken;
  const auto acceptor = ConnectionAcceptor::Listen({.listen = "127.0.0.1:0"});
  ASSERT_TRUE(acceptor.ok()) << acceptor.status();
  (*acceptor)->Start(taken.Taker());
  Socket first = Connect((*acceptor)->port());
  ASSERT_TRUE(taken.Await(1));

  // The client's own socket takes the last number below the limit.
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  rlimit low = limit;
  {
    const Socket next(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    low.rlim_cur = static_cast<rlim_t>(next.fd()) + 1;
  }
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  Socket waiting = Connect((*acceptor)->port());
  taken.CloseAll();  // frees a descriptor; the acceptor may have failed before or not
  EXPECT_TRUE(taken.Await(1));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);

  Socket last = Connect((*acceptor)->port());
  EXPECT_TRUE(taken.Await(2));
}

TEST(ConnectionAcceptorTest, CrowdDoesNotKeepConnectionsOutForGood) {
  Taken taken;
  const auto acceptor =
      ConnectionAcceptor::Listen({.listen = "127.0.0.1:0", .is_crowded = [] { return true; }});
  ASSERT_TRUE(acceptor.ok()) << acceptor.status();
  (*acceptor)->Start(taken.Taker());
  const Socket patient = Connect((*acceptor)->port());
  EXPECT_TRUE(taken.Await(1));
}

TEST(ConnectionAcceptorTest, CrowdThatOneConnectionMakesKeepsTheNextOneWaiting) {
  Taken taken;
  std::atomic<int> n_looks = 0;
  // Crowded from the first connection on, for 20 looks.
  const auto acceptor = ConnectionAcceptor::Listen({.listen = "127.0.0.1:0", .is_crowded = [&] {
                                                      return taken.count() == 1 && ++n_looks < 20;
                                                    }});
  ASSERT_TRUE(acceptor.ok()) << acceptor.status();
  const Socket first = Connect((*acceptor)->port()), second = Connect((*acceptor)->port());
  (*acceptor)->Start(taken.Taker());
  EXPECT_TRUE(taken.Await(2));
  EXPECT_EQ(n_looks, 20);
}

TEST(ConnectionAcceptorTest, NoneIsAcceptedWhileTheNextOneMustWait) {
  Taken taken;
  std::atomic<bool> waits = true;
  std::atomic<int> n_looks = 0;
  const auto acceptor = ConnectionAcceptor::Listen(
      {.listen = "127.0.0.1:0", .must_wait = [&] { return ++n_looks, waits.load(); }});
  ASSERT_TRUE(acceptor.ok()) << acceptor.status();
  (*acceptor)->Start(taken.Taker());
  const Socket client = Connect((*acceptor)->port());
  while (n_looks < 200) absl::SleepFor(absl::Milliseconds(1));  // twice as long as for a crowd
  EXPECT_EQ(taken.count(), 0);
  waits = false;
  EXPECT_TRUE(taken.Await(1));
}

TEST(ConnectionAcceptorTest, FullServerTakesConnectionsOneByOneAndStopsAtOnce) {
  Taken taken;
  const auto acceptor =
      ConnectionAcceptor::Listen({.listen = "127.0.0.1:0", .is_full = [] { return true; }});
  ASSERT_TRUE(acceptor.ok()) << acceptor.status();
  (*acceptor)->Start(taken.Taker());
  std::vector<Socket> clients;
  for (int i = 0; i < 3; ++i) clients.push_back(Connect((*acceptor)->port()));
  EXPECT_TRUE(taken.Await(3));
  for (int i = 0; i < 100; ++i) clients.push_back(Connect((*acceptor)->port()));
  (*acceptor)->Stop();
  EXPECT_LT(taken.count(), clients.size()) << "the last ones were still waiting";
}

TEST(ConnectionAcceptorTest, ClientsThatHaveGoneTakeNoTime) {
  Taken taken;
  const auto acceptor =
      ConnectionAcceptor::Listen({.listen = "127.0.0.1:0", .is_full = [] { return true; }});
  ASSERT_TRUE(acceptor.ok()) << acceptor.status();
  for (int i = 0; i < 1000; ++i) Connect((*acceptor)->port());
  const Socket patient = Connect((*acceptor)->port());
  (*acceptor)->Start(taken.Taker());
  EXPECT_TRUE(taken.Await(1));
  EXPECT_EQ(taken.count(), 1);
}

TEST(ConnectionAcceptorTest, ConnectionsBeyondTheMaximumAreClosedAndLaterOnesAreTaken) {
  Taken taken;
  // The client's socket of a connection and the server's take two numbers.
  const int next = dup(STDERR_FILENO);
  ASSERT_GE(next, 0);
  close(next);
  const auto acceptor =
      ConnectionAcceptor::Listen({.listen = "127.0.0.1:0", .max_descriptor = next + 5});
  ASSERT_TRUE(acceptor.ok()) << acceptor.status();
  (*acceptor)->Start(taken.Taker());
  std::vector<Socket> clients;
  for (int i = 0; i < 5; ++i) clients.push_back(Connect((*acceptor)->port()));
  char byte = 0;
  EXPECT_LE(recv(clients.back().fd(), &byte, 1, 0), 0) << "the last one is not closed";

  clients.clear();
  taken.CloseAll();
  Socket later = Connect((*acceptor)->port());
  EXPECT_TRUE(taken.Await(1));
}

TEST(ConnectionAcceptorTest, AddressInUseIsRefused) {
  const auto first = ConnectionAcceptor::Listen({.listen = "localhost:0"});
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string taken = "127.0.0.1:" + std::to_string((*first)->port());
  const auto second = ConnectionAcceptor::Listen({.listen = taken});
  EXPECT_EQ(second.status().message(),
            "cannot listen on " + taken + ": the address is in use or not one of this machine's");
}

TEST(ConnectionAcceptorTest, SocketFileOfADeadServerIsReplacedAndOfALivingOneNot) {
  const TempDir folder;
  const std::string listen = "unix:" + folder.path() + "/socket";
  {
    // Leaves its file, as a killed server does.
    const Socket dead(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    (folder.path() + "/socket").copy(address.sun_path, sizeof(address.sun_path) - 1);
    ASSERT_EQ(bind(dead.fd(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  const auto living = ConnectionAcceptor::Listen({.listen = listen});
  ASSERT_TRUE(living.ok()) << living.status();
  EXPECT_THAT(ConnectionAcceptor::Listen({.listen = listen}).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

}  // namespace
}  // namespace nerf
