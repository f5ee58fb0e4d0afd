#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace nerf {

// Where a page comes from, as RFC 6454 writes it in the header Origin. In lower case.
struct Origin {
  std::string scheme;  // http or https
  std::string host;    // with brackets around an IPv6 address
  int port = 0;        // the scheme's own where none is written

  // Without the scheme's own port.
  std::string ToString() const;
  friend bool operator==(const Origin&, const Origin&) = default;
};

// "https://host" or "http://host:port", and nothing after it. InvalidArgument for any other form,
// "null" and "*" among them.
absl::StatusOr<Origin> ParseOrigin(std::string_view text);

// The host and port of the header Host, as a page of `scheme` there would have them.
absl::StatusOr<Origin> ParseHost(std::string_view scheme, std::string_view text);

// True for localhost and for IP addresses: names that no DNS answer can point elsewhere.
bool IsFixedHost(std::string_view host);

}  // namespace nerf
