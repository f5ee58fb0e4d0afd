#pragma once

#include <boost/asio/ssl/context.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "common/rpc/tls.h"

namespace nerf {

// What a TLS server shows and whom it trusts, from files that are read again while it runs. TLS 1.2
// and later. Not thread-safe.
class TlsContext {
 public:
  // `files.cert` and `files.key` are required; with `files.ca` every client has to show a
  // certificate that it has signed. Errors: InvalidArgument that names a file which is missing,
  // holds no PEM of its kind, or a key that does not fit its certificate.
  static absl::StatusOr<TlsContext> Open(const TlsFiles& files);

  // Reads the files again. Connections that begin later get what they hold now. Files that cannot
  // be used are logged once and change nothing.
  void Reload();

  // For the next connection. Valid until Reload.
  boost::asio::ssl::context& current() { return context_; }

 private:
  struct Content {
    std::string cert, key, ca;
    friend bool operator==(const Content&, const Content&) = default;
  };
  static absl::StatusOr<Content> Read(const TlsFiles& files);
  static absl::StatusOr<boost::asio::ssl::context> Make(const TlsFiles& files,
                                                        const Content& content);
  TlsContext(TlsFiles files, Content content, boost::asio::ssl::context context)
      : files_(std::move(files)), content_(std::move(content)), context_(std::move(context)) {}

  TlsFiles files_;
  Content content_;         // that was read last
  std::string last_error_;  // of the last Reload, so that it is logged once
  boost::asio::ssl::context context_;
};

}  // namespace nerf
