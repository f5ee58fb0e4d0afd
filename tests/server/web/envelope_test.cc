#include "server/web/envelope.h"

#include <gtest/gtest.h>

#include "absl/strings/escaping.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

TEST(EnvelopeTest, PayloadsComeBack) {
  for (const size_t n_bytes : {size_t{0}, size_t{1}, size_t{255}, size_t{256}, size_t{70'000}}) {
    const std::string payload(n_bytes, 'x');
    const std::string frame = Envelope(0, payload);
    EXPECT_EQ(frame.size(), kEnvelopeHeaderBytes + n_bytes);
    EXPECT_THAT(SoleEnvelope(frame), IsOkAndHolds(testing::Eq(payload)));
  }
}

TEST(EnvelopeTest, LengthIsBigEndian) {
  EXPECT_EQ(Envelope(0x80, std::string(0x0102, 'x')).substr(0, 5),
            std::string("\x80\0\0\x01\x02", 5));
}

TEST(EnvelopeTest, TornFramesAreRefusedAtEveryByte) {
  const std::string frame = Envelope(0, "message");
  for (size_t n = 0; n < frame.size(); ++n) {
    EXPECT_THAT(SoleEnvelope(frame.substr(0, n)), StatusIs(absl::StatusCode::kInvalidArgument))
        << n;
  }
}

TEST(EnvelopeTest, OneMessageIsAllThatARequestMayHold) {
  EXPECT_THAT(SoleEnvelope(Envelope(0, "a") + Envelope(0, "b")),
              StatusIs(absl::StatusCode::kInvalidArgument, "more than one"));
  EXPECT_THAT(SoleEnvelope(Envelope(0, "a") + "x"), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(EnvelopeTest, LengthsBeyondTheBodyAreRefusedWithoutBeingAllocated) {
  EXPECT_THAT(SoleEnvelope(std::string("\0\xff\xff\xff\xff", 5)),
              StatusIs(absl::StatusCode::kInvalidArgument, "4294967295"));
}

TEST(EnvelopeTest, FlagsOfARequestAreZero) {
  EXPECT_THAT(SoleEnvelope(Envelope(kCompressedFlag, "a")),
              StatusIs(absl::StatusCode::kUnimplemented, "compressed"));
  for (const int flags : {0x02, 0x04, 0x80, 0xfe}) {
    EXPECT_THAT(SoleEnvelope(Envelope(static_cast<uint8_t>(flags), "a")),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << flags;
  }
}

TEST(EnvelopeTest, Base64MayBePaddedPieces) {
  EXPECT_THAT(DecodeBase64Pieces(""), IsOkAndHolds(testing::Eq("")));
  EXPECT_THAT(DecodeBase64Pieces("YQ==YmM=ZGVm"), IsOkAndHolds(testing::Eq("abcdef")));
  const std::string all = [] {
    std::string bytes;
    for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
    return bytes;
  }();
  EXPECT_THAT(DecodeBase64Pieces(absl::Base64Escape(all)), IsOkAndHolds(testing::Eq(all)));
}

TEST(EnvelopeTest, WhatIsNotBase64IsRefused) {
  for (const char* text :
       {"a", "ab", "abc", "====", "a===", "ab=c", "=abc", "ab cd", "ab\ncdef\n", "ab-_", "YQ==="}) {
    EXPECT_THAT(DecodeBase64Pieces(text), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
  }
}

}  // namespace
}  // namespace nerf
