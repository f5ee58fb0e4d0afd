#include "server/web/http_connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/status.hpp>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "common/status_macros.h"

namespace nerf {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;

constexpr size_t kPartBytes = size_t{64} << 10;
constexpr size_t kHeaderPartBytes = size_t{4} << 10;  // idle connections hold little memory
constexpr int kHttp11 = 11;
constexpr char kContinue[] = "HTTP/1.1 100 Continue\r\n\r\n";
constexpr char kNotTls[] =
    "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 39\r\n"
    "Connection: close\r\n\r\nThis port speaks HTTPS: use https://.\r\n";

// All paths of this server consist of these characters, without percent-encoding.
bool IsPlainTarget(std::string_view target) {
  return target.starts_with('/') &&
         target.find_first_not_of(
             "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
             "/.-_~?=&") == std::string_view::npos;
}

bool IsDigits(std::string_view text) {
  return !text.empty() && text.size() <= 18 &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool HasControlCharacters(std::string_view value) {
  return std::any_of(value.begin(), value.end(), [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f;
  });
}

// The end of the body must be unambiguous, or a proxy in front could see other requests than this
// server.
bool IsBodyLengthClear(const HttpRequestHead& head) {
  const int n_lengths = head.CountOf("content-length");
  const int n_codings = head.CountOf("transfer-encoding");
  if (n_lengths + n_codings > 1) return false;
  if (n_lengths == 1 && !IsDigits(head.Header("content-length"))) return false;
  const std::string_view coding = head.Header("transfer-encoding");
  return n_codings == 0 ||
         absl::EqualsIgnoreCase(absl::string_view(coding.data(), coding.size()), "chunked");
}

HttpResponse Bad(const char* message) {
  return ErrorResponse(400, absl::InvalidArgumentError(message));
}

bool NeverHasBody(int status) { return status == 204 || status == 304; }

}  // namespace

HttpConnection::HttpConnection(WebStream stream, HttpConnectionShared* shared)
    : stream_(std::move(stream)),
      shared_(*shared),
      buffer_(shared->limits->max_header_bytes + kPartBytes) {}

HttpConnection::~HttpConnection() { ReleaseReserved(); }

void HttpConnection::Start() {
  ErrorCode ignored;
  stream_.socket().set_option(asio::ip::tcp::no_delay(true), ignored);
  if (!stream_.is_tls()) return AwaitRequest(shared_.limits->header_timeout);
  Enter(Phase::kHandshake, shared_.limits->handshake_timeout);
  idle_number_ = ++shared_.n_idle_times;
  stream_.Handshake([self = shared_from_this()](const ErrorCode& error, size_t) {
    if (self->phase_ == Phase::kHandshake) self->OnHandshake(error);
  });
}

void HttpConnection::OnHandshake(const ErrorCode& error) {
  if (!error) return AwaitRequest(shared_.limits->header_timeout);
  if (!WebStream::IsPlainHttp(error)) return Close();
  ErrorCode ignored;
  stream_.socket().non_blocking(true, ignored);
  stream_.socket().write_some(asio::buffer(kNotTls, sizeof(kNotTls) - 1), ignored);
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  Enter(Phase::kLingering, shared_.limits->linger_timeout);
  Discard();
}

void HttpConnection::Close() {
  if (phase_ == Phase::kClosed) return;
  Enter(Phase::kClosed, absl::InfiniteDuration());
  handler_.reset();
  body_callback_ = nullptr;
  ReleaseReserved();
  ErrorCode ignored;
  stream_.socket().close(ignored);
  shared_.on_closed(this);
}

void HttpConnection::CheckDeadline(SteadyTime now) {
  if (now < deadline_) return;
  if (phase_ != Phase::kHeader && phase_ != Phase::kBody) return Close();
  Refuse(ErrorResponse(408, absl::DeadlineExceededError("the request took too long to arrive")));
}

void HttpConnection::Enter(Phase phase, absl::Duration timeout) {
  phase_ = phase;
  deadline_ = shared_.clock->Now() + timeout;
}

absl::Duration HttpConnection::Limit(absl::Duration timeout) const {
  return is_stranger_ ? std::min(timeout, shared_.limits->stranger_timeout) : timeout;
}

void HttpConnection::AwaitRequest(absl::Duration timeout) {
  Enter(Phase::kIdle, timeout);
  idle_number_ = ++shared_.n_idle_times;
  if (buffer_.size() > 0) return BeginRequest();
  ReadMore();
}

void HttpConnection::ReadMore() {
  if (is_reading_) return;
  const size_t n_free = buffer_.max_size() - buffer_.size();
  if (n_free == 0) {
    return phase_ == Phase::kBody ? Refuse(Bad("the body's chunks are malformed")) : Close();
  }
  is_reading_ = true;
  // Behind what is there; but what may be parsed meanwhile, outside of bodies, moves it.
  asio::mutable_buffer space;
  if (phase_ == Phase::kBody) {
    space = buffer_.prepare(std::min(n_free, kPartBytes));
  } else {
    read_buffer_.resize(std::min(n_free, kHeaderPartBytes));
    space = asio::buffer(read_buffer_);
  }
  stream_.Read(space, [self = shared_from_this()](const ErrorCode& error, size_t n_bytes) {
    self->is_reading_ = false;
    self->OnRead(error, n_bytes);
  });
}

void HttpConnection::OnRead(const ErrorCode& error, size_t n_bytes) {
  if (phase_ == Phase::kClosed) return;
  if (phase_ == Phase::kLingering) return EndWrites();
  const bool is_answering = phase_ == Phase::kHandling || phase_ == Phase::kWriting;
  // A response before the body's end closes the connection, and the rest is not needed.
  if (is_answering && !parser_->is_done()) return;
  if (error) return Close();
  if (phase_ == Phase::kBody) {  // as when the read began: nothing else ends that phase alive
    buffer_.commit(n_bytes);
    return ParseBody();
  }
  buffer_.commit(asio::buffer_copy(buffer_.prepare(n_bytes), asio::buffer(read_buffer_)));
  if (phase_ == Phase::kIdle) return BeginRequest();
  if (phase_ == Phase::kHeader) return ParseHeader();
  // Bytes of the next request. Keep up to the size of a header for later; more is abuse.
  if (buffer_.size() > shared_.limits->max_header_bytes) return Close();
  ReadMore();
}

void HttpConnection::BeginRequest() {
  Enter(Phase::kHeader, shared_.limits->header_timeout);
  head_ = {};
  common_headers_ = {};
  owes_continue_ = has_responded_ = is_chunked_ = keep_alive_ = false;
  parser_.emplace();
  parser_->header_limit(static_cast<uint32_t>(shared_.limits->max_header_bytes));
  parser_->body_limit(boost::none);  // the handlers know what they take
  ParseHeader();
}

void HttpConnection::ParseHeader() {
  ErrorCode error;
  buffer_.consume(parser_->put(buffer_.data(), error));
  if (error == http::error::need_more) return ReadMore();
  OnHeader(error);
}

void HttpConnection::OnHeader(const ErrorCode& error) {
  if (error == http::error::header_limit) {
    return Refuse(ErrorResponse(431, absl::ResourceExhaustedError("the headers are too long")));
  }
  if (error == http::error::bad_version) {
    return Refuse(ErrorResponse(505, absl::UnimplementedError("this server speaks HTTP/1.1")));
  }
  if (error) return Refuse(Bad("the request is not HTTP/1.1"));
  if (std::optional<HttpResponse> refusal = TakeHead(); refusal.has_value()) {
    return Refuse(*std::move(refusal));
  }
  Enter(Phase::kHandling, absl::InfiniteDuration());
  keep_alive_ = parser_->get().keep_alive();
  handler_ = shared_.router->Route(this, &common_headers_);
  if (parser_->is_done()) ReadMore();  // notices if the peer disconnects
  handler_->Start();
}

std::optional<HttpResponse> HttpConnection::TakeHead() {
  const auto& message = parser_->get();
  ErrorCode ignored;  // of a peer that is gone
  head_.peer = stream_.socket().remote_endpoint(ignored).address().to_string();
  head_.method = std::string(message.method_string());
  const std::string target(message.target());
  for (const auto& field : message) {
    std::string name(field.name_string());
    absl::AsciiStrToLower(&name);
    head_.headers.emplace_back(std::move(name), std::string(field.value()));
    if (HasControlCharacters(head_.headers.back().second)) {
      return Bad("a header has control characters");
    }
  }
  if (message.version() != kHttp11) {
    return ErrorResponse(505, absl::UnimplementedError("this server speaks HTTP/1.1"));
  }
  if (!IsPlainTarget(target)) return Bad("the path has characters that no path of this server has");
  if (!IsBodyLengthClear(head_)) return Bad("the end of the body is ambiguous");
  const size_t question = target.find('?');
  head_.path = target.substr(0, question);
  if (question != std::string::npos) head_.query = target.substr(question + 1);
  const std::string_view expect = head_.Header("expect");
  if (!expect.empty()) {
    if (!absl::EqualsIgnoreCase(absl::string_view(expect.data(), expect.size()), "100-continue")) {
      return ErrorResponse(417,
                           absl::UnimplementedError("the only supported Expect is 100-continue"));
    }
    owes_continue_ = !parser_->is_done();
  }
  return std::nullopt;
}

absl::Status HttpConnection::Admit() {
  if (shared_.check_token) {
    NERF_RETURN_IF_ERROR(shared_.check_token(head_.Header("authorization")));
  }
  if (is_stranger_ && !shared_.make_place()) {
    return absl::UnavailableError("all connections of this server are in use");
  }
  // Later requests without a token do not change it: a proxy may send those of many clients.
  is_stranger_ = false;
  return absl::OkStatus();
}

std::optional<uint64_t> HttpConnection::content_length() const {
  if (parser_->chunked()) return std::nullopt;
  const auto length = parser_->content_length();
  return length ? *length : 0;
}

bool HttpConnection::Reserve(size_t n_bytes) {
  if (n_bytes > shared_.limits->max_buffered_bytes - shared_.n_buffered_bytes) return false;
  shared_.n_buffered_bytes += n_bytes;
  n_reserved_ += n_bytes;
  return true;
}

void HttpConnection::ReleaseReserved() {
  shared_.n_buffered_bytes -= std::exchange(n_reserved_, 0);
}

void HttpConnection::ReadBody(BodyCallback callback) {
  body_callback_ = std::move(callback);
  if (parser_->is_done()) {
    asio::post(stream_.socket().get_executor(),
               [self = shared_from_this(), number = ++body_number_] {
                 if (self->phase_ != Phase::kHandling || self->body_number_ != number) return;
                 std::exchange(self->body_callback_, nullptr)({}, true);
               });
    return;
  }
  if (!std::exchange(owes_continue_, false)) return AwaitBody();
  WriteAll(std::string(kContinue), [this] { AwaitBody(); });
}

void HttpConnection::AwaitBody() {
  Enter(Phase::kBody, shared_.limits->transfer_timeout);
  body_buffer_.resize(kPartBytes);
  auto& body = parser_->get().body();
  body.data = body_buffer_.data();
  body.size = body_buffer_.size();
  body.more = true;
  parser_->eager(true);
  if (buffer_.size() == 0) return ReadMore();
  asio::post(stream_.socket().get_executor(), [self = shared_from_this(), number = ++body_number_] {
    if (self->phase_ == Phase::kBody && self->body_number_ == number) self->ParseBody();
  });
}

// Passes a part on once it is full or the body's last.
void HttpConnection::ParseBody() {
  ErrorCode error;
  buffer_.consume(parser_->put(buffer_.data(), error));
  const bool is_full = error == http::error::need_buffer || parser_->get().body().size == 0;
  if (error && error != http::error::need_buffer && error != http::error::need_more) {
    return Refuse(Bad("the body's chunks are malformed"));
  }
  const bool is_last = parser_->is_done();
  if (!is_last && !is_full) return ReadMore();
  Enter(Phase::kHandling, absl::InfiniteDuration());
  if (is_last) ReadMore();  // notices if the peer disconnects
  const size_t n_bytes = body_buffer_.size() - parser_->get().body().size;
  std::exchange(body_callback_, nullptr)({body_buffer_.data(), n_bytes}, is_last);
}

void HttpConnection::Refuse(HttpResponse response) {
  handler_.reset();
  keep_alive_ = false;
  if (has_responded_) return Close();
  if (common_headers_.empty()) common_headers_ = {{"X-Content-Type-Options", "nosniff"}};
  Respond(std::move(response));
}

std::string HttpConnection::HeadText(const HttpResponse& response,
                                     std::optional<uint64_t> body_length) const {
  std::string text = fmt::format(
      "HTTP/1.1 {} {}\r\nDate: {}\r\n", response.status,
      std::string_view(http::obsolete_reason(static_cast<http::status>(response.status))),
      absl::FormatTime("%a, %d %b %Y %H:%M:%S GMT", shared_.clock->WallNow(), absl::UTCTimeZone()));
  for (const HttpHeaders* headers : {&common_headers_, &response.headers}) {
    for (const auto& [name, value] : *headers) text += fmt::format("{}: {}\r\n", name, value);
  }
  if (body_length.has_value()) {
    if (!NeverHasBody(response.status)) {
      text += fmt::format("Content-Length: {}\r\n", *body_length);
    }
  } else {
    text += "Transfer-Encoding: chunked\r\n";
  }
  text += keep_alive_ ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return text;
}

void HttpConnection::Respond(HttpResponse response) {
  BeginStream({response.status, std::move(response.headers), {}}, response.body.size());
  if (phase_ == Phase::kClosed) return;
  if (head_.method != "HEAD" && !NeverHasBody(response.status)) outgoing_ += response.body;
  WriteAll(std::exchange(outgoing_, {}), [this] { FinishExchange(); });
}

void HttpConnection::BeginStream(HttpResponse response, std::optional<uint64_t> body_length) {
  if (phase_ == Phase::kClosed) return;
  has_responded_ = true;
  ++body_number_;  // gives up a read of the body
  body_callback_ = nullptr;
  // The unread rest of a body would be parsed as the next request.
  if (!parser_.has_value() || !parser_->is_done()) keep_alive_ = false;
  is_chunked_ = !body_length.has_value();
  outgoing_ = HeadText(response, body_length);  // sent with the first bytes of the body
}

void HttpConnection::Write(std::string bytes, std::function<void()> on_written) {
  if (phase_ == Phase::kClosed) return;
  std::string text = std::exchange(outgoing_, {});
  const bool has_body = head_.method != "HEAD" && !bytes.empty();
  if (text.empty() && has_body && !is_chunked_) {  // the most of a download: not copied
    return WriteAll(std::move(bytes), std::move(on_written));
  }
  if (has_body && is_chunked_) text += fmt::format("{:x}\r\n", bytes.size());
  if (has_body) text += bytes;
  if (has_body && is_chunked_) text += "\r\n";
  WriteAll(std::move(text), std::move(on_written));
}

void HttpConnection::EndStream() {
  if (phase_ == Phase::kClosed) return;
  std::string text = std::exchange(outgoing_, {});
  if (is_chunked_ && head_.method != "HEAD") text += "0\r\n\r\n";
  WriteAll(std::move(text), [this] { FinishExchange(); });
}

void HttpConnection::Abort() {
  asio::post(stream_.socket().get_executor(), [self = shared_from_this()] { self->Close(); });
}

void HttpConnection::WriteAll(std::string bytes, std::function<void()> on_written) {
  outgoing_ = std::move(bytes);
  n_written_ = 0;
  on_written_ = std::move(on_written);
  WritePiece();
}

// Writes in pieces, because the time limit holds for each piece: a slow connection is not cut.
void HttpConnection::WritePiece() {
  Enter(Phase::kWriting, Limit(shared_.limits->transfer_timeout));
  const size_t n_bytes = std::min(kPartBytes, outgoing_.size() - n_written_);
  stream_.Write(asio::buffer(outgoing_.data() + n_written_, n_bytes),
                [self = shared_from_this()](const ErrorCode& error, size_t n_sent) {
                  if (self->phase_ == Phase::kClosed) return;
                  if (error) return self->Close();
                  self->n_written_ += n_sent;
                  if (self->n_written_ < self->outgoing_.size()) return self->WritePiece();
                  self->outgoing_.clear();
                  self->Enter(Phase::kHandling, absl::InfiniteDuration());
                  const auto on_written = std::exchange(self->on_written_, {});
                  on_written();
                });
}

void HttpConnection::FinishExchange() {
  handler_.reset();
  ReleaseReserved();
  if (!keep_alive_) return Linger();
  AwaitRequest(Limit(shared_.limits->idle_timeout));
}

// Closing while the peer still sends would reset the connection, and the peer could lose the
// response.
void HttpConnection::Linger() {
  Enter(Phase::kLingering, shared_.limits->linger_timeout);
  if (!is_reading_) return EndWrites();
  ErrorCode ignored;
  stream_.socket().cancel(ignored);  // OnRead goes on
}

void HttpConnection::EndWrites() {
  stream_.EndWrites([self = shared_from_this()](const ErrorCode&, size_t) {
    if (self->phase_ == Phase::kLingering) self->Discard();
  });
}

void HttpConnection::Discard() {
  read_buffer_.resize(kPartBytes);
  stream_.Discard(asio::buffer(read_buffer_),
                  [self = shared_from_this()](const ErrorCode& error, size_t) {
                    if (self->phase_ != Phase::kLingering) return;
                    if (error) return self->Close();
                    self->Discard();
                  });
}

}  // namespace nerf
