#pragma once

#include <cstdint>
#include <string>

#include "gtest/gtest.h"
#include "hwy/highway.h"

namespace nerf {

// Selects a Highway target; 0: the machine's best. Also for kernels that were dispatched before.
inline void ChooseSimdTarget(int64_t target) {
  hwy::SetSupportedTargetsForTest(target);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

// A test that runs once for each SIMD path that this machine has and the kernels were compiled
// for: derive the fixture, write TEST_P, and name it in NERF_INSTANTIATE_SIMD_PATHS.
class SimdPathTest : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { ChooseSimdTarget(GetParam()); }
  void TearDown() override { ChooseSimdTarget(0); }
};

}  // namespace nerf

#define NERF_INSTANTIATE_SIMD_PATHS(Fixture)                                                      \
  INSTANTIATE_TEST_SUITE_P(Simd, Fixture, testing::ValuesIn(hwy::SupportedAndGeneratedTargets()), \
                           [](const testing::TestParamInfo<int64_t>& path) {                      \
                             return std::string(hwy::TargetName(path.param));                     \
                           })
