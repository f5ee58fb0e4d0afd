#include "server/web/http_exchange.h"

#include "common/messages/rpc_status.h"
#include "server/web/rpc_format.h"

namespace nerf {
namespace {

class FixedResponse final : public HttpHandler {
 public:
  FixedResponse(HttpResponse response, HttpExchange* exchange)
      : response_(std::move(response)), exchange_(*exchange) {}
  void Start() override { exchange_.Respond(std::move(response_)); }

 private:
  HttpResponse response_;
  HttpExchange& exchange_;
};

}  // namespace

std::string_view HttpRequestHead::Header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return {};
}

int HttpRequestHead::CountOf(std::string_view name) const {
  int n = 0;
  for (const auto& header : headers) n += header.first == name ? 1 : 0;
  return n;
}

HttpResponse ErrorResponse(int http_status, const absl::Status& status) {
  return {.status = http_status,
          .headers = {{"Content-Type", "application/json"}, {"Cache-Control", "no-store"}},
          .body = ConnectErrorJson(ToRpcStatus(status))};
}

HttpResponse ErrorResponse(const absl::Status& status) {
  return ErrorResponse(HttpStatusOf(static_cast<int>(status.code())), status);
}

std::unique_ptr<HttpHandler> FixedHandler(HttpResponse response, HttpExchange* exchange) {
  return std::make_unique<FixedResponse>(std::move(response), exchange);
}

}  // namespace nerf
