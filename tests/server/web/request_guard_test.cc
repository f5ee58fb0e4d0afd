#include "server/web/request_guard.h"

#include <gtest/gtest.h>

#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

HttpRequestHead Request(const std::string& method, HttpHeaders headers) {
  return {.method = method, .path = "/", .query = {}, .headers = std::move(headers)};
}

// True if a server with --web-origin https://nerf.example.com refuses the request.
bool IsRefused(const HttpRequestHead& head) {
  static const RequestGuard* const guard =
      new RequestGuard({*ParseOrigin("https://nerf.example.com")});
  return !guard->Check(head).refusal.empty();
}

TEST(OriginTest, OriginsAreReadAndWrittenTheSameWay) {
  for (const char* text : {"http://localhost:8080", "https://nerf.example.com", "http://[::1]:1"}) {
    const auto origin = ParseOrigin(text);
    ASSERT_THAT(origin, IsOk()) << text;
    EXPECT_EQ(origin->ToString(), text);
  }
  EXPECT_EQ(*ParseOrigin("http://A.example:80"), *ParseOrigin("http://a.example"));
  EXPECT_NE(*ParseOrigin("http://a.example"), *ParseOrigin("https://a.example"));
}

TEST(OriginTest, OtherFormsAreRefused) {
  for (const char* text :
       {"", "null", "*", "http://", "https://a/", "https://a/path", "https://a:0",
        "https://a:65536", "https://a:x", "ftp://a", "file://", "https://a b", "https://user@a",
        "http://[::1", "http://[x]", "http://a:80:80", "https://*.example.com", "http://a\r\nx"}) {
    EXPECT_THAT(ParseOrigin(text), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
  }
}

TEST(RequestGuardTest, HostsThatNoDnsCanPointElsewhereAreOurs) {
  for (const char* host : {"localhost", "localhost:8080", "127.0.0.1:9", "10.1.2.3", "[::1]:8080",
                           "LOCALHOST", "nerf.example.com", "nerf.example.com:8080"}) {
    EXPECT_FALSE(IsRefused(Request("GET", {{"host", host}}))) << host;
  }
}

TEST(RequestGuardTest, RebindingHostsAreRefused) {
  for (const char* host :
       {"attacker.example", "localhost.attacker.example", "127.0.0.1.attacker.example:8080",
        "nerf.example.com.attacker.example", "evil-nerf.example.com", "127.1", "0x7f000001",
        "2130706433", "localhost.", "", "localhost:", "localhost:80:80", "[::1", "a b",
        "user@localhost", "localhost/", "localhost:99999"}) {
    EXPECT_TRUE(IsRefused(Request("GET", {{"host", host}}))) << host;
  }
  EXPECT_TRUE(IsRefused(Request("GET", {})));
  EXPECT_TRUE(IsRefused(Request("GET", {{"host", "localhost"}, {"host", "localhost"}})));
}

TEST(RequestGuardTest, OurOwnPageMayCallAlsoBehindAProxyWithTls) {
  for (const auto& [host, origin] : {std::pair("localhost:8080", "http://localhost:8080"),
                                     std::pair("[::1]:8080", "http://[::1]:8080"),
                                     std::pair("nerf.example.com", "https://nerf.example.com")}) {
    EXPECT_FALSE(IsRefused(
        Request("POST", {{"host", host}, {"origin", origin}, {"sec-fetch-site", "same-origin"}})))
        << origin;
  }
}

TEST(RequestGuardTest, OtherOriginsAreRefused) {
  for (const char* origin :
       {"http://attacker.example", "null", "", "http://localhost:8081", "http://localhost",
        "http://127.0.0.1:8080", "https://evil.nerf.example.com", "http://nerf.example.com",
        "https://nerf.example.com:8443", "http://localhost:8080/", "file://", "*"}) {
    EXPECT_TRUE(IsRefused(Request("POST", {{"host", "localhost:8080"}, {"origin", origin}})))
        << origin;
  }
  EXPECT_TRUE(IsRefused(Request("POST", {{"host", "localhost:8080"},
                                         {"origin", "http://localhost:8080"},
                                         {"origin", "http://attacker.example"}})));
}

TEST(RequestGuardTest, AllowedOriginsGetTheHeadersOfCors) {
  const RequestGuard guard({*ParseOrigin("https://nerf.example.com")});
  const HttpRequestHead head = Request("POST", {{"host", "127.0.0.1:8080"},
                                                {"origin", "https://nerf.example.com"},
                                                {"sec-fetch-site", "cross-site"}});
  const auto verdict = guard.Check(head);
  EXPECT_EQ(verdict.refusal, "");
  const HttpHeaders headers = guard.ResponseHeaders(verdict);
  EXPECT_THAT(headers, testing::Contains(testing::Pair("Access-Control-Allow-Origin",
                                                       "https://nerf.example.com")));
  EXPECT_THAT(headers, testing::Contains(testing::Pair("Vary", "Origin")));
  const auto preflight = guard.Preflight(head, verdict);
  EXPECT_EQ(preflight.status, 204);
  EXPECT_THAT(preflight.headers, testing::Contains(testing::Key("Access-Control-Allow-Headers")));
  for (const auto& [name, value] : headers) EXPECT_NE(name, "Access-Control-Allow-Credentials");
}

TEST(RequestGuardTest, WithoutAnAllowedOriginNothingOfCorsIsSent) {
  const RequestGuard guard({});
  const HttpRequestHead head = Request("OPTIONS", {{"host", "localhost"}});
  const auto verdict = guard.Check(head);
  for (const auto& [name, value] : guard.ResponseHeaders(verdict)) {
    EXPECT_FALSE(name.starts_with("Access-Control")) << name;
  }
  EXPECT_THAT(guard.Preflight(head, verdict).headers,
              testing::Not(testing::Contains(testing::Key("Access-Control-Allow-Methods"))));
}

TEST(RequestGuardTest, OtherSitesMayLinkToThePageAndNothingElse) {
  const auto foreign = [](const std::string& method, const char* mode, const char* dest) {
    return Request(method, {{"host", "localhost:8080"},
                            {"sec-fetch-site", "cross-site"},
                            {"sec-fetch-mode", mode},
                            {"sec-fetch-dest", dest}});
  };
  EXPECT_FALSE(IsRefused(foreign("GET", "navigate", "document")));
  EXPECT_TRUE(RequestGuard({}).Check(foreign("GET", "navigate", "document")).is_link);
  EXPECT_TRUE(IsRefused(foreign("GET", "navigate", "iframe")));
  EXPECT_TRUE(IsRefused(foreign("GET", "no-cors", "image")));
  EXPECT_TRUE(IsRefused(foreign("GET", "no-cors", "script")));
  EXPECT_TRUE(IsRefused(foreign("POST", "navigate", "document")));
  EXPECT_TRUE(IsRefused(Request("GET", {{"host", "localhost"}, {"sec-fetch-site", "same-site"}})));
  EXPECT_FALSE(IsRefused(Request("GET", {{"host", "localhost"}, {"sec-fetch-site", "none"}})));
}

}  // namespace
}  // namespace nerf
