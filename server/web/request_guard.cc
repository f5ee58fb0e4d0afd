#include "server/web/request_guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace nerf {
namespace {

constexpr char kAllowedMethods[] = "GET, HEAD, PATCH, POST";
constexpr char kAllowedHeaders[] =
    "Authorization, Content-Type, Connect-Protocol-Version, Connect-Timeout-Ms, Grpc-Timeout, "
    "Range, If-None-Match, If-Range, Tus-Resumable, Upload-Length, Upload-Offset, X-Grpc-Web, "
    "X-User-Agent, Traceparent";
constexpr char kExposedHeaders[] =
    "Grpc-Status, Grpc-Message, Grpc-Status-Details-Bin, Content-Range, ETag, Accept-Ranges, "
    "Content-Disposition, Tus-Resumable, Upload-Length, Upload-Offset";
// How long a browser may cache a preflight.
constexpr char kPreflightSeconds[] = "7200";

}  // namespace

RequestGuard::RequestGuard(std::vector<Origin> allowed_origins, bool is_tls)
    : allowed_origins_(std::move(allowed_origins)), is_tls_(is_tls) {}

bool RequestGuard::IsAllowed(const Origin& origin) const {
  return std::find(allowed_origins_.begin(), allowed_origins_.end(), origin) !=
         allowed_origins_.end();
}

RequestGuard::Verdict RequestGuard::Check(const HttpRequestHead& head) const {
  Verdict verdict;
  const auto refuse = [&](std::string why) {
    verdict.refusal = std::move(why);
    return verdict;
  };
  if (head.CountOf("host") != 1) return refuse("a request has exactly one Host");
  const absl::StatusOr<Origin> host = ParseHost("http", head.Header("host"));
  if (!host.ok()) return refuse("Host is not HOST or HOST:PORT");
  const bool is_ours =
      IsFixedHost(host->host) ||
      std::any_of(allowed_origins_.begin(), allowed_origins_.end(),
                  [&](const Origin& allowed) { return allowed.host == host->host; });
  if (!is_ours) {
    return refuse(
        fmt::format("{} is not a name of this server; add it with --web-origin", host->host));
  }

  const int n_origins = head.CountOf("origin");
  if (n_origins > 1) return refuse("a request has at most one Origin");
  bool is_same_origin = n_origins == 0;
  if (n_origins == 1) {
    const absl::StatusOr<Origin> origin = ParseOrigin(head.Header("origin"));
    if (!origin.ok()) return refuse("requests from this Origin are not allowed");
    // Behind a TLS proxy the page's scheme is https although the request arrives by http. A page
    // that came by http is never that of a server with TLS: somebody on the way may have made it.
    const absl::StatusOr<Origin> own =
        ParseHost(is_tls_ ? "https" : origin->scheme, head.Header("host"));
    is_same_origin = own.ok() && *own == *origin;
    if (!is_same_origin) {
      if (!IsAllowed(*origin)) return refuse("requests from this Origin are not allowed");
      verdict.cors_origin = origin->ToString();
    }
  }

  const std::string_view site = head.Header("sec-fetch-site");
  const bool is_foreign = !site.empty() && site != "same-origin" && site != "none";
  if (!is_foreign || !verdict.cors_origin.empty()) return verdict;
  // A followed link is a GET without Origin. A form of another site sends POST with an Origin.
  const bool is_navigation = n_origins == 0 && head.Header("sec-fetch-mode") == "navigate" &&
                             head.Header("sec-fetch-dest") == "document" &&
                             (head.method == "GET" || head.method == "HEAD");
  if (!is_navigation) return refuse("requests from other sites are not allowed");
  verdict.is_link = true;
  return verdict;
}

HttpHeaders RequestGuard::ResponseHeaders(const Verdict& verdict) const {
  HttpHeaders headers = {{"X-Content-Type-Options", "nosniff"},
                         {"Referrer-Policy", "no-referrer"},
                         {"Vary", "Origin"}};
  if (verdict.cors_origin.empty()) {
    headers.emplace_back("Cross-Origin-Resource-Policy", "same-origin");
  } else {
    headers.emplace_back("Cross-Origin-Resource-Policy", "cross-origin");
    headers.emplace_back("Access-Control-Allow-Origin", verdict.cors_origin);
    headers.emplace_back("Access-Control-Expose-Headers", kExposedHeaders);
  }
  return headers;
}

HttpResponse RequestGuard::Preflight(const HttpRequestHead& head, const Verdict& verdict) const {
  HttpResponse response{.status = 204, .headers = {{"Allow", kAllowedMethods}}};
  if (verdict.cors_origin.empty()) return response;
  response.headers.emplace_back("Access-Control-Allow-Methods", kAllowedMethods);
  response.headers.emplace_back("Access-Control-Allow-Headers", kAllowedHeaders);
  response.headers.emplace_back("Access-Control-Max-Age", kPreflightSeconds);
  if (head.Header("access-control-request-private-network") == "true") {
    response.headers.emplace_back("Access-Control-Allow-Private-Network", "true");
  }
  return response;
}

}  // namespace nerf
