#pragma once

#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace nerf {

// A server that somebody has logged in to.
struct Context {
  std::string server;
  std::string project = "default";
  std::string token;
  std::string ca;        // "system", an absolute path, or empty: no TLS
  std::string tls_cert;  // absolute paths; empty without a client certificate
  std::string tls_key;
  bool insecure = false;
};

struct Contexts {
  std::string current;  // empty: none
  std::map<std::string, Context> by_name;
};

// ~/.config/nerfd/contexts.json. It holds tokens: only its owner may read it.
std::string ContextPath();

// The file's contexts; none if there is no file. Errors: FailedPrecondition when others may read it
// or it is somebody else's; InvalidArgument when it is damaged.
absl::StatusOr<Contexts> ReadContexts(const std::string& path);
absl::Status WriteContexts(const std::string& path, const Contexts& contexts);

}  // namespace nerf
