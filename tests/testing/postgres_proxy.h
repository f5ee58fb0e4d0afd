#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "common/files/file_io.h"
#include "common/mutex.h"
#include "tests/testing/temp_dir.h"

namespace nerf {

// Passes connections on to a PostgreSQL, and cuts one where a test says. Counts what clients wait
// for: the ends of queries (Sync) and simple queries.
class PostgresProxy {
 public:
  enum class Moment {
    kBefore,  // the server does not get the message
    kAfter,   // the server has answered, and the client does not get it
  };

  explicit PostgresProxy(std::string upstream) : upstream_(std::move(upstream)) {
    listener_ = UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_un address = AddressOf(dir_ / ".s.PGSQL.5432");
    if (bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
        listen(listener_.get(), 16) != 0) {
      std::abort();
    }
    acceptor_ = std::thread([this] { Accept(); });
  }
  ~PostgresProxy() {
    stopping_ = true;
    acceptor_.join();
    for (std::thread& thread : connections_) thread.join();
  }

  const std::string& folder() const { return dir_.path(); }

  // Cuts the connection at the nth such message from now on, once.
  void CutAt(Moment moment, int n) {
    moment_ = moment;
    n_left_ = n;
  }
  bool has_cut() const { return n_left_ == 0; }

  // Ends all connections; takes none until `open` is true again.
  void SetOpen(bool open) {
    open_ = open;
    if (!open) ++generation_;
  }

 private:
  static sockaddr_un AddressOf(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    return address;
  }
  static bool Readable(int fd, int timeout_ms) {
    pollfd polled = {fd, POLLIN, 0};
    return poll(&polled, 1, timeout_ms) > 0;
  }
  static bool WriteAll(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }

  void Accept() {
    while (!stopping_) {
      if (!Readable(listener_.get(), 20)) continue;
      UniqueFd client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!client.ok() || !open_) continue;
      connections_.emplace_back(
          [this, client = std::move(client)]() mutable { Pass(std::move(client)); });
    }
  }

  void Pass(UniqueFd client) {
    const int generation = generation_;
    const UniqueFd server(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_un address = AddressOf(upstream_);
    if (connect(server.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      return;
    }
    std::string sent;
    bool started = false;  // the first message has no type
    while (!stopping_ && generation == generation_) {
      pollfd polled[] = {{client.get(), POLLIN, 0}, {server.get(), POLLIN, 0}};
      if (poll(polled, 2, 20) <= 0) continue;
      char buffer[16384];
      if (polled[1].revents != 0) {
        const ssize_t n = read(server.get(), buffer, sizeof(buffer));
        if (n <= 0 || !WriteAll(client.get(), {buffer, static_cast<size_t>(n)})) return;
      }
      if (polled[0].revents == 0) continue;
      const ssize_t n = read(client.get(), buffer, sizeof(buffer));
      if (n <= 0) return;
      sent.append(buffer, static_cast<size_t>(n));
      while (const size_t size = MessageSize(sent, started)) {
        if (!PassMessage(server.get(), sent.substr(0, size), started)) return;
        sent.erase(0, size);
        started = true;
      }
    }
  }

  // Of the first message, 0 where it is not whole.
  static size_t MessageSize(const std::string& bytes, bool has_type) {
    const size_t at = has_type ? 1 : 0;
    if (bytes.size() < at + 4) return 0;
    size_t size = at;
    uint32_t length = 0;
    for (size_t i = 0; i < 4; ++i) length = length << 8 | static_cast<uint8_t>(bytes[at + i]);
    size += length;
    return bytes.size() < size ? 0 : size;
  }

  // False: the connection ends.
  bool PassMessage(int server, const std::string& message, bool has_type) {
    const bool counts = has_type && (message[0] == 'S' || message[0] == 'Q') && n_left_ > 0;
    const bool cuts = counts && --n_left_ == 0;
    if (cuts && moment_ == Moment::kBefore) return false;
    if (!WriteAll(server, message)) return false;
    if (cuts) Readable(server, 5000);
    return !cuts;
  }

  const std::string upstream_;
  const TempDir dir_;
  UniqueFd listener_;
  std::atomic<bool> stopping_ = false, open_ = true;
  std::atomic<int> generation_ = 0, n_left_ = -1;
  std::atomic<Moment> moment_ = Moment::kBefore;
  std::vector<std::thread> connections_;  // of the acceptor, then of the destructor
  std::thread acceptor_;
};

}  // namespace nerf
