// What strangers send to the gateway, changed at random: frames, headers, JSON, whole
// requests, also by TLS, and handshakes.
// Seconds in ctest, always the same inputs; NERF_FUZZ_SECONDS=600 tries others for ten minutes each
// (tests/testing/mutator.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <csignal>
#include <cstdint>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "nerf/v1/job_service.pb.h"
#include "nerf/v1/render_service.pb.h"
#include "nerf/v1/scene_service.pb.h"
#include "server/web/blob_path.h"
#include "server/web/envelope.h"
#include "server/web/json_codec.h"
#include "server/web/origin.h"
#include "server/web/request_guard.h"
#include "server/web/rpc_format.h"
#include "server/web/web_server.h"
#include "tests/server/rpc/rpc_test_server.h"
#include "tests/server/web/tls_web_client.h"
#include "tests/server/web/web_client.h"
#include "tests/testing/mutator.h"
#include "tests/testing/tls_folder.h"

namespace nerf {
namespace {

constexpr const char* kContentTypes[] = {
    "application/json",          "application/proto",
    "application/connect+json",  "application/connect+proto",
    "application/grpc-web",      "application/grpc-web+json",
    "application/grpc-web-text", "application/grpc-web-text+proto"};

void Report(const char* what, uint64_t n) { std::cout << what << ": " << n << " inputs\n"; }

TEST(WebFuzzTest, FramesAreWholeOrRefused) {
  const std::string frame = Envelope(0, "a message");
  const std::vector<std::string> seeds = {frame,
                                          Envelope(0, ""),
                                          Envelope(0, std::string(300, 'x')),
                                          Envelope(0x80, "grpc-status:0"),
                                          absl::Base64Escape(frame),
                                          absl::Base64Escape(frame) + absl::Base64Escape("more")};
  const std::vector<std::string> words = {std::string(5, '\0'),
                                          "\xff\xff\xff\xff",
                                          std::string("\0\0\0\1", 4),
                                          "\x80",
                                          "\x01",
                                          "=",
                                          "==",
                                          frame};
  Report("frames", Fuzz(seeds, words, 20'000, [](const std::string& input) {
           const auto payload = SoleEnvelope(input);
           if (payload.ok()) {
             EXPECT_EQ(Envelope(0, *payload), input);
           }
           const auto bytes = DecodeBase64Pieces(input);
           if (bytes.ok()) {
             EXPECT_EQ(input.size() % 4, 0u);
             EXPECT_LE(bytes->size(), input.size() / 4 * 3);
           }
           for (const char* type : kContentTypes) {
             const RpcFormat format = *ParseRpcContentType(type);
             const auto message = UnwrapRequest(format, input);
             if (message.ok()) {
               EXPECT_LE(message->size(), input.size());
             }
           }
         }));
}

TEST(WebFuzzTest, HeadersAreReadOrRefused) {
  const std::vector<std::string> seeds = {
      "application/json; charset=utf-8",
      "application/grpc-web-text+proto",
      "600S",
      "86400000",
      "bytes=0-99",
      "bytes=-5",
      "bytes=7-",
      "https://nerf.example.com:8443",
      "http://[::1]:8080",
      "127.0.0.1:8080",
      "/blobs/" + std::string(64, 'a') + "/19131",
      "/projects/lab/uploads/0b5e4a2e-3c1d-4f6a-9b7e-1a2b3c4d5e6f/blobs/" + std::string(64, '0') +
          "/5"};
  const std::vector<std::string> words = {"18446744073709551615",
                                          "18446744073709551616",
                                          "-1",
                                          "0",
                                          "99999999",
                                          "H",
                                          "n",
                                          ",",
                                          ";",
                                          ":",
                                          "/",
                                          "..",
                                          "//",
                                          "[",
                                          "]",
                                          "%2e",
                                          "\r\n",
                                          std::string(1, '\0'),
                                          "localhost",
                                          "null",
                                          "*",
                                          std::string(2000, 'a')};
  const RequestGuard guard({*ParseOrigin("https://nerf.example.com")});
  Report("headers", Fuzz(seeds, words, 20'000, [&](const std::string& input) {
           HttpRequestHead head;
           head.method = "POST";
           head.path = input;
           for (const char* name : {"host", "origin", "sec-fetch-site", "connect-timeout-ms",
                                    "grpc-timeout", "connect-protocol-version", "grpc-encoding"}) {
             head.headers.emplace_back(name, input);
           }
           for (const char* type : kContentTypes) {
             const RpcFormat format = *ParseRpcContentType(type);
             const auto timeout = ReadRpcTimeout(format, head);
             if (timeout.ok()) {
               EXPECT_GE(*timeout, absl::ZeroDuration());
             }
             CheckRpcHeaders(format, head).IgnoreError();
           }
           ParseRpcContentType(input);
           const RequestGuard::Verdict verdict = guard.Check(head);
           if (!verdict.cors_origin.empty()) {
             EXPECT_EQ(verdict.cors_origin, "https://nerf.example.com");
           }
           guard.Preflight(head, verdict);
           if (const auto origin = ParseOrigin(input); origin.ok()) {
             EXPECT_EQ(*ParseOrigin(origin->ToString()), *origin);
           }
           ParseHost("http", input).IgnoreError();
           if (const auto blob = ParseBlobPath(input); blob.has_value()) {
             EXPECT_EQ("/" + blob->resource_name, input);
             EXPECT_EQ(blob->sha256.size(), 64u);
           }
           ByteRange range;
           if (ParseRange(input, 1000, &range) == RangeKind::kPart) {
             EXPECT_LT(range.begin, range.end);
             EXPECT_LE(range.end, 1000u);
           }
         }));
}

TEST(WebFuzzTest, JsonIsTranslatedThereAndBackOrRefused) {
  const std::vector<std::string> seeds = {
      R"({"name":"projects/default/jobs/j-1"})",
      R"({"job":{"training":{"config":{"samples":4e7,"background":"WHITE","settings":{"a":"b"}}}}})",
      R"({"scene":{"files":[{"path":"a/b.png","blob":{"sha256":"00","sizeBytes":12.5}}]}})",
      R"({"model":"m","camera":{"width":4,"flX":3.5,"transformMatrix":[1,0,0,0]},"channels":["RGB","DEPTH"]})"};
  const std::vector<std::string> words = {"\"",
                                          "{",
                                          "}",
                                          "[",
                                          "]",
                                          ":",
                                          ",",
                                          "null",
                                          "1e999",
                                          "-0",
                                          "\\u0000",
                                          "\\ud800",
                                          "NaN",
                                          "\"Infinity\"",
                                          "18446744073709551616",
                                          std::string(500, '['),
                                          "\xff\xfe",
                                          "\"config\":"};
  const google::protobuf::Descriptor* const types[] = {
      v1::GetJobRequest::descriptor(), v1::CreateJobRequest::descriptor(),
      v1::CreateSceneRequest::descriptor(), v1::RenderImageRequest::descriptor()};
  Report("JSON", Fuzz(seeds, words, 4'000, [&](const std::string& input) {
           for (const auto* type : types) {
             const auto binary = JsonToBinary(*type, input);
             BinaryToJson(*type, input).status().IgnoreError();
             if (!binary.ok()) continue;
             const auto json = BinaryToJson(*type, *binary);
             ASSERT_TRUE(json.ok()) << json.status();
             const auto again = JsonToBinary(*type, *json);
             ASSERT_TRUE(again.ok()) << again.status();
             EXPECT_EQ(*BinaryToJson(*type, *again), *json);
           }
         }));
}

// What a client of TLS sends first.
std::string ClientHello() {
  SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
  SSL* const ssl = SSL_new(context);
  BIO* const out = BIO_new(BIO_s_mem());
  SSL_set_bio(ssl, BIO_new(BIO_s_mem()), out);
  SSL_connect(ssl);  // waits for the server's answer
  const char* bytes = nullptr;
  const long n_bytes = BIO_get_mem_data(out, &bytes);
  std::string hello(bytes, static_cast<size_t>(n_bytes));
  SSL_free(ssl);
  SSL_CTX_free(context);
  ERR_clear_error();
  return hello;
}

// Sends each request on a connection that `connect` makes and says that no more comes: whatever the
// gateway made of it, it must answer or close, and serve the next one.
void FuzzRequests(const char* what, uint64_t n_inputs,
                  const std::function<std::unique_ptr<WebClient>()>& connect) {
  const std::string call = HttpRequest("POST", "/nerf.v1.JobService/ListJobs",
                                       "Content-Type: application/json\r\n", "{}");
  const std::vector<std::string> seeds = {
      HttpRequest("GET", "/"),
      call,
      call + call,
      HttpRequest("POST", "/nerf.v1.JobService/WatchJobs",
                  "Content-Type: application/grpc-web+proto\r\n", Envelope(0, "")),
      HttpRequest("GET", "/blobs/" + std::string(64, 'a') + "/5", "Range: bytes=0-3\r\n"),
      HttpRequest(
          "PATCH",
          "/uploads/0b5e4a2e-3c1d-4f6a-9b7e-1a2b3c4d5e6f/blobs/" + std::string(64, 'a') + "/5",
          "Tus-Resumable: 1.0.0\r\nUpload-Offset: 0\r\n"
          "Content-Type: application/offset+octet-stream\r\n",
          "hello"),
      "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: "
      "chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
      HttpRequest("OPTIONS", "/nerf.v1.JobService/ListJobs",
                  "Origin: https://a.example\r\nAccess-Control-Request-Method: POST\r\n")};
  const std::vector<std::string> words = {"\r\n",
                                          "\n",
                                          "\r\n\r\n",
                                          "HTTP/1.0",
                                          "HTTP/2.0",
                                          "Content-Length: 5\r\n",
                                          "Content-Length: -1\r\n",
                                          "Content-Length: 99999999999999999999\r\n",
                                          "Transfer-Encoding: chunked\r\n",
                                          "Expect: 100-continue\r\n",
                                          "Connection: close\r\n",
                                          "Upgrade: h2c\r\n",
                                          "ffffffffffffffff\r\n",
                                          "0\r\n\r\n",
                                          " ",
                                          ":",
                                          std::string(1, '\0'),
                                          std::string(20'000, 'a'),
                                          "\xff"};
  uint64_t n_since_check = 0;
  Report(what, Fuzz(seeds, words, n_inputs, [&](const std::string& input) {
           const auto client = connect();
           client->Send(input);
           client->CloseWrites();
           ASSERT_TRUE(client->HasEnded())
               << "neither answered nor closed: " << absl::CHexEscape(input);
           if (++n_since_check % 50 != 0) return;
           EXPECT_EQ(connect()->Ask(HttpRequest("GET", "/")).status, 200);
         }));
  EXPECT_EQ(connect()->Ask(HttpRequest("GET", "/")).status, 200);
}

WebServerOptions OnLoopback() {
  WebServerOptions options;
  options.host = "127.0.0.1";
  return options;
}

TEST(WebFuzzTest, EveryConnectionEndsAndTheNextIsServed) {
  RpcTestServer services;
  const auto web = *WebServer::Start(OnLoopback(), services.channel, &services.clock);
  FuzzRequests("requests", 300, [&] { return std::make_unique<WebClient>(web->port()); });
}

TEST(WebFuzzTest, EveryTlsConnectionEndsAndTheNextIsServed) {
  std::signal(SIGPIPE, SIG_IGN);  // SSL_write to a connection that the gateway has closed
  const TlsFolder files;
  RpcTestServer services;
  WebServerOptions options = OnLoopback();
  options.tls = files.Live();
  const auto web = *WebServer::Start(options, services.channel, &services.clock);
  const TlsWebClient::Options trust{{"", "", files.Path("ca.pem")}};
  FuzzRequests("requests by TLS", 200,
               [&] { return std::make_unique<TlsWebClient>(web->port(), trust); });
}

// A handshake that strangers have changed: refused or completed, and the next one succeeds.
TEST(WebFuzzTest, EveryHandshakeEnds) {
  const TlsFolder files;
  RpcTestServer services;
  WebServerOptions options = OnLoopback();
  options.tls = files.Live();
  const auto web = *WebServer::Start(options, services.channel, &services.clock);
  const std::vector<std::string> words = {"\x16\x03\x01",           "\x15\x03\x03",
                                          std::string("\0\0", 2),   "\xff\xff",
                                          std::string(17'000, 'a'), "GET / HTTP/1.1\r\n\r\n"};
  Report("handshakes", Fuzz({ClientHello()}, words, 300, [&](const std::string& input) {
           WebClient client(web->port());
           client.Send(input);
           client.CloseWrites();
           ASSERT_TRUE(client.HasEnded())
               << "neither answered nor closed: " << absl::CHexEscape(input);
         }));
  const TlsWebClient::Options trust{{"", "", files.Path("ca.pem")}};
  EXPECT_EQ(TlsWebClient(web->port(), trust).Ask(HttpRequest("GET", "/")).status, 200);
}

}  // namespace
}  // namespace nerf
