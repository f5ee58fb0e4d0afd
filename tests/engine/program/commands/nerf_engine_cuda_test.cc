// Runs nerf-engine on a CUDA device that the host emulates, with the methods and settings that have
// no bench there.
#include <gtest/gtest.h>

#include <string>

#include "fmt/format.h"
#include "tests/engine/program/commands/ball_dataset.h"
#include "tests/engine/program/commands/engine_process.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

struct CudaEngineCase {
  const char* name;  // of the test
  const char* arguments;
};
void PrintTo(const CudaEngineCase& tried, std::ostream* out) { *out << tried.name; }

class NerfEngineCudaDeviceTest : public ::testing::Test {
 protected:
  // Returns what it said.
  std::string Run(const std::string& arguments) {
    EngineProcess process(arguments, NERF_EMULATED_ENGINE);
    EXPECT_EQ(process.Wait(), 0) << process.said();
    return process.said();
  }
  TempDir dir_;
};
class NerfEngineCudaTest : public NerfEngineCudaDeviceTest,
                           public ::testing::WithParamInterface<CudaEngineCase> {};

TEST_P(NerfEngineCudaTest, TrainsEvaluatesGoesOnAndRendersOnTheDevice) {
  const std::string dataset = dir_ / "ball", out = dir_ / "out";
  WriteBallDataset(dataset, 3, 1, 16);
  const std::string small =
      " --threads 1 --device cuda:0 --set target_samples=256 --set initial_rays=32 --set "
      "initial_step_scale=1 --set step=0.3 --set grid_resolution=32 ";
  Run(fmt::format("train {} --out {} --steps 4{}{}", dataset, out, small, GetParam().arguments));
  Run(
      fmt::format("train {} --resume {}/checkpoint.safetensors --no-eval --threads 1 --device "
                  "cuda:0",
                  dataset, out));
  Run(fmt::format("eval {}/model.safetensors {} --device cuda:0 --threads 1", out, dataset));
}

TEST_F(NerfEngineCudaDeviceTest, ModelsOfTwoNetworksAreRenderedThere) {
  const std::string dataset = dir_ / "ball", out = dir_ / "out";
  WriteBallDataset(dataset, 3, 1, 16);
  Run(
      fmt::format("train {} --out {} --steps 2 --threads 1 --method mlp --no-eval --set width=32 "
                  "--device cuda:0 "
                  "--set depth=1 --set coarse_samples=8 --set fine_samples=8",
                  dataset, out));
  EXPECT_EQ(
      Run(fmt::format("eval {}/model.safetensors {} --device cuda:0 --threads 1", out, dataset))
          .find("is rendered on the CPU"),
      std::string::npos);
}

// Debian's LibTorch has no CUDA.
TEST_F(NerfEngineCudaDeviceTest, MethodsThroughLibTorchSayWhereItHasNoCuda) {
  const std::string dataset = dir_ / "ball";
  WriteBallDataset(dataset, 3, 1, 16);
  for (const char* method : {"ngp-autograd", "mlp-autograd", "t-nerf", "d-nerf"}) {
    EngineProcess process(fmt::format("train {} --out {}/{} --steps 2 --method {} --device cuda:0",
                                      dataset, dir_.path(), method, method),
                          NERF_EMULATED_ENGINE);
    EXPECT_NE(process.Wait(), 0);
    EXPECT_NE(process.said().find(fmt::format("method {} needs a LibTorch with CUDA", method)),
              std::string::npos)
        << process.said();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Methods, NerfEngineCudaTest,
    testing::Values(CudaEngineCase{"dynamic", "--method dynamic --set log2_hashmap_size=12"},
                    CudaEngineCase{"tiles",
                                   "--method ngp-tiles --set tiles=2 --set log2_hashmap_size=12"},
                    CudaEngineCase{"joint_tiles",
                                   "--method ngp-tiles --set tiles=2 --set tile_training=joint "
                                   "--set log2_hashmap_size=12"},
                    CudaEngineCase{"mlp", "--method mlp --set width=32 --set depth=2"},
                    CudaEngineCase{"voxels",
                                   "--method voxels --set first_resolution=32 --set "
                                   "finest_resolution=64"}),
    [](const testing::TestParamInfo<CudaEngineCase>& tried) { return tried.param.name; });

}  // namespace
}  // namespace nerf
