#include "server/web/text_server.h"

#include <utility>

#include "common/status_macros.h"
#include "server/web/http_server.h"

namespace nerf {
namespace {

class TextRouter final : public HttpRouter {
 public:
  TextRouter(std::string path, std::string content_type, std::function<std::string()> make_text)
      : path_(std::move(path)),
        content_type_(std::move(content_type)),
        make_text_(std::move(make_text)) {}

  std::unique_ptr<HttpHandler> Route(HttpExchange* exchange, HttpHeaders* headers) const override {
    *headers = {{"X-Content-Type-Options", "nosniff"}, {"Cache-Control", "no-store"}};
    const HttpRequestHead& head = exchange->head();
    if (head.path != path_) {
      return FixedHandler(ErrorResponse(absl::NotFoundError("only " + path_ + " is served")),
                          exchange);
    }
    if (head.method != "GET" && head.method != "HEAD") {
      return FixedHandler(ErrorResponse(405, absl::UnimplementedError("only GET is allowed")),
                          exchange);
    }
    return FixedHandler({.headers = {{"Content-Type", content_type_}}, .body = make_text_()},
                        exchange);
  }

 private:
  const std::string path_;
  const std::string content_type_;
  const std::function<std::string()> make_text_;
};

}  // namespace

class TextServer::Impl {
 public:
  Impl(const TextServerOptions& options, std::function<std::string()> make_text, const Clock* clock)
      : router_(options.path, options.content_type, std::move(make_text)),
        server_({.host = options.host, .port = options.port, .limits = options.limits}, &router_,
                clock) {}

  HttpServer& server() { return server_; }

 private:
  const TextRouter router_;
  HttpServer server_;
};

TextServer::TextServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TextServer::~TextServer() = default;

absl::StatusOr<std::unique_ptr<TextServer>> TextServer::Start(
    const TextServerOptions& options, std::function<std::string()> make_text, const Clock* clock) {
  auto impl = std::make_unique<Impl>(options, std::move(make_text), clock);
  NERF_RETURN_IF_ERROR(impl->server().Start());
  return std::unique_ptr<TextServer>(new TextServer(std::move(impl)));
}

int TextServer::port() const { return impl_->server().port(); }

}  // namespace nerf
