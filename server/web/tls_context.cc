#include "server/web/tls_context.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <boost/asio/buffer.hpp>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files/file_io.h"
#include "common/logging.h"
#include "common/status_macros.h"

namespace nerf {
namespace {

namespace ssl = boost::asio::ssl;
using ErrorCode = boost::system::error_code;

constexpr uint64_t kMaxPemBytes = 1 << 20;
constexpr unsigned char kSessionContext[] = "nerfd-web";  // sessions are resumed here alone
constexpr unsigned char kAlpn[] = "\x08http/1.1";

absl::Status BadFile(const char* flag, const std::string& path, std::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(flag, ": ", path, ": ", std::string(why)));
}

absl::Status ReadPem(const char* flag, const std::string& path, std::string* content) {
  absl::StatusOr<std::string> read = ReadFile(path, kMaxPemBytes);
  if (!read.ok()) return BadFile(flag, path, std::string(read.status().message()));
  *content = *std::move(read);
  return absl::OkStatus();
}

// A client that offers protocols has to offer HTTP/1.1.
int SelectProtocol(SSL*, const unsigned char** selected, unsigned char* length,
                   const unsigned char* offered, unsigned offered_length, void*) {
  unsigned char* out = nullptr;
  const int result =
      SSL_select_next_proto(&out, length, kAlpn, sizeof(kAlpn) - 1, offered, offered_length);
  *selected = out;
  return result == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

void Harden(SSL_CTX* context) {
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(
      context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  // Clients keep their sessions themselves, as tickets: strangers fill no memory here.
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_session_id_context(context, kSessionContext, sizeof(kSessionContext) - 1);
  SSL_CTX_set_alpn_select_cb(context, SelectProtocol, nullptr);
}

}  // namespace

absl::StatusOr<TlsContext::Content> TlsContext::Read(const TlsFiles& files) {
  Content content;
  NERF_RETURN_IF_ERROR(ReadPem("--tls-cert", files.cert, &content.cert));
  NERF_RETURN_IF_ERROR(ReadPem("--tls-key", files.key, &content.key));
  if (!files.ca.empty()) NERF_RETURN_IF_ERROR(ReadPem("--client-ca", files.ca, &content.ca));
  return content;
}

absl::StatusOr<ssl::context> TlsContext::Make(const TlsFiles& files, const Content& content) {
  ssl::context context(ssl::context::tls_server);
  Harden(context.native_handle());
  ErrorCode error;
  context.use_certificate_chain(boost::asio::buffer(content.cert), error);
  if (error) return BadFile("--tls-cert", files.cert, "holds no certificate in PEM");
  // No question for a passphrase on the terminal.
  context.set_password_callback([](size_t, ssl::context::password_purpose) { return ""; }, error);
  context.use_private_key(boost::asio::buffer(content.key), ssl::context::pem, error);
  // The call above takes a key of another kind than the certificate's; the check does not.
  if (error || SSL_CTX_check_private_key(context.native_handle()) != 1) {
    ERR_clear_error();
    return BadFile("--tls-key", files.key,
                   absl::StrCat("holds no key in PEM without passphrase that fits ", files.cert));
  }
  if (files.ca.empty()) return context;
  context.add_certificate_authority(boost::asio::buffer(content.ca), error);
  if (error) return BadFile("--client-ca", files.ca, "holds no certificate in PEM");
  context.set_verify_mode(ssl::verify_peer | ssl::verify_fail_if_no_peer_cert);
  return context;
}

absl::StatusOr<TlsContext> TlsContext::Open(const TlsFiles& files) {
  NERF_ASSIGN_OR_RETURN(Content content, Read(files));
  NERF_ASSIGN_OR_RETURN(ssl::context context, Make(files, content));
  return TlsContext(files, std::move(content), std::move(context));
}

void TlsContext::Reload() {
  absl::StatusOr<Content> content = Read(files_);
  if (content.ok() && *content == content_) {
    last_error_.clear();  // the same error is logged again when it comes back
    return;
  }
  absl::StatusOr<ssl::context> context =
      content.ok() ? Make(files_, *content) : absl::StatusOr<ssl::context>(content.status());
  if (context.ok()) {
    context_ = *std::move(context);
    content_ = *std::move(content);
    last_error_.clear();
    LogInfo("the web server has a new certificate", {{"file", files_.cert}});
    return;
  }
  std::string message(context.status().message());
  if (message == last_error_) return;
  last_error_ = std::move(message);
  LogWarning("the web server keeps its certificate: the new files cannot be used",
             {{"error", last_error_}});
}

}  // namespace nerf
