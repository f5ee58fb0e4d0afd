#pragma once

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/clock.h"
#include "server/web/http_exchange.h"
#include "server/web/web_limits.h"
#include "server/web/web_stream.h"

namespace nerf {

class HttpConnection;

// State that all connections of a server share.
struct HttpConnectionShared {
  const WebLimits* limits = nullptr;
  const Clock* clock = nullptr;
  const HttpRouter* router = nullptr;
  // Checks the value of an Authorization header. Unset: every request may be served.
  std::function<absl::Status(std::string_view authorization)> check_token = {};
  size_t n_buffered_bytes = 0;
  uint64_t n_idle_times = 0;
  // Makes a place for a stranger that has shown a token. False if there is none.
  std::function<bool()> make_place = {};
  std::function<void(HttpConnection*)> on_closed = {};
};

// One HTTP connection. It serves one request at a time: reads the header, has the router make a
// handler, and is that handler's HttpExchange until the response is written. Meanwhile it notices
// if the peer disconnects. One read at a time serves all phases: what a read brings belongs to the
// phase in which it arrives. Not thread-safe. Pending operations keep it alive with a shared_ptr.
class HttpConnection final : public HttpExchange,
                             public std::enable_shared_from_this<HttpConnection> {
 public:
  // `shared` outlives it.
  HttpConnection(WebStream stream, HttpConnectionShared* shared);
  ~HttpConnection() override;

  void Start();
  void Close();
  // Ends the request or the connection if the current phase has taken longer than its limit.
  void CheckDeadline(SteadyTime now);
  // True before and between requests, when closing the connection loses nothing.
  bool is_idle() const { return phase_ == Phase::kIdle || phase_ == Phase::kHandshake; }
  // The order in which connections became idle: the smallest number has been idle longest.
  uint64_t idle_number() const { return idle_number_; }
  bool is_stranger() const { return is_stranger_; }

  const HttpRequestHead& head() const override { return head_; }
  absl::Status Admit() override;
  std::optional<uint64_t> content_length() const override;
  void ReadBody(BodyCallback callback) override;
  bool Reserve(size_t n_bytes) override;
  void Respond(HttpResponse response) override;
  void BeginStream(HttpResponse response, std::optional<uint64_t> body_length) override;
  void Write(std::string bytes, std::function<void()> on_written) override;
  void EndStream() override;
  void Abort() override;

 private:
  //   kHandshake (TLS) -> kIdle -> kHeader -> kHandling <-> kBody, kWriting -> kIdle, or
  //   kLingering -> kClosed
  enum class Phase { kHandshake, kIdle, kHeader, kHandling, kBody, kWriting, kLingering, kClosed };
  using Parser = boost::beast::http::request_parser<boost::beast::http::buffer_body>;
  using ErrorCode = boost::system::error_code;

  void Enter(Phase phase, absl::Duration timeout);
  // The limit that holds for this connection.
  absl::Duration Limit(absl::Duration timeout) const;
  void OnHandshake(const ErrorCode& error);
  void AwaitRequest(absl::Duration timeout);
  // Reads some bytes behind those of buffer_, unless a read is pending.
  void ReadMore();
  void OnRead(const ErrorCode& error, size_t n_bytes);
  void BeginRequest();
  void ParseHeader();
  void OnHeader(const ErrorCode& error);
  // Copies the parsed header into head_. Returns an error response if the request is refused before
  // routing.
  std::optional<HttpResponse> TakeHead();
  void AwaitBody();
  void ParseBody();
  void Refuse(HttpResponse response);
  std::string HeadText(const HttpResponse& response, std::optional<uint64_t> body_length) const;
  void WriteAll(std::string bytes, std::function<void()> on_written);
  void WritePiece();
  void FinishExchange();
  void Linger();
  void EndWrites();
  void Discard();
  void ReleaseReserved();

  WebStream stream_;
  HttpConnectionShared& shared_;
  boost::beast::flat_buffer buffer_;  // read and not yet parsed
  std::vector<char> read_buffer_;     // of the pending read, but those of bodies
  bool is_reading_ = false;
  Phase phase_ = Phase::kIdle;
  SteadyTime deadline_;
  uint64_t idle_number_ = 0;
  bool is_stranger_ = true;  // no request has shown a valid token yet

  // State of the current request.
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
  // The pending ReadBody, and its number: callbacks of earlier ones, which were given up, do
  // nothing.
  BodyCallback body_callback_;
  uint64_t body_number_ = 0;

  // The pending write.
  std::string outgoing_;
  size_t n_written_ = 0;
  std::function<void()> on_written_;
};

}  // namespace nerf
