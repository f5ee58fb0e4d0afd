#include "engine/scene/pictures/exr_codec.h"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/base/half_float.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/scene/scene_fixture.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

// A reader of what EncodeExr writes, by the format's description.
class ExrReader {
 public:
  explicit ExrReader(const std::string& bytes) : bytes_(bytes) {}

  // [channel][height * width]; empty for anything else than scan lines in ZIP.
  std::map<std::string, std::vector<float>> Read() {
    if (Number(4) != 20000630 || Number(4) != 2) return {};
    std::vector<std::pair<std::string, int>> channels;  // name and bytes of a number
    for (std::string name = Text(); !name.empty(); name = Text()) {
      Text();
      const size_t end = Number(4) + at_;
      if (name == "channels") {
        for (std::string channel = Text(); !channel.empty(); channel = Text()) {
          channels.emplace_back(channel, Number(4) == 1 ? 2 : 4);
          at_ += 12;
        }
      } else if (name == "dataWindow") {
        at_ += 8;
        width = static_cast<int>(Number(4)) + 1;
        height = static_cast<int>(Number(4)) + 1;
      } else if (name == "chromaticities" || name.starts_with("world")) {
        for (size_t from = at_; from < end; from += 4) {
          attributes[name].push_back(
              std::bit_cast<float>(static_cast<uint32_t>(NumberIn(bytes_, from, 4))));
        }
      } else if (name == "compression" && Number(1) != 3) {
        return {};
      }
      at_ = end;
    }
    size_t row_bytes = 0;
    for (const auto& [name, size] : channels) row_bytes += static_cast<size_t>(size) * width;
    std::map<std::string, std::vector<float>> planes;
    const size_t table = at_;
    for (int i = 0; i * 16 < height; ++i) {
      at_ = table + 8 * static_cast<size_t>(i);
      at_ = Number(8);
      EXPECT_EQ(Number(4), static_cast<uint64_t>(16 * i));
      const size_t n_rows = std::min(16, height - 16 * i);
      const std::string block = Unzipped(Number(4), n_rows * row_bytes);
      size_t from = 0;
      for (size_t row = 0; row < n_rows; ++row) {
        for (const auto& [name, size] : channels) {
          for (int x = 0; x < width; ++x, from += size) {
            const auto bits = static_cast<uint32_t>(NumberIn(block, from, size));
            planes[name].push_back(size == 2 ? HalfToFloat(static_cast<uint16_t>(bits))
                                             : std::bit_cast<float>(bits));
          }
        }
      }
    }
    return planes;
  }

  int width = 0, height = 0;
  std::map<std::string, std::vector<float>> attributes;  // of a view

 private:
  static uint64_t NumberIn(const std::string& bytes, size_t at, int size) {
    uint64_t number = 0;
    for (int i = size - 1; i >= 0; --i)
      number = number << 8 | static_cast<uint8_t>(bytes.at(at + i));
    return number;
  }
  uint64_t Number(int size) {
    at_ += size;
    return NumberIn(bytes_, at_ - size, size);
  }
  std::string Text() {
    std::string text = bytes_.c_str() + at_;
    at_ += text.size() + 1;
    return text;
  }
  std::string Unzipped(size_t size, size_t full) {
    const std::string stored = bytes_.substr(at_, size);
    if (size == full) return stored;
    std::string sorted(full, '\0'), block;
    uLongf length = full;
    EXPECT_EQ(uncompress(reinterpret_cast<Bytef*>(sorted.data()), &length,
                         reinterpret_cast<const Bytef*>(stored.data()), stored.size()),
              Z_OK);
    for (size_t i = 1; i < full; ++i) {
      sorted[i] = static_cast<char>(static_cast<uint8_t>(sorted[i - 1]) +
                                    static_cast<uint8_t>(sorted[i]) - 128);
    }
    for (size_t i = 0; i < full; ++i) {
      block.push_back(sorted[i % 2 == 0 ? i / 2 : (full + 1) / 2 + i / 2]);
    }
    return block;
  }

  const std::string& bytes_;
  size_t at_ = 0;
};

TEST(ExrCodecTest, DepthsComeBackExactly) {
  for (const auto& [width, height] : {std::pair{1, 1}, {7, 16}, {33, 35}}) {
    std::vector<float> depths;
    for (int i = 0; i < width * height; ++i) depths.push_back(1000 * std::sin(0.7f * i));
    depths[0] = std::numeric_limits<float>::max();
    const auto bytes = EncodeExrDepth(width, height, depths);
    ASSERT_THAT(bytes, IsOk());
    ExrReader reader(*bytes);
    EXPECT_EQ(reader.Read(), (std::map<std::string, std::vector<float>>{{"Z", depths}}));
    EXPECT_EQ(reader.width, width);
    EXPECT_EQ(*bytes, *EncodeExrDepth(width, height, depths));
  }
}

TEST(ExrCodecTest, ColorsAreLinearLightTimesAlpha) {
  const ImageU8 image{2, 1, 4, {255, 188, 0, 255, 255, 10, 128, 51}};
  const auto planes = ExrReader(*EncodeExrPicture(image)).Read();
  const std::map<std::string, std::vector<float>> expected = {{"A", {1, 0.2f}},
                                                              {"B", {0, 0.2f * 0.21586f}},
                                                              {"G", {0.50289f, 0.2f * 0.00304f}},
                                                              {"R", {1, 0.2f}}};
  ASSERT_EQ(planes.size(), expected.size());
  for (const auto& [name, values] : expected) {
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(planes.at(name)[i], values[i], 5e-4f * values[i] + 1e-6f) << name << i;
    }
  }
  const auto gray = ExrReader(*EncodeExrPicture({1, 1, 1, {51}})).Read();
  EXPECT_NEAR(gray.at("Y")[0], 0.2f, 1e-4f);
  EXPECT_EQ(ExrReader(*EncodeExrPicture(MakeImage(37, 21, 3))).Read().size(), 3u);
}

TEST(ExrCodecTest, ViewsHaveColorsDepthsAndTheirCamera) {
  const ImageU8 image{2, 1, 4, {255, 188, 0, 255, 255, 10, 128, 51}};
  ExrCamera camera;
  for (size_t i = 0; i < 16; ++i) camera.world_to_camera[i] = 0.25f * static_cast<float>(i);
  const auto bytes = EncodeExrView(image, {1.5f, 2e9f}, camera);
  ASSERT_THAT(bytes, IsOk());
  ExrReader reader(*bytes);
  auto planes = reader.Read();
  EXPECT_EQ(planes["Z"], (std::vector<float>{1.5f, 2e9f}));
  planes.erase("Z");
  EXPECT_EQ(planes, ExrReader(*EncodeExrPicture(image)).Read()) << "colors times alpha";
  EXPECT_EQ(reader.attributes["worldToCamera"],
            std::vector<float>(camera.world_to_camera.begin(), camera.world_to_camera.end()));
  ASSERT_EQ(reader.attributes["chromaticities"].size(), 8u);
  EXPECT_EQ(reader.attributes["chromaticities"][6], 0.3127f) << "of white";
  EXPECT_FALSE(reader.attributes.contains("worldToNDC"));
  EXPECT_FALSE(reader.attributes.contains("worldOrigin"));

  camera.world_to_ndc = camera.world_to_camera;
  camera.origin = {5e5, 0, 0};
  const auto far_away = EncodeExrView(image, {1, 2}, camera);
  ASSERT_THAT(far_away, IsOk());
  ExrReader other(*far_away);
  other.Read();
  EXPECT_EQ(other.attributes["worldToNDC"], other.attributes["worldToCamera"]);
  EXPECT_EQ(other.attributes["worldOrigin"].size(), 6u) << "three doubles";
}

TEST(ExrCodecTest, WrongPicturesAreRefusedAndAStopEndsIt) {
  const auto is_refused = [](const absl::StatusOr<std::string>& bytes) {
    return absl::IsInvalidArgument(bytes.status());
  };
  EXPECT_TRUE(is_refused(EncodeExrDepth(2, 2, {1, 2, 3})));
  EXPECT_TRUE(is_refused(EncodeExrDepth(0, 0, {})));
  EXPECT_TRUE(is_refused(EncodeExrDepth(-1, -1, {1})));
  EXPECT_TRUE(is_refused(EncodeExrPicture({1, 1, 2, {1, 2}})));
  EXPECT_TRUE(is_refused(EncodeExrView({1, 1, 3, {1, 2, 3}}, {1}, {}))) << "without alpha";
  EXPECT_TRUE(is_refused(EncodeExrView({1, 1, 4, {1, 2, 3, 4}}, {}, {}))) << "without depth";
  EXPECT_TRUE(is_refused(EncodeExrPicture({2, 2, 3, {1, 2, 3}})));
  EXPECT_TRUE(is_refused(EncodeExrPicture({1, 1, 3, {1, 2}})));
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(EncodeExrDepth(1, 1, {1}, stop.get_token()).status()));
}

}  // namespace
}  // namespace nerf
