// HEIC, AVIF and WebP: read by the engine, refused where they are damaged or lie.
#include "engine/scene/phone_pictures/phone_pictures.h"

#include <libheif/heif.h>
#include <webp/encode.h>

#include <cstdlib>
#include <memory>

#include "absl/strings/str_cat.h"
#include "engine/scene/pictures/image_codecs.h"
#include "engine/scene/read/scene_reader.h"
#include "engine/scene/read/unposed_photographs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/scene/scene_fixture.h"

namespace nerf {
namespace {

using ::testing::HasSubstr;

// A gradient that lossy compression keeps.
ImageU8 Gradient(int width, int height, int n_channels) {
  ImageU8 image{width, height, n_channels, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < n_channels; ++c) {
        const int value = c == 0 ? 255 * x / width : c == 1 ? 255 * y / height : c == 2 ? 100 : 200;
        image.pixels.push_back(static_cast<uint8_t>(value));
      }
    }
  }
  return image;
}

std::string MakeWebp(const ImageU8& image) {
  uint8_t* bytes = nullptr;
  const int stride = image.width * image.n_channels;
  const size_t size =
      image.n_channels == 4
          ? WebPEncodeLosslessRGBA(image.pixels.data(), image.width, image.height, stride, &bytes)
          : WebPEncodeRGB(image.pixels.data(), image.width, image.height, stride, 95, &bytes);
  const std::string webp(reinterpret_cast<const char*>(bytes), size);
  WebPFree(bytes);
  return webp;
}

heif_error AppendBytes(heif_context*, const void* data, size_t size, void* to) {
  static_cast<std::string*>(to)->append(static_cast<const char*>(data), size);
  return {heif_error_Ok, heif_suberror_Unspecified, ""};
}

// Empty if this machine's libheif has no such encoder.
std::string MakeHeif(const ImageU8& image, heif_compression_format format) {
  std::string bytes;
  heif_context* const context = heif_context_alloc();
  heif_encoder* encoder = nullptr;
  if (heif_context_get_encoder_for_format(context, format, &encoder).code == heif_error_Ok) {
    heif_encoder_set_lossy_quality(encoder, 90);
    heif_image* pixels = nullptr;
    const bool has_alpha = image.n_channels == 4;
    heif_image_create(image.width, image.height, heif_colorspace_RGB,
                      has_alpha ? heif_chroma_interleaved_RGBA : heif_chroma_interleaved_RGB,
                      &pixels);
    heif_image_add_plane(pixels, heif_channel_interleaved, image.width, image.height, 8);
    int stride = 0;
    uint8_t* const rows = heif_image_get_plane(pixels, heif_channel_interleaved, &stride);
    const auto row_bytes = static_cast<size_t>(image.width) * image.n_channels;
    for (int y = 0; y < image.height; ++y)
      std::copy_n(image.pixels.data() + y * row_bytes, row_bytes, rows + y * stride);
    heif_image_handle* handle = nullptr;
    heif_context_encode_image(context, pixels, encoder, nullptr, &handle);
    heif_writer writer{1, &AppendBytes};
    heif_context_write(context, &writer, &bytes);
    heif_image_handle_release(handle);
    heif_image_release(pixels);
    heif_encoder_release(encoder);
  }
  heif_context_free(context);
  return bytes;
}

class PhonePicturesTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { RegisterPhonePictures(); }

  static void ExpectNear(const ImageU8& a, const ImageU8& b) {
    ASSERT_EQ(a.width, b.width);
    ASSERT_EQ(a.height, b.height);
    ASSERT_EQ(a.n_channels, b.n_channels);
    for (size_t i = 0; i < a.pixels.size(); ++i)
      ASSERT_LE(std::abs(a.pixels[i] - b.pixels[i]), 12) << i;
  }
};

TEST_F(PhonePicturesTest, AreDecodedWithAndWithoutAlpha) {
  for (const int n_channels : {3, 4}) {
    const ImageU8 image = Gradient(64, 48, n_channels);
    for (const std::string& bytes : {MakeWebp(image), MakeHeif(image, heif_compression_HEVC),
                                     MakeHeif(image, heif_compression_AV1)}) {
      if (bytes.empty()) continue;
      const auto decoded = DecodeImageBytes(bytes);
      ASSERT_TRUE(decoded.ok()) << decoded.status();
      ExpectNear(*decoded, image);
    }
  }
  EXPECT_NE(MakeHeif(Gradient(64, 48, 3), heif_compression_HEVC), "") << "HEIC was tested";
}

TEST_F(PhonePicturesTest, LimitsHoldBeforeAnyPixelIsDecoded) {
  const ImageLimits limits{.max_side = 40};
  for (const std::string& bytes :
       {MakeWebp(Gradient(64, 48, 3)), MakeHeif(Gradient(64, 48, 3), heif_compression_HEVC)}) {
    EXPECT_THAT(std::string(DecodeImageBytes(bytes, limits).status().message()),
                HasSubstr("at most 40 a side"));
  }
}

TEST_F(PhonePicturesTest, DamagedOnesAreRefused) {
  for (const std::string& bytes : {MakeWebp(Gradient(64, 48, 3)), MakeWebp(Gradient(64, 48, 4)),
                                   MakeHeif(Gradient(64, 48, 3), heif_compression_HEVC)}) {
    for (size_t size = 0; size + 8 < bytes.size(); size += 1 + bytes.size() / 60) {
      EXPECT_FALSE(DecodeImageBytes(bytes.substr(0, size)).ok()) << size;
    }
    // Whatever a changed byte makes of it, it ends, within the stated size.
    const auto header = ParseImageHeader(bytes);
    for (size_t i = 0; i < bytes.size(); i += 1 + bytes.size() / 150) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(changed[i] ^ 0x55);
      const auto stated = ParseImageHeader(changed);
      const auto decoded = DecodeImageBytes(changed, {.max_side = 4096});
      if (!decoded.ok()) continue;
      EXPECT_EQ(decoded->width, stated->width) << i;
      EXPECT_EQ(decoded->pixels.size(), stated->DecodedBytes()) << i;
    }
    EXPECT_EQ(header->width, 64);
  }
}

TEST_F(PhonePicturesTest, StreamsLargerThanStatedAreRefusedBeforeTheyAreDecoded) {
  for (const auto format : {heif_compression_HEVC, heif_compression_AV1}) {
    std::string bytes = MakeHeif({1104, 1000, 3, std::vector<uint8_t>(3'312'000, 90)}, format);
    if (bytes.empty()) continue;
    EXPECT_TRUE(DecodeImageBytes(bytes).ok());
    const size_t at = bytes.find("ispe") + 8;
    const std::string stated("\0\0\0\x40\0\0\0\x30", 8);
    bytes.replace(at, stated.size(), stated);
    EXPECT_THAT(std::string(DecodeImageBytes(bytes).status().message()),
                ::testing::MatchesRegex("HEIF of 64x48 pixels holds 1[0-9]+ coded ones"));
    // A configuration that hides the size hides nothing: AV1 states it beside the pixels, too.
    bytes.replace(bytes.find(format == heif_compression_HEVC ? "hvcC" : "av1C"), 4, "free");
    EXPECT_FALSE(DecodeImageBytes(bytes).ok());
  }
}

// Four bytes as files of boxes have them.
std::string BigEndian(size_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
  return bytes;
}

std::string BoxAround(const std::string& type, const std::string& content) {
  return BigEndian(8 + content.size()) + type + content;
}

// The box with its head. Requires: it is there.
std::string BoxIn(const std::string& bytes, const std::string& type) {
  const size_t at = bytes.find(type) - 4;
  size_t size = 0;
  for (size_t i = 0; i < 4; ++i) size = size << 8 | static_cast<unsigned char>(bytes[at + i]);
  return bytes.substr(at, size);
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos);
  return text.replace(at, from.size(), to);
}

// Readers of headers take the first of two boxes, libheif the last of `meta`.
TEST_F(PhonePicturesTest, SecondHeadersAreRefusedBeforeTheyAreDecoded) {
  const std::string small = MakeHeif(Gradient(64, 48, 3), heif_compression_HEVC);
  const std::string large =
      MakeHeif({1104, 1000, 3, std::vector<uint8_t>(3'312'000, 90)}, heif_compression_HEVC);
  const std::string stated("\0\0\0\x40\0\0\0\x30", 8);
  std::string lie = BoxIn(large, "meta");
  lie.replace(lie.find("ispe") + 8, stated.size(), stated);
  const std::string pixels = BoxIn(small, "mdat").substr(8), head = BoxIn(small, "meta");
  // The large file, its header hidden; the small one's, whose pixels come last; the lie.
  std::string two = Replaced(large, "meta", "free");
  const size_t end = two.size() + head.size() + lie.size();
  two += Replaced(head, BigEndian(small.find("mdat") + 4), BigEndian(end + 8));
  two += lie + BoxAround("mdat", pixels);
  EXPECT_THAT(std::string(DecodeImageBytes(two).status().message()), HasSubstr("has two headers"));
  EXPECT_FALSE(ParseImageHeader(two).ok());
  // Inside of the header.
  for (const std::string type : {"iinf", "iloc", "iprp", "pitm"}) {
    const std::string twice = head.substr(8) + BoxIn(head, type);
    std::string bytes = Replaced(small, "meta", "free") + BoxAround("meta", twice);
    EXPECT_THAT(std::string(DecodeImageBytes(bytes).status().message()),
                HasSubstr("a box is there twice"))
        << type;
  }
}

TEST_F(PhonePicturesTest, CompanionsOfCompanionsAreRefused) {
  const std::string bytes = MakeHeif(Gradient(64, 48, 4), heif_compression_HEVC);
  ASSERT_TRUE(DecodeImageBytes(bytes).ok());
  const std::string iref = BoxIn(bytes, "iref"), companion = iref.substr(iref.find("auxl") + 4, 2);
  const std::string own = BoxAround("auxl", companion + std::string("\0\1", 2) + companion);
  std::string header =
      Replaced(BoxIn(bytes, "meta").substr(8), iref, BoxAround("iref", iref.substr(8) + own));
  EXPECT_THAT(
      std::string(DecodeImageBytes(Replaced(bytes, "meta", "free") + BoxAround("meta", header))
                      .status()
                      .message()),
      HasSubstr("a companion of a companion"));
}

TEST_F(PhonePicturesTest, CanvasesOfOtherSizesThanTheirPicturesAreRefused) {
  const std::string small = MakeWebp(Gradient(64, 48, 3)), large = MakeWebp(Gradient(640, 480, 3));
  std::string canvas("VP8X\x0a\0\0\0\0\0\0\0\x3f\0\0\x2f\0\0", 18);
  for (const std::string& webp : {small, large}) {
    std::string bytes = webp;
    bytes.insert(12, canvas);
    bytes[4] = static_cast<char>(bytes.size() - 8);
    bytes[5] = static_cast<char>((bytes.size() - 8) >> 8);
    EXPECT_EQ(ParseImageHeader(bytes)->width, 64);
    EXPECT_EQ(DecodeImageBytes(bytes).ok(), webp == small);
  }
}

TEST_F(PhonePicturesTest, OtherFilesOfThoseContainersAreNamed) {
  struct Case {
    std::string bytes;
    const char* said;
  };
  const std::string film = std::string("\0\0\0\x18", 4) + "ftypmp42" + std::string(12, '\0');
  std::string moving = MakeWebp(Gradient(64, 48, 4));
  moving.replace(12, 4, "VP8X");
  moving[20] = 2;
  for (const Case& c : {Case{film, "neither PNG nor JPEG"},
                        {std::string("\0\0\0\x18", 4) + "ftypheic", "HEIF ends before its header"},
                        {moving, "WebP is a film"},
                        {"RIFF....WEBPxxxx" + std::string(20, '\0'), "WebP of an unknown kind"}}) {
    EXPECT_THAT(std::string(DecodeImageBytes(c.bytes).status().message()), HasSubstr(c.said));
  }
}

TEST_F(PhonePicturesTest, DataSetsMayHoldThem) {
  const TempFolder folder;
  std::string frames;
  for (int i = 0; i < 4; ++i) {
    const std::string file = absl::StrCat("IMG_", i, i % 2 == 0 ? ".HEIC" : ".webp");
    const ImageU8 image = Gradient(64, 48, 3);
    folder.Write(file, i % 2 == 0 ? MakeHeif(image, heif_compression_HEVC) : MakeWebp(image));
    frames += (i == 0 ? "" : ",") + FrameJson(file, i, 0, 4);
  }
  folder.Write("transforms.json", R"({"fl_x":50,"w":64,"h":48,"frames":[)" + frames + "]}");
  const auto scene = LoadScene(folder.path());
  ASSERT_TRUE(scene.ok()) << scene.status();
  ExpectNear(scene->train[0].image, Gradient(64, 48, 3));
  // Other programs check their headers alone.
  SetPictureDecoder(ImageFormat::kHeif, nullptr);
  SetPictureDecoder(ImageFormat::kWebp, nullptr);
  EXPECT_TRUE(DescribeScene(folder.path()).ok());
  EXPECT_THAT(std::string(LoadScene(folder.path()).status().message()),
              HasSubstr("HEIC and AVIF are not decoded by this program"));
  RegisterPhonePictures();
}

}  // namespace
}  // namespace nerf
