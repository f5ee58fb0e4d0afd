#include "common/process/server_address.h"

#include <fmt/format.h>

#include <string>

namespace nerf {
namespace {

// Only numbers: gRPC takes no list of names.
bool IsNumeric(std::string_view address) {
  if (address.starts_with('[')) return true;
  return address.find_first_not_of("0123456789.:") == std::string_view::npos;
}

absl::Status CheckOneAddress(std::string_view address) {
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

}  // namespace

absl::Status CheckServerAddress(std::string_view address) {
  if (!IsAddressList(address)) return CheckOneAddress(address);
  const bool is_v6 = address.starts_with('[');
  for (std::string_view rest = address; true;) {
    const size_t comma = rest.find(',');
    const std::string_view one = rest.substr(0, comma);
    if (absl::Status status = CheckOneAddress(one); !status.ok()) return status;
    if (!IsNumeric(one) || one.starts_with('[') != is_v6) {
      return absl::InvalidArgumentError(
          fmt::format("--server: a list has addresses of one kind, such as "
                      "10.0.0.1:50051,10.0.0.2:50051, not '{}'; a name may have several addresses",
                      one.substr(0, 128)));
    }
    if (comma == std::string_view::npos) return absl::OkStatus();
    rest.remove_prefix(comma + 1);
  }
}

std::string GrpcTarget(std::string_view address) {
  if (!IsAddressList(address)) return std::string(address);
  return fmt::format("{}:{}", address.starts_with('[') ? "ipv6" : "ipv4", address);
}

}  // namespace nerf
