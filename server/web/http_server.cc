#include "server/web/http_server.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "common/logging.h"
#include "common/status_macros.h"
#include "server/web/connection_places.h"
#include "server/web/http_connection.h"
#include "server/web/tls_context.h"

namespace nerf {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using ErrorCode = boost::system::error_code;

constexpr absl::Duration kTlsReloadInterval = absl::Seconds(1);

}  // namespace

// All but the constructor, Start and Shutdown runs on thread_.
class HttpServer::Impl {
 public:
  Impl(const HttpServerOptions& options, const HttpRouter* router, const Clock* clock)
      : options_(options),
        clock_(*clock),
        places_(&options_.limits),
        shared_{.limits = &options_.limits,
                .clock = clock,
                .router = router,
                .check_token = options_.check_token,
                .make_place = [this] { return places_.MakePlace(); },
                .on_closed = [this](HttpConnection* closed) { places_.Remove(closed); }},
        work_(asio::make_work_guard(io_)),
        acceptor_(io_),
        sweep_timer_(io_) {}

  absl::Status Start() {
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
    if (error) return absl::FailedPreconditionError(error.message());
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

  void Post(std::function<void()> work) { asio::post(io_, std::move(work)); }
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
    ErrorCode ignored;  // of a peer that is gone: the first read ends its connection
    const auto address = socket.remote_endpoint(ignored).address();
    const auto connection = std::make_shared<HttpConnection>(
        WebStream(std::move(socket), tls_ ? &tls_->current() : nullptr), &shared_);
    places_.Add(connection, address);
    connection->Start();
  }

  void Sweep() {
    if (is_stopping_ && places_.empty() && !(options_.has_work && options_.has_work())) {
      work_.reset();
      return;
    }
    const SteadyTime now = clock_.Now();
    for (const auto& connection : places_.All()) {
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

  const HttpServerOptions options_;
  const Clock& clock_;
  asio::io_context io_{1};
  ConnectionPlaces places_;
  HttpConnectionShared shared_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  tcp::acceptor acceptor_;
  asio::steady_timer sweep_timer_;
  std::optional<TlsContext> tls_;
  SteadyTime tls_reload_;  // when its files are read again
  bool is_accept_due_ = false;
  bool is_stopping_ = false;
  SteadyTime stop_deadline_;  // for requests that are unfinished at Shutdown
  int port_ = 0;
  std::thread thread_;
};

HttpServer::HttpServer(const HttpServerOptions& options, const HttpRouter* router,
                       const Clock* clock)
    : impl_(std::make_unique<Impl>(options, router, clock)) {}

HttpServer::~HttpServer() = default;

absl::Status HttpServer::Start() { return impl_->Start(); }

void HttpServer::Shutdown(absl::Duration grace) { impl_->Shutdown(grace); }

void HttpServer::Post(std::function<void()> work) { impl_->Post(std::move(work)); }

int HttpServer::port() const { return impl_->port(); }

}  // namespace nerf
