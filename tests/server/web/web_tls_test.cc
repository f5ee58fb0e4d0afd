// The gateway by TLS over real sockets, with certificates of a CA that the test makes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/sha256.h"
#include "server/web/envelope.h"
#include "server/web/tls_context.h"
#include "server/web/web_server.h"
#include "tests/server/rpc/rpc_test_server.h"
#include "tests/server/web/tls_web_client.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tls_folder.h"
#include "tests/testing/wait_until.h"

namespace nerf {
namespace {

using testing::HasSubstr;

constexpr char kWebTlsJson[] = "Content-Type: application/json\r\n";
constexpr absl::Duration kPatience = absl::Seconds(20);

class WebTlsTest : public testing::Test {
 protected:
  WebTlsTest() {
    options_.host = "127.0.0.1";
    options_.limits.sweep_interval = absl::Milliseconds(5);
    options_.tls = files_.Live();
  }
  void SetUp() override { Serve(); }

  void Serve() {
    web_.reset();
    web_ = *WebServer::Start(options_, services_.channel, &services_.clock);
  }

  // A client that trusts `ca` and shows the certificate of that name, if any.
  std::unique_ptr<TlsWebClient> Connect(const std::string& ca = "ca.pem",
                                        const std::string& shown = "") {
    TlsFiles files{"", "", files_.Path(ca)};
    if (!shown.empty()) {
      files.cert = files_.Path(shown + ".pem");
      files.key = files_.Path(shown + ".key");
    }
    return std::make_unique<TlsWebClient>(web_->port(), TlsWebClient::Options{files});
  }
  WebAnswer Ask(const std::string& request, const std::string& ca = "ca.pem") {
    return Connect(ca)->Ask(request);
  }
  WebAnswer GetPage() { return Ask(HttpRequest("GET", "/")); }

  // A call that watches a new job.
  std::string WatchRequest() {
    const std::string job = services_.CreateJob(services_.CreateScene()).name();
    return HttpRequest("POST", "/nerf.v1.JobService/WatchJob",
                       "Content-Type: application/connect+json\r\n",
                       Envelope(0, absl::StrCat(R"({"name":")", job, R"("})")));
  }
  size_t NumWatchers() { return services_.queue->Stats().n_watchers; }

  TlsFolder files_;
  RpcTestServer services_;
  WebServerOptions options_;
  std::unique_ptr<WebServer> web_;
};

TEST_F(WebTlsTest, PageAndCallsComeByTls) {
  EXPECT_THAT(GetPage().body, HasSubstr("<!doctype html>"));
  const std::string call = HttpRequest("POST", "/nerf.v1.JobService/ListJobs", kWebTlsJson, "{}");
  const auto client = Connect();
  client->Send(call + call);  // two in one record
  EXPECT_EQ(client->Read().status, 200);
  EXPECT_EQ(client->Read().status, 200);
  EXPECT_EQ(client->Ask(call).status, 200);

  const auto watch = Connect();
  watch->Send(WatchRequest());
  EXPECT_EQ(watch->ReadHead().status, 200);
  std::string frame;
  ASSERT_TRUE(watch->ReadChunk(&frame));
  EXPECT_THAT(frame, HasSubstr("SNAPSHOT"));
}

TEST_F(WebTlsTest, BlobsComeAndGoInManyRecords) {
  std::string content(3'000'000, '\0');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * i / 251);
  const std::string blob = absl::StrCat("blobs/", Sha256Hex(content), "/", content.size());
  const std::string upload =
      HttpRequest("PATCH", "/uploads/0b5e4a2e-3c1d-4f6a-9b7e-1a2b3c4d5e6f/" + blob,
                  "Tus-Resumable: 1.0.0\r\nUpload-Offset: 0\r\n"
                  "Content-Type: application/offset+octet-stream\r\n",
                  content);
  EXPECT_EQ(Ask(upload).status, 204);
  EXPECT_TRUE(Ask(HttpRequest("GET", "/" + blob)).body == content);
}

TEST_F(WebTlsTest, RefusedUploadsAreAnsweredWhileTheirBytesStillCome) {
  const auto client = Connect();
  const std::string body(2'000'000, 'x');
  client->Send(HttpRequest("POST", "/none", "", body));
  EXPECT_EQ(client->Read().status, 404);
  EXPECT_TRUE(client->HasEnded());
}

TEST_F(WebTlsTest, CallsEndWhenTheirReaderGoes) {
  for (const bool in_order : {true, false}) {
    auto client = Connect();
    client->Send(WatchRequest());
    std::string frame;
    client->ReadHead();
    ASSERT_TRUE(client->ReadChunk(&frame));
    EXPECT_EQ(NumWatchers(), 1u);
    if (in_order) client->SayGoodbye();
    if (!in_order) client.reset();
    EXPECT_TRUE(WaitUntil(kPatience, [&] { return NumWatchers() == 0; })) << in_order;
  }
}

TEST_F(WebTlsTest, PlainHttpIsToldToUseTls) {
  WebClient plain(web_->port());
  const WebAnswer answer = plain.Ask(HttpRequest("GET", "/"));
  EXPECT_EQ(answer.status, 400);
  EXPECT_THAT(answer.body, HasSubstr("https://"));
  EXPECT_TRUE(plain.HasEnded());
}

TEST_F(WebTlsTest, ClientsThatDoNotTrustTheServerGetNothing) {
  EXPECT_FALSE(Connect("other-ca.pem")->is_connected());
  EXPECT_EQ(GetPage().status, 200);
}

TEST_F(WebTlsTest, WithAClientCaEveryClientShowsACertificate) {
  options_.tls = files_.Live(/*asks_clients=*/true);
  Serve();
  EXPECT_EQ(Connect("ca.pem", "client")->Ask(HttpRequest("GET", "/")).status, 200);
  // In TLS 1.3 a client learns of the refusal by its first read.
  EXPECT_EQ(GetPage().status, 0);
  EXPECT_EQ(Connect("ca.pem", "stranger")->Ask(HttpRequest("GET", "/")).status, 0);
}

TEST_F(WebTlsTest, OldVersionsAndOtherProtocolsAreRefused) {
  const TlsFiles trust{"", "", files_.Path("ca.pem")};
  EXPECT_FALSE(TlsWebClient(web_->port(), {trust, TLS1_1_VERSION}).is_connected());
  EXPECT_TRUE(TlsWebClient(web_->port(), {trust, TLS1_2_VERSION}).is_connected());
  EXPECT_FALSE(TlsWebClient(web_->port(), {trust, TLS1_3_VERSION, "\x02h2"}).is_connected());
  const TlsWebClient both(web_->port(), {trust, TLS1_3_VERSION, "\x02h2\x08http/1.1"});
  EXPECT_TRUE(both.is_connected());
  EXPECT_EQ(both.protocol(), "http/1.1");
}

TEST_F(WebTlsTest, PagesThatCameByHttpMayNotCall) {
  const std::string path = "/nerf.v1.JobService/ListJobs";
  const auto from = [&](const std::string& origin) {
    return Ask(HttpRequest("POST", path, kWebTlsJson + ("Origin: " + origin + "\r\n"), "{}"))
        .status;
  };
  EXPECT_EQ(from("https://localhost:8080"), 200);
  EXPECT_EQ(from("http://localhost:8080"), 403);
}

void WriteRsaKey(const std::string& path) {
  EVP_PKEY* const key = EVP_RSA_gen(2048);
  BIO* const out = BIO_new_file(path.c_str(), "w");
  PEM_write_bio_PrivateKey(out, key, nullptr, nullptr, 0, nullptr, nullptr);
  BIO_free(out);
  EVP_PKEY_free(key);
}

// The first bytes of a handshake, as OpenSSL sends them.
constexpr char kHalfHello[] = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";

TEST_F(WebTlsTest, HandshakesThatStallAreCutOff) {
  WebClient silent(web_->port()), half(web_->port()), slow(web_->port());
  half.Send(std::string(kHalfHello, sizeof(kHalfHello) - 1));
  // Bytes that come now and then do not prolong it.
  for (int i = 0; i < 4; ++i) {
    slow.Send(std::string(1, kHalfHello[i]));
    EXPECT_EQ(GetPage().status, 200) << "the gateway has seen the others by now";
    services_.clock.Advance(options_.limits.handshake_timeout / 5);
  }
  slow.Send(std::string(1, kHalfHello[4]));
  EXPECT_EQ(GetPage().status, 200);
  services_.clock.Advance(options_.limits.handshake_timeout / 5);
  EXPECT_TRUE(silent.HasEnded());
  EXPECT_TRUE(half.HasEnded());
  EXPECT_TRUE(slow.HasEnded());
  EXPECT_EQ(GetPage().status, 200);
}

TEST_F(WebTlsTest, ConnectionsThatDoNotAskAreCutOffAfterTheHandshakeToo) {
  const auto client = Connect();
  ASSERT_TRUE(client->is_connected());
  EXPECT_EQ(GetPage().status, 200);
  services_.clock.Advance(options_.limits.header_timeout);
  EXPECT_TRUE(client->HasEnded());

  const auto slow = Connect();
  slow->Send("GET / HTTP/1.1\r\n");
  EXPECT_EQ(GetPage().status, 200);
  services_.clock.Advance(options_.limits.header_timeout);
  EXPECT_EQ(slow->Read().status, 408);
}

TEST_F(WebTlsTest, StalledHandshakesMakeRoomForOthers) {
  options_.limits.max_strangers = 4;
  Serve();
  std::vector<std::unique_ptr<WebClient>> stalled;
  for (int i = 0; i < 12; ++i) {
    stalled.push_back(std::make_unique<WebClient>(web_->port()));
    stalled.back()->Send(std::string(kHalfHello, sizeof(kHalfHello) - 1));
  }
  EXPECT_EQ(GetPage().status, 200);
  EXPECT_TRUE(stalled.front()->HasEnded());
}

TEST_F(WebTlsTest, BytesThatAreNoHandshakeEndTheirConnectionAlone) {
  const std::string hello(kHalfHello, sizeof(kHalfHello) - 1);
  const std::vector<std::string> hostile = {
      "",
      std::string(1, '\0'),
      std::string(100'000, '\xff'),
      std::string(100'000, '\x16'),
      hello + std::string(600, 'a'),
      std::string("\x16\x03\x01\xff\xff", 5) + std::string(70'000, 'b'),
      std::string("\x15\x03\x03\x00\x02\x02\x00", 7),  // an alert first
      std::string("\x17\x03\x03\x00\x05hello", 10),    // data first
      std::string("\x80\x2e\x01\x00\x02", 5),          // SSL 2
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
      "CONNECT localhost:1 HTTP/1.1\r\n\r\n",
      "PUT /" + std::string(50'000, 'c'),
  };
  for (const std::string& bytes : hostile) {
    WebClient client(web_->port());
    client.Send(bytes);
    client.CloseWrites();
    EXPECT_TRUE(client.HasEnded()) << bytes.substr(0, 20);
    EXPECT_EQ(GetPage().status, 200) << bytes.substr(0, 20);
  }
  // After the handshake, too: bytes that no key has encrypted.
  const auto client = Connect();
  client->SendPlain(std::string("\x17\x03\x03\x00\x20", 5) + std::string(32, 'x'));
  EXPECT_TRUE(client->HasEnded());
  EXPECT_EQ(GetPage().status, 200);
}

// Clients with open connections and clients that come anew, while the certificate is replaced by
// turning a link to another folder.
TEST_F(WebTlsTest, CertificatesAreSwappedUnderLoadWithoutAFailedRequest) {
  std::atomic<bool> ends = false;
  std::atomic<int> n_requests = 0, n_failed = 0;
  std::vector<std::jthread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&, i] {
      const auto kept = Connect();
      const std::string request = HttpRequest("GET", "/favicon.svg");
      while (!ends) {
        const int status = i % 2 == 0 ? kept->Ask(request).status : Ask(request).status;
        ++n_requests;
        if (status != 200) ++n_failed;
      }
    });
  }
  for (const char* folder : {"two", "three", "four", "five"}) {
    const int before = n_requests;
    EXPECT_TRUE(WaitUntil(kPatience, [&] { return n_requests > before + 50; }));
    files_.Serve(folder);
    services_.clock.Advance(absl::Seconds(1));
  }
  ends = true;
  clients.clear();
  EXPECT_EQ(n_failed, 0) << "of " << n_requests;
  // The clients above would trust each of the five. Now one of another CA is served.
  const auto kept = Connect();
  files_.Serve("six", /*of_other_ca=*/true);
  services_.clock.Advance(absl::Seconds(1));
  EXPECT_TRUE(WaitUntil(kPatience, [&] { return Connect("other-ca.pem")->is_connected(); }));
  EXPECT_FALSE(Connect()->is_connected());
  EXPECT_EQ(kept->Ask(HttpRequest("GET", "/")).status, 200) << "it began before";
}

TEST(TlsContextTest, FilesThatCannotBeUsedChangeNothingUntilTheyAreMended) {
  TlsFolder files;
  TlsContext tls = *TlsContext::Open(files.Live());
  const std::string pem = files.Path("one/tls.pem"), key = files.Path("one/tls.key");
  const SSL_CTX* const before = tls.current().native_handle();
  const auto keeps = [&] {
    tls.Reload();
    return tls.current().native_handle() == before;
  };
  EXPECT_TRUE(keeps()) << "the same files";
  WriteRsaKey(key);
  EXPECT_TRUE(keeps()) << "a key of another kind than the certificate's";
  files.Make("other", "localhost", /*of_other_ca=*/true);
  std::filesystem::copy_file(files.Path("other/tls.pem"), pem,
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_TRUE(keeps()) << "a certificate without its key";
  std::filesystem::remove(key);
  EXPECT_TRUE(keeps()) << "no key";
  std::ofstream(key) << "garbage";
  EXPECT_TRUE(keeps()) << "a key of garbage";
  std::ofstream(key) << std::string(2 << 20, 'A');
  EXPECT_TRUE(keeps()) << "a long key";
  std::filesystem::copy_file(files.Path("other/tls.key"), key,
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_FALSE(keeps()) << "a certificate with its key";
}

TEST_F(WebTlsTest, BadFilesAreNamedAtTheStart) {
  const std::string pem = files_.Path("one/tls.pem"), key = files_.Path("one/tls.key");
  std::ofstream(files_.Path("garbage"))
      << "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
  std::ofstream(files_.Path("locked"))
      << "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIHs\n-----END ENCRYPTED PRIVATE KEY-----\n";
  const std::pair<TlsFiles, const char*> cases[] = {
      {{files_.Path("none"), key, ""}, "--tls-cert"},
      {{files_.Path("garbage"), key, ""}, "--tls-cert"},
      {{files_.Path(""), key, ""}, "--tls-cert"},
      {{pem, files_.Path("none"), ""}, "--tls-key"},
      {{pem, files_.Path("locked"), ""}, "--tls-key"},
      {{pem, files_.Path("client.key"), ""}, "--tls-key"},
      {{pem, key, files_.Path("none")}, "--client-ca"},
      {{pem, key, files_.Path("garbage")}, "--client-ca"},
  };
  for (const auto& [files, words] : cases) {
    WebServerOptions options = options_;
    options.tls = files;
    EXPECT_THAT(WebServer::Start(options, services_.channel, &services_.clock),
                StatusIs(absl::StatusCode::kInvalidArgument, words));
  }
}

TEST_F(WebTlsTest, EndingCutsStreamsAndHandshakes) {
  WebClient stalled(web_->port());
  const auto client = Connect();
  client->Send(WatchRequest());
  EXPECT_EQ(client->ReadHead().status, 200);
  web_.reset();
  EXPECT_TRUE(client->HasEnded());
  EXPECT_TRUE(stalled.HasEnded());
}

}  // namespace
}  // namespace nerf
