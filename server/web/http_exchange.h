#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace nerf {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

// The first line and the headers of a request.
struct HttpRequestHead {
  std::string method;     // upper case
  std::string path;       // from '/', without the query
  std::string query;      // after '?'; empty without one
  HttpHeaders headers;    // names in lower case
  std::string peer = {};  // the client's IP address

  // The value of the first header of that name (lower case); empty without one.
  std::string_view Header(std::string_view name) const;
  int CountOf(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  HttpHeaders headers = {};  // without Content-Length and Connection, which the connection adds
  std::string body = {};
};

inline constexpr int kUnsupportedMediaType = 415;

// A JSON error for a request that is not an RPC: {"code":..., "message":...} with Connect's name of
// the code.
HttpResponse ErrorResponse(int http_status, const absl::Status& status);
HttpResponse ErrorResponse(const absl::Status& status);  // with the HTTP status of its code

// One request and its response. Not thread-safe: calls and callbacks run on the gateway's thread.
// The handler calls Respond, or BeginStream, then Write any number of times, then EndStream.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  virtual const HttpRequestHead& head() const = 0;
  // Whether the request may be served by its token. Who serves only those with a token calls it
  // first, before a read of the body. From the first OK on the connection is no stranger
  // (WebLimits). Errors: those of HttpServerOptions::check_token; Unavailable while every
  // connection that has shown a token is busy and there is no place for one more.
  virtual absl::Status Admit() = 0;
  // Content-Length; 0 without a body, nullopt for a chunked body.
  virtual std::optional<uint64_t> content_length() const = 0;

  // Reads the next part of the body, at most 64 KiB. `bytes` are valid during the callback; `last`
  // is true once, at the body's end. One read at a time.
  using BodyCallback = std::function<void(std::string_view bytes, bool last)>;
  virtual void ReadBody(BodyCallback callback) = 0;
  // Reserves memory for bodies from a budget that all connections share, until the exchange ends.
  // False if the budget is used up.
  virtual bool Reserve(size_t n_bytes) = 0;

  virtual void Respond(HttpResponse response) = 0;
  // `response.body` is empty. Without a length the body is chunked.
  virtual void BeginStream(HttpResponse response, std::optional<uint64_t> body_length) = 0;
  // One write at a time; `on_written` runs once the kernel has the bytes.
  virtual void Write(std::string bytes, std::function<void()> on_written) = 0;
  virtual void EndStream() = 0;
  // Closes the connection because the begun response cannot be completed.
  virtual void Abort() = 0;
};

// Answers one request. Destroyed when its response is complete or the peer has disconnected.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  virtual void Start() = 0;
};

// A handler for a response that is known at once.
std::unique_ptr<HttpHandler> FixedHandler(HttpResponse response, HttpExchange* exchange);

// Chooses the handler of a request. Outlives all exchanges.
class HttpRouter {
 public:
  virtual ~HttpRouter() = default;
  // Sets *headers to those of every response to this request.
  virtual std::unique_ptr<HttpHandler> Route(HttpExchange* exchange,
                                             HttpHeaders* headers) const = 0;
};

}  // namespace nerf
