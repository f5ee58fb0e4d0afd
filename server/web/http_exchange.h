#pragma once

#include <cstdint>
#include <functional>
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
  std::string method;   // upper case
  std::string path;     // from '/', without the query
  std::string query;    // after '?'; empty without one
  HttpHeaders headers;  // names in lower case

  // The value of the first header of that name (lower case); empty without one.
  std::string_view Header(std::string_view name) const;
  int CountOf(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  HttpHeaders headers = {};  // without Content-Length and Connection, which the connection adds
  std::string body = {};
};

// An answer in JSON to what is no call: {"code":..., "message":...} with Connect's name of the
// code.
HttpResponse ErrorResponse(int http_status, const absl::Status& status);
HttpResponse ErrorResponse(const absl::Status& status);  // with the HTTP status of its code

// One request and its answer. Not thread-safe: every call and callback on the gateway's thread.
// Answer with Respond, or with BeginStream, Write in turn, and EndStream.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  virtual const HttpRequestHead& head() const = 0;
  // What Content-Length states, 0 without a body; nullopt for a chunked one.
  virtual std::optional<uint64_t> content_length() const = 0;

  // Reads on, some 64 KiB at a time. `bytes` are valid during the callback; `last` comes once, at
  // the body's end. One read at a time.
  using BodyCallback = std::function<void(std::string_view bytes, bool last)>;
  virtual void ReadBody(BodyCallback callback) = 0;
  // Takes room for bodies in memory from a budget that all connections share; it returns with the
  // exchange's end. False when there is none left.
  virtual bool Reserve(size_t n_bytes) = 0;

  virtual void Respond(HttpResponse response) = 0;
  // `response.body` is empty. Without a length the body is chunked.
  virtual void BeginStream(HttpResponse response, std::optional<uint64_t> body_length) = 0;
  // One write at a time; `on_written` once the kernel has the bytes.
  virtual void Write(std::string bytes, std::function<void()> on_written) = 0;
  virtual void EndStream() = 0;
  // Cuts the connection: the answer that was begun cannot be completed.
  virtual void Abort() = 0;
};

// Answers one request. Destroyed when its answer is complete or its peer has gone.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  virtual void Start() = 0;
};

}  // namespace nerf
