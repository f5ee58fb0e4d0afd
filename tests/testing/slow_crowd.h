#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "common/files/file_io.h"

namespace nerf {

// Clients that hold connections and do little with them: each sends an opening, then a byte now
// and then if it has one, and reads nothing. Those that the server closes come back. Runs on a
// thread of its own.
class SlowCrowd {
 public:
  struct Client {
    std::string opening;
    std::string drip = {};
  };

  // Client i behaves as kinds[i % kinds.size()].
  SlowCrowd(int port, size_t n_clients, std::vector<Client> kinds)
      : port_(port), kinds_(std::move(kinds)), sockets_(n_clients) {
    rlimit limit{};  // both ends of each connection are in this process
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    thread_ = std::thread([this] { Run(); });
    while (n_rounds_ == 0) absl::SleepFor(absl::Milliseconds(1));
  }
  ~SlowCrowd() {
    is_ended_ = true;
    thread_.join();
  }

  // Connections that the server has closed so far.
  size_t n_closed() const { return n_closed_; }

 private:
  static constexpr size_t kComebacksPerRound = 10;
  static constexpr int kDripRounds = 10;

  void Run() {
    for (size_t i = 0; i < sockets_.size(); ++i) Connect(i);
    for (; !is_ended_; ++n_rounds_) {
      absl::SleepFor(absl::Milliseconds(50));
      std::vector<pollfd> polled;
      for (const UniqueFd& fd : sockets_) polled.push_back({fd.get(), POLLRDHUP, 0});
      poll(polled.data(), polled.size(), 0);
      size_t n_back = 0;
      for (size_t i = 0; i < sockets_.size() && n_back < kComebacksPerRound; ++i) {
        const size_t at = (next_ + i) % sockets_.size();
        if (polled[at].revents == 0) continue;
        ++n_closed_;
        ++n_back;
        Connect(at);
      }
      next_ += n_back;
      if (n_rounds_ % kDripRounds != 0) continue;
      for (size_t i = 0; i < sockets_.size(); ++i) Send(i, kinds_[i % kinds_.size()].drip);
    }
  }

  void Connect(size_t i) {
    sockets_[i] = UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int small = 4 << 10;
    setsockopt(sockets_[i].get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port_));
    connect(sockets_[i].get(), reinterpret_cast<sockaddr*>(&address), sizeof(address));
    Send(i, kinds_[i % kinds_.size()].opening);
  }

  void Send(size_t i, const std::string& bytes) {
    // What the kernel does not take is not sent: the server has stopped to read.
    if (!bytes.empty()) {
      static_cast<void>(
          send(sockets_[i].get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
    }
  }

  const int port_;
  const std::vector<Client> kinds_;
  std::vector<UniqueFd> sockets_;
  size_t next_ = 0;
  std::atomic<size_t> n_closed_{0};
  std::atomic<int> n_rounds_{0};
  std::atomic<bool> is_ended_{false};
  std::thread thread_;
};

}  // namespace nerf
