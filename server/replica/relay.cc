#include "server/replica/relay.h"

#include <fmt/format.h>

#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "common/logging.h"
#include "common/process/listen_sockets.h"
#include "common/status_macros.h"

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
  explicit Impl(const Options& options) : options_(options), work_(asio::make_work_guard(io_)) {}

  ~Impl() {
    asio::post(io_, [this] { io_.stop(); });
    if (thread_.joinable()) thread_.join();
  }

  absl::Status Start() {
    const bool is_ipv6 = options_.host.find(':') != std::string::npos;
    const std::string host = is_ipv6 ? fmt::format("[{}]", options_.host) : options_.host;
    NERF_ASSIGN_OR_RETURN(ListenSockets listening,
                          ListenAtHost(fmt::format("{}:{}", host, options_.port)));
    port_ = listening.port;
    for (UniqueFd& socket : listening.sockets) {
      ErrorCode error;
      // The family only matters to addresses that are asked for, and none is.
      listeners_.push_back(std::make_unique<Listener>(io_));
      listeners_.back()->acceptor.assign(tcp::v6(), socket.Release(), error);
      if (error) return absl::InternalError(error.message());
    }
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
  struct Listener {
    explicit Listener(asio::io_context& io) : acceptor(io), pause(io) {}

    tcp::acceptor acceptor;
    asio::steady_timer pause;
    bool is_accepting = false;
  };

  void Accept() {
    for (const auto& listener : listeners_) Accept(*listener);
  }

  // Takes the next connection if there is somebody to pass it on to.
  void Accept(Listener& listener) {
    const bool is_full = connections_.size() >= static_cast<size_t>(options_.max_connections);
    if (listener.is_accepting || target_.empty() || is_full) return;
    listener.is_accepting = true;
    listener.acceptor.async_accept([this, &listener](const ErrorCode& error, tcp::socket socket) {
      listener.is_accepting = false;
      if (error == asio::error::operation_aborted) return;
      if (error) {
        LogWarning("a connection could not be accepted", {{"error", error.message()}});
        listener.pause.expires_after(kAcceptPause);
        listener.pause.async_wait([this, &listener](const ErrorCode&) { Accept(listener); });
        return;
      }
      Take(std::make_shared<RelayedConnection>(std::move(socket), io_));
      Accept(listener);
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
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::set<Connection> connections_;
  std::string target_;        // empty: none
  std::string connected_to_;  // the last one
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
