// gRPC by TLS on a loopback socket, with certificates of a CA that the test makes.
#include "common/rpc/tls.h"

#include <gmock/gmock.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "tests/server/rpc/rpc_test_server.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tls_folder.h"

namespace nerf {
namespace {

using absl::StatusCode;

class TlsTest : public testing::Test {
 protected:
  // A call over a connection of its own.
  absl::Status Call(const RpcTestServer& server, const TlsFiles& files,
                    const std::string& host = "localhost") {
    ChannelOptions options;
    options.address = host + ":" + std::to_string(server.rpc->port());
    if (UsesTls(files)) options.credentials = *ClientTls(files);
    const auto stub = v1::AdminService::NewStub(MakeChannel(options));
    v1::Access access;
    return RpcTestServer::Call(*stub, &v1::AdminService::Stub::GetAccess, v1::GetAccessRequest(),
                               &access, RpcTestServer::kAdminToken);
  }

  TlsFolder files_;
};

TEST_F(TlsTest, OnlyClientsThatTrustTheServerGetThrough) {
  const RpcTestServer server(true, *ServerTls(files_.Live()));
  EXPECT_THAT(Call(server, {"", "", files_.Path("ca.pem")}), IsOk());
  EXPECT_THAT(Call(server, {"", "", files_.Path("ca.pem")}, "127.0.0.1"), IsOk());
  EXPECT_THAT(Call(server, {"", "", files_.Path("other-ca.pem")}),
              StatusIs(StatusCode::kUnavailable));
  EXPECT_THAT(Call(server, {"", "", "system"}), StatusIs(StatusCode::kUnavailable));
  EXPECT_THAT(Call(server, {}), StatusIs(StatusCode::kUnavailable)) << "plaintext";
}

TEST_F(TlsTest, CertificateOfAnotherHostIsRefused) {
  files_.Make("elsewhere", "nerf.example.com");
  const RpcTestServer server(
      true, *ServerTls({files_.Path("elsewhere/tls.pem"), files_.Path("elsewhere/tls.key"), ""}));
  EXPECT_THAT(Call(server, {"", "", files_.Path("ca.pem")}), StatusIs(StatusCode::kUnavailable));
}

TEST_F(TlsTest, WithAClientCaEveryClientShowsACertificate) {
  const RpcTestServer server(true, *ServerTls(files_.Live(/*asks_clients=*/true)));
  EXPECT_THAT(
      Call(server, {files_.Path("client.pem"), files_.Path("client.key"), files_.Path("ca.pem")}),
      IsOk());
  EXPECT_THAT(Call(server, {"", "", files_.Path("ca.pem")}), StatusIs(StatusCode::kUnavailable));
  EXPECT_THAT(Call(server, {files_.Path("stranger.pem"), files_.Path("stranger.key"),
                            files_.Path("ca.pem")}),
              StatusIs(StatusCode::kUnavailable));
}

// Clients with open connections and clients that come anew, while the certificate is replaced by
// turning a link to another folder.
TEST_F(TlsTest, CertificatesAreSwappedUnderLoadWithoutAFailedCall) {
  const RpcTestServer server(true, *ServerTls(files_.Live()));
  const TlsFiles client = {"", "", files_.Path("ca.pem")};
  ChannelOptions options;
  options.address = "localhost:" + std::to_string(server.rpc->port());
  options.credentials = *ClientTls(client);
  const auto channel = MakeChannel(options);
  std::atomic<bool> ends = false;
  std::atomic<int> n_calls = 0, n_failed = 0;
  std::vector<std::jthread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&, i] {
      const auto stub = v1::AdminService::NewStub(channel);
      while (!ends) {
        v1::Access access;
        const absl::Status status =
            i % 2 == 0
                ? RpcTestServer::Call(*stub, &v1::AdminService::Stub::GetAccess,
                                      v1::GetAccessRequest(), &access, RpcTestServer::kAdminToken)
                : Call(server, client);
        ++n_calls;
        if (!status.ok()) ++n_failed;
      }
    });
  }
  // The machine's clock: gRPC looks at the files once a second.
  for (const char* folder : {"two", "three"}) {
    files_.Serve(folder);
    absl::SleepFor(absl::Milliseconds(2500));
  }
  ends = true;
  clients.clear();
  EXPECT_GT(n_calls, 100);
  EXPECT_EQ(n_failed, 0) << "of " << n_calls;
  // What is served now is the third: of a CA whose other certificates would not be trusted.
  files_.Serve("four", /*of_other_ca=*/true);
  const TlsFiles other = {"", "", files_.Path("other-ca.pem")};
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (!Call(server, other).ok() && absl::Now() < deadline)
    absl::SleepFor(absl::Milliseconds(100));
  EXPECT_THAT(Call(server, other), IsOk());
  EXPECT_THAT(Call(server, client), StatusIs(StatusCode::kUnavailable));
}

TEST_F(TlsTest, ExpiryIsThatOfTheFirstCertificate) {
  const auto expiry = CertificateExpiry(files_.Path("one/tls.pem"));
  ASSERT_THAT(expiry, IsOk());
  EXPECT_LT(absl::AbsDuration(*expiry - absl::Now() - absl::Hours(24)), absl::Minutes(5));
  std::ofstream(files_.Path("garbage.pem"))
      << "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
  for (const char* bad : {"garbage.pem", "one/tls.key"}) {
    EXPECT_THAT(CertificateExpiry(files_.Path(bad)), StatusIs(StatusCode::kInvalidArgument)) << bad;
  }
  EXPECT_THAT(CertificateExpiry(files_.Path("none")), StatusIs(StatusCode::kNotFound));
}

TEST_F(TlsTest, BadFilesAreNamedAtTheStart) {
  const std::string pem = files_.Path("one/tls.pem"), key = files_.Path("one/tls.key");
  std::ofstream(files_.Path("empty"));
  std::ofstream(files_.Path("garbage"))
      << "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
  for (const char* name : {"one/tls.pem", "ca.pem"}) {
    std::ofstream(files_.Path(name + std::string(".half")))
        << std::ifstream(files_.Path(name)).rdbuf()
        << std::ifstream(files_.Path("garbage")).rdbuf();
  }
  std::ofstream(files_.Path("long")) << std::string(2 << 20, 'A');
  const std::string locked =
      "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIHs\n-----END ENCRYPTED PRIVATE KEY-----\n";
  std::ofstream(files_.Path("locked")) << locked;
  const std::pair<TlsFiles, const char*> cases[] = {
      {{files_.Path("empty"), key, ""}, "--tls-cert"},
      {{files_.Path("garbage"), key, ""}, "--tls-cert"},
      {{files_.Path("long"), key, ""}, "--tls-cert"},
      {{files_.Path(""), key, ""}, "--tls-cert"},
      {{pem, files_.Path("empty"), ""}, "--tls-key"},
      {{pem, files_.Path("locked"), ""}, "--tls-key"},
      {{pem, pem, ""}, "--tls-key"},
      {{pem, files_.Path("client.key"), ""}, "is not the key of"},
      {{pem, "", ""}, "go together"},
      {{pem, key, files_.Path("garbage")}, "--client-ca"},
      {{pem, key, files_.Path("ca.pem.half")}, "--client-ca"},
      {{files_.Path("one/tls.pem.half"), key, ""}, "--tls-cert"},
      {{"", "", files_.Path("ca.pem")}, "--client-ca needs --tls-cert"},
  };
  for (const auto& [files, words] : cases) {
    EXPECT_THAT(ServerTls(files).status(), StatusIs(StatusCode::kInvalidArgument, words));
  }
  const std::string none = files_.Path("none");
  EXPECT_THAT(ServerTls({none, key, ""}).status(), StatusIs(StatusCode::kNotFound, "--tls-cert"));
  EXPECT_THAT(ServerTls({pem, none, ""}).status(), StatusIs(StatusCode::kNotFound, "--tls-key"));
  EXPECT_THAT(ServerTls({pem, key, none}).status(), StatusIs(StatusCode::kNotFound, "--client-ca"));
  EXPECT_THAT(ClientTls({"", "", none}).status(), StatusIs(StatusCode::kNotFound, "--ca"));
  EXPECT_THAT(ClientTls({"", "", files_.Path("empty")}).status(),
              StatusIs(StatusCode::kInvalidArgument, "--ca"));
  EXPECT_THAT(ClientTls({pem, key, ""}).status(), StatusIs(StatusCode::kInvalidArgument, "--ca"));
}

}  // namespace
}  // namespace nerf
