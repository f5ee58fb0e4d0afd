#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "server/web/http_exchange.h"
#include "server/web/web_limits.h"
#include "server/web/web_router.h"

namespace nerf {

class HttpConnection;

// What the connections of a server share.
struct HttpConnectionShared {
  const WebLimits* limits = nullptr;
  const Clock* clock = nullptr;
  const WebRouter* router = nullptr;
  size_t n_buffered_bytes = 0;
  uint64_t n_idle_times = 0;
  std::function<void(HttpConnection*)> on_closed = {};
};

// One connection, one request at a time: waits, reads a header, has the router find a handler,
// serves as that handler's exchange, waits again. While an answer is made it listens whether the
// peer goes. Not thread-safe. Every operation under way holds a shared_ptr.
class HttpConnection final : public HttpExchange,
                             public std::enable_shared_from_this<HttpConnection> {
 public:
  // `shared` outlives it.
  HttpConnection(boost::asio::ip::tcp::socket socket, HttpConnectionShared* shared);
  ~HttpConnection() override;

  void Start();
  void Close();
  // Ends what took longer than its phase may.
  void CheckDeadline(SteadyTime now);
  // Between two requests: nothing is lost when it is closed.
  bool is_idle() const { return phase_ == Phase::kIdle; }
  // Counts the idle times of all connections: the smallest has been idle for longest.
  uint64_t idle_number() const { return idle_number_; }

  const HttpRequestHead& head() const override { return head_; }
  std::optional<uint64_t> content_length() const override;
  void ReadBody(BodyCallback callback) override;
  bool Reserve(size_t n_bytes) override;
  void Respond(HttpResponse response) override;
  void BeginStream(HttpResponse response, std::optional<uint64_t> body_length) override;
  void Write(std::string bytes, std::function<void()> on_written) override;
  void EndStream() override;
  void Abort() override;

 private:
  //   kIdle -> kHeader -> kHandling <-> kBody, kWriting -> kIdle, or kLingering -> kClosed
  enum class Phase { kIdle, kHeader, kHandling, kBody, kWriting, kLingering, kClosed };
  using Parser = boost::beast::http::request_parser<boost::beast::http::buffer_body>;
  using ErrorCode = boost::system::error_code;

  void Enter(Phase phase, absl::Duration timeout);
  void AwaitRequest(absl::Duration timeout);
  void ReadHeader();
  void OnHeader(const ErrorCode& error);
  // Copies the parsed header into head_. An error answer for what is refused before routing.
  std::optional<HttpResponse> TakeHead();
  void ReadBodyPart(BodyCallback callback);
  void OnBody(const ErrorCode& error, const BodyCallback& callback);
  // Listens for the peer's end while it has nothing to send.
  void Watch();
  void OnWatched();
  void Refuse(HttpResponse response);
  std::string HeadText(const HttpResponse& response, std::optional<uint64_t> body_length) const;
  void WriteAll(std::string bytes, std::function<void()> on_written);
  void WritePiece();
  void FinishExchange();
  void Linger();
  void ReleaseReserved();

  boost::asio::ip::tcp::socket socket_;
  HttpConnectionShared& shared_;
  boost::beast::flat_buffer buffer_;
  Phase phase_ = Phase::kIdle;
  SteadyTime deadline_;
  uint64_t idle_number_ = 0;

  // Of the request.
  std::optional<Parser> parser_;
  HttpRequestHead head_;
  HttpHeaders common_headers_;
  std::unique_ptr<HttpHandler> handler_;
  std::vector<char> body_buffer_;
  size_t n_reserved_ = 0;
  bool owes_continue_ = false;  // the peer waits for 100 Continue
  bool has_responded_ = false;
  bool is_chunked_ = false;
  bool keep_alive_ = false;
  bool is_watching_ = false;
  // Counts reads of header and body: the callback of one that was given up does nothing.
  uint64_t read_number_ = 0;
  uint64_t watch_number_ = 0;  // the same for Watch

  // Of the write under way.
  std::string outgoing_;
  size_t n_written_ = 0;
  std::function<void()> on_written_;
};

}  // namespace nerf
