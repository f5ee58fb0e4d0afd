#include "server/replica/relay.h"

#include <fmt/format.h>

#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <set>
#include <thread>
#include <utility>

#include "common/logging.h"

namespace nerf {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using ErrorCode = boost::system::error_code;

constexpr size_t kBufferBytes = 16 << 10;
// After accept failed for lack of descriptors.
constexpr std::chrono::milliseconds kAcceptPause{50};

// One direction of a connection.
struct Flow {
  tcp::socket* from;
  tcp::socket* to;
  std::array<char, kBufferBytes> bytes;
  bool ended = false;
};

// A client's connection and the one to the leader.
struct RelayedConnection {
  RelayedConnection(tcp::socket accepted, asio::io_context& io)
      : client(std::move(accepted)), leader(io), resolver(io) {}

  tcp::socket client, leader;
  tcp::resolver resolver;
  Flow up{&client, &leader, {}}, down{&leader, &client, {}};
};
using Connection = std::shared_ptr<RelayedConnection>;

}  // namespace

// All but Start, SetTarget and the destructor runs on thread_.
class Relay::Impl {
 public:
  explicit Impl(const Options& options)
      : options_(options), work_(asio::make_work_guard(io_)), acceptor_(io_), pause_(io_) {}

  ~Impl() {
    asio::post(io_, [this] { io_.stop(); });
    if (thread_.joinable()) thread_.join();
  }

  absl::Status Start() {
    const bool is_wildcard = options_.host == "0.0.0.0" || options_.host == "::";
    ErrorCode error;
    Listen(is_wildcard ? "::" : options_.host, /*both=*/is_wildcard, error);
    if (error && is_wildcard) Listen("0.0.0.0", /*both=*/false, error);  // without IPv6
    if (error) {
      return absl::FailedPreconditionError(
          fmt::format("cannot listen on {}:{}: {}", options_.host, options_.port, error.message()));
    }
    port_ = acceptor_.local_endpoint(error).port();
    thread_ = std::thread([this] { io_.run(); });
    return absl::OkStatus();
  }

  void SetTarget(const std::string& target) {
    asio::post(io_, [this, target] {
      if (target == target_) return;
      target_ = target;
      if (target.empty()) return;
      if (target != connected_to_) {
        connected_to_ = target;
        for (const Connection& connection : std::set<Connection>(connections_)) Close(connection);
      }
      Accept();
    });
  }

  int port() const { return port_; }

 private:
  void Listen(const std::string& host, bool both, ErrorCode& error) {
    tcp::resolver resolver(io_);
    const auto found =
        resolver.resolve(host, std::to_string(options_.port), tcp::resolver::passive, error);
    if (error) return;
    const tcp::endpoint endpoint = found.begin()->endpoint();
    acceptor_.close(error);
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error && both) acceptor_.set_option(asio::ip::v6_only(false), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  }

  // Takes the next connection if there is somebody to pass it on to.
  void Accept() {
    const bool is_full = connections_.size() >= static_cast<size_t>(options_.max_connections);
    if (is_accepting_ || target_.empty() || is_full) return;
    is_accepting_ = true;
    acceptor_.async_accept([this](const ErrorCode& error, tcp::socket socket) {
      is_accepting_ = false;
      if (error == asio::error::operation_aborted) return;
      if (error) {
        LogWarning("a connection could not be accepted", {{"error", error.message()}});
        pause_.expires_after(kAcceptPause);
        pause_.async_wait([this](const ErrorCode&) { Accept(); });
        return;
      }
      Take(std::make_shared<RelayedConnection>(std::move(socket), io_));
      Accept();
    });
  }

  void Take(const Connection& connection) {
    connections_.insert(connection);
    // Accepted just before the leader was lost: its client comes back.
    if (target_.empty()) return Close(connection);
    const size_t colon = target_.rfind(':');
    std::string host = target_.substr(0, colon);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    connection->resolver.async_resolve(
        host, target_.substr(colon + 1),
        [this, connection](const ErrorCode& error, const tcp::resolver::results_type& found) {
          if (error || !connections_.contains(connection)) return Close(connection);
          asio::async_connect(connection->leader, found,
                              [this, connection](const ErrorCode& failed, const tcp::endpoint&) {
                                if (failed || !connections_.contains(connection))
                                  return Close(connection);
                                Begin(connection);
                              });
        });
  }

  void Begin(const Connection& connection) {
    for (tcp::socket* socket : {&connection->client, &connection->leader}) {
      ErrorCode ignored;
      socket->set_option(tcp::no_delay(true), ignored);
      socket->set_option(asio::socket_base::keep_alive(true), ignored);
    }
    Pass(connection, &connection->up);
    Pass(connection, &connection->down);
  }

  void Pass(const Connection& connection, Flow* flow) {
    flow->from->async_read_some(asio::buffer(flow->bytes),
                                [this, connection, flow](const ErrorCode& error, size_t n_bytes) {
                                  if (error == asio::error::eof) return End(connection, flow);
                                  if (error) return Close(connection);
                                  asio::async_write(
                                      *flow->to, asio::buffer(flow->bytes, n_bytes),
                                      [this, connection, flow](const ErrorCode& failed, size_t) {
                                        if (failed) return Close(connection);
                                        Pass(connection, flow);
                                      });
                                });
  }

  // One side sends no more; the other one may still answer.
  void End(const Connection& connection, Flow* flow) {
    flow->ended = true;
    ErrorCode error;
    flow->to->shutdown(tcp::socket::shutdown_send, error);
    if (error || (connection->up.ended && connection->down.ended)) Close(connection);
  }

  void Close(const Connection& connection) {
    ErrorCode ignored;
    connection->resolver.cancel();
    connection->client.close(ignored);
    connection->leader.close(ignored);
    connections_.erase(connection);
    Accept();
  }

  const Options options_;
  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  std::set<Connection> connections_;
  std::string target_;        // empty: none
  std::string connected_to_;  // the last one
  bool is_accepting_ = false;
  int port_ = 0;
  std::thread thread_;
};

Relay::Relay(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Relay::~Relay() = default;

absl::StatusOr<std::unique_ptr<Relay>> Relay::Start(const Options& options) {
  auto impl = std::make_unique<Impl>(options);
  if (absl::Status status = impl->Start(); !status.ok()) return status;
  return std::unique_ptr<Relay>(new Relay(std::move(impl)));
}

void Relay::SetTarget(const std::string& target) { impl_->SetTarget(target); }

int Relay::port() const { return impl_->port(); }

}  // namespace nerf
