#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace nerf {

// The origin of a page (RFC 6454), as the header Origin has it, in lower case.
struct Origin {
  std::string scheme;  // http or https
  std::string host;    // with brackets around an IPv6 address
  int port = 0;        // the scheme's default if none is given

  // Leaves out the scheme's default port.
  std::string ToString() const;
  friend bool operator==(const Origin&, const Origin&) = default;
};

// Reads "https://host" or "http://host:port" with nothing after it. InvalidArgument for any other
// form, such as "null" and "*".
absl::StatusOr<Origin> ParseOrigin(std::string_view text);

// The origin of a page of `scheme` that was loaded from the host and port of the header Host.
absl::StatusOr<Origin> ParseHost(std::string_view scheme, std::string_view text);

// True for localhost and IP addresses, which no DNS answer can redirect.
bool IsFixedHost(std::string_view host);

}  // namespace nerf
