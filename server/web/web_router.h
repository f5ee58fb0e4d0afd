#pragma once

#include <memory>
#include <string>
#include <utility>

#include "server/web/http_exchange.h"
#include "server/web/request_guard.h"
#include "server/web/upstream_call.h"
#include "server/web/web_limits.h"

namespace nerf {

// Chooses the handler of a request:
//   POST       /{package.Service}/{Method}   calls, in Connect's protocol or gRPC-Web
//   HEAD PATCH /uploads/{uuid}/blobs/...     uploads (tus)
//   GET HEAD   /blobs/{sha256}/{size}        downloads
//   GET HEAD   /open-command                 how to open the page with a token on this machine
//   GET HEAD   everything else               the page
// All but the last two need a token.
// Pointers of the constructor outlive it.
class WebRouter final : public HttpRouter {
 public:
  WebRouter(const RequestGuard* guard, const WebLimits* limits, Upstream* upstream,
            std::string open_command)
      : guard_(*guard),
        limits_(*limits),
        upstream_(*upstream),
        open_command_(std::move(open_command)) {}

  std::unique_ptr<HttpHandler> Route(HttpExchange* exchange, HttpHeaders* headers) const override;

 private:
  std::unique_ptr<HttpHandler> RouteCall(HttpExchange* exchange) const;

  const RequestGuard& guard_;
  const WebLimits& limits_;
  Upstream& upstream_;
  const std::string open_command_;
};

}  // namespace nerf
