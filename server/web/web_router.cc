#include "server/web/web_router.h"

#include <google/protobuf/descriptor.h>

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/web/blob_path.h"
#include "server/web/download_handler.h"
#include "server/web/rpc_format.h"
#include "server/web/rpc_handler.h"
#include "server/web/rpc_methods.h"
#include "server/web/static_files.h"
#include "server/web/upload_handler.h"

namespace nerf {
namespace {

constexpr int kMethodNotAllowed = 405;

std::unique_ptr<HttpHandler> NotAllowed(const char* methods, HttpExchange* exchange) {
  HttpResponse response =
      ErrorResponse(kMethodNotAllowed,
                    absl::UnimplementedError(absl::StrCat("only ", methods, " is allowed here")));
  response.headers.emplace_back("Allow", methods);
  return FixedHandler(std::move(response), exchange);
}

bool IsRead(std::string_view method) { return method == "GET" || method == "HEAD"; }

}  // namespace

std::unique_ptr<HttpHandler> WebRouter::Route(HttpExchange* exchange, HttpHeaders* headers) const {
  const HttpRequestHead& head = exchange->head();
  const RequestGuard::Verdict verdict = guard_.Check(head);
  *headers = guard_.ResponseHeaders(verdict);
  if (!verdict.refusal.empty()) {
    return FixedHandler(ErrorResponse(absl::PermissionDeniedError(verdict.refusal)), exchange);
  }
  const std::optional<BlobPath> blob = ParseBlobPath(head.path);
  if (head.method == "OPTIONS") {
    HttpResponse response = guard_.Preflight(head, verdict);
    if (blob.has_value() && blob->is_upload) {
      for (auto& header : TusHeaders()) response.headers.push_back(std::move(header));
    }
    return FixedHandler(std::move(response), exchange);
  }
  if (!verdict.is_link) {
    if (FindWebMethod(head.path) != nullptr) return RouteCall(exchange);
    if (blob.has_value() && blob->is_upload) {
      if (head.method != "HEAD" && head.method != "PATCH") {
        return NotAllowed("HEAD, PATCH", exchange);
      }
      return MakeUploadHandler(*blob, exchange, &upstream_);
    }
    if (blob.has_value()) {
      if (!IsRead(head.method)) return NotAllowed("GET, HEAD", exchange);
      return MakeDownloadHandler(*blob, exchange, &upstream_);
    }
  }
  if (head.path == "/open-command" && !open_command_.empty() && !verdict.is_link) {
    if (!IsRead(head.method)) return NotAllowed("GET, HEAD", exchange);
    return FixedHandler(HttpResponse{.headers = {{"Content-Type", "text/plain; charset=utf-8"},
                                                 {"Cache-Control", "no-store"}},
                                     .body = open_command_},
                        exchange);
  }
  std::optional<HttpResponse> file = StaticResponse(head);
  if (file.has_value() && !IsRead(head.method)) return NotAllowed("GET, HEAD", exchange);
  if (file.has_value()) return FixedHandler(*std::move(file), exchange);
  return FixedHandler(ErrorResponse(absl::NotFoundError("nothing is served under this path")),
                      exchange);
}

std::unique_ptr<HttpHandler> WebRouter::RouteCall(HttpExchange* exchange) const {
  const HttpRequestHead& head = exchange->head();
  const auto& method = *FindWebMethod(head.path);
  if (head.method != "POST") return NotAllowed("POST", exchange);
  const std::optional<RpcFormat> format = head.CountOf("content-type") == 1
                                              ? ParseRpcContentType(head.Header("content-type"))
                                              : std::nullopt;
  const bool is_stream = method.server_streaming() || method.client_streaming();
  const bool fits =
      format.has_value() && (format->protocol == WebProtocol::kGrpcWeb ||
                             (format->protocol == WebProtocol::kConnectStream) == is_stream);
  if (!fits) {
    HttpResponse response =
        ErrorResponse(kUnsupportedMediaType,
                      absl::InvalidArgumentError("the Content-Type is not one of Accept-Post"));
    response.headers.emplace_back(
        "Accept-Post", is_stream ? "application/connect+json, application/connect+proto, "
                                   "application/grpc-web+proto, application/grpc-web-text+proto"
                                 : "application/json, application/proto, "
                                   "application/grpc-web+proto, application/grpc-web-text+proto");
    return FixedHandler(std::move(response), exchange);
  }
  return MakeRpcHandler(method, *format, limits_.max_message_bytes, exchange, &upstream_);
}

}  // namespace nerf
