#include "engine/methods/voxels/voxel_file.h"

#include "engine/methods/voxels/describe/voxels_settings.h"
#include "gtest/gtest.h"
#include "tests/testing/random_floats.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using ::absl::StatusCode;

class VoxelFileTest : public ::testing::Test {
 protected:
  VoxelFileTest() {
    config_.method = "voxels";
    Voxels(config_).first_resolution = 32;
    Voxels(config_).finest_resolution = 64;
    std::vector<bool> mask(8 * 8 * 8);
    mask[9] = mask[100] = mask[511] = true;
    grid_ = VoxelGrid(32, mask);
    const std::vector<float> values = RandomFloats(grid_.values().size(), -1, 1, 3);
    for (size_t i = 0; i < values.size(); ++i)
      grid_.values()[i] = i % kVoxelStride < kVoxelFloats ? values[i] : 0;
    StoreVoxels(config_, grid_, DType::kF32, &file_);
  }
  TrainConfig config_;
  VoxelGrid grid_;
  TensorFile file_;
};

TEST_F(VoxelFileTest, VoxelsComeBackBitForBit) {
  const auto loaded = LoadVoxels(config_, file_);
  ASSERT_THAT(loaded, IsOk());
  EXPECT_EQ(loaded->resolution(), 32);
  EXPECT_EQ(loaded->places(), grid_.places());
  EXPECT_TRUE(std::equal(loaded->values().begin(), loaded->values().end(), grid_.values().begin(),
                         grid_.values().end()));
}

TEST_F(VoxelFileTest, WhatDoesNotFitIsRefusedByName) {
  TensorFile fewer = file_;
  fewer.tensors["field.voxels"] = TensorFromFloats(grid_.values().data(), {64, 28}, DType::kF32);
  EXPECT_THAT(LoadVoxels(config_, fewer), StatusIs(StatusCode::kInvalidArgument, "field.voxels"));
  TensorFile without_map = file_;
  without_map.tensors.erase("field.bricks");
  EXPECT_THAT(LoadVoxels(config_, without_map),
              StatusIs(StatusCode::kInvalidArgument, "field.bricks"));
  for (const char* bad : {"33", "48", "128", "-4", "x", ""}) {
    TensorFile file = file_;
    file.metadata["voxels.resolution"] = bad;
    EXPECT_THAT(LoadVoxels(config_, file),
                StatusIs(StatusCode::kInvalidArgument, "voxels.resolution"))
        << bad;
  }
}

}  // namespace
}  // namespace nerf
