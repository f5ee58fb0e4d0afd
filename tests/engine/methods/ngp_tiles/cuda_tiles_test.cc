// Training steps and views of method ngp-tiles on a CUDA device, or under the host emulation,
// beside the CPU's.

#include <cmath>

#include "engine/field/marched_model.h"
#include "engine/methods/ngp_tiles/cuda_tiles.h"
#include "engine/methods/ngp_tiles/joint_step.h"
#include "engine/methods/ngp_tiles/tiled_model.h"
#include "engine/methods/ngp_tiles/tiled_step.h"
#include "engine/train/batch/pixel_sampler.h"
#include "engine/train/cuda_field_step.h"
#include "tests/engine/methods/cuda_field_expectations.h"

namespace nerf {
namespace {

TrainConfig TilesConfig() {
  TrainConfig config = Fp32Config();
  config.method = "ngp-tiles";
  Ngp(config).tiles = 2;
  config.target_samples = 256;
  config.initial_rays = 16;
  return config;
}

class CudaTilesTest : public CudaTest {
 protected:
  CudaTilesTest() { scene_.train = NoiseViewsOfEachKind(); }
  std::unique_ptr<TrainingStep> Step(const TrainConfig& config, bool on_cuda) {
    return NewTiledStep(config, TinyGeometry(), scene_, &pool_, on_cuda);
  }
  PixelBatch Pixels(uint32_t step) {
    PixelBatch batch;
    PixelSampler(scene_.train, Background::kBlack, 3).Fill(step, 12, &pool_, &batch);
    batch.step = step;
    return batch;
  }
  // A state with tables of large random values.
  static TensorFile Lively(const TrainingStep& step) {
    TensorFile file = Saved(step);
    uint64_t seed = 77;
    for (auto& [name, tensor] : file.tensors) {
      if (!name.ends_with("field.hash_table") || name.find("adam") != std::string::npos) continue;
      const std::vector<float> values = RandomFloats(tensor.n_elements(), -1, 1, seed++ / 2);
      tensor = TensorFromFloats(values.data(), tensor.shape, DType::kF32);
    }
    return file;
  }
  Scene scene_;
  ThreadPool pool_{1};
};
INSTANTIATE_TEST_SUITE_P(Cuda, CudaTilesTest, testing::Values(CudaPlaces().front()), CudaPlaceName);

TEST_P(CudaTilesTest, StepsOfEachTileAreTheCpus) {
  TrainConfig config = TilesConfig();
  const auto expect = [&](uint32_t n_steps, double loss, double state_tolerance) {
    const auto cpu = Step(config, false), device = Step(config, true);
    const TensorFile state = Lively(*cpu);
    ASSERT_THAT(cpu->Load(state), IsOk());
    ASSERT_THAT(device->Load(state), IsOk());
    // Steps go round the tiles.
    for (uint32_t i = 0; i < 2 * n_steps; ++i) {
      const PixelBatch batch = Pixels(i);
      const StepResult expected = cpu->Run(batch), found = device->Run(batch);
      EXPECT_NEAR(found.loss, expected.loss, loss * expected.loss) << i;
      EXPECT_GT(found.n_trained, 0);
      EXPECT_NEAR(found.n_trained, expected.n_trained, 1e-3 * expected.n_trained + 2) << i;
    }
    const TensorFile after = Saved(*device), of_cpu = Saved(*cpu);
    EXPECT_EQ(after.metadata, of_cpu.metadata);
    for (const std::string tile : {"tile0.", "tile1."}) {
      for (const std::string& name : FieldTensorNames()) {
        EXPECT_LT(Difference(after, of_cpu, tile + name), state_tolerance) << tile << name;
        EXPECT_GT(Difference(after, state, tile + name), 0) << tile << name;
      }
    }
  };
  ForEachPrecision(config, [&](uint32_t n_steps, double loss, double state) {
    expect(std::min(n_steps, 2u), loss, state);
  });
}

TEST_P(CudaTilesTest, OneTileAloneTrainsTheBytesThatItHasAmongAll) {
  TrainConfig config = TilesConfig();
  config.cuda_deterministic = 1;
  const auto all = Step(config, true);
  Ngp(config).tile = 1;
  const auto alone = Step(config, true);
  for (uint32_t i = 0; i < 2; ++i) {
    all->Run(Pixels(i));
    if (i == 1) alone->Run(Pixels(i));
  }
  const TensorFile of_all = Saved(*all), of_one = Saved(*alone);
  EXPECT_FALSE(of_one.tensors.contains("tile0.field.hash_table"));
  for (const std::string& name : FieldTensorNames())
    EXPECT_EQ(of_one.tensors.at("tile1." + name).bytes, of_all.tensors.at("tile1." + name).bytes);
}

// Tiles that are trained jointly.
class CudaJointTilesTest : public CudaTilesTest {
 protected:
  static TrainConfig JointConfig() {
    TrainConfig config = TilesConfig();
    Ngp(config).tiles = 4;
    Ngp(config).tile_training = TileTraining::kJoint;
    return config;
  }
  std::unique_ptr<RayStep> OnCpu(const TrainConfig& config) {
    return NewJointTileStep(config, TinyGeometry(), scene_, &pool_);
  }
  std::unique_ptr<RayStep> OnDevice(const TrainConfig& config) {
    return std::make_unique<CudaFieldStep>(config, TinyGeometry(), std::span<const View>(), &pool_,
                                           NewJointCudaField(config, TinyGeometry(), scene_));
  }
  static RayBatch BatchOf(uint32_t step) { return TinyBatch(8 + static_cast<int>(step), step); }
};
INSTANTIATE_TEST_SUITE_P(Cuda, CudaJointTilesTest, testing::Values(CudaPlaces().front()),
                         CudaPlaceName);

TEST_P(CudaJointTilesTest, StepsAreTheCpusInEveryPrecision) {
  TrainConfig config = JointConfig();
  ForEachPrecision(config, [&](uint32_t n_steps, double loss, double state) {
    const auto cpu = OnCpu(config), device = OnDevice(config);
    ExpectFieldStepsLikeTheCpus(cpu.get(), device.get(), Lively(*cpu), std::min(n_steps, 2u), loss,
                                state, BatchOf);
  });
  config = JointConfig();
  for (const Frozen frozen : {Frozen::kTable, Frozen::kMlp}) {
    Ngp(config).frozen = frozen;
    const auto cpu = OnCpu(config), device = OnDevice(config);
    ExpectFieldStepsLikeTheCpus(cpu.get(), device.get(), Lively(*cpu), 1, kFp32Loss, kFp32State,
                                BatchOf);
  }
}

// Past an update of the grid, which the deterministic sums do not reorder either.
TEST_P(CudaJointTilesTest, DeterministicStepsGiveEqualBytesAndGoBack) {
  TrainConfig config = JointConfig();
  config.cuda_fp32 = 0;
  config.cuda_deterministic = 1;
  ExpectEqualBytesAndToGoBack([&] { return OnDevice(config); }, "tile3.field.hash_table", BatchOf);
}

TEST_P(CudaJointTilesTest, FilesAreTheCpusAndBrokenOnesChangeNothing) {
  const auto cpu = OnCpu(JointConfig()), device = OnDevice(JointConfig());
  ExpectFilesLikeTheCpus(
      cpu.get(), device.get(),
      {"tile0.field.hash_table", "tile3.adam.second.field.color_mlp.0", "occupancy.values"},
      [](const TensorFile& file) { return WithNan(file, "tile1.field.density_mlp.1"); }, BatchOf);
}

TEST_P(CudaTilesTest, ViewsAreTheCpusWithAndWithoutBlends) {
  const auto cpu = NewCpuRenderDevice(&pool_);
  const auto device = NewNgpCudaRenderDevice(0, TiledViewParts);
  std::vector<ViewPicture> pictures;
  for (const int blend : {1, 0}) {
    TrainConfig config = TilesConfig();
    Ngp(config).tiles = 4;
    Ngp(config).tile_blend = blend;
    Ngp(config).tile_margin = 0.2f;
    const auto step = Step(config, false);
    ASSERT_THAT(step->Load(Lively(*step)), IsOk());
    pictures.push_back(TinyView(cpu.get(), step->Snapshot(), TinyGeometry()));
    EXPECT_GT(Contrast(pictures.back()), 60);
    EXPECT_FALSE(step->Snapshot()->NeedsCpu());
    EXPECT_LE(
        MostDifferent(TinyView(device.get(), step->Snapshot(), TinyGeometry()), pictures.back()),
        1);
    EXPECT_LE(MostDifferent(
                  TinyView(device.get(), step->Snapshot(), TinyGeometry(), RenderPrecision::kHalf),
                  pictures.back()),
              6);
  }
  EXPECT_GT(MostDifferent(pictures[0], pictures[1]), 6);
}

}  // namespace
}  // namespace nerf
