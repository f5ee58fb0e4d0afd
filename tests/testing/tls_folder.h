#pragma once

#include <filesystem>
#include <string>

#include "common/rpc/tls.h"
#include "tests/testing/certificates.h"
#include "tests/testing/temp_dir.h"

namespace nerf {

// A folder with the files of a TLS server, of two CAs and of clients. `live` is a link to the
// folder with the server's certificate, which Serve turns, as Kubernetes does.
class TlsFolder {
 public:
  TlsFolder() {
    ca_.Write(Path("ca.pem"), "");
    other_ca_.Write(Path("other-ca.pem"), "");
    Serve("one");
    TestCertificate("client", &ca_).Write(Path("client.pem"), Path("client.key"));
    TestCertificate("client", &other_ca_).Write(Path("stranger.pem"), Path("stranger.key"));
  }

  std::string Path(const std::string& name) const { return dir_ / name; }

  // Makes a certificate of the CA, or of the other one, in `folder`.
  void Make(const std::string& folder, const std::string& host = "localhost",
            bool of_other_ca = false) {
    std::filesystem::create_directories(dir_ / folder);
    TestCertificate(host, of_other_ca ? &other_ca_ : &ca_)
        .Write(Path(folder + "/tls.pem"), Path(folder + "/tls.key"));
  }
  // Makes one and turns the link to it.
  void Serve(const std::string& folder, bool of_other_ca = false) {
    Make(folder, "localhost", of_other_ca);
    std::filesystem::create_directory_symlink(dir_ / folder, dir_ / "next");
    std::filesystem::rename(dir_ / "next", dir_ / "live");
  }

  TlsFiles Live(bool asks_clients = false) const {
    return {Path("live/tls.pem"), Path("live/tls.key"), asks_clients ? Path("ca.pem") : ""};
  }

 private:
  const TestCertificate ca_{"test CA"}, other_ca_{"other CA"};
  TempDir dir_;
};

}  // namespace nerf
