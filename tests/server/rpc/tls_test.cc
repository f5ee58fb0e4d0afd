// gRPC by TLS on a loopback socket, with certificates of a CA that the test makes.
#include "common/rpc/tls.h"

#include <gmock/gmock.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "tests/server/rpc/rpc_test_server.h"
#include "tests/testing/certificates.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;
using absl::StatusCode;

class TlsTest : public testing::Test {
 protected:
  TlsTest() {
    ca_.Write(dir_ / "ca.pem", "");
    other_ca_.Write(dir_ / "other-ca.pem", "");
    fs::create_directories(dir_ / "one");
    WriteServer("one");
    fs::create_directory_symlink(dir_ / "one", dir_ / "live");
    TestCertificate("client", &ca_).Write(dir_ / "client.pem", dir_ / "client.key");
    TestCertificate("client", &other_ca_).Write(dir_ / "stranger.pem", dir_ / "stranger.key");
  }

  void WriteServer(const std::string& folder, const std::string& name = "localhost") {
    fs::create_directories(dir_ / folder);
    TestCertificate(name, &ca_).Write(dir_ / (folder + "/tls.pem"), dir_ / (folder + "/tls.key"));
  }
  TlsFiles Live(bool asks_clients = false) {
    return {dir_ / "live/tls.pem", dir_ / "live/tls.key", asks_clients ? dir_ / "ca.pem" : ""};
  }

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

  const TestCertificate ca_{"test CA"}, other_ca_{"other CA"};
  TempDir dir_;
};

TEST_F(TlsTest, OnlyClientsThatTrustTheServerGetThrough) {
  const RpcTestServer server(true, *ServerTls(Live()));
  EXPECT_THAT(Call(server, {"", "", dir_ / "ca.pem"}), IsOk());
  EXPECT_THAT(Call(server, {"", "", dir_ / "ca.pem"}, "127.0.0.1"), IsOk());
  EXPECT_THAT(Call(server, {"", "", dir_ / "other-ca.pem"}), StatusIs(StatusCode::kUnavailable));
  EXPECT_THAT(Call(server, {}), StatusIs(StatusCode::kUnavailable)) << "plaintext";
}

TEST_F(TlsTest, CertificateOfAnotherHostIsRefused) {
  WriteServer("elsewhere", "nerf.example.com");
  const RpcTestServer server(
      true, *ServerTls({dir_ / "elsewhere/tls.pem", dir_ / "elsewhere/tls.key", ""}));
  EXPECT_THAT(Call(server, {"", "", dir_ / "ca.pem"}), StatusIs(StatusCode::kUnavailable));
}

TEST_F(TlsTest, WithAClientCaEveryClientShowsACertificate) {
  const RpcTestServer server(true, *ServerTls(Live(/*asks_clients=*/true)));
  EXPECT_THAT(Call(server, {dir_ / "client.pem", dir_ / "client.key", dir_ / "ca.pem"}), IsOk());
  EXPECT_THAT(Call(server, {"", "", dir_ / "ca.pem"}), StatusIs(StatusCode::kUnavailable));
  EXPECT_THAT(Call(server, {dir_ / "stranger.pem", dir_ / "stranger.key", dir_ / "ca.pem"}),
              StatusIs(StatusCode::kUnavailable));
}

// Clients with open connections and clients that come anew, while the certificate is replaced by
// turning a link to another folder.
TEST_F(TlsTest, CertificatesAreSwappedUnderLoadWithoutAFailedCall) {
  const RpcTestServer server(true, *ServerTls(Live()));
  const TlsFiles client = {"", "", dir_ / "ca.pem"};
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
    WriteServer(folder);
    fs::create_directory_symlink(dir_ / folder, dir_ / "next");
    fs::rename(dir_ / "next", dir_ / "live");
    absl::SleepFor(absl::Milliseconds(2500));
  }
  ends = true;
  clients.clear();
  EXPECT_GT(n_calls, 100);
  EXPECT_EQ(n_failed, 0) << "of " << n_calls;
  // What is served now is the third: of a CA whose other certificates would not be trusted.
  fs::create_directories(dir_ / "four");
  TestCertificate("localhost", &other_ca_).Write(dir_ / "four/tls.pem", dir_ / "four/tls.key");
  fs::create_directory_symlink(dir_ / "four", dir_ / "next");
  fs::rename(dir_ / "next", dir_ / "live");
  const TlsFiles other = {"", "", dir_ / "other-ca.pem"};
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (!Call(server, other).ok() && absl::Now() < deadline)
    absl::SleepFor(absl::Milliseconds(100));
  EXPECT_THAT(Call(server, other), IsOk());
  EXPECT_THAT(Call(server, client), StatusIs(StatusCode::kUnavailable));
}

TEST_F(TlsTest, BadFilesAreNamedAtTheStart) {
  const std::string pem = dir_ / "one/tls.pem", key = dir_ / "one/tls.key";
  std::ofstream(dir_ / "empty");
  std::ofstream(dir_ / "garbage")
      << "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
  std::ofstream(dir_ / "long") << std::string(2 << 20, 'A');
  const std::string locked =
      "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIHs\n-----END ENCRYPTED PRIVATE KEY-----\n";
  std::ofstream(dir_ / "locked") << locked;
  const std::pair<TlsFiles, const char*> cases[] = {
      {{dir_ / "none", key, ""}, "--tls-cert"},
      {{dir_ / "empty", key, ""}, "--tls-cert"},
      {{dir_ / "garbage", key, ""}, "--tls-cert"},
      {{dir_ / "long", key, ""}, "--tls-cert"},
      {{dir_.path(), key, ""}, "--tls-cert"},
      {{pem, dir_ / "none", ""}, "--tls-key"},
      {{pem, dir_ / "empty", ""}, "--tls-key"},
      {{pem, dir_ / "locked", ""}, "--tls-key"},
      {{pem, pem, ""}, "--tls-key"},
      {{pem, dir_ / "client.key", ""}, "is not the key of"},
      {{pem, "", ""}, "go together"},
      {{pem, key, dir_ / "none"}, "--client-ca"},
      {{pem, key, dir_ / "garbage"}, "--client-ca"},
      {{"", "", dir_ / "ca.pem"}, "--client-ca needs --tls-cert"},
  };
  for (const auto& [files, words] : cases) {
    EXPECT_THAT(ServerTls(files).status(), StatusIs(StatusCode::kInvalidArgument, words));
  }
  EXPECT_THAT(ClientTls({"", "", dir_ / "empty"}).status(),
              StatusIs(StatusCode::kInvalidArgument, "--ca"));
  EXPECT_THAT(ClientTls({pem, key, ""}).status(), StatusIs(StatusCode::kInvalidArgument, "--ca"));
}

}  // namespace
}  // namespace nerf
