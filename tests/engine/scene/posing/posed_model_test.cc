#include "engine/scene/posing/photographs/posed_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

template <typename... T>
std::string Bytes(const T&... values) {
  std::string bytes;
  (bytes.append(reinterpret_cast<const char*>(&values), sizeof(values)), ...);
  return bytes;
}

std::string Cameras() {
  return Bytes(uint64_t{1}, 1, 1, uint64_t{64}, uint64_t{48}, 60.0, 60.0, 32.0, 24.0);
}

// At `center`, looking along +z with y down.
std::string Image(uint32_t id, double x, double y, double z, const std::string& name) {
  return Bytes(id, 1.0, 0.0, 0.0, 0.0, -x, -y, -z, 1) + name + std::string(1, '\0') +
         Bytes(uint64_t{0});
}

std::string Point(double x, double y, double z, double error, std::vector<uint32_t> images) {
  std::string bytes = Bytes(uint64_t{1}, x, y, z) + std::string("\x01\x02\x03") +
                      Bytes(error, uint64_t{images.size()});
  for (const uint32_t image : images) bytes += Bytes(image, uint32_t{0});
  return bytes;
}

class PosedModelTest : public ::testing::Test {
 protected:
  void Write(const std::string& folder, const std::string& images, const std::string& points) {
    dir_.Write(folder + "/cameras.bin", Cameras());
    dir_.Write(folder + "/images.bin", images);
    dir_.Write(folder + "/points3D.bin", points);
  }
  const std::string two_ =
      Bytes(uint64_t{2}) + Image(7, -1, 0, 0, "a.jpg") + Image(3, 1, 0, 0, "b.jpg");
  TempDir dir_;
};

TEST_F(PosedModelTest, CentersAnglesAndErrorsAreRead) {
  Write("0", two_, Bytes(uint64_t{1}) + Point(0, 0, 1, 0.5, {7, 3}));
  const auto model = ReadPosedModel(dir_ / "0");
  ASSERT_THAT(model, IsOk());
  EXPECT_DOUBLE_EQ(model->photos.at("a.jpg").center[0], -1);
  EXPECT_DOUBLE_EQ(model->photos.at("b.jpg").center[0], 1);
  EXPECT_EQ(model->photos.at("a.jpg").n_points, 1u);
  EXPECT_DOUBLE_EQ(model->reprojection_error, 0.5);
  EXPECT_NEAR(model->parallax_degrees, 90, 1e-9);
  EXPECT_DOUBLE_EQ(UpOf(*model)[1], -1);
}

TEST_F(PosedModelTest, CamerasThatLookStraightAtThePlaneLookDown) {
  std::string points = Bytes(uint64_t{100});
  for (int i = 0; i < 100; ++i) points += Point(i % 10, i / 10, 8, 0.5, {7, 3});
  Write("0", two_, points);
  const auto model = ReadPosedModel(dir_ / "0");
  ASSERT_THAT(model, IsOk());
  EXPECT_NEAR(UpOf(*model)[2], -1, 1e-9);
}

TEST_F(PosedModelTest, LargestModelComesFirstAndDamagedOnesAreLeftOut) {
  const std::string one = Bytes(uint64_t{1}) + Image(1, 0, 0, 0, "c.jpg");
  Write("models/0", one, Bytes(uint64_t{0}));
  Write("models/1", two_, Bytes(uint64_t{0}));
  Write("models/2", two_.substr(0, 50), Bytes(uint64_t{0}));
  const auto models = ModelsIn(dir_ / "models");
  ASSERT_EQ(models.size(), 2u);
  EXPECT_EQ(models[0].n_photos, 2u);
  EXPECT_THAT(models[0].folder, ::testing::EndsWith("/1"));
  EXPECT_TRUE(ModelsIn(dir_ / "absent").empty());
}

TEST_F(PosedModelTest, PoseThatIsNoNumberIsRefused) {
  Write("0", Bytes(uint64_t{1}) + Image(1, NAN, 0, 0, "a.jpg"), Bytes(uint64_t{0}));
  EXPECT_THAT(ReadPosedModel(dir_ / "0"), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(ColmapPointsTest, CutOffFilesAreRefused) {
  const std::string bytes =
      Bytes(uint64_t{2}) + Point(0, 0, 1, 0.5, {7, 3}) + Point(1, 0, 1, 0.25, {7});
  ASSERT_THAT(ParseColmapPoints(bytes), IsOk());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THAT(ParseColmapPoints(bytes.substr(0, size)), StatusIs(absl::StatusCode::kDataLoss));
  }
}

TEST(ColmapPointsTest, ClaimsBeyondTheFileAreRefused) {
  EXPECT_THAT(ParseColmapPoints(Bytes(~uint64_t{0})), StatusIs(absl::StatusCode::kDataLoss));
  std::string bytes = Bytes(uint64_t{1}) + Point(0, 0, 1, 0.5, {7, 3});
  const uint64_t many = ~uint64_t{0};
  std::memcpy(bytes.data() + 8 + 8 + 24 + 3 + 8, &many, sizeof(many));
  EXPECT_THAT(ParseColmapPoints(bytes), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(ColmapPointsTest, PointsThatAreNoNumbersAreSkipped) {
  const auto points = ParseColmapPoints(Bytes(uint64_t{2}) + Point(NAN, 0, 1, 0.5, {7}) +
                                        Point(1, 0, 1, 0.25, {7}));
  ASSERT_THAT(points, IsOk());
  EXPECT_EQ(points->size(), 1u);
}

}  // namespace
}  // namespace nerf
