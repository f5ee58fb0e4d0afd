// Tokens of watches and pages: what a client cannot change or use elsewhere.
#include "server/queue/resources/token_sealer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/escaping.h"
#include "common/packed_strings.h"
#include "server/queue/resources/page.h"
#include "server/queue/state/watcher.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using testing::ElementsAre;
using testing::Optional;

class TokenSealerTest : public testing::Test {
 protected:
  const TokenSealer sealer_{"a secret"};
  const std::string token_ = sealer_.Seal({"watch", "a"}, {"one", "2"});
};

TEST_F(TokenSealerTest, PartsComeBackForTheSameUseAndSecret) {
  EXPECT_THAT(sealer_.Open({"watch", "a"}, token_), Optional(ElementsAre("one", "2")));
  EXPECT_THAT(TokenSealer::Peek(token_), Optional(ElementsAre("one", "2")));
  EXPECT_EQ(sealer_.Open({"watch", "b"}, token_), std::nullopt);
  EXPECT_EQ(sealer_.Open({"watch"}, token_), std::nullopt);
  EXPECT_EQ(sealer_.Open({"watcha"}, token_), std::nullopt) << "the border between two words";
  EXPECT_EQ(TokenSealer("another").Open({"watch", "a"}, token_), std::nullopt);
}

TEST_F(TokenSealerTest, EveryChangedCharacterAndLengthIsRefused) {
  const std::string alphabet = "AQgw_-/= ";
  for (size_t i = 0; i < token_.size(); ++i) {
    for (const char c : alphabet) {
      std::string changed = token_;
      if (changed[i] == c) continue;
      changed[i] = c;
      EXPECT_EQ(sealer_.Open({"watch", "a"}, changed), std::nullopt) << changed;
    }
    EXPECT_EQ(sealer_.Open({"watch", "a"}, token_.substr(0, i)), std::nullopt) << i;
    EXPECT_EQ(sealer_.Open({"watch", "a"}, token_.substr(i + 1)), std::nullopt) << i;
  }
  for (const char* more : {"A", "==", " ", "\n", "AAAA"}) {
    EXPECT_EQ(sealer_.Open({"watch", "a"}, token_ + more), std::nullopt) << more;
  }
  for (const size_t length : {size_t{1'024}, size_t{1'025}, size_t{4} << 20}) {
    EXPECT_EQ(sealer_.Open({"watch", "a"}, std::string(length, 'A')), std::nullopt);
    EXPECT_EQ(TokenSealer::Peek(std::string(length, 'A')), std::nullopt);
    EXPECT_FALSE(TokenSealer::IsUnsigned(std::string(length, 'A'), "watch1"));
  }
}

TEST_F(TokenSealerTest, LongestTokensFit) {
  const std::string longest(63, 'a');
  const std::string watch =
      EncodeWatchToken(sealer_, {std::string(36, 'e'), {longest, longest}, ~uint64_t{0}});
  EXPECT_LE(watch.size(), TokenSealer::kMaxLength);
  EXPECT_THAT(ParseWatchToken(sealer_, std::string(36, 'e'), watch), IsOk());
  // A filter is not part of the token.
  const std::string filter(100'000, 'f');
  const std::string page = EncodePageToken(sealer_, filter, longest, 7);
  EXPECT_LE(page.size(), TokenSealer::kMaxLength);
  EXPECT_THAT(ParsePageToken(sealer_, filter, longest, page), IsOkAndHolds(uint64_t{7}));
}

TEST_F(TokenSealerTest, PageTokensOfOtherListsProjectsAndVersionsAreRefused) {
  const std::string token = EncodePageToken(sealer_, "jobs:state = RUNNING", "lab", 7);
  const auto refused = FailsWith(absl::StatusCode::kInvalidArgument, "FIELD_INVALID");
  EXPECT_THAT(ParsePageToken(sealer_, "jobs:state = RUNNING", "lab", token), IsOk());
  EXPECT_THAT(ParsePageToken(sealer_, "jobs:state = FAILED", "lab", token), refused);
  EXPECT_THAT(ParsePageToken(sealer_, "jobs", "lab", token), refused);
  EXPECT_THAT(ParsePageToken(sealer_, "jobs:state = RUNNING", "other", token), refused);
  EXPECT_THAT(ParsePageToken(TokenSealer("b"), "jobs:state = RUNNING", "lab", token), refused);
  const std::string old = absl::WebSafeBase64Escape(PackStrings({"page1", "jobs", "lab", "7"}));
  EXPECT_THAT(ParsePageToken(sealer_, "jobs", "lab", old), refused);
}

TEST_F(TokenSealerTest, WatchTokensOfOtherStoresAndVersionsMeanToWatchAnew) {
  const std::string token = EncodeWatchToken(sealer_, {"epoch", {"lab", "one"}, 7});
  const auto parse = [&](const std::string& epoch, const std::string& text) {
    return ParseWatchToken(sealer_, epoch, text);
  };
  const auto refused = FailsWith(absl::StatusCode::kInvalidArgument, "FIELD_INVALID");
  const auto foreign = FailsWith(absl::StatusCode::kDataLoss, "EPOCH_MISMATCH");
  const auto position = parse("epoch", token);
  ASSERT_THAT(position, IsOk());
  EXPECT_EQ(position->job, (ResourceKey{"lab", "one"}));
  EXPECT_EQ(position->sequence, 7u);
  EXPECT_THAT(parse("epoch-2", token), foreign);
  // Same epoch, forged with another secret.
  const TokenSealer forger("guess");
  EXPECT_THAT(parse("epoch", EncodeWatchToken(forger, {"epoch", {"lab", "one"}, 8})), refused);
  const std::string old =
      absl::WebSafeBase64Escape(PackStrings({"watch1", "epoch", "lab", "one", "7"}));
  EXPECT_THAT(parse("epoch", old), foreign);
  EXPECT_THAT(parse("epoch", EncodePageToken(sealer_, "watch", "lab", 7)), refused);
}

}  // namespace
}  // namespace nerf
