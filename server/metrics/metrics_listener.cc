#include "server/metrics/metrics_listener.h"

#include <prometheus/collectable.h>
#include <prometheus/exposer.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <exception>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/file_io.h"

namespace nerf {
namespace {

// A connection holds a thread until its request has come. Idle ones are dropped after a while.
constexpr char kThreads[] = "16";
constexpr char kIdleMs[] = "2000";

// Connects and disconnects.
void Knock(const std::string& host, int port) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(static_cast<uint16_t>(port));
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = v4.sin_port;
  if (inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1) {
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    connect(fd.get(), reinterpret_cast<sockaddr*>(&v4), sizeof(v4));
  } else if (inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) == 1) {
    UniqueFd fd(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    connect(fd.get(), reinterpret_cast<sockaddr*>(&v6), sizeof(v6));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsListener>> MetricsListener::Start(
    const std::string& address, std::vector<std::shared_ptr<prometheus::Collectable>> sources) {
  // The library also accepts lists and options in this string; allow a plain address only.
  if (address.empty() ||
      address.find_first_not_of("0123456789abcdefABCDEF.:[]") != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("metrics address '", address, "' is not NUMERIC-HOST:PORT"));
  }
  std::unique_ptr<MetricsListener> listener(new MetricsListener());
  listener->sources_ = std::move(sources);
  // The library throws, without a reason, if it cannot bind.
  try {
    listener->exposer_ = std::make_unique<prometheus::Exposer>(std::vector<std::string>{
        "listening_ports", address, "num_threads", kThreads, "request_timeout_ms", kIdleMs});
    const std::vector<int> ports = listener->exposer_->GetListeningPorts();
    listener->port_ = ports.empty() ? 0 : ports.front();
  } catch (const std::exception& error) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot serve metrics on ", address,
                     ": the address is in use or not one of this machine's"));
  }
  listener->host_ = address.substr(0, address.rfind(':'));
  if (listener->host_.starts_with('[')) {
    listener->host_ = listener->host_.substr(1, listener->host_.size() - 2);
  }
  for (const auto& source : listener->sources_) {
    listener->exposer_->RegisterCollectable(source);
  }
  return listener;
}

MetricsListener::~MetricsListener() {
  // The library checks for a stop every two seconds or at a new connection, so connect to it.
  std::thread knocker([this] {
    absl::SleepFor(absl::Milliseconds(20));
    if (port_ != 0) Knock(host_, port_);
  });
  exposer_.reset();
  knocker.join();
}

}  // namespace nerf
