#include "common/rpc/tls.h"

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <ctime>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/error_reason.h"
#include "common/files/file_io.h"
#include "common/files/flag_file.h"
#include "common/status_macros.h"

namespace nerf {
namespace {

using grpc::experimental::FileWatcherCertificateProvider;

constexpr unsigned kReloadSeconds = 1;
constexpr uint64_t kMaxPemBytes = 1 << 20;

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};

absl::StatusOr<std::unique_ptr<BIO, Free>> OpenPem(std::string_view what, const std::string& path) {
  absl::StatusOr<std::string> content = ReadFile(path, kMaxPemBytes);
  if (!content.ok()) return FlagFileError(what, content.status());
  // BIO_new_mem_buf borrows the bytes; a memory BIO copies them.
  std::unique_ptr<BIO, Free> bio(BIO_new(BIO_s_mem()));
  BIO_write(bio.get(), content->data(), static_cast<int>(content->size()));
  return bio;
}

// The first certificate of a file. The others, of a chain or of several CAs, have to be whole, too:
// with a damaged one gRPC would start and then refuse every connection.
absl::StatusOr<std::unique_ptr<X509, Free>> ReadCertificate(std::string_view what,
                                                            const std::string& path) {
  NERF_ASSIGN_OR_RETURN(const auto bio, OpenPem(what, path));
  std::unique_ptr<X509, Free> first, next;
  do {
    if (first == nullptr) first = std::move(next);
    next.reset(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  } while (next != nullptr);
  const bool is_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (first != nullptr && is_end) return first;
  return absl::InvalidArgumentError(
      absl::StrCat(std::string(what), ": ", path,
                   first == nullptr ? " holds no certificate in PEM"
                                    : " holds a damaged certificate behind the first one"));
}

// No question for a passphrase on the terminal.
int NoPassphrase(char*, int, int, void*) { return 0; }

absl::Status CheckPair(const TlsFiles& files) {
  NERF_ASSIGN_OR_RETURN(const auto certificate, ReadCertificate("--tls-cert", files.cert));
  NERF_ASSIGN_OR_RETURN(const auto bio, OpenPem("--tls-key", files.key));
  const std::unique_ptr<EVP_PKEY, Free> key(
      PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassphrase, nullptr));
  const bool fits = key != nullptr && X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  if (key == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("--tls-key: ", files.key, " holds no private key in PEM without passphrase"));
  }
  if (!fits) {
    return absl::InvalidArgumentError(
        absl::StrCat("--tls-key: ", files.key, " is not the key of ", files.cert));
  }
  return absl::OkStatus();
}

absl::Status CheckFiles(const TlsFiles& files, std::string_view ca_flag) {
  if (files.cert.empty() != files.key.empty()) {
    return InvalidFieldsError({{"", "--tls-cert and --tls-key go together"}});
  }
  if (!files.cert.empty()) NERF_RETURN_IF_ERROR(CheckPair(files));
  if (files.ca.empty() || files.ca == "system") return absl::OkStatus();
  return ReadCertificate(ca_flag, files.ca).status();
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> ClientTls(const TlsFiles& files) {
  if (files.ca.empty()) {
    return InvalidFieldsError({{"", "--tls-cert needs --ca FILE or --ca system"}});
  }
  NERF_RETURN_IF_ERROR(CheckFiles(files, "--ca"));
  const bool has_ca = files.ca != "system";
  grpc::experimental::TlsChannelCredentialsOptions options;
  if (has_ca || !files.cert.empty()) {
    options.set_certificate_provider(std::make_shared<FileWatcherCertificateProvider>(
        files.key, files.cert, has_ca ? files.ca : "", kReloadSeconds));
  }
  if (has_ca) options.watch_root_certs();
  if (!files.cert.empty()) options.watch_identity_key_cert_pairs();
  return grpc::experimental::TlsCredentials(options);
}

absl::StatusOr<absl::Time> CertificateExpiry(const std::string& cert) {
  NERF_ASSIGN_OR_RETURN(const auto certificate, ReadCertificate("--tls-cert", cert));
  tm time{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &time) != 1) {
    ERR_clear_error();
    return absl::InvalidArgumentError(absl::StrCat(cert, ": the time of its end is malformed"));
  }
  return absl::FromTM(time, absl::UTCTimeZone());
}

absl::Status CheckServerTls(const TlsFiles& files) {
  if (files.cert.empty()) return InvalidFieldsError({{"", "--client-ca needs --tls-cert"}});
  return CheckFiles(files, "--client-ca");
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> ServerTls(const TlsFiles& files) {
  NERF_RETURN_IF_ERROR(CheckServerTls(files));
  grpc::experimental::TlsServerCredentialsOptions options(
      std::make_shared<FileWatcherCertificateProvider>(files.key, files.cert, files.ca,
                                                       kReloadSeconds));
  options.watch_identity_key_cert_pairs();
  if (!files.ca.empty()) {
    options.watch_root_certs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return grpc::experimental::TlsServerCredentials(options);
}

}  // namespace nerf
