// Tokens and the keys of workers over a store in memory.
#include "server/access/token_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/access_reason.h"
#include "common/error_reason.h"
#include "server/access/worker_keys.h"
#include "tests/testing/fake_access_store.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;

class TokenRegistryTest : public testing::Test {
 protected:
  // Another one over the same store, as after a restart.
  std::unique_ptr<TokenRegistry> Open() {
    return std::make_unique<TokenRegistry>(&store_, store_.Load()->tokens, &clock_, &random_);
  }
  absl::StatusOr<Principal> Ask(const TokenRegistry& tokens, std::string_view token) {
    return AccessControl({&tokens}).Authenticate(token);
  }

  FakeAccessStore store_;
  FakeClock clock_;
  SystemRandom random_;
  std::unique_ptr<TokenRegistry> tokens_ = Open();
};

TEST_F(TokenRegistryTest, TokenOpensWhatItWasMadeForAlsoAfterARestart) {
  const auto made = tokens_->Create({.display_name = "ana", .role = Role::kEditor, .project = "a"});
  ASSERT_THAT(made, IsOk());
  EXPECT_EQ(made->secret.size(), 64U);
  const auto stored = store_.Load();
  ASSERT_THAT(stored, IsOk());
  for (const TokenRecord& kept : stored->tokens) EXPECT_NE(kept.digest, made->secret);
  tokens_ = Open();
  const auto principal = Ask(*tokens_, made->secret);
  ASSERT_THAT(principal, IsOk());
  EXPECT_EQ(principal->name, "tokens/" + made->record.id);
  ASSERT_EQ(principal->grants.size(), 1U);
  EXPECT_EQ(principal->grants[0].role, Role::kEditor);
  EXPECT_EQ(principal->grants[0].project, "a");
}

TEST_F(TokenRegistryTest, UnknownTokensAreRefused) {
  const auto made = *tokens_->Create({.role = Role::kAdmin});
  EXPECT_THAT(Ask(*tokens_, "").status(),
              FailsWith(StatusCode::kUnauthenticated, reason::kTokenMissing));
  for (const std::string& token :
       {made.secret.substr(1), made.secret + "0", made.record.digest, made.record.id,
        std::string(100'000, 'a'), std::string("\0\n", 2)}) {
    EXPECT_THAT(Ask(*tokens_, token).status(),
                FailsWith(StatusCode::kUnauthenticated, reason::kTokenInvalid));
  }
}

TEST_F(TokenRegistryTest, RevokedAndExpiredTokensAreRefusedWithTheReason) {
  const auto made = *tokens_->Create({.role = Role::kViewer});
  ASSERT_THAT(tokens_->Delete(made.record.id), IsOk());
  EXPECT_THAT(Ask(*tokens_, made.secret).status(),
              FailsWith(StatusCode::kUnauthenticated, reason::kTokenInvalid));
  EXPECT_THAT(tokens_->Delete(made.record.id),
              FailsWith(StatusCode::kNotFound, reason::kResourceNotFound));
  const auto brief =
      *tokens_->Create({.role = Role::kViewer, .expire_time = clock_.WallNow() + absl::Minutes(1)});
  EXPECT_THAT(Ask(*tokens_, brief.secret), IsOk());
  clock_.Advance(absl::Minutes(2));
  EXPECT_THAT(Ask(*tokens_, brief.secret).status(),
              FailsWith(StatusCode::kUnauthenticated, reason::kTokenExpired));
  EXPECT_THAT(tokens_->Create({.expire_time = clock_.WallNow()}).status(),
              FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));
}

TEST_F(TokenRegistryTest, ExpiredTokensLeaveTheListAfterADay) {
  const auto brief =
      *tokens_->Create({.role = Role::kViewer, .expire_time = clock_.WallNow() + absl::Minutes(1)});
  clock_.Advance(absl::Hours(26));
  const auto kept = *tokens_->Create({.role = Role::kViewer});
  EXPECT_THAT(tokens_->List(std::nullopt), ElementsAre(Field(&TokenRecord::id, kept.record.id)));
  EXPECT_THAT(store_.Load()->tokens, ElementsAre(Field(&TokenRecord::id, kept.record.id)));
}

TEST_F(TokenRegistryTest, ListIsOfOneProjectOrOfAll) {
  const auto a = *tokens_->Create({.role = Role::kViewer, .project = "a"});
  clock_.Advance(absl::Seconds(1));
  const auto all = *tokens_->Create({.role = Role::kViewer});
  EXPECT_THAT(tokens_->List("a"), ElementsAre(Field(&TokenRecord::id, a.record.id)));
  EXPECT_THAT(tokens_->List("b"), IsEmpty());
  EXPECT_THAT(tokens_->List(std::nullopt), ElementsAre(Field(&TokenRecord::id, a.record.id),
                                                       Field(&TokenRecord::id, all.record.id)));
}

TEST_F(TokenRegistryTest, ShareIsAViewerOfOneResourceAndNoTokenOfTheLists) {
  const std::string model = "projects/a/models/mic";
  const auto share = *tokens_->Create({.role = Role::kViewer, .project = "a", .resource = model});
  const auto token = *tokens_->Create({.role = Role::kViewer, .project = "a"});
  EXPECT_THAT(tokens_->List(std::nullopt), ElementsAre(Field(&TokenRecord::id, token.record.id)));
  EXPECT_THAT(tokens_->ListShares(model), ElementsAre(Field(&TokenRecord::id, share.record.id)));
  EXPECT_THAT(tokens_->ListShares("projects/a/models/mi"), IsEmpty());
  EXPECT_THAT(tokens_->Get(share.record.id).status(),
              FailsWith(StatusCode::kNotFound, reason::kResourceNotFound))
      << "DeleteToken must not find it";
  EXPECT_THAT(tokens_->Delete(share.record.id, "projects/a/models/other"),
              FailsWith(StatusCode::kNotFound, reason::kResourceNotFound));
  tokens_ = Open();
  const auto principal = Ask(*tokens_, share.secret);
  ASSERT_THAT(principal, IsOk());
  EXPECT_EQ(principal->name, model + "/shares/" + share.record.id);
  ASSERT_EQ(principal->grants.size(), 1U);
  EXPECT_EQ(principal->grants[0].resource, model);
  ASSERT_THAT(tokens_->DeleteShares(model), IsOk());
  EXPECT_THAT(Ask(*tokens_, share.secret).status(),
              FailsWith(StatusCode::kUnauthenticated, reason::kTokenInvalid));
  EXPECT_THAT(Ask(*tokens_, token.secret), IsOk());
}

TEST_F(TokenRegistryTest, OnAFullDiskNothingIsMadeAndNothingRevoked) {
  const auto made = *tokens_->Create({.role = Role::kViewer});
  store_.FailWith(absl::UnavailableError("disk full"));
  EXPECT_THAT(tokens_->Create({.role = Role::kViewer}).status(),
              StatusIs(StatusCode::kUnavailable));
  EXPECT_THAT(tokens_->Delete(made.record.id), StatusIs(StatusCode::kUnavailable));
  EXPECT_THAT(Ask(*tokens_, made.secret), IsOk()) << "it would be back after a restart";
}

TEST(WorkerIdTest, IdBelongsToTheKeyOfItsFirstHello) {
  FakeAccessStore store;
  FakeClock clock;
  const auto now = [](const std::function<void()>& task) { task(); };
  const auto nobody = [](const std::string& /*worker*/) { return false; };
  {
    WorkerKeys keys(&store, {}, &clock);
    EXPECT_THAT(keys.Check("w-1", "one"),
                FailsWith(StatusCode::kPermissionDenied, reason::kWorkerKeyMismatch));
    EXPECT_THAT(keys.CheckOrBind("w-1", "one", nobody, now), IsOk());
    EXPECT_THAT(keys.CheckOrBind("w-1", "one", nobody, now), IsOk());
  }
  WorkerKeys keys(&store, store.Load()->worker_keys, &clock);
  EXPECT_THAT(keys.Check("w-1", "one"), IsOk());
  for (const char* other : {"two", "", "One", "one "}) {
    EXPECT_THAT(keys.Check("w-1", other),
                FailsWith(StatusCode::kPermissionDenied, reason::kWorkerKeyMismatch));
    EXPECT_THAT(keys.CheckOrBind("w-1", other, nobody, now),
                FailsWith(StatusCode::kPermissionDenied, reason::kWorkerKeyMismatch));
  }
  EXPECT_THAT(keys.CheckOrBind("w-2", "", nobody, now),
              FailsWith(StatusCode::kPermissionDenied, reason::kWorkerKeyMismatch));
}

}  // namespace
}  // namespace nerf
