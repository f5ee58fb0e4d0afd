#include "engine/base/protocol/message_splitter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/testing/mutator.h"
#include "tests/testing/resident_bytes.h"

namespace nerf {
namespace {

using Messages = std::vector<std::string>;
using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr char kTooLong[] = "(too long)";

// Adds `bytes` to what the splitter got. A message that is too long is recorded as kTooLong.
void AddTo(MessageSplitter& splitter, std::string_view bytes, Messages* messages) {
  splitter.Add(
      bytes, [&](std::string message) { messages->push_back(std::move(message)); },
      [&] { messages->push_back(kTooLong); });
}

Messages SplitMessages(const std::vector<std::string>& pieces) {
  MessageSplitter splitter;
  Messages messages;
  for (const std::string& piece : pieces) AddTo(splitter, piece, &messages);
  return messages;
}

// The length alone.
std::string Length(uint64_t length) {
  std::string bytes;
  for (; length >= 0x80; length >>= 7) bytes += static_cast<char>(length | 0x80);
  return bytes + static_cast<char>(length);
}

TEST(MessageSplitterTest, LengthsAreVarints) {
  EXPECT_EQ(Delimited(""), std::string(1, '\0'));
  EXPECT_EQ(Delimited("ab"),
            "\x02"
            "ab");
  EXPECT_EQ(Delimited(std::string(300, 'x')), "\xac\x02" + std::string(300, 'x'));
}

TEST(MessageSplitterTest, AnyCutOfAStreamGivesTheSameMessages) {
  const Messages messages = {"",
                             "a",
                             std::string(127, 'b'),
                             std::string(128, 'c'),
                             "",
                             std::string("\0\xff\n", 3),
                             std::string(20'000, 'd'),
                             "e"};
  std::string stream;
  for (const std::string& message : messages) stream += Delimited(message);
  EXPECT_EQ(SplitMessages({stream}), messages);
  for (size_t at = 0; at <= stream.size(); ++at) {
    ASSERT_EQ(SplitMessages({stream.substr(0, at), stream.substr(at)}), messages) << at;
  }
  Messages bytes;
  for (const char byte : stream) bytes.emplace_back(1, byte);
  EXPECT_EQ(SplitMessages(bytes), messages);
}

TEST(MessageSplitterTest, MessageIsThereWithItsLastByte) {
  MessageSplitter splitter;
  Messages messages;
  AddTo(splitter,
        "\x02"
        "a",
        &messages);
  EXPECT_THAT(messages, IsEmpty());
  AddTo(splitter, "b", &messages);
  EXPECT_THAT(messages, ElementsAre("ab"));
  AddTo(splitter, std::string_view("\0", 1), &messages);
  EXPECT_THAT(messages, ElementsAre("ab", ""));
}

TEST(MessageSplitterTest, UnfinishedLastMessageIsDropped) {
  EXPECT_EQ(SplitMessages({Delimited("ab") + "\x05"
                                             "cd"}),
            Messages{"ab"});
  EXPECT_EQ(SplitMessages({Delimited("ab") + "\x85"}), Messages{"ab"});
}

TEST(MessageSplitterTest, MessageOfTheLimitIsKept) {
  const std::string message(kMaxMessageBytes, 'x');
  EXPECT_EQ(SplitMessages({Delimited(message)}), Messages{message});
  EXPECT_EQ(SplitMessages({Delimited(message) + Delimited("a")}), (Messages{message, "a"}));
}

TEST(MessageSplitterTest, MessageAboveTheLimitIsReportedOnceAndTheNextIsRead) {
  const std::string above = Delimited(std::string(kMaxMessageBytes + 1, 'x'));
  EXPECT_EQ(SplitMessages({above + Delimited("ab")}), (Messages{kTooLong, "ab"}));
  EXPECT_EQ(SplitMessages({above.substr(0, 9), above.substr(9), above, Delimited("ab")}),
            (Messages{kTooLong, kTooLong, "ab"}));
  // Of the longest that has a length: the bytes that come are skipped.
  EXPECT_EQ(SplitMessages({Length(UINT32_MAX), std::string(5 << 20, '\0')}), Messages());
}

TEST(MessageSplitterTest, NothingIsReadBehindALengthOfMoreThan32Bits) {
  for (const std::string& length : {Length(uint64_t{UINT32_MAX} + 1), Length(UINT64_MAX),
                                    std::string(5, '\x80'), std::string(1000, '\xff')}) {
    EXPECT_EQ(SplitMessages({Delimited("a") + length + Delimited("b")}), (Messages{"a", kTooLong}));
    Messages pieces = {Delimited("a")};
    for (const char byte : length) pieces.emplace_back(1, byte);
    for (int i = 0; i < 3; ++i) pieces.push_back(Delimited("b"));
    EXPECT_EQ(SplitMessages(pieces), (Messages{"a", kTooLong})) << "however it is cut";
  }
}

TEST(MessageSplitterTest, LengthMayHaveMoreBytesThanItNeeds) {
  EXPECT_EQ(SplitMessages({std::string("\x82\x80\x80\x80\x00", 5) + "ab"}), Messages{"ab"});
}

TEST(MessageSplitterTest, MemoryIsBoundWhateverALengthPromises) {
  const size_t before = ResidentBytes();
  Messages messages;
  std::vector<MessageSplitter> splitters(200);
  const std::string mebibyte(1 << 20, 'x');
  for (MessageSplitter& splitter : splitters) {
    // Skipped, broken, promised and not sent.
    const size_t kind = static_cast<size_t>(&splitter - splitters.data()) % 3;
    AddTo(splitter,
          kind == 0   ? Length(UINT32_MAX)
          : kind == 1 ? Length(UINT64_MAX)
                      : Length(kMaxMessageBytes),
          &messages);
    if (kind == 2) continue;
    for (int i = 0; i < 4; ++i) AddTo(splitter, mebibyte, &messages);
  }
  EXPECT_THAT(messages, Each(kTooLong));
  EXPECT_LT(ResidentBytes(), before + (size_t{50} << 20));
}

TEST(MessageSplitterTest, HostileStreamsGiveNoMessageAboveTheLimitAndNoneTwice) {
  Messages seeds;
  seeds.push_back(Delimited("") + Delimited("abc") + Delimited(std::string(300, 'x')));
  seeds.push_back(Delimited(std::string(2'000, 'y')) + Delimited("z"));
  seeds.push_back(Length(kMaxMessageBytes + 1) + std::string(1000, '\1'));
  seeds.push_back(Length(UINT32_MAX));
  const Messages words = {Length(0),
                          Length(kMaxMessageBytes),
                          Length(kMaxMessageBytes + 1),
                          Length(UINT32_MAX),
                          Length(UINT64_MAX),
                          "\x80",
                          "\xff"};
  std::mt19937_64 random(2);
  uint64_t n_messages = 0;
  Fuzz(seeds, words, 200'000, [&](const std::string& stream) {
    MessageSplitter splitter;
    Messages messages;
    std::string_view left = stream;
    while (!left.empty()) {
      const size_t n = std::min<size_t>(left.size(), 1 + random() % 4096);
      AddTo(splitter, left.substr(0, n), &messages);
      left.remove_prefix(n);
    }
    size_t bytes = 0;
    for (const std::string& message : messages) {
      ASSERT_LE(message.size(), kMaxMessageBytes);
      bytes += message == kTooLong ? 1 : message.size() + 1;
    }
    ASSERT_LE(bytes, stream.size()) << "no byte is of two messages";
    n_messages += messages.size();
  });
  EXPECT_GT(n_messages, 100'000u);
}

}  // namespace
}  // namespace nerf
