#include "server/web/web_server.h"

#include <fmt/format.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "common/logging.h"
#include "common/status_macros.h"
#include "server/web/http_connection.h"
#include "server/web/request_guard.h"
#include "server/web/tls_context.h"
#include "server/web/upstream_call.h"
#include "server/web/web_router.h"

namespace nerf {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using ErrorCode = boost::system::error_code;

constexpr char kFull[] =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\n"
    "Connection: close\r\n\r\n";
constexpr absl::Duration kTlsReloadInterval = absl::Seconds(1);

}  // namespace

// All but the constructor, Listen and Shutdown runs on thread_.
class WebServer::Impl {
 public:
  Impl(const WebServerOptions& options, std::shared_ptr<grpc::Channel> channel, const Clock* clock)
      : options_(options),
        clock_(*clock),
        guard_(options.allowed_origins, UsesTls(options.tls)),
        upstream_(std::move(channel),
                  [this](std::function<void()> work) { asio::post(io_, std::move(work)); }),
        router_(&guard_, &options_.limits, &upstream_),
        shared_{.limits = &options_.limits,
                .clock = clock,
                .router = &router_,
                .on_closed = [this](HttpConnection* connection) { Forget(connection); }},
        work_(asio::make_work_guard(io_)),
        acceptor_(io_),
        sweep_timer_(io_) {}

  absl::Status Listen() {
    if (UsesTls(options_.tls)) {
      NERF_ASSIGN_OR_RETURN(TlsContext tls, TlsContext::Open(options_.tls));
      tls_.emplace(std::move(tls));
    }
    ErrorCode error;
    const auto address = asio::ip::make_address(options_.host, error);
    if (!error) {
      const tcp::endpoint endpoint(address, static_cast<uint16_t>(options_.port));
      acceptor_.open(endpoint.protocol(), error);
      if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
      if (!error) acceptor_.bind(endpoint, error);
      if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
      if (!error) acceptor_.non_blocking(true, error);
    }
    if (error) {
      return absl::FailedPreconditionError(
          fmt::format("cannot serve the web page on {} port {}: {}. --web-listen takes another "
                      "address; --web-listen '' serves no page",
                      options_.host, options_.port, error.message()));
    }
    port_ = acceptor_.local_endpoint(error).port();
    Accept();
    Sweep();
    thread_ = std::thread([this] { io_.run(); });
    return absl::OkStatus();
  }

  ~Impl() { Shutdown(absl::ZeroDuration()); }

  void Shutdown(absl::Duration grace) {
    if (!thread_.joinable()) return;
    asio::post(io_, [this, grace] {
      is_stopping_ = true;
      stop_deadline_ = clock_.Now() + grace;
      ErrorCode ignored;
      acceptor_.close(ignored);
      sweep_timer_.cancel();
    });
    thread_.join();
  }

  int port() const { return port_; }

 private:
  void Accept() {
    acceptor_.async_accept([this](const ErrorCode& error, tcp::socket socket) {
      if (is_stopping_ || error == asio::error::operation_aborted) return;
      if (error) {
        // For example, no file descriptor is free. The next sweep tries again.
        LogWarning("a web connection could not be accepted", {{"error", error.message()}});
        is_accept_due_ = true;
        return;
      }
      Take(std::move(socket));
      Accept();
    });
  }

  void Take(tcp::socket socket) {
    if (connections_.size() >= options_.limits.max_connections && !CloseLongestIdle()) {
      ErrorCode ignored;
      socket.non_blocking(true, ignored);
      if (!tls_) socket.write_some(asio::buffer(kFull, sizeof(kFull) - 1), ignored);
      return;
    }
    const auto connection = std::make_shared<HttpConnection>(
        WebStream(std::move(socket), tls_ ? &tls_->current() : nullptr), &shared_);
    connections_.insert(connection);
    connection->Start();
  }

  // Makes room for a new connection. False if no connection is idle.
  bool CloseLongestIdle() {
    std::shared_ptr<HttpConnection> oldest;
    for (const auto& connection : connections_) {
      if (!connection->is_idle()) continue;
      if (oldest == nullptr || connection->idle_number() < oldest->idle_number()) {
        oldest = connection;
      }
    }
    if (oldest == nullptr) return false;
    oldest->Close();
    return true;
  }

  void Forget(HttpConnection* connection) { connections_.erase(connection->shared_from_this()); }

  void Sweep() {
    if (is_stopping_ && connections_.empty() && upstream_.n_open_calls() == 0) {
      work_.reset();
      return;
    }
    const SteadyTime now = clock_.Now();
    // Iterates over a copy, because connections that end leave the set.
    const std::vector<std::shared_ptr<HttpConnection>> all(connections_.begin(),
                                                           connections_.end());
    for (const auto& connection : all) {
      if (is_stopping_ && (connection->is_idle() || now >= stop_deadline_)) {
        connection->Close();
      } else {
        connection->CheckDeadline(now);
      }
    }
    if (!is_stopping_ && std::exchange(is_accept_due_, false)) Accept();
    if (tls_ && now >= tls_reload_) {
      tls_->Reload();
      tls_reload_ = now + kTlsReloadInterval;
    }
    const absl::Duration pause =
        is_stopping_ ? absl::Milliseconds(2) : options_.limits.sweep_interval;
    sweep_timer_.expires_after(absl::ToChronoNanoseconds(pause));
    sweep_timer_.async_wait([this](const ErrorCode&) { Sweep(); });
  }

  const WebServerOptions options_;
  const Clock& clock_;
  const RequestGuard guard_;
  asio::io_context io_{1};
  Upstream upstream_;
  const WebRouter router_;
  HttpConnectionShared shared_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  tcp::acceptor acceptor_;
  asio::steady_timer sweep_timer_;
  std::set<std::shared_ptr<HttpConnection>> connections_;
  std::optional<TlsContext> tls_;
  SteadyTime tls_reload_;  // when its files are read again
  bool is_accept_due_ = false;
  bool is_stopping_ = false;
  SteadyTime stop_deadline_;  // for requests that are unfinished at Shutdown
  int port_ = 0;
  std::thread thread_;
};

WebServer::WebServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
WebServer::~WebServer() = default;

absl::StatusOr<std::unique_ptr<WebServer>> WebServer::Start(const WebServerOptions& options,
                                                            std::shared_ptr<grpc::Channel> channel,
                                                            const Clock* clock) {
  auto impl = std::make_unique<Impl>(options, std::move(channel), clock);
  NERF_RETURN_IF_ERROR(impl->Listen());
  return std::unique_ptr<WebServer>(new WebServer(std::move(impl)));
}

void WebServer::Shutdown(absl::Duration grace) { impl_->Shutdown(grace); }

int WebServer::port() const { return impl_->port(); }

}  // namespace nerf
