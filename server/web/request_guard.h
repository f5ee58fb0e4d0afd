#pragma once

#include <string>
#include <vector>

#include "server/web/http_exchange.h"
#include "server/web/origin.h"

namespace nerf {

// Decides which requests are looked at. Every page that a browser shows can send requests to
// loopback, so who asks is taken from what browsers do not let pages forge:
//   Host            names this server: an IP address, localhost, or the host of an allowed origin.
//                   A name that an attacker's DNS points here is refused.
//   Origin          if present, is this server's own or an allowed one.
//   Sec-Fetch-Site  is not of another site, unless the origin is allowed or the request is a
//                   person following a link to the page.
// Const after construction.
class RequestGuard {
 public:
  explicit RequestGuard(std::vector<Origin> allowed_origins);

  struct Verdict {
    std::string refusal;      // why the request is refused; empty when it is not
    std::string cors_origin;  // the allowed origin that asks; empty for requests of our own page
    bool is_link = false;     // a link from another site: good for the page alone
  };
  Verdict Check(const HttpRequestHead& head) const;

  // The headers that every answer carries, with those of CORS where `verdict` has an origin.
  HttpHeaders ResponseHeaders(const Verdict& verdict) const;

  // The answer to OPTIONS.
  HttpResponse Preflight(const HttpRequestHead& head, const Verdict& verdict) const;

 private:
  bool IsAllowed(const Origin& origin) const;
  const std::vector<Origin> allowed_origins_;
};

}  // namespace nerf
