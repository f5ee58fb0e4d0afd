#include "engine/scene/pictures/image_io.h"

#include <sys/stat.h>
#include <turbojpeg.h>

#include <cstdlib>
#include <memory>
#include <stop_token>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/scene/scene_fixture.h"

namespace nerf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ImageIoTest, PngOfEachChannelCountComesBackUnchanged) {
  for (const int n_channels : {3, 4}) {
    const ImageU8 image = MakeImage(37, 21, n_channels);
    const auto again = DecodeImageBytes(EncodePng(image).value());
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->width, 37);
    EXPECT_EQ(again->height, 21);
    EXPECT_EQ(again->n_channels, n_channels);
    EXPECT_EQ(again->pixels, image.pixels);
  }
}

TEST(ImageIoTest, GrayPngBecomesRgb) {
  const auto image = DecodeImageBytes(MakePng(9, 4, 1));
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->n_channels, 3);
  const ImageU8 gray = MakeImage(9, 4, 1);
  for (size_t i = 0; i < gray.pixels.size(); ++i) {
    EXPECT_EQ(image->pixels[3 * i], gray.pixels[i]);
    EXPECT_EQ(image->pixels[3 * i + 2], gray.pixels[i]);
  }
}

TEST(ImageIoTest, SixteenBitGrayPngIsRoundedToEight) {
  const std::vector<uint16_t> gray = {0, 257 * 7, 257 * 200 + 100, 65535};
  const auto image = DecodeImageBytes(EncodePng16(2, 2, gray).value());
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_THAT(image->pixels, ElementsAre(0, 0, 0, 7, 7, 7, 200, 200, 200, 255, 255, 255));
}

TEST(ImageIoTest, PalettePngWithTransparencyBecomesRgba) {
  const std::string palette = PngChunk("PLTE", std::string("\x0a\x14\x1e\xff\x80\x40", 6));
  const std::string alpha = PngChunk("tRNS", std::string("\x30", 1));
  // One row, filter 0, two 1-bit pixels: colors 0 and 1.
  const std::string png = RawPng(2, 1, 1, 3, palette + alpha, std::string("\0\x40", 2));
  EXPECT_EQ(ParseImageHeader(png)->n_channels, 4);
  const auto image = DecodeImageBytes(png);
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_THAT(image->pixels, ElementsAre(10, 20, 30, 48, 255, 128, 64, 255));
}

// As Photoshop writes it: 255 is no ink.
TEST(ImageIoTest, JpegOfFourInksBecomesRgb) {
  std::vector<uint8_t> pixels;
  for (int i = 0; i < 16 * 8; ++i) pixels.insert(pixels.end(), {200, 100, 50, 128});
  const std::unique_ptr<void, int (*)(tjhandle)> codec(tjInitCompress(), tjDestroy);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;  // NOLINT: TurboJPEG's type
  ASSERT_EQ(tjCompress2(codec.get(), pixels.data(), 16, 0, 8, TJPF_CMYK, &bytes, &size, TJSAMP_444,
                        95, 0),
            0);
  std::string jpeg(reinterpret_cast<const char*>(bytes), size);
  tjFree(bytes);
  const auto expect = [&](int red, int green, int blue) {
    const auto image = DecodeImageBytes(jpeg);
    ASSERT_TRUE(image.ok()) << image.status();
    EXPECT_EQ(image->n_channels, 3);
    EXPECT_NEAR(image->pixels[0], red, 2);
    EXPECT_NEAR(image->pixels[1], green, 2);
    EXPECT_NEAR(image->pixels[2], blue, 2);
  };
  expect(100, 50, 25);
  const size_t adobe = jpeg.find("Adobe");
  ASSERT_NE(adobe, std::string::npos);
  // Without their marker 255 is ink, and TurboJPEG's YCC of 55, 155, 205 is taken as inks.
  jpeg.replace(adobe, 5, "Other");
  expect((255 - 131) * 127 / 255, (255 - 170) * 127 / 255, (255 - 74) * 127 / 255);
}

TEST(ImageIoTest, GrayAlphaPngBecomesRgba) {
  const std::string png = RawPng(1, 1, 8, 4, "", std::string("\0\x50\x60", 3));
  const auto image = DecodeImageBytes(png);
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_THAT(image->pixels, ElementsAre(0x50, 0x50, 0x50, 0x60));
}

TEST(ImageIoTest, GammaAndProfilesDoNotChangePixels) {
  const std::string gamma = PngChunk("gAMA", std::string("\0\1\x86\xa0", 4));  // linear
  const std::string rows("\0\x50\x60\x70", 4);
  EXPECT_EQ(DecodeImageBytes(RawPng(1, 1, 8, 2, gamma, rows))->pixels,
            DecodeImageBytes(RawPng(1, 1, 8, 2, "", rows))->pixels);
}

TEST(ImageIoTest, JpegComesBackClose) {
  ImageU8 image{64, 48, 3, {}};
  for (int i = 0; i < 64 * 48; ++i) {
    image.pixels.insert(image.pixels.end(), {static_cast<uint8_t>(i % 64 * 2), 90, 200});
  }
  const auto again = DecodeImageBytes(EncodeJpeg(image, 95).value());
  ASSERT_TRUE(again.ok()) << again.status();
  ASSERT_EQ(again->pixels.size(), image.pixels.size());
  for (size_t i = 0; i < image.pixels.size(); ++i) {
    EXPECT_NEAR(again->pixels[i], image.pixels[i], 8);
  }
}

TEST(ImageIoTest, ExifOrientationIsIgnored) {
  const std::string jpeg = MakeJpeg(32, 16);
  // Big-endian TIFF with one entry: tag 0x112, short, 6 (turn right).
  const std::string tiff("Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0",
                         32);
  std::string segment("\xff\xe1", 2);
  segment += static_cast<char>((tiff.size() + 2) >> 8);
  segment += static_cast<char>((tiff.size() + 2) & 0xff);
  const std::string turned = jpeg.substr(0, 2) + segment + tiff + jpeg.substr(2);
  const auto image = DecodeImageBytes(turned);
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->width, 32);
  EXPECT_EQ(image->pixels, DecodeImageBytes(jpeg)->pixels);
}

TEST(ImageIoTest, HeaderOfFileAgreesWithHeaderOfBytes) {
  const TempFolder folder;
  folder.Write("a.png", MakePng(30, 20, 4));
  folder.Write("b.jpg", MakeJpeg(50, 40));
  EXPECT_EQ(ReadImageHeader(folder.PathOf("a.png")).value(),
            (ImageHeader{ImageFormat::kPng, 30, 20, 4}));
  EXPECT_EQ(ReadImageHeader(folder.PathOf("b.jpg")).value(),
            (ImageHeader{ImageFormat::kJpeg, 50, 40, 3}));
  EXPECT_EQ(ReadImageHeader(folder.PathOf("c.png")).status().code(), absl::StatusCode::kNotFound);
}

TEST(ImageIoTest, WritePngReplacesTheFileAndLeavesNothingElse) {
  const TempFolder folder;
  folder.Write("out.png", "old");
  const ImageU8 image = MakeImage(8, 8, 3);
  ASSERT_TRUE(WritePng(folder.PathOf("out.png"), image).ok());
  EXPECT_EQ(DecodeImage(folder.PathOf("out.png"))->pixels, image.pixels);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
  EXPECT_FALSE(WritePng(folder.PathOf("none/out.png"), image).ok());
}

TEST(ImageIoTest, EncodersRefusePixelsThatDoNotFitTheSize) {
  ImageU8 image = MakeImage(8, 8, 3);
  image.pixels.pop_back();
  EXPECT_EQ(EncodePng(image).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(EncodeJpeg(image).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(EncodeJpeg(MakeImage(8, 8, 3), 0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(EncodeJpeg(MakeImage(8, 8, 4)).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(EncodePng16(2, 2, std::vector<uint16_t>(3)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// A large picture takes seconds, and who wanted it may have gone.
TEST(ImageIoTest, PngEncodersEndAfterAStop) {
  std::stop_source stop;
  const ImageU8 image = MakeImage(8, 8, 3);
  const std::vector<uint16_t> gray(64);
  EXPECT_TRUE(EncodePng(image, stop.get_token()).ok());
  EXPECT_TRUE(EncodePng16(8, 8, gray, stop.get_token()).ok());
  stop.request_stop();
  EXPECT_EQ(EncodePng(image, stop.get_token()).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(EncodePng16(8, 8, gray, stop.get_token()).status().code(),
            absl::StatusCode::kCancelled);
}

TEST(ImageIoTest, PipeIsRefusedWithoutWaiting) {
  const TempFolder folder;
  ASSERT_EQ(mkfifo(folder.PathOf("pipe.png").c_str(), 0600), 0);
  EXPECT_THAT(std::string(DecodeImage(folder.PathOf("pipe.png")).status().message()),
              HasSubstr("not a regular file"));
}

struct HostileImage {
  const char* name;
  std::string bytes;
  const char* words;
};

void PrintTo(const HostileImage& image, std::ostream* out) { *out << image.name; }

class HostileImageTest : public ::testing::TestWithParam<HostileImage> {};

TEST_P(HostileImageTest, IsRefusedWithItsReason) {
  const TempFolder folder;
  folder.Write("image", GetParam().bytes);
  const auto image = DecodeImage(folder.PathOf("image"));
  EXPECT_EQ(image.status().code(), absl::StatusCode::kInvalidArgument) << image.status();
  EXPECT_THAT(std::string(image.status().message()), HasSubstr(GetParam().words));
  EXPECT_THAT(std::string(image.status().message()), HasSubstr(folder.PathOf("image") + ": "));
}

std::string Replaced(std::string bytes, size_t at, std::string_view with) {
  return bytes.replace(at, with.size(), with);
}

// A JPEG whose frame header says something else from byte `at` of its SOF segment.
std::string JpegWithFrame(size_t at, std::string_view with) {
  std::string jpeg = MakeJpeg(32, 16);
  return Replaced(jpeg, jpeg.find("\xff\xc0") + at, with);
}

std::vector<HostileImage> HostileImages() {
  const std::string png = MakePng(40, 30, 3);
  const std::string jpeg = MakeJpeg(64, 64);
  const std::string rows("\0\x50\x60\x70", 4);
  std::string bad_crc = png;
  bad_crc[29] = static_cast<char>(bad_crc[29] ^ 1);
  std::string bad_pixels = png;
  bad_pixels[bad_pixels.size() / 2] = static_cast<char>(bad_pixels[bad_pixels.size() / 2] ^ 0x55);
  std::string many_chunks;
  for (int i = 0; i < 5000; ++i) many_chunks += PngChunk("tEXt", "a");
  return {
      {"Empty", "", "file is empty"},
      {"OneByte", "\x89", "neither PNG nor JPEG"},
      {"Text", "hello, I am no image", "neither PNG nor JPEG"},
      {"Gif", "GIF89a\1\0\1\0", "neither PNG nor JPEG (by its first bytes) but a GIF"},
      {"PngSignatureAlone", png.substr(0, 8), "ends before its pixels"},
      {"PngCutInHeader", png.substr(0, 25), "ends before its pixels"},
      {"PngCutBeforePixels", png.substr(0, 36), "ends before its pixels"},
      {"PngCutInPixels", png.substr(0, png.size() / 2), "cut off"},
      {"PngWithoutEnd", png.substr(0, png.size() - 12), "cut off"},
      {"PngHeaderChecksum", bad_crc, "damaged"},
      {"PngPixelBytesChanged", bad_pixels, "damaged"},
      {"PngFirstChunkIsNotHeader", Replaced(png, 12, "IDAT"), "IHDR"},
      {"PngZeroWidth", RawPng(0, 5, 8, 2, "", rows), "PNG of 0x5"},
      {"PngHugeWidth", RawPng(0xffffffffu, 5, 8, 2, "", rows), "2^31"},
      {"PngTooWide", RawPng(20000, 5, 8, 2, "", rows), "at most 16384 a side"},
      {"PngTooManyPixels", RawPng(16384, 16384, 8, 2, "", rows), "268435456 pixels; at most"},
      {"PngBombWithTooFewRows", RawPng(10000, 10000, 8, 2, "", rows), "damaged"},
      {"PngUnknownColorType", RawPng(1, 1, 8, 5, "", rows), "color type 5"},
      {"PngUnknownBitDepth", RawPng(1, 1, 3, 0, "", rows), "bit depth 3"},
      {"PngBitDepthNotForThisType", RawPng(1, 1, 4, 2, "", rows), "damaged"},
      {"PngPaletteMissing", RawPng(1, 1, 8, 3, "", std::string(2, '\0')), "damaged"},
      {"PngTooManyChunks", RawPng(1, 1, 8, 2, many_chunks, rows), "too many chunks"},
      {"PngChunkLongerThanFile", png.substr(0, 33) + std::string("\x7f\xff\xff\xfftEXt", 8) + "abc",
       "ends before its pixels"},
      {"PngFilterUnknown", RawPng(1, 1, 8, 2, "", std::string("\x09\x50\x60\x70", 4)), "damaged"},
      {"JpegStartAlone", std::string("\xff\xd8\xff", 3), "ends before its frame header"},
      {"JpegCutInTables", jpeg.substr(0, 40), "ends before its frame header"},
      {"JpegCutInPixels", jpeg.substr(0, jpeg.size() * 2 / 3), "damaged"},
      {"JpegWithoutFrame", std::string("\xff\xd8\xff\xda\0\x04\0\0", 8), "no frame header"},
      {"JpegGarbageBetweenSegments", std::string("\xff\xd8\xff\xe0\0\x04\0\0garbage", 15),
       "no marker at byte 8"},
      {"JpegSegmentOfNoLength", std::string("\xff\xd8\xff\xe0\0\0\0\0", 8), "segment of 0 bytes"},
      {"JpegZeroHeight", JpegWithFrame(5, std::string("\0\0", 2)), "JPEG of 32x0"},
      {"JpegTooTall", JpegWithFrame(5, std::string("\xff\xff", 2)), "at most 16384 a side"},
      {"JpegTwelveBits", JpegWithFrame(4, std::string("\x0c", 1)), "12 bits a channel"},
      {"JpegFourChannels", JpegWithFrame(9, std::string("\x04", 1)), "damaged"},
      {"JpegTwoChannels", JpegWithFrame(9, std::string("\x02", 1)), "2 channels"},
      {"JpegLossless", JpegWithFrame(1, "\xc3"), "lossless"},
      {"JpegTallerThanItsPixels", JpegWithFrame(5, std::string("\x10\0", 2)), "damaged"},
  };
}

INSTANTIATE_TEST_SUITE_P(All, HostileImageTest, ::testing::ValuesIn(HostileImages()),
                         [](const auto& info) { return std::string(info.param.name); });

// Every prefix and every byte flipped: an error or a picture of the stated size, never a crash.
TEST(ImageIoTest, DamageAnywhereNeverCrashes) {
  for (const std::string& good : {MakePng(12, 9, 4), MakeJpeg(24, 16)}) {
    for (size_t i = 0; i < good.size(); ++i) {
      const auto truncated = DecodeImageBytes(std::string_view(good).substr(0, i));
      // The last bytes are an end mark, which a decoder may do without.
      EXPECT_TRUE(!truncated.ok() || i + 3 >= good.size()) << i;
      std::string flipped = good;
      flipped[i] = static_cast<char>(flipped[i] ^ 0xff);
      ImageLimits limits;
      limits.max_pixels = 1 << 20;
      if (const auto image = DecodeImageBytes(flipped, limits); image.ok()) {
        EXPECT_EQ(image->pixels.size(),
                  static_cast<size_t>(image->width) * image->height * image->n_channels);
      }
    }
  }
}

TEST(ImageIoTest, GrayOf16BitsComesBackAndNothingElsePasses) {
  const std::vector<uint16_t> gray = {0, 1, 255, 256, 40000, 65535};
  const std::string bytes = EncodePng16(3, 2, gray).value();
  const auto image = DecodePng16(bytes);
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->width, 3);
  EXPECT_EQ(image->height, 2);
  EXPECT_EQ(image->pixels, gray);
  const ImageU8 rgb{.width = 1, .height = 1, .n_channels = 3, .pixels = {1, 2, 3}};
  const ImageU8 gray8{.width = 1, .height = 1, .n_channels = 1, .pixels = {1}};
  for (const std::string& other :
       {EncodePng(rgb).value(), EncodePng(gray8).value(), EncodeJpeg(rgb).value(), std::string(),
        bytes.substr(0, bytes.size() / 2)}) {
    EXPECT_EQ(DecodePng16(other).status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(DecodePng16(bytes, {.max_side = 2}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace nerf
