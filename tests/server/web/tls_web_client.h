#pragma once

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "common/rpc/tls.h"
#include "tests/server/web/web_client.h"

namespace nerf {

// A WebClient by TLS.
class TlsWebClient : public WebClient {
 public:
  struct Options {
    TlsFiles files;  // `ca`: whom to trust; `cert` and `key`: what to show
    int max_version = TLS1_3_VERSION;
    std::string protocols = {};  // of ALPN, each behind its length
  };

  // Connects; is_connected() says whether the handshake succeeded.
  TlsWebClient(int port, const Options& options)
      : WebClient(port), context_(SSL_CTX_new(TLS_client_method())) {
    const timeval patience{kTimeoutMs / 1000, 0};
    setsockopt(fd(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    SSL_CTX_set_security_level(context_.get(), 0);  // to offer old versions
    SSL_CTX_set_min_proto_version(context_.get(), TLS1_VERSION);
    SSL_CTX_set_max_proto_version(context_.get(), options.max_version);
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    SSL_CTX_load_verify_locations(context_.get(), options.files.ca.c_str(), nullptr);
    if (!options.files.cert.empty()) {
      SSL_CTX_use_certificate_chain_file(context_.get(), options.files.cert.c_str());
      SSL_CTX_use_PrivateKey_file(context_.get(), options.files.key.c_str(), SSL_FILETYPE_PEM);
    }
    if (!options.protocols.empty()) {
      SSL_CTX_set_alpn_protos(context_.get(),
                              reinterpret_cast<const unsigned char*>(options.protocols.data()),
                              static_cast<unsigned>(options.protocols.size()));
    }
    ssl_.reset(SSL_new(context_.get()));
    SSL_set1_host(ssl_.get(), "localhost");
    SSL_set_fd(ssl_.get(), fd());
    is_connected_ = SSL_connect(ssl_.get()) == 1;
    ERR_clear_error();
  }
  ~TlsWebClient() override { ERR_clear_error(); }

  bool is_connected() const { return is_connected_; }
  // Sends bytes as they are.
  void SendPlain(const std::string& bytes) { WebClient::SendSome(bytes.data(), bytes.size()); }
  // Says that no more bytes come, as a client does that ends in order.
  void SayGoodbye() { SSL_shutdown(ssl_.get()); }
  std::string protocol() const {
    const unsigned char* name = nullptr;
    unsigned length = 0;
    SSL_get0_alpn_selected(ssl_.get(), &name, &length);
    return {reinterpret_cast<const char*>(name), length};
  }

 protected:
  ssize_t SendSome(const char* bytes, size_t n_bytes) override {
    if (!is_connected_) return -1;
    return SSL_write(ssl_.get(), bytes, static_cast<int>(n_bytes));
  }
  ssize_t ReceiveSome(char* bytes, size_t n_bytes) override {
    if (!is_connected_) return -1;
    const int n = SSL_read(ssl_.get(), bytes, static_cast<int>(n_bytes));
    ERR_clear_error();
    return n;
  }
  bool HasPending() const override { return SSL_has_pending(ssl_.get()) == 1; }

 private:
  struct Free {
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
    void operator()(SSL* ssl) const { SSL_free(ssl); }
  };
  std::unique_ptr<SSL_CTX, Free> context_;
  std::unique_ptr<SSL, Free> ssl_;
  bool is_connected_ = false;
};

}  // namespace nerf
