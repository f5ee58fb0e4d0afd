// One text for everybody, over real sockets, beside readers that stand still.
#include "server/web/text_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "tests/server/web/web_client.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/wait_until.h"

namespace nerf {
namespace {

using testing::HasSubstr;
using testing::Not;

class TextServerTest : public testing::Test {
 protected:
  TextServerTest() {
    options_.host = "127.0.0.1";
    options_.path = "/metrics";
    options_.content_type = "text/plain";
    options_.limits.sweep_interval = absl::Milliseconds(5);
    Serve();
  }
  void Serve() {
    server_.reset();
    server_ = *TextServer::Start(
        options_, [this] { return text_; }, &clock_);
  }
  WebAnswer Get(const std::string& path = "/metrics") {
    return WebClient(server_->port()).Ask(HttpRequest("GET", path));
  }

  FakeClock clock_;
  std::string text_ = "jobs 3\n";
  TextServerOptions options_;
  std::unique_ptr<TextServer> server_;
};

TEST_F(TextServerTest, ServesItsTextAndNothingElse) {
  const WebAnswer answer = Get();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.headers.at("content-type"), "text/plain");
  EXPECT_EQ(answer.body, text_);
  EXPECT_EQ(Get("/metrics?from=prometheus").body, text_);
  EXPECT_EQ(WebClient(server_->port()).Ask(HttpRequest("HEAD", "/metrics")).status, 200);
  EXPECT_EQ(WebClient(server_->port()).Ask(HttpRequest("POST", "/metrics")).status, 405);
  for (const char* path : {"/", "/etc/passwd", "/../../../etc/passwd", "/metrics/"}) {
    EXPECT_EQ(Get(path).status, 404) << path;
  }
}

TEST_F(TextServerTest, ReadersThatNeverReadDelayNobodyAndEndInTime) {
  text_ = std::string(4 << 20, 'm');  // more than the kernel takes for a reader
  std::vector<std::unique_ptr<WebClient>> still;
  for (int i = 0; i < 50; ++i) {
    still.push_back(std::make_unique<WebClient>(server_->port(), /*receive_buffer=*/16 << 10));
    for (int n = 0; n < 3; ++n) still.back()->Send(HttpRequest("GET", "/metrics"));
  }
  const absl::Time begin = absl::Now();
  EXPECT_EQ(Get().body.size(), text_.size());
  EXPECT_LT(absl::Now() - begin, absl::Seconds(10));
  // Places for 32: the oldest went. The others go when their time is over.
  EXPECT_FALSE(still.front()->IsOpenAtServer());
  EXPECT_TRUE(still.back()->IsOpenAtServer());
  EXPECT_TRUE(WaitUntil(absl::Seconds(20), [&] {
    clock_.Advance(options_.limits.stranger_timeout / 100);
    return !still.back()->IsOpenAtServer();
  }));
  EXPECT_EQ(Get().status, 200);
}

TEST_F(TextServerTest, ConnectionsThatDoNotAskDelayNobody) {
  std::vector<std::unique_ptr<WebClient>> silent;
  for (int i = 0; i < 200; ++i) {
    silent.push_back(std::make_unique<WebClient>(server_->port()));
    if (i % 2 == 0) silent.back()->Send("GET /metr");
  }
  EXPECT_EQ(Get().body, text_);
}

TEST_F(TextServerTest, AddressInUseIsAnError) {
  TextServerOptions options = options_;
  options.port = server_->port();
  EXPECT_THAT(TextServer::Start(
                  options, [] { return ""; }, &clock_),
              StatusIs(absl::StatusCode::kFailedPrecondition, "in use"));
  options.host = "localhost";
  EXPECT_THAT(TextServer::Start(
                  options, [] { return ""; }, &clock_),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

}  // namespace
}  // namespace nerf
