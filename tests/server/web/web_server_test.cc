// The gateway over real sockets, with the services behind it in process.
#include "server/web/web_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/files/sha256.h"
#include "server/web/envelope.h"
#include "tests/server/rpc/rpc_test_server.h"
#include "tests/server/web/web_client.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/wait_until.h"

namespace nerf {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

constexpr char kWebServerJson[] = "Content-Type: application/json\r\n";
constexpr char kConnectStream[] = "Content-Type: application/connect+json\r\n";
constexpr char kGrpcWeb[] = "Content-Type: application/grpc-web+proto\r\n";
constexpr char kTus[] = "Tus-Resumable: 1.0.0\r\n";
constexpr char kWebServerUuid[] = "0b5e4a2e-3c1d-4f6a-9b7e-1a2b3c4d5e6f";

std::string Method(const char* name) { return absl::StrCat("/nerf.v1.", name); }

class WebServerTest : public testing::Test {
 protected:
  WebServerTest() {
    options_.host = "127.0.0.1";
    options_.allowed_origins = {*ParseOrigin("https://nerf.example.com")};
    options_.limits.sweep_interval = absl::Milliseconds(5);
  }
  void SetUp() override { Serve(); }

  void Serve() {
    web_.reset();
    web_ = *WebServer::Start(options_, services_.channel, &services_.clock);
  }

  WebAnswer Ask(const std::string& request) { return WebClient(web_->port()).Ask(request); }

  // A unary call in Connect's JSON.
  WebAnswer Call(const char* method, const std::string& body, const std::string& headers = "") {
    return Ask(HttpRequest("POST", Method(method), kWebServerJson + headers, body));
  }

  std::string CreateJob() { return services_.CreateJob(services_.CreateScene()).name(); }

  RpcTestServer services_;
  WebServerOptions options_;
  std::unique_ptr<WebServer> web_;
};

TEST_F(WebServerTest, UnaryCallsInJson) {
  const std::string job = CreateJob();
  const WebAnswer answer = Call("JobService/GetJob", absl::StrCat(R"({"name":")", job, R"("})"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.headers.at("content-type"), "application/json");
  EXPECT_EQ(answer.headers.at("x-content-type-options"), "nosniff");
  const Json json = Json::parse(answer.body);
  EXPECT_EQ(json["name"], job);
  EXPECT_EQ(json["state"], "QUEUED");
  EXPECT_EQ(json["attempt"], 0);
}

TEST_F(WebServerTest, OpenCommandIsToldWithoutATokenButToNoOtherSite) {
  const auto ask = [this](const std::string& headers) {
    return Ask(HttpRequest("GET", "/open-command", headers, ""));
  };
  EXPECT_EQ(ask("").status, 404) << "unless the server says one";
  options_.open_command = "nerfctl open";
  Serve();
  EXPECT_EQ(ask("").body, "nerfctl open");
  EXPECT_EQ(ask("").headers.at("content-type"), "text/plain; charset=utf-8");
  EXPECT_EQ(ask("Origin: https://evil.example.com\r\n").status, 403);
  EXPECT_EQ(ask("Sec-Fetch-Site: cross-site\r\n").status, 403);
  EXPECT_EQ(ask("Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n"
                "Sec-Fetch-Dest: document\r\n")
                .status,
            404);
  EXPECT_EQ(Ask(HttpRequest("POST", "/open-command", "", "")).status, 405);
}

TEST_F(WebServerTest, UnaryCallsInBinary) {
  const std::string job = CreateJob();
  v1::GetJobRequest request;
  request.set_name(job);
  const std::string path = Method("JobService/GetJob");
  const std::string message = request.SerializeAsString();
  const std::string trailers = Envelope(0x80, "grpc-status:0\r\n");
  const auto name_in = [](const std::string& bytes) {
    v1::Job parsed;
    return parsed.ParseFromString(bytes) ? parsed.name() : "unreadable";
  };
  const WebAnswer connect =
      Ask(HttpRequest("POST", path, "Content-Type: application/proto\r\n", message));
  EXPECT_EQ(name_in(connect.body), job);

  const auto check_grpc_web = [&](std::string body) {
    ASSERT_TRUE(body.ends_with(trailers)) << absl::CHexEscape(body);
    body.resize(body.size() - trailers.size());
    const auto reply = SoleEnvelope(body);
    ASSERT_THAT(reply, IsOk());
    EXPECT_EQ(name_in(std::string(*reply)), job);
  };
  check_grpc_web(Ask(HttpRequest("POST", path, kGrpcWeb, Envelope(0, message))).body);

  const WebAnswer text =
      Ask(HttpRequest("POST", path, "Content-Type: application/grpc-web-text\r\n",
                      absl::Base64Escape(Envelope(0, message))));
  EXPECT_EQ(text.headers.at("content-type"), "application/grpc-web-text");
  const auto decoded = DecodeBase64Pieces(text.body);
  ASSERT_THAT(decoded, IsOk());
  check_grpc_web(*decoded);
}

TEST_F(WebServerTest, ErrorsCarryCodeReasonAndFields) {
  const WebAnswer missing = Call("JobService/GetJob", R"({"name":"projects/default/jobs/none"})");
  EXPECT_EQ(missing.status, 404);
  const Json json = Json::parse(missing.body);
  EXPECT_EQ(json["code"], "not_found");
  EXPECT_EQ(json["details"][0]["type"], "google.rpc.ErrorInfo");

  const std::string path = Method("JobService/GetJob");
  const WebAnswer grpc_web = Ask(HttpRequest("POST", path, kGrpcWeb, Envelope(0, "")));
  EXPECT_EQ(grpc_web.status, 200);
  EXPECT_THAT(grpc_web.body, HasSubstr("grpc-status:3\r\n"));
  EXPECT_THAT(grpc_web.body, HasSubstr("grpc-status-details-bin:"));

  EXPECT_EQ(Call("JobService/GetJob", R"({"nme":"x"})").status, 400);
  EXPECT_EQ(Call("JobService/GetJob", "{").status, 400);
}

TEST_F(WebServerTest, StreamsAreFollowedFrameByFrame) {
  const std::string job = CreateJob();
  WebClient client(web_->port());
  client.Send(HttpRequest("POST", Method("JobService/WatchJob"), kConnectStream,
                          Envelope(0, absl::StrCat(R"({"name":")", job, R"("})"))));
  EXPECT_EQ(client.ReadHead().status, 200);
  std::string frame;
  ASSERT_TRUE(client.ReadChunk(&frame));
  EXPECT_EQ(Json::parse(frame.substr(5))["kind"], "SNAPSHOT");
  EXPECT_EQ(Call("JobService/CancelJob", absl::StrCat(R"({"name":")", job, R"("})")).status, 200);
  std::string kind, end;
  while (client.ReadChunk(&frame) && !frame.empty()) {
    if (frame[0] == kConnectEndFlag) {
      end = frame.substr(5);
    } else if (Json::parse(frame.substr(5))["kind"] != "BOOKMARK") {
      kind = Json::parse(frame.substr(5))["job"]["state"];
    }
  }
  EXPECT_EQ(kind, "CANCELLED");
  EXPECT_EQ(end, "{}");
}

TEST_F(WebServerTest, StreamsEndWithTheErrorInTheirLastFrame) {
  const std::string path = Method("JobService/WatchJob");
  const WebAnswer connect = Ask(HttpRequest("POST", path, kConnectStream, Envelope(0, "{}")));
  EXPECT_EQ(connect.status, 200);
  EXPECT_EQ(connect.body[0], kConnectEndFlag);
  EXPECT_EQ(Json::parse(connect.body.substr(5))["error"]["code"], "invalid_argument");
  const WebAnswer grpc_web = Ask(HttpRequest("POST", path, kGrpcWeb, Envelope(0, "")));
  EXPECT_EQ(static_cast<uint8_t>(grpc_web.body[0]), kGrpcWebTrailerFlag);
  EXPECT_THAT(grpc_web.body, HasSubstr("grpc-status:3"));
}

TEST_F(WebServerTest, DeadlinesAreTheCallers) {
  const std::string job = CreateJob();
  const std::string path = Method("JobService/WatchJob");
  const std::string body = Envelope(0, absl::StrCat(R"({"name":")", job, R"("})"));
  const WebAnswer answer = Ask(
      HttpRequest("POST", path, absl::StrCat(kConnectStream, "Connect-Timeout-Ms: 50\r\n"), body));
  EXPECT_THAT(answer.body, HasSubstr("deadline_exceeded"));
  const WebAnswer passed =
      Call("JobService/GetJob", R"({"name":"x"})", "Connect-Timeout-Ms: 0\r\n");
  EXPECT_EQ(passed.status, 504);
  EXPECT_EQ(Call("JobService/GetJob", "{}", "Connect-Timeout-Ms: soon\r\n").status, 400);
}

TEST_F(WebServerTest, CallsEndWhenTheirReaderGoes) {
  const std::string job = CreateJob();
  const auto n_watchers = [&] { return services_.queue->Stats().n_watchers; };
  auto client = std::make_unique<WebClient>(web_->port());
  client->Send(HttpRequest("POST", Method("JobService/WatchJob"), kConnectStream,
                           Envelope(0, absl::StrCat(R"({"name":")", job, R"("})"))));
  std::string frame;
  client->ReadHead();
  ASSERT_TRUE(client->ReadChunk(&frame));
  EXPECT_EQ(n_watchers(), 1u);
  client.reset();
  EXPECT_TRUE(WaitUntil(absl::Seconds(20), [&] { return n_watchers() == 0; }));
}

TEST_F(WebServerTest, EveryServiceOfTheApiIsServedButThatOfWorkers) {
  // A service that this server lacks is UNIMPLEMENTED, not an unknown path.
  for (const char* call :
       {"AdminService/ListWorkers", "JobService/ListJobs", "ModelService/ListModels",
        "RenderService/RenderImage", "SceneService/ListScenes", "ViewService/UpdateView"})
    EXPECT_THAT(Call(call, "{}").body, Not(HasSubstr("nothing is served"))) << call;
}

TEST_F(WebServerTest, WorkersCallsAndUnknownOnesAreNotServed) {
  EXPECT_EQ(Call("WorkerService/CommitCheckpoint", "{}").status, 404);
  EXPECT_EQ(Call("WorkerService/Synchronize", "{}").status, 404);
  EXPECT_EQ(Call("JobService/NoSuchMethod", "{}").status, 404);
  EXPECT_EQ(Call("NoSuchService/Get", "{}").status, 404);
  EXPECT_EQ(Ask(HttpRequest("POST", "/grpc.health.v1.Health/Check", kWebServerJson, "{}")).status,
            404);
  EXPECT_THAT(Ask(HttpRequest("POST", "/google.bytestream.ByteStream/Write", kConnectStream,
                              Envelope(0, "{}")))
                  .body,
              HasSubstr(R"({"error":{"code":"unimplemented")"));
}

TEST_F(WebServerTest, OnlyPostCalls) {
  for (const char* method : {"GET", "PUT", "DELETE", "PATCH"}) {
    const WebAnswer answer =
        Ask(HttpRequest(method, Method("JobService/ListJobs"), kWebServerJson));
    EXPECT_EQ(answer.status, 405) << method;
    EXPECT_EQ(answer.headers.at("allow"), "POST");
  }
  for (const char* type : {"text/plain", "application/x-www-form-urlencoded", "application/grpc",
                           "application/connect+json", "multipart/form-data; boundary=x"}) {
    EXPECT_EQ(Ask(HttpRequest("POST", Method("JobService/ListJobs"),
                              absl::StrCat("Content-Type: ", type, "\r\n"), "{}"))
                  .status,
              415)
        << type;
  }
}

TEST_F(WebServerTest, ConnectionsAreUsedAgainAndPipelinesAreAnsweredInOrder) {
  const std::string request =
      HttpRequest("POST", Method("JobService/ListJobs"), kWebServerJson, "{}");
  WebClient client(web_->port());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client.Ask(request).status, 200) << i;
  client.Send(request + request + HttpRequest("GET", "/none"));
  EXPECT_EQ(client.Read().status, 200);
  EXPECT_EQ(client.Read().status, 200);
  EXPECT_EQ(client.Read().status, 404);
}

TEST_F(WebServerTest, AllowedOriginsCallAndOthersAreRefused) {
  const auto call = [&](const char* origin) {
    return Call("JobService/ListJobs", "{}",
                absl::StrCat("Origin: ", origin, "\r\nSec-Fetch-Site: cross-site\r\n"));
  };
  const WebAnswer allowed = call("https://nerf.example.com");
  EXPECT_EQ(allowed.status, 200);
  EXPECT_EQ(allowed.headers.at("access-control-allow-origin"), "https://nerf.example.com");
  const WebAnswer refused = call("https://attacker.example");
  EXPECT_EQ(refused.status, 403);
  EXPECT_FALSE(refused.headers.contains("access-control-allow-origin"));

  const auto preflight = [&](const char* origin) {
    return Ask(HttpRequest("OPTIONS", Method("JobService/ListJobs"),
                           absl::StrCat("Origin: ", origin,
                                        "\r\nAccess-Control-Request-Method: POST\r\n"
                                        "Access-Control-Request-Headers: content-type\r\n")));
  };
  EXPECT_EQ(preflight("https://nerf.example.com").status, 204);
  EXPECT_THAT(preflight("https://nerf.example.com").headers.at("access-control-allow-headers"),
              HasSubstr("Content-Type"));
  EXPECT_EQ(preflight("https://attacker.example").status, 403);
}

TEST_F(WebServerTest, ThePageMayLoadNothingFromElsewhere) {
  const WebAnswer page = Ask(HttpRequest("GET", "/"));
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.headers.at("content-type"), "text/html; charset=utf-8");
  const std::string policy = page.headers.at("content-security-policy");
  EXPECT_THAT(policy, HasSubstr("default-src 'none'"));
  EXPECT_THAT(policy, HasSubstr("frame-ancestors 'none'"));
  EXPECT_THAT(policy, testing::Not(HasSubstr("unsafe")));
  EXPECT_EQ(Ask(HttpRequest("GET", "/app.js")).headers.at("content-type"),
            "text/javascript; charset=utf-8");
  EXPECT_EQ(
      Ask(HttpRequest("GET", "/", absl::StrCat("If-None-Match: ", page.headers.at("etag"), "\r\n")))
          .status,
      304);
  const WebAnswer head = Ask(HttpRequest("HEAD", "/"));
  EXPECT_EQ(head.headers.at("content-length"), std::to_string(page.body.size()));
  EXPECT_EQ(Ask(HttpRequest("POST", "/", kWebServerJson, "{}")).status, 405);
  for (const char* path : {"/index.htm", "/app.js/", "/dist/app.js", "/..", "/.git/config"}) {
    EXPECT_EQ(Ask(HttpRequest("GET", path)).status, 404) << path;
  }
}

TEST_F(WebServerTest, BytesOfABlobInPartsAndFromTheCache) {
  std::string content;
  for (int i = 0; i < 300'000; ++i) content += static_cast<char>(i * 7 + i / 256);
  services_.Put(content);
  const std::string path = absl::StrCat("/blobs/", Sha256Hex(content), "/", content.size());
  const WebAnswer whole = Ask(HttpRequest("GET", path + "?filename=model.safetensors"));
  EXPECT_EQ(whole.status, 200);
  EXPECT_EQ(whole.body, content);
  EXPECT_EQ(whole.headers.at("content-type"), "application/octet-stream");
  EXPECT_EQ(whole.headers.at("content-disposition"), "attachment; filename=\"model.safetensors\"");
  EXPECT_THAT(whole.headers.at("content-security-policy"), HasSubstr("sandbox"));
  EXPECT_EQ(whole.headers.at("etag"), '"' + Sha256Hex(content) + '"');
  EXPECT_EQ(Ask(HttpRequest("GET", path + "?filename=view.png")).headers.at("content-type"),
            "image/png");

  const WebAnswer part = Ask(HttpRequest("GET", path, "Range: bytes=100000-200000\r\n"));
  EXPECT_EQ(part.status, 206);
  EXPECT_EQ(part.headers.at("content-range"), "bytes 100000-200000/300000");
  EXPECT_EQ(part.body, content.substr(100'000, 100'001));
  EXPECT_EQ(Ask(HttpRequest("GET", path, "Range: bytes=300000-\r\n")).status, 416);
  EXPECT_EQ(Ask(HttpRequest("GET", path, "Range: bytes=5-9\r\nIf-Range: \"other\"\r\n")).status,
            200);

  const WebAnswer head = Ask(HttpRequest("HEAD", path));
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.headers.at("content-length"), "300000");
  EXPECT_EQ(
      Ask(HttpRequest("GET", path, absl::StrCat("If-None-Match: \"", Sha256Hex(content), "\"\r\n")))
          .status,
      304);
  const std::string none = absl::StrCat("/blobs/", Sha256Hex("none"), "/4");
  EXPECT_EQ(Ask(HttpRequest("GET", none)).status, 404);
  EXPECT_EQ(Ask(HttpRequest("HEAD", none)).status, 404);
  EXPECT_EQ(Ask(HttpRequest("POST", none, kWebServerJson, "{}")).status, 405);
}

TEST_F(WebServerTest, NamesOfFilesCannotBreakOutOfTheirHeader) {
  services_.Put("x");
  const std::string path = absl::StrCat("/blobs/", Sha256Hex("x"), "/1?filename=");
  for (const char* name : {"a&b.png", ".htaccess", "page.html", "a/b.png", "x.svg"}) {
    const WebAnswer answer = Ask(HttpRequest("GET", path + name));
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.headers.at("content-type"), "application/octet-stream") << name;
    EXPECT_THAT(answer.headers.at("content-disposition"), testing::StartsWith("attachment"));
  }
  EXPECT_EQ(Ask(HttpRequest("GET", path + "a%22.png")).status, 400);
}

TEST_F(WebServerTest, UploadsGoOnWhereTheyWereCut) {
  const std::string content(1'000'000, 'u');
  const std::string path =
      absl::StrCat("/uploads/", kWebServerUuid, "/blobs/", Sha256Hex(content), "/", content.size());
  const auto offset = [&] {
    const WebAnswer answer = Ask(HttpRequest("HEAD", path, kTus));
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.headers.at("upload-length"), "1000000");
    return answer.headers.at("upload-offset");
  };
  const auto patch = [&](size_t begin, size_t n_bytes) {
    return Ask(HttpRequest("PATCH", path,
                           absl::StrCat(kTus, "Content-Type: application/offset+octet-stream\r\n",
                                        "Upload-Offset: ", begin, "\r\n"),
                           content.substr(begin, n_bytes)));
  };
  EXPECT_EQ(offset(), "0");
  const WebAnswer first = patch(0, 400'000);
  EXPECT_EQ(first.status, 204);
  EXPECT_EQ(first.headers.at("upload-offset"), "400000");
  EXPECT_EQ(offset(), "400000");
  EXPECT_EQ(patch(0, 1000).status, 409);
  EXPECT_EQ(patch(500'000, 1000).status, 409);
  EXPECT_EQ(patch(400'000, 600'000).headers.at("upload-offset"), "1000000");
  EXPECT_EQ(offset(), "1000000");
  EXPECT_EQ(patch(0, 1000).status, 204) << "it is here already";
  EXPECT_EQ(Ask(HttpRequest("GET", absl::StrCat("/blobs/", Sha256Hex(content), "/1000000"))).body,
            content);
}

TEST_F(WebServerTest, UploadsThatAreNotWhatTheirNameSaysAreRefused) {
  const std::string content = "content";
  const auto path = [&](const std::string& digest, size_t n_bytes) {
    return absl::StrCat("/uploads/", kWebServerUuid, "/blobs/", digest, "/", n_bytes);
  };
  const std::string headers =
      absl::StrCat(kTus, "Content-Type: application/offset+octet-stream\r\nUpload-Offset: 0\r\n");
  EXPECT_EQ(Ask(HttpRequest("PATCH", path(Sha256Hex("other"), 7), headers, content)).status, 400);
  EXPECT_EQ(Ask(HttpRequest("PATCH", path(Sha256Hex(content), 3), headers, content)).status, 413);
  EXPECT_EQ(Ask("PATCH " + path(Sha256Hex(content), 3) + " HTTP/1.1\r\nHost: localhost\r\n" +
                headers + "Transfer-Encoding: chunked\r\n\r\n7\r\ncontent\r\n0\r\n\r\n")
                .status,
            413);
  EXPECT_EQ(Ask(HttpRequest("HEAD", path(Sha256Hex(content), 7))).status, 412) << "no version";
  EXPECT_EQ(Ask(HttpRequest("PATCH", path(Sha256Hex(content), 7), kTus, content)).status, 415);
  EXPECT_EQ(Ask(HttpRequest("PATCH", path(Sha256Hex(content), 7),
                            absl::StrCat(kTus,
                                         "Content-Type: application/offset+octet-stream\r\n"
                                         "Upload-Offset: -1\r\n"),
                            content))
                .status,
            400);
  EXPECT_EQ(Ask(HttpRequest("DELETE", path(Sha256Hex(content), 7), kTus)).status, 405);
  const WebAnswer options = Ask(HttpRequest("OPTIONS", path(Sha256Hex(content), 7)));
  EXPECT_EQ(options.headers.at("tus-version"), "1.0.0");
}

TEST_F(WebServerTest, ClientsThatWaitForContinueGetIt) {
  const std::string content(200'000, 'c');
  const std::string path =
      absl::StrCat("/uploads/", kWebServerUuid, "/blobs/", Sha256Hex(content), "/", content.size());
  WebClient client(web_->port());
  client.Send(absl::StrCat("PATCH ", path, " HTTP/1.1\r\nHost: localhost\r\n", kTus,
                           "Content-Type: application/offset+octet-stream\r\nUpload-Offset: 0\r\n"
                           "Expect: 100-continue\r\nContent-Length: ",
                           content.size(), "\r\n\r\n"));
  client.Send(content);
  EXPECT_EQ(client.Read().status, 204);
}

TEST_F(WebServerTest, HostileRequestsAreRefusedAndTheServerGoesOn) {
  const std::string host = "Host: localhost\r\n";
  const std::string post = "POST /nerf.v1.JobService/ListJobs HTTP/1.1\r\n" + host + kWebServerJson;
  const struct {
    std::string request;
    int status;
  } cases[] = {
      // Requests whose body has an ambiguous end.
      {post + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {post + "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n", 400},
      {post + "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", 400},
      {post + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400},
      {post + "Content-Length: 2, 2\r\n\r\n{}", 400},
      {post + "Content-Length: +2\r\n\r\n{}", 400},
      {post + "Content-Length: -2\r\n\r\n{}", 400},
      {post + "Content-Length: 0x2\r\n\r\n{}", 400},
      {post + "Content-Length: 2 2\r\n\r\n{}", 400},
      {post + "Content-Length: 99999999999999999999\r\n\r\n{}", 400},
      {post + "Content-Length : 2\r\n\r\n{}", 400},
      {post + "Transfer-Encoding: identity\r\n\r\n", 400},
      {post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400},
      {post + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", 400},
      {post + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400},
      {post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {post + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400},
      // Chunks.
      {post + "Transfer-Encoding: chunked\r\n\r\nx\r\n{}\r\n0\r\n\r\n", 400},
      {post + "Transfer-Encoding: chunked\r\n\r\n-1\r\n{}\r\n0\r\n\r\n", 400},
      {post + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{}\r\n0\r\n\r\n", 400},
      {post + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}xx0\r\n\r\n", 400},
      // Lines and headers.
      {"nonsense\r\n\r\n", 400},
      {std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 15), 400},
      {"GET / HTTP/1.1\r\n" + host + "Bad Header\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n" + host + ": empty\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n" + host + std::string("A: \0b\r\n\r\n", 9), 400},
      {"GET / HTTP/1.1\r\n" + host + "A: \x01\r\n\r\n", 400},
      {"GET / HTTP/1.1\n" + host + "\n", 505},
      {"GET  / HTTP/1.1\r\n" + host + "\r\n", 400},
      {"GET / HTTP/1.1 x\r\n" + host + "\r\n", 505},
      {"G\x7fT / HTTP/1.1\r\n" + host + "\r\n", 400},
      {"GET / HTTP/1.1\r\n" + host + "A: " + std::string(20'000, 'a') + "\r\n\r\n", 431},
      {"GET /" + std::string(20'000, 'a') + " HTTP/1.1\r\n" + host + "\r\n", 431},
      // Versions.
      {"GET / HTTP/1.0\r\n" + host + "\r\n", 505},
      {"GET / HTTP/0.9\r\n" + host + "\r\n", 505},
      {"GET / HTTP/2.0\r\n" + host + "\r\n", 505},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
      {"GET / HTTP/11\r\n" + host + "\r\n", 505},
      // Targets.
      {"GET http://localhost/ HTTP/1.1\r\n" + host + "\r\n", 400},
      {"CONNECT localhost:443 HTTP/1.1\r\n" + host + "\r\n", 400},
      {"OPTIONS * HTTP/1.1\r\n" + host + "\r\n", 400},
      {"GET /%2e%2e/etc/passwd HTTP/1.1\r\n" + host + "\r\n", 400},
      {"GET /../../etc/passwd HTTP/1.1\r\n" + host + "\r\n", 404},
      {"GET //etc/passwd HTTP/1.1\r\n" + host + "\r\n", 404},
      {"GET /\\..\\x HTTP/1.1\r\n" + host + "\r\n", 400},
      {"GET /a<script> HTTP/1.1\r\n" + host + "\r\n", 400},
      {"TRACE /x HTTP/1.1\r\n" + host + "\r\n", 404},
      // Names of the server.
      {"GET / HTTP/1.1\r\n\r\n", 403},
      {"GET / HTTP/1.1\r\nHost: attacker.example\r\n\r\n", 403},
      {"GET / HTTP/1.1\r\nHost: 127.0.0.1.attacker.example:8080\r\n\r\n", 403},
      {"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 403},
      {"GET / HTTP/1.1\r\nHost: localhost\r\nHost: attacker.example\r\n\r\n", 403},
      {"GET / HTTP/1.1\r\nHost:\r\n\r\n", 403},
      {"GET / HTTP/1.1\r\nHost: localhost@attacker.example\r\n\r\n", 403},
      // Senders.
      {post + "Origin: null\r\nContent-Length: 2\r\n\r\n{}", 403},
      {post + "Origin: http://attacker.example\r\nContent-Length: 2\r\n\r\n{}", 403},
      {post + "Origin: http://localhost:1\r\nContent-Length: 2\r\n\r\n{}", 403},
      {post + "Sec-Fetch-Site: cross-site\r\nContent-Length: 2\r\n\r\n{}", 403},
      {post + "Sec-Fetch-Site: same-site\r\nContent-Length: 2\r\n\r\n{}", 403},
      // Bodies.
      {post + "Content-Length: 4194310\r\n\r\n", 429},
      {post + "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}", 501},
      {post + "Expect: something\r\nContent-Length: 2\r\n\r\n{}", 417},
      {post + "Connect-Protocol-Version: 9\r\nContent-Length: 2\r\n\r\n{}", 400},
      {post + "Content-Length: 1\r\n\r\n{", 400},
      {post + "Content-Length: 4\r\n\r\nnull", 400},
  };
  EXPECT_GE(std::size(cases), 60u);
  for (const auto& expected : cases) {
    EXPECT_EQ(Ask(expected.request).status, expected.status) << expected.request.substr(0, 200);
  }
  EXPECT_EQ(Call("JobService/ListJobs", "{}").status, 200);
}

TEST_F(WebServerTest, FramesThatAreTornEndTheCallAlone) {
  const std::string path = Method("JobService/WatchJob");
  const std::string whole = Envelope(0, "{}");
  for (const std::string& body :
       {std::string(), whole.substr(0, 4), whole.substr(0, 6), whole + whole, whole + "x",
        std::string("\0\xff\xff\xff\xff{}", 7), Envelope(1, "{}"), Envelope(2, "{}")}) {
    const WebAnswer answer = Ask(HttpRequest("POST", path, kConnectStream, body));
    EXPECT_EQ(answer.status, 200);
    ASSERT_FALSE(answer.body.empty());
    EXPECT_EQ(answer.body[0], kConnectEndFlag);
    EXPECT_THAT(answer.body, HasSubstr("\"error\"")) << absl::CHexEscape(body);
  }
}

TEST_F(WebServerTest, SmallChunkedBodiesAreAccepted) {
  const std::string head =
      "POST /nerf.v1.JobService/ListJobs HTTP/1.1\r\n"
      "Host: localhost\r\nTransfer-Encoding: chunked\r\n" +
      std::string(kWebServerJson) + "\r\n";
  EXPECT_EQ(Ask(head + "1\r\n{\r\n1\r\n}\r\n0\r\n\r\n").status, 200);
  options_.limits.max_message_bytes = 1000;
  Serve();
  EXPECT_EQ(Ask(head + "7d0\r\n" + std::string(2000, ' ') + "\r\n0\r\n\r\n").status, 429);
}

TEST_F(WebServerTest, MemoryForBodiesIsSharedByAll) {
  options_.limits.max_buffered_bytes = 100'000;
  Serve();
  const std::string spaces(90'000, ' ');
  const std::string request =
      HttpRequest("POST", Method("JobService/ListJobs"), kWebServerJson, spaces + "{}" + spaces);
  EXPECT_EQ(Ask(request).status, 503);
  EXPECT_EQ(Call("JobService/ListJobs", spaces + "{}").status, 200);
  EXPECT_EQ(Call("JobService/ListJobs", spaces + "{}").status, 200)
      << "the first body was released";
}

TEST_F(WebServerTest, SlowHeadersAreCutOff) {
  WebClient client(web_->port());
  client.Send("POST /x HTTP/1.1\r\nHost: local");
  // A response on another connection shows that the server has read the first bytes. Then the clock
  // may move.
  EXPECT_EQ(Ask(HttpRequest("GET", "/none")).status, 404);
  services_.clock.Advance(options_.limits.header_timeout / 2);
  client.Send("host\r\nA: b\r\n");
  EXPECT_EQ(Ask(HttpRequest("GET", "/none")).status, 404);
  services_.clock.Advance(options_.limits.header_timeout / 2);
  EXPECT_EQ(client.Read().status, 408);
  services_.clock.Advance(options_.limits.linger_timeout);
  EXPECT_TRUE(client.HasEnded());
}

TEST_F(WebServerTest, SlowBodiesAreCutOff) {
  WebClient client(web_->port());
  client.Send("POST /nerf.v1.JobService/ListJobs HTTP/1.1\r\nHost: localhost\r\n" +
              std::string(kWebServerJson) + "Content-Length: 100\r\n\r\n{");
  EXPECT_EQ(Ask(HttpRequest("GET", "/none")).status, 404);
  services_.clock.Advance(options_.limits.transfer_timeout);
  EXPECT_EQ(client.Read().status, 408);
}

TEST_F(WebServerTest, IdleConnectionsEndInTime) {
  WebClient never_asks(web_->port()), asked(web_->port());
  EXPECT_EQ(asked.Ask(HttpRequest("GET", "/none")).status, 404);
  services_.clock.Advance(options_.limits.header_timeout);
  EXPECT_TRUE(never_asks.HasEnded());
  EXPECT_EQ(asked.Ask(HttpRequest("GET", "/none")).status, 404)
      << "idle connections have a longer limit";
  // Once another request is served, its response has been written completely.
  EXPECT_EQ(Ask(HttpRequest("GET", "/none")).status, 404);
  services_.clock.Advance(options_.limits.idle_timeout);
  EXPECT_TRUE(asked.HasEnded());
}

TEST_F(WebServerTest, ReadersThatStopReadingAreCutOff) {
  const std::string content(30'000'000, 'r');
  services_.Put(content);
  WebClient client(web_->port(), 64 << 10);
  client.Send(HttpRequest("GET", absl::StrCat("/blobs/", Sha256Hex(content), "/", content.size())));
  EXPECT_EQ(client.ReadHead().status, 200);
  // The client stops reading. Once the kernel's buffers are full, no write completes.
  EXPECT_TRUE(client.IsOpenAtServer());
  EXPECT_TRUE(WaitUntil(absl::Seconds(20), [&] {
    services_.clock.Advance(options_.limits.transfer_timeout / 100);
    return !client.IsOpenAtServer();
  }));
  EXPECT_EQ(Ask(HttpRequest("GET", "/none")).status, 404);
  EXPECT_LT(client.ReadToEnd(), content.size());
}

TEST_F(WebServerTest, OverTheLimitTheLongestIdleConnectionMakesRoom) {
  options_.limits.max_connections = 2;
  Serve();
  WebClient first(web_->port());
  const std::string list = HttpRequest("POST", Method("JobService/ListJobs"), kWebServerJson, "{}");
  EXPECT_EQ(first.Ask(list).status, 200);
  const std::string job = CreateJob();
  const std::string watch = HttpRequest("POST", Method("JobService/WatchJob"), kConnectStream,
                                        Envelope(0, absl::StrCat(R"({"name":")", job, R"("})")));
  WebClient second(web_->port());
  second.Send(watch);
  EXPECT_EQ(second.ReadHead().status, 200);
  WebClient third(web_->port());
  third.Send(watch);
  EXPECT_EQ(third.ReadHead().status, 200) << "the idle one went";
  EXPECT_TRUE(first.HasEnded());
  EXPECT_EQ(Ask(list).status, 503) << "none is idle";
  EXPECT_EQ(Ask(HttpRequest("GET", "/")).status, 200) << "strangers have places of their own";
}

TEST_F(WebServerTest, EndingCutsStreamsAndWaitsForTheirCalls) {
  const std::string job = CreateJob();
  WebClient client(web_->port());
  client.Send(HttpRequest("POST", Method("JobService/WatchJob"), kConnectStream,
                          Envelope(0, absl::StrCat(R"({"name":")", job, R"("})"))));
  EXPECT_EQ(client.ReadHead().status, 200);
  web_.reset();
  EXPECT_TRUE(client.HasEnded());
}

TEST_F(WebServerTest, AnAddressInUseIsAnErrorThatNamesTheFlag) {
  WebServerOptions options = options_;
  options.port = web_->port();
  EXPECT_THAT(WebServer::Start(options, services_.channel, &services_.clock),
              StatusIs(absl::StatusCode::kFailedPrecondition, "--web-listen"));
}

}  // namespace
}  // namespace nerf
