// Compressed files of splats, by readers of their own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <webp/decode.h>
#include <zstd.h>

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "engine/export/files/file_splats.h"
#include "engine/export/splats/codebook.h"
#include "engine/export/splats/sog_file.h"
#include "engine/export/splats/spz_file.h"
#include "engine/field/files/zip_entries.h"
#include "nlohmann/json.hpp"
#include "tests/testing/random_floats.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using ::testing::HasSubstr;

constexpr size_t kSplats = 700;

SplatCloud RandomSplats(int degree, float side = 1) {
  SplatCloud cloud;
  cloud.degree = degree;
  cloud.widths.assign(kSplats, 0.002f * side);
  cloud.numbers.resize(kSplats * static_cast<size_t>(cloud.row_size()));
  for (size_t i = 0; i < kSplats; ++i) {
    const std::vector<float> random = RandomFloats(60, -1, 1, static_cast<uint32_t>(i));
    float* const row = cloud.row(i);
    std::copy_n(random.begin(), SplatCloud::kColor + 3 * cloud.n_harmonics(), row);
    for (int axis = 0; axis < 3; ++axis) {
      row[axis] *= side;
      row[SplatCloud::kLogScale + axis] += std::log(0.05f * side);
    }
    row[SplatCloud::kOpacity] *= 5;
    for (int k = 3; k < 3 * cloud.n_harmonics(); ++k) row[SplatCloud::kColor + k] *= 0.5f;
  }
  return cloud;
}

ExportAxes AxesAt(Vec3d origin = {0, 0, 0}, AxesName name = AxesName::kDataset) {
  SceneGeometry geometry;
  geometry.frame.origin = origin;
  return {name, /*is_y_up=*/true, geometry};
}

template <typename T>
T NumberAt(std::string_view bytes, size_t at) {
  T number{};
  if (at + sizeof(number) <= bytes.size()) std::memcpy(&number, bytes.data() + at, sizeof(number));
  return number;
}

// q[largest] follows from the others.
void Complete(float (&q)[4], int largest) {
  float sum = 0;
  for (int i = 0; i < 4; ++i) sum += i == largest ? 0 : q[i] * q[i];
  q[largest] = std::sqrt(std::max(0.0f, 1 - sum));
}

std::vector<FileSplat> ReadSpz(const std::string& bytes) {
  EXPECT_EQ(bytes.substr(0, 4), "NGSP");
  EXPECT_EQ(NumberAt<uint32_t>(bytes, 4), 4u);
  const size_t n = NumberAt<uint32_t>(bytes, 8);
  const int degree = bytes[12], fraction = bytes[13], n_streams = bytes[15];
  EXPECT_EQ(n_streams, degree > 0 ? 6 : 5);
  EXPECT_EQ(bytes.substr(20, 12), std::string(12, '\0'));
  const size_t toc = NumberAt<uint32_t>(bytes, 16);
  size_t at = toc + 16 * static_cast<size_t>(n_streams);
  std::vector<std::string> streams;
  for (int i = 0; i < n_streams; ++i) {
    const auto packed = NumberAt<uint64_t>(bytes, toc + 16 * static_cast<size_t>(i));
    std::string stream(NumberAt<uint64_t>(bytes, toc + 16 * static_cast<size_t>(i) + 8), '\0');
    EXPECT_EQ(ZSTD_decompress(stream.data(), stream.size(), bytes.data() + at, packed),
              stream.size());
    at += packed;
    streams.push_back(std::move(stream));
  }
  EXPECT_EQ(at, bytes.size());
  const int n_rest = 3 * ((degree + 1) * (degree + 1) - 1);
  streams.resize(6);
  const size_t sizes[] = {9, 1, 3, 3, 4, static_cast<size_t>(n_rest)};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(streams[i].size(), n * sizes[i]) << i;
  const auto byte = [&](int stream, size_t i) { return static_cast<uint8_t>(streams[stream][i]); };
  std::vector<FileSplat> splats(n);
  for (size_t i = 0; i < n; ++i) {
    FileSplat& splat = splats[i];
    for (size_t axis = 0; axis < 3; ++axis) {
      const size_t first = 9 * i + 3 * axis;
      const uint32_t low = byte(0, first) << 8 | byte(0, first + 1) << 16 |
                           static_cast<uint32_t>(byte(0, first + 2)) << 24;
      splat.position[axis] =
          std::ldexp(static_cast<float>(static_cast<int32_t>(low) / 256), -fraction);
      splat.colors[axis] = (byte(2, 3 * i + axis) / 255.0f - 0.5f) / 0.15f;
      splat.scale[axis] = std::exp(byte(3, 3 * i + axis) / 16.0f - 10);
    }
    splat.opacity = byte(1, i) / 255.0f;
    float q[4] = {};
    auto bits = NumberAt<uint32_t>(streams[4], 4 * i);
    const int largest = static_cast<int>(bits >> 30);
    for (int part = 3; part >= 0; --part) {
      if (part == largest) continue;
      q[part] = static_cast<float>(bits & 511) / 511 * std::sqrt(0.5f) * (bits & 512 ? -1 : 1);
      bits >>= 10;
    }
    Complete(q, largest);
    splat.rotation = {q[3], q[0], q[1], q[2]};
    for (int k = 0; k < n_rest; ++k)
      splat.colors[3 + k] =
          (byte(5, i * static_cast<size_t>(n_rest) + static_cast<size_t>(k)) - 128) / 128.0f;
  }
  return splats;
}

struct SogFile {
  nlohmann::json meta;
  std::map<std::string, std::vector<uint8_t>> pictures;  // RGBA
  std::map<std::string, int> widths, heights;
};

SogFile OpenSog(const std::string& bytes) {
  SogFile file;
  const auto entries = StoredZipEntries(bytes);
  EXPECT_THAT(entries, IsOk());
  for (const auto& [name, content] : *entries) {
    if (name == "meta.json") {
      file.meta = nlohmann::json::parse(content, nullptr, false);
      continue;
    }
    const auto* const data = reinterpret_cast<const uint8_t*>(content.data());
    WebPBitstreamFeatures features;
    EXPECT_EQ(WebPGetFeatures(data, content.size(), &features), VP8_STATUS_OK) << name;
    EXPECT_EQ(features.format, 2) << name << " is not lossless";
    uint8_t* const rgba =
        WebPDecodeRGBA(data, content.size(), &file.widths[name], &file.heights[name]);
    if (rgba == nullptr) continue;
    file.pictures[name].assign(rgba, rgba + 4 * file.widths[name] * file.heights[name]);
    WebPFree(rgba);
  }
  return file;
}

std::vector<FileSplat> ReadSog(const SogFile& file) {
  const nlohmann::json& meta = file.meta;
  const auto picture = [&](const char* part, size_t i) -> const std::vector<uint8_t>& {
    return file.pictures.at(meta[part]["files"][i]);
  };
  const auto number = [&](const char* part, uint8_t label) {
    return meta[part]["codebook"][label].get<float>();
  };
  std::vector<FileSplat> splats(meta["count"].get<size_t>());
  for (size_t i = 0; i < splats.size(); ++i) {
    FileSplat& splat = splats[i];
    float q[4] = {};
    const uint8_t* const packed = picture("quats", 0).data() + 4 * i;
    EXPECT_GE(packed[3], 252);
    for (size_t axis = 0; axis < 3; ++axis) {
      const int step = picture("means", 0)[4 * i + axis] | picture("means", 1)[4 * i + axis] << 8;
      const double low = meta["means"]["mins"][axis], high = meta["means"]["maxs"][axis];
      const double log = low + (high - low) * step / 65535;
      splat.position[axis] = static_cast<float>(std::copysign(std::expm1(std::abs(log)), log));
      splat.scale[axis] = std::exp(number("scales", picture("scales", 0)[4 * i + axis]));
      splat.colors[axis] = number("sh0", picture("sh0", 0)[4 * i + axis]);
      const size_t part = axis + (static_cast<int>(axis) >= packed[3] - 252 ? 1 : 0);
      q[part] = (packed[axis] / 255.0f - 0.5f) * std::sqrt(2.0f);
    }
    Complete(q, packed[3] - 252);
    splat.rotation = {q[0], q[1], q[2], q[3]};
    splat.opacity = picture("sh0", 0)[4 * i + 3] / 255.0f;
    if (!meta.contains("shN")) continue;
    const size_t bands = meta["shN"]["bands"], n_rest = bands * (bands + 2);
    const uint8_t* const label = picture("shN", 1).data() + 4 * i;
    const size_t color = static_cast<size_t>(label[0] | label[1] << 8);
    EXPECT_LT(color, meta["shN"]["count"].get<size_t>());
    const size_t first = color / 64 * 64 * n_rest + color % 64 * n_rest;
    for (size_t k = 0; k < 3 * n_rest; ++k)
      splat.colors[3 + k] = number("shN", picture("shN", 0)[4 * (first + k / 3) + k % 3]);
  }
  return splats;
}

struct MostOff {
  double position, log_scale, rotation, opacity, color, harmonic;  // harmonic: of its squares' mean
};

// Files have an order of their own.
void ExpectAlike(const std::vector<FileSplat>& read, const SplatCloud& cloud,
                 const ExportAxes& axes, const MostOff& most) {
  const FileSplats splats(cloud, axes);
  ASSERT_EQ(read.size(), splats.size());
  const int n_colors = 3 * splats.n_harmonics();
  std::vector<bool> is_found(read.size());
  double sum = 0;
  for (size_t i = 0; i < read.size(); ++i) {
    const FileSplat wanted = splats.At(i);
    size_t nearest = 0;
    for (size_t j = 0; j < read.size(); ++j) {
      if (Norm(read[j].position - wanted.position) < Norm(read[nearest].position - wanted.position))
        nearest = j;
    }
    EXPECT_FALSE(is_found[nearest]);
    is_found[nearest] = true;
    const FileSplat& splat = read[nearest];
    for (int axis = 0; axis < 3; ++axis) {
      EXPECT_NEAR(splat.position[axis], wanted.position[axis], most.position);
      EXPECT_NEAR(std::log(splat.scale[axis]), std::log(wanted.scale[axis]), most.log_scale);
      EXPECT_NEAR(splat.colors[axis], wanted.colors[axis], most.color);
    }
    const Quaternion &a = splat.rotation, &b = wanted.rotation;
    const double cosine = a.w * b.w + a.x * b.x + a.y * b.y + a.z * b.z;
    EXPECT_LT(2 * std::acos(std::min(1.0, std::abs(cosine))), most.rotation);
    EXPECT_NEAR(splat.opacity, wanted.opacity, most.opacity);
    for (int k = 3; k < n_colors; ++k)
      sum += std::pow(splat.colors[k] - wanted.colors[k], 2) / (n_colors - 3);
  }
  EXPECT_LE(std::sqrt(sum / static_cast<double>(read.size())), most.harmonic);
}

TEST(SpzFileTest, EverySplatIsReadBackWithinItsSteps) {
  ThreadPool pool(2);
  for (const int degree : {0, 1, 2, 3}) {
    const SplatCloud cloud = RandomSplats(degree);
    for (const AxesName name : {AxesName::kDataset, AxesName::kBlender}) {
      const ExportAxes axes = AxesAt({0, 0, 0}, name);
      const auto bytes = SplatsSpz(cloud, axes, &pool);
      ASSERT_THAT(bytes, IsOk());
      EXPECT_EQ((*bytes)[12], degree);
      EXPECT_EQ((*bytes)[14], 0);
      // 16ths of a logarithm, 255ths of colors times 0.15, 16ths of harmonics.
      ExpectAlike(ReadSpz(*bytes), cloud, axes, {0.002, 0.032, 0.006, 0.0041, 0.0132, 0.019});
    }
  }
}

TEST(SpzFileTest, StepsOfPositionsFitTheScene) {
  ThreadPool pool(1);
  for (const float side : {0.02f, 1.0f, 200.0f}) {
    const SplatCloud cloud = RandomSplats(1, side);
    const auto bytes = SplatsSpz(cloud, AxesAt(), &pool);
    ASSERT_THAT(bytes, IsOk());
    ExpectAlike(ReadSpz(*bytes), cloud, AxesAt(), {0.002 * side, 0.032, 0.006, 0.0041, 0.0132, 1});
  }
  SplatCloud far = RandomSplats(0);
  far.row(5)[1] = -9e6f;
  EXPECT_THAT(SplatsSpz(far, AxesAt(), &pool).status().ToString(), HasSubstr("8388607 units"));
  far.row(5)[1] = -8e6f;
  EXPECT_THAT(SplatsSpz(far, AxesAt(), &pool), IsOk());
  const SplatCloud small = RandomSplats(0, 1e-5f);
  EXPECT_THAT(SplatsSpz(small, AxesAt(), &pool).status().ToString(), HasSubstr("INVALID_ARG"));
}

TEST(SpzFileTest, OriginIsARecordThatReadersSkip) {
  ThreadPool pool(1);
  const SplatCloud cloud = RandomSplats(1);
  const Vec3d origin = {500000.25, 5200000, 300};
  const std::string plain = SplatsSpz(cloud, AxesAt(), &pool).value_or("");
  const std::string bytes = SplatsSpz(cloud, AxesAt(origin), &pool).value_or("");
  ASSERT_EQ(bytes.size(), plain.size() + 32);
  EXPECT_EQ(bytes[14], 2);
  EXPECT_EQ(NumberAt<uint32_t>(bytes, 16), 64u);
  EXPECT_EQ(NumberAt<uint32_t>(bytes, 32), kSpzOriginRecord);
  EXPECT_EQ(NumberAt<uint32_t>(bytes, 36), 24u);
  for (size_t axis = 0; axis < 3; ++axis)
    EXPECT_EQ(NumberAt<double>(bytes, 40 + 8 * axis), origin[axis]);
  EXPECT_EQ(bytes.substr(64), plain.substr(32));
}

TEST(SogFileTest, EverySplatIsReadBackWithinItsSteps) {
  ThreadPool pool(2);
  for (const int degree : {0, 1, 2, 3}) {
    const SplatCloud cloud = RandomSplats(degree);
    const ExportAxes axes = AxesAt({0, 0, 0}, AxesName::kOpenCv);
    const auto bytes = SplatsSog(cloud, axes, &pool);
    ASSERT_THAT(bytes, IsOk());
    const SogFile file = OpenSog(*bytes);
    EXPECT_EQ(file.meta["version"], 2);
    EXPECT_EQ(file.meta["antialias"], false);
    EXPECT_EQ(file.meta.contains("shN"), degree > 0);
    EXPECT_EQ(file.pictures.size(), degree > 0 ? 7u : 5u);
    for (const auto& [name, pixels] : file.pictures) {
      EXPECT_EQ(file.widths.at(name),
                name == "shN_centroids.webp" ? 64 * degree * (degree + 2) : 28)
          << name;
    }
    EXPECT_EQ(file.meta["scales"]["codebook"].size(), 256u);
    // A palette of a quarter of all that have nothing in common cannot be near.
    ExpectAlike(ReadSog(file), cloud, axes, {3e-5, 0.03, 0.02, 0.002, 0.012, 0.3});
  }
}

TEST(SogFileTest, ColorsOfAPaletteAreKept) {
  ThreadPool pool(2);
  SplatCloud cloud = RandomSplats(2);
  for (size_t i = 0; i < kSplats; ++i) {  // seven kinds
    for (int k = 3; k < 27; ++k)
      cloud.row(i)[SplatCloud::kColor + k] = cloud.row(i % 7)[SplatCloud::kColor + k];
  }
  const auto bytes = SplatsSog(cloud, AxesAt(), &pool);
  ASSERT_THAT(bytes, IsOk());
  ExpectAlike(ReadSog(OpenSog(*bytes)), cloud, AxesAt(), {3e-5, 0.03, 0.02, 0.002, 0.012, 0.002});
}

TEST(SogFileTest, WhatHardlyTakesLightKeepsItsColors) {
  ThreadPool pool(1);
  SplatCloud cloud = RandomSplats(0);
  for (size_t i = 0; i < kSplats; i += 2) cloud.row(i)[SplatCloud::kOpacity] = -9;
  const auto bytes = SplatsSog(cloud, AxesAt(), &pool);
  ASSERT_THAT(bytes, IsOk());
  ExpectAlike(ReadSog(OpenSog(*bytes)), cloud, AxesAt(), {3e-5, 0.03, 0.02, 0.002, 0.012, 0});
}

TEST(SogFileTest, SameBytesForAnyNumberOfThreads) {
  const SplatCloud cloud = RandomSplats(2);
  ThreadPool one(1), three(3);
  const std::string bytes = SplatsSog(cloud, AxesAt(), &one).value_or("");
  EXPECT_GT(bytes.size(), 5000u);
  EXPECT_TRUE(bytes == SplatsSog(cloud, AxesAt(), &three).value_or(""));
}

TEST(SogFileTest, OneSplatAndItsOrigin) {
  ThreadPool pool(1);
  SplatCloud cloud = RandomSplats(1);
  cloud.widths.resize(1);
  cloud.numbers.resize(static_cast<size_t>(cloud.row_size()));
  const Vec3d origin = {500000.25, 5200000, 300};
  const auto bytes = SplatsSog(cloud, AxesAt(origin), &pool);
  ASSERT_THAT(bytes, IsOk());
  const SogFile file = OpenSog(*bytes);
  EXPECT_EQ(file.meta["origin"], nlohmann::json(origin));
  ExpectAlike(ReadSog(file), cloud, AxesAt(), {1e-6, 1e-5, 0.02, 0.002, 1e-5, 1e-5});
}

TEST(CodebookTest, ErrorIsNearTheLeastOfManyNumbers) {
  std::vector<float> numbers;
  for (const float u : RandomFloats(40'000, 1e-6f, 1)) {  // of an exponential distribution
    numbers.push_back(-std::log(u));
  }
  const Codebook codebook = MakeCodebook(numbers);
  EXPECT_TRUE(std::is_sorted(codebook.begin(), codebook.end()));
  double sum = 0;
  for (const float number : numbers) {
    const float own = codebook[NearestIn(codebook, number)];
    for (const float other : codebook)
      EXPECT_LE(std::abs(own - number), std::abs(other - number) + 1e-6f);
    sum += std::pow(own - number, 2) / static_cast<double>(numbers.size());
  }
  EXPECT_LT(sum, 1.1 * 27.0 / 12 / (256 * 256)) << "(integral of p^(1/3))^3 / 12 n^2";
  EXPECT_EQ(MakeCodebook({2, 2})[0], 2);
}

TEST(CodebookTest, PaletteIsAsNearAsCubesAre) {
  ThreadPool one(1), three(3);
  const std::vector<float> rows = RandomFloats(3 * 8192, 0, 1);
  const Palette palette = MakePalette(rows, 3, 512, &three);
  ASSERT_EQ(palette.labels.size(), 8192u);
  EXPECT_LE(palette.rows.size(), 3u * 512);
  double sum = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t at = 3 * size_t{palette.labels[i / 3]} + i % 3;
    ASSERT_LT(at, palette.rows.size());
    sum += std::pow(palette.rows[at] - rows[i], 2) / static_cast<double>(rows.size());
  }
  EXPECT_LT(sum, 1.0 / 12 / 64) << "512 cubes of an eighth's side";
  const Palette same = MakePalette(rows, 3, 512, &one);
  EXPECT_EQ(same.rows, palette.rows);
  EXPECT_EQ(same.labels, palette.labels);
}

}  // namespace
}  // namespace nerf
