#include "engine/field/parameters/lens_scales.h"

#include <limits>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using absl::StatusCode;

Camera OpenCvCamera() {
  Camera camera;
  camera.width = 1600;
  camera.height = 1200;
  camera.fl_x = 1500;
  camera.fl_y = 1490;
  camera.cx = 790;
  camera.cy = 610;
  camera.lens = LensModel::kOpenCv;
  camera.k1 = 0.1f;
  camera.p2 = -0.01f;
  return camera;
}

std::vector<LensScale> Found(float scale) {
  LensScale lens = LensScaleOf(OpenCvCamera());
  lens.scale = scale;
  return {lens};
}

TEST(LensScalesTest, CamerasOfTheLensGetTheFocalLengthThatWasFound) {
  const Camera found = WithFoundFocal(Found(0.97f), OpenCvCamera());
  EXPECT_FLOAT_EQ(found.fl_x, 0.97f * 1500);
  EXPECT_FLOAT_EQ(found.fl_y, 0.97f * 1490);
  EXPECT_EQ(found.cx, 790);
  EXPECT_EQ(found.k1, 0.1f);
}

TEST(LensScalesTest, SoDoReducedPictures) {
  // 1600 x 1200 with the longer side reduced to 701 has 525.75 rows.
  const Camera reduced = Resized(OpenCvCamera(), 701, 526);
  EXPECT_FLOAT_EQ(WithFoundFocal(Found(0.97f), reduced).fl_x, 0.97f * reduced.fl_x);
}

TEST(LensScalesTest, OtherLensesStayAsTheyAre) {
  Camera longer = OpenCvCamera(), distorted = OpenCvCamera(), fisheye = OpenCvCamera();
  Camera shifted = OpenCvCamera();
  longer.fl_x = longer.fl_y = 1520;
  distorted.k1 = 0.11f;
  fisheye.lens = LensModel::kFisheye;
  shifted.cx = 800;
  for (const Camera& other : {longer, distorted, fisheye, shifted})
    EXPECT_EQ(WithFoundFocal(Found(0.97f), other), other);
  EXPECT_EQ(WithFoundFocal({}, OpenCvCamera()), OpenCvCamera());
}

TEST(LensScalesTest, FilesHoldThem) {
  std::vector<LensScale> lenses = Found(1.02f);
  Camera pinhole = OpenCvCamera();
  pinhole.lens = LensModel::kPinhole;
  lenses.push_back(LensScaleOf(pinhole));
  TensorFile file;
  SaveLensScales(lenses, &file);
  const auto read = ReadLensScales(file);
  ASSERT_THAT(read, IsOk());
  ASSERT_EQ(read->size(), 2u);
  EXPECT_EQ((*read)[0].scale, 1.02f);
  EXPECT_EQ((*read)[1].scale, 1);
  EXPECT_TRUE(IsSameLens((*read)[0], lenses[0]));
  EXPECT_TRUE(IsSameLens((*read)[1], lenses[1]));
  EXPECT_FALSE(IsSameLens((*read)[0], lenses[1]));
  TensorFile none;
  SaveLensScales({}, &none);
  EXPECT_TRUE(none.tensors.empty());
  EXPECT_TRUE(ReadLensScales(none)->empty());
}

// As a large focal_rate finds them. The model is of use all the same.
TEST(LensScalesTest, ScalesThatAreNoCorrectionsGiveFilesThatAreRead) {
  for (const auto& [found, held] : {std::pair<float, float>{1e-20f, 0.01f}, {3e5f, 100}}) {
    TensorFile file;
    SaveLensScales(Found(found), &file);
    const auto read = ReadLensScales(file);
    ASSERT_THAT(read, IsOk());
    EXPECT_EQ(read->at(0).scale, held);
  }
}

TEST(LensScalesTest, HostileTensorsAreRefusedByName) {
  const auto with = [](size_t index, float value) {
    TensorFile file;
    SaveLensScales(Found(1), &file);
    Tensor& tensor = file.tensors.at("view.lenses");
    std::vector<float> values = ToFloats(tensor);
    values[index] = value;
    tensor = TensorFromFloats(values.data(), tensor.shape, DType::kF32);
    return ReadLensScales(file);
  };
  EXPECT_THAT(with(0, 1), IsOk());
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto& [index, value] : {std::pair<size_t, float>{0, 7},
                                     {0, -1},
                                     {0, 0.5f},
                                     {1, nan},
                                     {13, 0},
                                     {13, -1},
                                     {13, 1e30f},
                                     {13, nan}}) {
    EXPECT_THAT(with(index, value), StatusIs(StatusCode::kInvalidArgument, "view.lenses"))
        << index << " " << value;
  }
  TensorFile narrow, scalar;
  const std::vector<float> values(14, 1.0f);
  narrow.tensors["view.lenses"] = TensorFromFloats(values.data(), {2, 7}, DType::kF32);
  scalar.tensors["view.lenses"] = TensorFromFloats(values.data(), {}, DType::kF32);
  EXPECT_THAT(ReadLensScales(narrow), StatusIs(StatusCode::kInvalidArgument, "view.lenses"));
  EXPECT_THAT(ReadLensScales(scalar), StatusIs(StatusCode::kInvalidArgument, "view.lenses"));
}

}  // namespace
}  // namespace nerf
