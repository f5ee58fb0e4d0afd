#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/clock.h"
#include "server/web/web_limits.h"

namespace nerf {

struct TextServerOptions {
  std::string host;  // a numeric address without brackets
  int port = 0;      // 0 takes a free one
  std::string path;  // of the text, such as /metrics
  std::string content_type;
  // A reader that stands still holds one copy of the text: few of them at a time.
  WebLimits limits = {.max_strangers = 32};
};

// Serves one text by plain HTTP to everybody, made anew for each request, and nothing else. Readers
// that stand still delay no other one. Runs on one thread of its own. Thread-safe.
class TextServer {
 public:
  // `make_text` runs on the server's thread. The clock outlives it. FailedPrecondition, with the
  // reason alone, if it cannot listen on the address.
  static absl::StatusOr<std::unique_ptr<TextServer>> Start(const TextServerOptions& options,
                                                           std::function<std::string()> make_text,
                                                           const Clock* clock);
  ~TextServer();

  int port() const;

 private:
  class Impl;
  explicit TextServer(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace nerf
