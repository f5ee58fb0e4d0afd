#include "server/metrics/metrics_listener.h"

#include <prometheus/collectable.h>
#include <prometheus/exposer.h>

#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"

namespace nerf {

absl::StatusOr<std::unique_ptr<MetricsListener>> MetricsListener::Start(
    const std::string& address, std::vector<std::shared_ptr<prometheus::Collectable>> sources) {
  // The listener's library takes lists and options in this string; an address has none of that.
  if (address.empty() ||
      address.find_first_not_of("0123456789abcdefABCDEF.:[]") != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("metrics address '", address, "' is not NUMERIC-HOST:PORT"));
  }
  std::unique_ptr<MetricsListener> listener(new MetricsListener());
  listener->sources_ = std::move(sources);
  // The library throws where it cannot bind, and says little.
  try {
    listener->exposer_ = std::make_unique<prometheus::Exposer>(address, 2);
    const std::vector<int> ports = listener->exposer_->GetListeningPorts();
    listener->port_ = ports.empty() ? 0 : ports.front();
  } catch (const std::exception& error) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot serve metrics on ", address,
                     ": the address is in use or not one of this machine's"));
  }
  for (const auto& source : listener->sources_) {
    listener->exposer_->RegisterCollectable(source);
  }
  return listener;
}

MetricsListener::~MetricsListener() = default;

}  // namespace nerf
