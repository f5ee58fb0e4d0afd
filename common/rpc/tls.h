#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace grpc {
class ChannelCredentials;
class ServerCredentials;
}  // namespace grpc

namespace nerf {

// PEM files of one side of TLS connections. They are read again while the process runs: a new
// certificate counts for connections that begin a second later.
struct TlsFiles {
  std::string cert;  // own certificate, then its chain; empty on a client that shows none
  std::string key;   // its private key
  std::string ca;    // whom to trust; "system" on a client: what the system trusts
};

// True for files that ask for TLS at all.
inline bool UsesTls(const TlsFiles& files) { return !files.cert.empty() || !files.ca.empty(); }

// Credentials of a client: `ca` is required. Errors: FIELD_INVALID where the flags do not go
// together; those of FlagFileError for a file that is missing, holds no PEM of its kind, or a key
// that does not fit its certificate.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> ClientTls(const TlsFiles& files);

// When the first certificate of a file expires. Errors: those of FlagFileError.
absl::StatusOr<absl::Time> CertificateExpiry(const std::string& cert);

// What ServerTls refuses of the files.
absl::Status CheckServerTls(const TlsFiles& files);

// Credentials of a server: `cert` and `key` are required; with `ca` every client has to show a
// certificate that it has signed. Errors: as above.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> ServerTls(const TlsFiles& files);

}  // namespace nerf
