#include "engine/methods/dynamic/time_range.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "engine/methods/dynamic/field.h"
#include "engine/methods/ngp/parameters.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/random_floats.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

std::vector<View> ViewsAt(const std::vector<float>& times) {
  std::vector<View> views(times.size());
  for (size_t i = 0; i < times.size(); ++i) views[i].camera.time = times[i];
  return views;
}

TEST(TimeRangeTest, ReachesFromTheFirstPictureToTheLast) {
  EXPECT_EQ(TimesOf(ViewsAt({0.4f, 0.2f, 0.9f})), (TimeRange{0.2f, 0.9f}));
  EXPECT_EQ(TimesOf(ViewsAt({0})), (TimeRange{0, 0}));
  EXPECT_EQ(TimesOf({}), (TimeRange{0, 1}));
}

TEST(TimeRangeTest, FilesHoldIt) {
  TensorFile file;
  SaveTimeRange({0.2f, 0.9f}, &file);
  const auto read = ReadTimeRange(file);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(*read, (TimeRange{0.2f, 0.9f}));
  EXPECT_EQ(*ReadTimeRange(TensorFile()), TimeRange()) << "of earlier versions";
}

TEST(TimeRangeTest, HostileTensorsAreRefusedByName) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto& [first, last] :
       {std::pair{0.5f, 0.4f}, {-0.1f, 0.4f}, {0.0f, 1.1f}, {nan, 1.0f}, {0.0f, nan}}) {
    TensorFile file;
    SaveTimeRange({first, last}, &file);
    EXPECT_THAT(ReadTimeRange(file), StatusIs(absl::StatusCode::kInvalidArgument, "field.times"))
        << first << " " << last;
  }
  TensorFile scalar;
  const float value = 0.5f;
  scalar.tensors["field.times"] = TensorFromFloats(&value, {}, DType::kF32);
  EXPECT_THAT(ReadTimeRange(scalar), StatusIs(absl::StatusCode::kInvalidArgument, "field.times"));
}

// Densities of a field whose warp moves everything by a function of time.
std::vector<float> DensitiesAt(float time, const TimeRange& times) {
  const kernels::HashGridShape shape = NgpHashGridShape({.log2_hashmap_size = 12});
  const size_t n_entries = shape.level_size() * shape.n_levels;
  const std::vector<float> values = RandomFloats(n_entries, -1, 1, 1);
  Buffer<Half> table(n_entries);
  for (size_t i = 0; i < n_entries; ++i) table[i] = HalfFromFloat(values[i]);
  const std::vector<float> random = RandomFloats(kNgpWeights, -0.5f, 0.5f, 2);
  const std::vector<float> random_warp = RandomFloats(kWarpWeights, -0.1f, 0.1f, 3);
  Buffer<float> weights(random.size()), warp(random_warp.size());
  std::copy(random.begin(), random.end(), weights.data());
  std::copy(random_warp.begin(), random_warp.end(), warp.data());
  const DynamicField field(shape, {{0, 0, 0}, {1, 1, 1}}, 0, std::move(table), std::move(weights),
                           std::move(warp), times);
  const std::vector<Vec3> points = RandomPoints(40, 0.2f, 0.8f, 4);
  const auto workspace = field.NewWorkspace(40);
  field.SetTime(time, workspace.get());
  std::vector<float> sigmas(points.size());
  field.Density(40, points.data(), sigmas.data(), workspace.get());
  return sigmas;
}

TEST(TimeRangeTest, TimesOutsideOfItShowItsNearestEnd) {
  const TimeRange times{0.3f, 0.7f};
  EXPECT_EQ(DensitiesAt(0, times), DensitiesAt(0.3f, times));
  EXPECT_EQ(DensitiesAt(1, times), DensitiesAt(0.7f, times));
  EXPECT_NE(DensitiesAt(0.3f, times), DensitiesAt(0.7f, times));
  EXPECT_EQ(DensitiesAt(0.5f, times), DensitiesAt(0.5f, TimeRange()));
  EXPECT_NE(DensitiesAt(0, TimeRange()), DensitiesAt(0.3f, TimeRange()));
}

}  // namespace
}  // namespace nerf
