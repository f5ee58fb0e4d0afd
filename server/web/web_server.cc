#include "server/web/web_server.h"

#include <fmt/format.h>

#include <utility>

#include "server/web/http_server.h"
#include "server/web/request_guard.h"
#include "server/web/upstream_call.h"
#include "server/web/web_router.h"

namespace nerf {

class WebServer::Impl {
 public:
  Impl(const WebServerOptions& options, std::shared_ptr<grpc::Channel> channel, const Clock* clock)
      : options_(options),
        guard_(options.allowed_origins, UsesTls(options.tls)),
        server_({.host = options.host,
                 .port = options.port,
                 .tls = options.tls,
                 .limits = options.limits,
                 .check_token = options.check_token,
                 .has_work = [this] { return upstream_.n_open_calls() > 0; }},
                &router_, clock),
        upstream_(std::move(channel),
                  [this](std::function<void()> work) { server_.Post(std::move(work)); }),
        router_(&guard_, &options_.limits, &upstream_, options_.open_command) {}

  // Connections and calls end before what they use.
  ~Impl() { server_.Shutdown(absl::ZeroDuration()); }

  absl::Status Start() {
    const absl::Status status = server_.Start();
    if (!absl::IsFailedPrecondition(status)) return status;
    return absl::FailedPreconditionError(
        fmt::format("cannot serve the web page on {} port {}: {}. --web-listen takes another "
                    "address; --web-listen '' serves no page",
                    options_.host, options_.port, std::string(status.message())));
  }

  HttpServer& server() { return server_; }

 private:
  const WebServerOptions options_;
  const RequestGuard guard_;
  HttpServer server_;
  Upstream upstream_;
  const WebRouter router_;
};

WebServer::WebServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
WebServer::~WebServer() = default;

absl::StatusOr<std::unique_ptr<WebServer>> WebServer::Start(const WebServerOptions& options,
                                                            std::shared_ptr<grpc::Channel> channel,
                                                            const Clock* clock) {
  auto impl = std::make_unique<Impl>(options, std::move(channel), clock);
  if (absl::Status status = impl->Start(); !status.ok()) return status;
  return std::unique_ptr<WebServer>(new WebServer(std::move(impl)));
}

void WebServer::Shutdown(absl::Duration grace) { impl_->server().Shutdown(grace); }

int WebServer::port() const { return impl_->server().port(); }

}  // namespace nerf
