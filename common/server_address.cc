#include "common/server_address.h"

#include <fmt/format.h>

#include <string>

namespace nerf {

absl::Status CheckServerAddress(std::string_view address) {
  const auto error = [&](std::string_view why) {
    return absl::InvalidArgumentError(
        fmt::format("--server: '{}' {}; expected HOST:PORT, such as "
                    "127.0.0.1:50051",
                    address.substr(0, 128), why));
  };
  if (address.substr(0, 5) == "unix:") {
    return address.size() > 5 ? absl::OkStatus() : error("names no socket");
  }
  if (address.find("://") != std::string_view::npos) return error("is a URL");
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos) return error("has no port");
  const std::string_view host = address.substr(0, colon), port = address.substr(colon + 1);
  const bool digits = !port.empty() && port.size() <= 5 &&
                      port.find_first_not_of("0123456789") == std::string_view::npos;
  const int number = digits ? std::stoi(std::string(port)) : 0;
  if (number < 1 || number > 65535) return error("has no port from 1 to 65535");
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const std::string_view allowed = bracketed ? "0123456789abcdefABCDEF:.%[]"
                                             : "0123456789abcdefghijklmnopqrstuvwxyz"
                                               "ABCDEFGHIJKLMNOPQRSTUVWXYZ.-_";
  if (host.empty() || host.find_first_not_of(allowed) != std::string_view::npos) {
    return error("has no host name before the port");
  }
  return absl::OkStatus();
}

}  // namespace nerf
