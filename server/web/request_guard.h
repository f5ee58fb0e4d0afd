#pragma once

#include <string>
#include <vector>

#include "server/web/http_exchange.h"
#include "server/web/origin.h"

namespace nerf {

// Decides which requests are served. Any page in a browser can send requests to loopback, so the
// sender is told by headers that browsers do not let pages set:
//   Host            names this server: an IP address, localhost, or the host of an allowed origin.
//                   A name that an attacker's DNS points here is refused.
//   Origin          if present, is this server's own or an allowed one.
//   Sec-Fetch-Site  is not of another site, unless the origin is allowed or the request is a
//                   person following a link to the page.
// Const after construction.
class RequestGuard {
 public:
  // is_tls: the server's own pages come by https alone.
  explicit RequestGuard(std::vector<Origin> allowed_origins, bool is_tls = false);

  struct Verdict {
    std::string refusal;      // why the request is refused; empty when it is not
    std::string cors_origin;  // the allowed origin of the request; empty for our own page
    bool is_link = false;     // a link from another site: may load the page, nothing else
  };
  Verdict Check(const HttpRequestHead& head) const;

  // The headers of every response, with those of CORS if `verdict` has an origin.
  HttpHeaders ResponseHeaders(const Verdict& verdict) const;

  // The response to OPTIONS.
  HttpResponse Preflight(const HttpRequestHead& head, const Verdict& verdict) const;

 private:
  bool IsAllowed(const Origin& origin) const;
  const std::vector<Origin> allowed_origins_;
  const bool is_tls_;
};

}  // namespace nerf
