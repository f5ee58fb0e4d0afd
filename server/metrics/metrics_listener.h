#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace prometheus {
class Collectable;
class Exposer;
}  // namespace prometheus

namespace nerf {

// Serves collectables over HTTP at /metrics until it is destroyed.
class MetricsListener {
 public:
  // `address` is host:port, where the host is a number ("127.0.0.1:9464", "[::1]:0"); port 0 takes
  // a free one. Errors: InvalidArgument for another form, FailedPrecondition when it cannot listen
  // there.
  static absl::StatusOr<std::unique_ptr<MetricsListener>> Start(
      const std::string& address, std::vector<std::shared_ptr<prometheus::Collectable>> sources);
  ~MetricsListener();

  int port() const { return port_; }

 private:
  MetricsListener() = default;
  std::vector<std::shared_ptr<prometheus::Collectable>> sources_;  // the exposer holds weak ones
  std::unique_ptr<prometheus::Exposer> exposer_;
  std::string host_;  // without brackets
  int port_ = 0;
};

}  // namespace nerf
