#include "engine/train/group/rendezvous.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <stop_token>

#include "absl/time/clock.h"
#include "common/sleep.h"
#include "common/status_macros.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace nerf {
namespace {

constexpr uint32_t kMaxText = 1 << 20;  // bytes: addresses and settings are a few KB
constexpr absl::Duration kCallAgain = absl::Milliseconds(200);
constexpr absl::Duration kGreetingTime = absl::Seconds(5);

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

absl::StatusOr<Addresses> Resolve(const std::string& host, int port, int flags) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    return absl::InvalidArgumentError(
        fmt::format("rendezvous {}:{}: {}", host, port, gai_strerror(error)));
  }
  return Addresses(found, &freeaddrinfo);
}

// Waits until the socket is ready. False when the deadline has passed.
bool WaitFor(int fd, short events, absl::Time deadline) {
  while (true) {
    const int64_t left = absl::ToInt64Milliseconds(deadline - absl::Now());
    pollfd waiting{fd, events, 0};
    const int n = poll(&waiting, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 1 << 30)));
    if (n > 0) return true;
    if (n == 0 || errno != EINTR) return false;
  }
}

absl::Status WriteAll(int fd, std::string_view bytes, absl::Time deadline) {
  while (!bytes.empty()) {
    if (!WaitFor(fd, POLLOUT, deadline)) return absl::DeadlineExceededError("does not read");
    const ssize_t n = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return absl::UnavailableError("is gone");
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

absl::Status ReadAll(int fd, char* bytes, size_t size, absl::Time deadline) {
  while (size > 0) {
    if (!WaitFor(fd, POLLIN, deadline)) return absl::DeadlineExceededError("does not answer");
    const ssize_t n = recv(fd, bytes, size, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return absl::UnavailableError("is gone");
    bytes += n;
    size -= static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

// A text as its length in 4 bytes and its bytes.
absl::Status WriteText(int fd, std::string_view text, absl::Time deadline) {
  if (text.size() > kMaxText) return absl::ResourceExhaustedError("has too much to say");
  const uint32_t size = htonl(static_cast<uint32_t>(text.size()));
  std::string bytes(reinterpret_cast<const char*>(&size), sizeof(size));
  bytes += text;
  return WriteAll(fd, bytes, deadline);
}

absl::StatusOr<std::string> ReadText(int fd, absl::Time deadline) {
  uint32_t size = 0;
  NERF_RETURN_IF_ERROR(ReadAll(fd, reinterpret_cast<char*>(&size), sizeof(size), deadline));
  size = ntohl(size);
  if (size > kMaxText) return absl::InvalidArgumentError("is no rank of nerf-engine");
  std::string text(size, '\0');
  NERF_RETURN_IF_ERROR(ReadAll(fd, text.data(), size, deadline));
  return text;
}

absl::Status OfRank(int rank, const absl::Status& status) {
  return absl::Status(status.code(),
                      fmt::format("rank {} {}", rank, std::string(status.message())));
}

std::string Greeting(int rank, int n_ranks) {
  return fmt::format("nerf-engine rank {} of {}", rank, n_ranks);
}

// The number of the rank that greets, or 0 for a greeting that does not fit.
int GreetingRank(std::string_view greeting, int n_ranks) {
  for (int rank = 1; rank < n_ranks; ++rank) {
    if (greeting == Greeting(rank, n_ranks)) return rank;
  }
  return 0;
}

absl::StatusOr<UniqueFd> Listen(const std::string& host, int port) {
  NERF_ASSIGN_OR_RETURN(const Addresses addresses, Resolve(host, port, AI_PASSIVE));
  const addrinfo& address = *addresses;
  UniqueFd fd(socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC, address.ai_protocol));
  const int one = 1;
  if (fd.ok()) setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  if (!fd.ok() || bind(fd.get(), address.ai_addr, address.ai_addrlen) != 0 ||
      listen(fd.get(), SOMAXCONN) != 0) {
    return ErrnoToStatus(errno, fmt::format("rendezvous: listen at {}:{}", host, port));
  }
  return fd;
}

absl::StatusOr<UniqueFd> Call(const Addresses& addresses) {
  for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
    UniqueFd fd(socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol));
    if (fd.ok() && connect(fd.get(), a->ai_addr, a->ai_addrlen) == 0) return fd;
  }
  return ErrnoToStatus(errno, "connect");
}

}  // namespace

Rendezvous::Rendezvous(int rank, int n_ranks, std::vector<UniqueFd> sockets,
                       absl::Duration time_limit)
    : rank_(rank), n_ranks_(n_ranks), sockets_(std::move(sockets)), time_limit_(time_limit) {}

absl::StatusOr<Rendezvous> Rendezvous::Host(const std::string& host, int port, int n_ranks,
                                            absl::Duration time_limit) {
  const absl::Time deadline = absl::Now() + time_limit;
  NERF_ASSIGN_OR_RETURN(const UniqueFd listening, Listen(host, port));
  std::vector<UniqueFd> sockets(n_ranks - 1);
  const auto missing = [&] {
    std::vector<int> ranks;
    for (int rank = 1; rank < n_ranks; ++rank) {
      if (!sockets[rank - 1].ok()) ranks.push_back(rank);
    }
    return ranks;
  };
  while (!missing().empty()) {
    if (!WaitFor(listening.get(), POLLIN, deadline)) {
      return absl::DeadlineExceededError(fmt::format("rendezvous {}:{}: no call from rank {}", host,
                                                     port, fmt::join(missing(), ", ")));
    }
    UniqueFd caller(accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!caller.ok()) continue;
    const auto greeting = ReadText(caller.get(), absl::Now() + kGreetingTime);
    const int rank = greeting.ok() ? GreetingRank(*greeting, n_ranks) : 0;
    const bool welcome = rank > 0 && !sockets[rank - 1].ok();
    const std::string answer =
        welcome ? "welcome"
                : fmt::format("rank 0 expects rank {} of {}", fmt::join(missing(), ", "), n_ranks);
    if (!WriteText(caller.get(), answer, absl::Now() + kGreetingTime).ok()) continue;
    if (welcome) sockets[rank - 1] = std::move(caller);
  }
  return Rendezvous(0, n_ranks, std::move(sockets), time_limit);
}

absl::StatusOr<Rendezvous> Rendezvous::Join(const std::string& host, int port, int rank,
                                            int n_ranks, absl::Duration time_limit) {
  const absl::Time deadline = absl::Now() + time_limit;
  NERF_ASSIGN_OR_RETURN(const Addresses addresses, Resolve(host, port, 0));
  absl::StatusOr<UniqueFd> fd = Call(addresses);
  while (!fd.ok() && absl::Now() < deadline) {
    SleepUnlessStopped(kCallAgain, std::stop_token());
    fd = Call(addresses);
  }
  if (!fd.ok()) {
    return absl::DeadlineExceededError(fmt::format("rendezvous {}:{}: rank 0 does not listen ({})",
                                                   host, port, std::string(fd.status().message())));
  }
  absl::Status greeted = WriteText(fd->get(), Greeting(rank, n_ranks), deadline);
  if (!greeted.ok()) return OfRank(0, greeted);
  const absl::StatusOr<std::string> answer = ReadText(fd->get(), deadline);
  if (!answer.ok()) return OfRank(0, answer.status());
  if (*answer != "welcome") return absl::FailedPreconditionError(answer->substr(0, 200));
  std::vector<UniqueFd> sockets;
  sockets.push_back(*std::move(fd));
  return Rendezvous(rank, n_ranks, std::move(sockets), time_limit);
}

absl::StatusOr<std::vector<std::string>> Rendezvous::Gather(std::string_view mine) {
  const absl::Time deadline = absl::Now() + time_limit_;
  std::vector<std::string> texts(n_ranks_);
  texts[rank_] = std::string(mine);
  if (rank_ > 0) {
    const int fd = sockets_[0].get();
    absl::Status told = WriteText(fd, mine, deadline);
    if (!told.ok()) return OfRank(0, told);
    for (std::string& text : texts) {
      absl::StatusOr<std::string> read = ReadText(fd, deadline);
      if (!read.ok()) return OfRank(0, read.status());
      text = *std::move(read);
    }
    return texts;
  }
  for (int rank = 1; rank < n_ranks_; ++rank) {
    absl::StatusOr<std::string> read = ReadText(sockets_[rank - 1].get(), deadline);
    if (!read.ok()) return OfRank(rank, read.status());
    texts[rank] = *std::move(read);
  }
  for (int rank = 1; rank < n_ranks_; ++rank) {
    for (const std::string& text : texts) {
      absl::Status told = WriteText(sockets_[rank - 1].get(), text, deadline);
      if (!told.ok()) return OfRank(rank, told);
    }
  }
  return texts;
}

absl::StatusOr<std::pair<std::string, int>> ParseRendezvous(std::string_view text) {
  const size_t colon = text.rfind(':');
  std::string_view host = text.substr(0, colon);
  int port = 0;
  if (colon != std::string_view::npos) {
    const std::string_view digits = text.substr(colon + 1);
    const auto end = digits.data() + digits.size();
    if (std::from_chars(digits.data(), end, port).ptr != end) port = 0;
  }
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  if (host.empty() || port < 1 || port > 65535) {
    return absl::InvalidArgumentError(
        fmt::format("--rendezvous {}: must be HOST:PORT", text.substr(0, 128)));
  }
  return std::make_pair(std::string(host), port);
}

bool IsLoopback(const std::string& host) {
  in_addr address = {};
  if (inet_pton(AF_INET, host.c_str(), &address) == 1) return (ntohl(address.s_addr) >> 24) == 127;
  return host == "localhost" || host == "::1";
}

}  // namespace nerf
