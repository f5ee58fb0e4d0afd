// The records that TensorBoard reads.
#include "engine/program/commands/event_file.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace nerf {
namespace {

TEST(EventFileTest, ChecksumIsThatOfCastagnoli) {
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau) << "RFC 3720, B.4";
}

// Made by hand from event.proto and record_writer.h.
TEST(EventFileTest, RecordHoldsLengthEventAndTheirChecksums) {
  const auto hex = [](const std::string& bytes) {
    std::string text;
    for (const char byte : bytes) {
      constexpr char kDigits[] = "0123456789abcdef";
      text += kDigits[static_cast<uint8_t>(byte) >> 4];
      text += kDigits[byte & 15];
    }
    return text;
  };
  EXPECT_EQ(hex(EventFileHead(1.5)),
            "1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c"
            "");
  EXPECT_EQ(hex(ScalarRecord(2.5, 300, "a/b", 0.25f)),
            "1a00000000000000129bd82d09000000000000044010ac022a0c0a0a0a03612f62150000803ed889"
            "2de9");
}

}  // namespace
}  // namespace nerf
