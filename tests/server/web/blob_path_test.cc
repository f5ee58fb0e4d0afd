#include "server/web/blob_path.h"

#include <gtest/gtest.h>

#include <string>

namespace nerf {
namespace {

const std::string kSha(64, 'a');
const std::string kBlobPathUuid = "0b5e4a2e-3c1d-4f6a-9b7e-1a2b3c4d5e6f";

TEST(BlobPathTest, NamesOfBlobsAndUploads) {
  const auto blob = ParseBlobPath("/blobs/" + kSha + "/19131");
  ASSERT_TRUE(blob.has_value());
  EXPECT_EQ(blob->resource_name, "blobs/" + kSha + "/19131");
  EXPECT_EQ(blob->sha256, kSha);
  EXPECT_EQ(blob->byte_size, 19131u);
  EXPECT_FALSE(blob->is_upload);
  const auto upload = ParseBlobPath("/uploads/" + kBlobPathUuid + "/blobs/" + kSha + "/0");
  ASSERT_TRUE(upload.has_value());
  EXPECT_TRUE(upload->is_upload);
  EXPECT_EQ(upload->resource_name, "uploads/" + kBlobPathUuid + "/blobs/" + kSha + "/0");
  EXPECT_TRUE(ParseBlobPath("/projects/default/blobs/" + kSha + "/1").has_value());
}

TEST(BlobPathTest, OtherPathsAreNone) {
  for (const std::string& path :
       {std::string("/"), std::string(""), "/blobs/" + kSha, "/blobs/" + kSha + "/",
        "/blobs/" + kSha + "/-1", "/blobs/" + kSha + "/1/", "/blobs/" + kSha + "/99999999999999999",
        "/blobs/" + kSha.substr(1) + "/1", "/blobs/" + std::string(64, 'A') + "/1",
        "/blobs/../blobs/" + kSha + "/1", "//blobs/" + kSha + "/1", "/Blobs/" + kSha + "/1",
        "/uploads/" + kSha + "/blobs/" + kSha + "/1", "/uploads/blobs/" + kSha + "/1",
        "/projects/../blobs/" + kSha + "/1", "/projects//blobs/" + kSha + "/1"}) {
    EXPECT_FALSE(ParseBlobPath(path).has_value()) << path;
  }
}

TEST(BlobPathTest, Ranges) {
  const struct {
    const char* header;
    RangeKind kind;
    uint64_t begin, end;
  } cases[] = {
      {"bytes=0-99", RangeKind::kPart, 0, 100},
      {"bytes=10-", RangeKind::kPart, 10, 1000},
      {"bytes=-10", RangeKind::kPart, 990, 1000},
      {"bytes=-2000", RangeKind::kPart, 0, 1000},
      {"bytes=999-5000", RangeKind::kPart, 999, 1000},
      {"bytes=1000-", RangeKind::kUnsatisfiable, 0, 0},
      {"bytes=-0", RangeKind::kUnsatisfiable, 0, 0},
      {"", RangeKind::kWhole, 0, 0},
      {"items=0-1", RangeKind::kWhole, 0, 0},
      {"bytes=0-1,5-6", RangeKind::kWhole, 0, 0},
      {"bytes=5-4", RangeKind::kWhole, 0, 0},
      {"bytes=-", RangeKind::kWhole, 0, 0},
      {"bytes=a-b", RangeKind::kWhole, 0, 0},
      {"bytes=0x1-2", RangeKind::kWhole, 0, 0},
      {"bytes=99999999999999999999-", RangeKind::kWhole, 0, 0},
  };
  for (const auto& expected : cases) {
    ByteRange range;
    EXPECT_EQ(ParseRange(expected.header, 1000, &range), expected.kind) << expected.header;
    EXPECT_EQ(range.begin, expected.begin) << expected.header;
    EXPECT_EQ(range.end, expected.end) << expected.header;
  }
  ByteRange range;
  EXPECT_EQ(ParseRange("bytes=0-", 0, &range), RangeKind::kUnsatisfiable);
}

}  // namespace
}  // namespace nerf
