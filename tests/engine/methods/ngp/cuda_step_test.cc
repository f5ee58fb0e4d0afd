// Whole training steps on a CUDA device, or under the host emulation, beside the CPU's.

#include <cmath>
#include <cstring>
#include <functional>

#include "engine/methods/ngp/cuda/cuda_step_shape.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp/steps.h"
#include "engine/train/batch/pixel_sampler.h"
#include "engine/views/render/renderer.h"
#include "tests/engine/methods/ngp/cuda_step_expectations.h"
#include "tests/testing/cuda_test.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/step_expectations.h"
#include "tests/testing/tiny_training.h"
#ifdef NERF_CUDA_EMULATION
#include "tests/testing/cuda_emulation/emulated_device.h"
#endif

namespace nerf {
namespace {

class NgpCudaStepTest : public CudaStepTest {};
// Every kernel has met both orders of threads in its own test.
INSTANTIATE_TEST_SUITE_P(Cuda, NgpCudaStepTest, testing::Values(CudaPlaces().front()),
                         CudaPlaceName);

TEST_P(NgpCudaStepTest, OneStepInFp32IsTheCpus) {
  for (Loss loss : {Loss::kHuber, Loss::kMse}) {
    TrainConfig config = Fp32Config();
    config.loss = loss;
    ExpectStepsLikeTheCpus(config, TinyGeometry(), 1, kFp32Loss, kFp32State);
  }
}

TEST_P(NgpCudaStepTest, OneStepAmongWallsThatEndRaysIsTheCpus) {
  ThreadPool pool(1);
  const auto cpu = NewNgpCpuStep(Fp32Config(), TinyGeometry(), &pool);
  const auto device = NewNgpCudaStep(Fp32Config(), TinyGeometry());
  const TensorFile state = WallsState(*cpu);
  ASSERT_THAT(cpu->Load(state), IsOk());
  ASSERT_THAT(device->Load(state), IsOk());
  const RayBatch batch = TinyBatch(64, 1);
  const StepResult expected = cpu->RunRays(batch), found = device->RunRays(batch);
  EXPECT_LT(expected.n_trained, 0.9 * expected.n_marched) << "no ray ends before its samples do";
  // A sample at the edge of a cell or of the limit may fall to either side.
  EXPECT_NEAR(found.n_trained, expected.n_trained, 1e-3 * expected.n_trained + 2);
  EXPECT_NEAR(found.loss, expected.loss, kFp32Loss * expected.loss);
  const TensorFile after = Saved(*device), after_cpu = Saved(*cpu);
  for (const std::string& name : FieldTensorNames()) {
    EXPECT_LT(Difference(after, after_cpu, "adam.first." + name), kFp32State) << name;
  }
}

TEST_P(NgpCudaStepTest, OneStepWithTwoFeaturesOnSixteenLevelsIsTheCpus) {
  TrainConfig config = Fp32Config();
  Ngp(config).n_features_per_level = 2;
  ExpectStepsLikeTheCpus(config, TinyGeometry(), 1, kFp32Loss, kFp32State);
  config.cuda_fp32 = 0;
  ExpectStepsLikeTheCpus(config, TinyGeometry(), 1, kHalfLoss, kHalfState);
}

TEST_P(NgpCudaStepTest, StepsInFp32FollowTheCpusPastUpdatesOfGridAndAverage) {
  // The grid is updated before steps 4, 8 ..., in full and then in part; the average after step 16.
  ExpectStepsLikeTheCpus(Fp32Config(), TinyGeometry(), 17, kFp32Loss, kFp32State);
}

TEST_P(NgpCudaStepTest, StepsInFp32FollowTheCpusInNestedGridsWithGrowingSteps) {
  ExpectStepsLikeTheCpus(Fp32Config(), TinyGeometry(3), 5, kFp32Loss, kFp32State);
}

TEST_P(NgpCudaStepTest, DeterministicStepsInFp32AreTheCpusToo) {
  TrainConfig config = Fp32Config();
  config.cuda_deterministic = 1;
  ExpectStepsLikeTheCpus(config, TinyGeometry(), 3, kFp32Loss, kFixedPointState);
}

TEST_P(NgpCudaStepTest, OneStepInHalfPrecisionIsTheCpusToItsRounding) {
  ExpectStepsLikeTheCpus(TinyConfig(), TinyGeometry(), 1, kHalfLoss, kHalfState);
}

TEST_P(NgpCudaStepTest, WithoutHalfTableLayersInHalfPrecisionReadTheMasters) {
  TrainConfig config = TinyConfig();
  config.cuda_deterministic = 1;
  const SceneGeometry geometry = TinyGeometry();
  const auto trained = [&](int fp32, int half_table) {
    config.cuda_fp32 = fp32;
    Ngp(config).half_table = half_table;
    const auto step = NewNgpCudaStep(config, geometry);
    EXPECT_THAT(step->Load(LivelyState(*step)), IsOk());
    step->RunRays(TinyBatch(12));
    return Saved(*step);
  };
  EXPECT_TRUE(SameContents(trained(1, 0), trained(1, 1)));
  const TensorFile halves = trained(0, 1);
  const size_t bytes = NgpCudaStepBytes(config, geometry);
  const TensorFile masters = trained(0, 0);
  EXPECT_FALSE(SameContents(masters, halves));
  EXPECT_LT(NgpCudaStepBytes(config, geometry), bytes) << "copies that nobody reads";
  config.cuda_deterministic = 0;
  ExpectStepsLikeTheCpus(config, geometry, 1, kHalfLoss, kHalfState);
}

TEST_P(NgpCudaStepTest, LossFallsOnABatchThatIsRepeatedInHalfPrecision) {
  const auto step = NewNgpCudaStep(TinyConfig(), TinyGeometry());
  RayBatch batch = TinyBatch(6);
  batch.distortion = 0;  // the least that there is of it is not nothing
  EXPECT_LT(LossShareAfter(30, batch, step.get()), 0.2);
}

TEST_P(NgpCudaStepTest, DeterministicStepsGiveTheSameBytes) {
  TrainConfig config = TinyConfig();
  config.cuda_deterministic = 1;
  // Many blocks on a device, whose order differs from run to run.
  const int n_rays = GetParam() == CudaPlace::kDevice ? 4000 : 12;
  const auto run = [&] {
    const auto step = NewNgpCudaStep(config, TinyGeometry());
    EXPECT_THAT(step->Load(LivelyState(*step)), IsOk());
    for (uint32_t i = 0; i < 5; ++i) step->RunRays(TinyBatch(n_rays, i));
    return Saved(*step);
  };
  const TensorFile first = run();
#ifdef NERF_CUDA_EMULATION
  // Blocks and threads the other way round must not matter either.
  cuda_emulation::SetThreadOrder(GetParam() == CudaPlace::kRisingThreads
                                     ? cuda_emulation::ThreadOrder::kFalling
                                     : cuda_emulation::ThreadOrder::kRising);
#endif
  EXPECT_TRUE(SameContents(run(), first));
}

TEST_P(NgpCudaStepTest, ANanInAnyTensorShowsInTheLossOfTheStep) {
  for (const TrainConfig& config : {TinyConfig(), Fp32Config()}) {
    const auto step = NewNgpCudaStep(config, TinyGeometry());
    ExpectNansToShow(step.get(), TinyBatch(8));
  }
}

TEST_P(NgpCudaStepTest, LoadingASavedStateContinuesBitForBit) {
  TrainConfig config = TinyConfig();
  config.cuda_deterministic = 1;
  const auto whole = NewNgpCudaStep(config, TinyGeometry());
  for (uint32_t i = 0; i < 6; ++i) whole->RunRays(TinyBatch(6, i));
  const auto resumed = NewNgpCudaStep(config, TinyGeometry());
  ASSERT_THAT(resumed->Load(Saved(*whole)), IsOk());
  ExpectSameSteps(whole.get(), resumed.get(), 6, 10, [](uint32_t i) { return TinyBatch(6, i); });
}

TEST_P(NgpCudaStepTest, AStepThatFindsMoreSamplesThanThereIsRoomForIsRunAgainWithRoom) {
  TrainConfig config = Fp32Config();
  config.target_samples = 256;  // room for 2^12 samples; 150 rays through a full grid find more
  config.initial_rays = 1;
  ThreadPool pool(1);
  const auto cpu = NewNgpCpuStep(config, TinyGeometry(), &pool);
  const auto device = NewNgpCudaStep(config, TinyGeometry());
  const RayBatch batch = TinyBatch(150);
  const StepResult expected = cpu->RunRays(batch), found = device->RunRays(batch);
  ASSERT_GT(expected.n_trained, 1 << 12);
  EXPECT_NEAR(found.n_trained, expected.n_trained, 1e-3 * expected.n_trained);
  EXPECT_NEAR(found.loss, expected.loss, 1e-5 * expected.loss);
  EXPECT_EQ(Saved(*device).metadata, Saved(*cpu).metadata) << "one update, not two";
}

// Arrays hold what earlier steps and the grid's probes left there, in no particular order; a march
// that runs out of room leaves a hole among them.
TEST_P(NgpCudaStepTest, AStepRunAgainForWantOfRoomTeachesTheGridNothingElse) {
  TrainConfig config = Fp32Config();
  config.cuda_deterministic = 1;
  config.grid_update_interval = 2;
  config.target_samples = 256;
  const auto values_after = [&](int initial_rays) {
    config.initial_rays = initial_rays;
    const auto step = NewNgpCudaStep(config, TinyGeometry());
    EXPECT_THAT(step->Load(LivelyState(*step)), IsOk());
    for (uint32_t i = 0; i < 4; ++i) step->RunRays(TinyBatch(i < 3 ? 20 : 150, i));
    return Saved(*step).tensors.at("occupancy.values").bytes;
  };
  // With room from the start, and without.
  EXPECT_EQ(values_after(1), values_after(64));
}

TEST_P(NgpCudaStepTest, RaysDrawnOnTheDeviceAreThoseThatASamplerDraws) {
  TrainConfig config = Fp32Config();
  config.cuda_deterministic = 1;
  config.warmup_steps = 0;
  const std::vector<View> views = NoiseViewsOfEachKind();
  ThreadPool pool(1);
  for (Background background : {Background::kRandom, Background::kWhite}) {
    SceneGeometry geometry = TinyGeometry();
    if (background == Background::kWhite) geometry.far = 2.4f;  // within the box
    const bool has_masks = background == Background::kRandom;
    config.alpha_is_mask = has_masks;
    Ngp(config).exposure_rate = has_masks ? 0.3f : 0;
    const RaySource source{.views = views,
                           .background = background,
                           .near = 0.05f,
                           .far = geometry.far,
                           .alpha_is_mask = has_masks};
    const auto drawing = NewNgpCudaStep(config, geometry, &source);
    const auto given = NewNgpCudaStep(config, geometry, nullptr, views, &pool);
    EXPECT_TRUE(drawing->DrawsPixels());
    EXPECT_FALSE(given->DrawsPixels());
    const std::vector<uint32_t> runs = {0, 2};
    drawing->DrawFrom(has_masks ? std::span<const uint32_t>() : runs);
    const PixelSampler sampler(views, background, config.seed, has_masks, nullptr,
                               has_masks ? std::span<const uint32_t>() : runs);
    for (uint32_t step = 0; step < 2; ++step) {
      PixelBatch whole, bare;
      sampler.Fill(step, 12, &pool, &whole);
      bare.step = step;
      bare.n_pixels = 12;
      const StepResult a = drawing->Run(bare), b = given->Run(whole);
      // A device contracts multiplies and adds that the sampler's directions are made of.
      EXPECT_NEAR(a.loss, b.loss, kFp32Loss * b.loss);
      EXPECT_NEAR(a.n_trained, b.n_trained, 1e-3 * b.n_trained + 2);
    }
    const TensorFile drawn = Saved(*drawing), expected = Saved(*given);
    for (const std::string& name : FieldTensorNames()) {
      EXPECT_LT(Difference(drawn, expected, name), kFixedPointState) << name;
    }
    if (!has_masks) continue;
    EXPECT_LT(Difference(drawn, expected, "adam.first.view.log_gains"), kFixedPointState);
  }
}

TEST_P(NgpCudaStepTest, PicturesInTheHostsMemoryGiveTheSameBytes) {
  TrainConfig config = TinyConfig();
  config.cuda_deterministic = 1;
  const std::vector<View> views = NoiseViewsOfEachKind();
  std::vector<TensorFile> saved;
  for (const PictureMemory place : {PictureMemory::kDevice, PictureMemory::kHost}) {
    const RaySource source{
        .views = views, .background = Background::kRandom, .near = 0.05f, .place = place};
    const auto step = NewNgpCudaStep(config, TinyGeometry(), &source);
    for (uint32_t i = 0; i < 2; ++i) {
      RayBatch bare;
      bare.step = i;
      bare.n_rays = 12;
      bare.learning_rate = 1e-2f;
      EXPECT_GT(step->RunRays(bare).n_trained, 0);
    }
    saved.push_back(Saved(*step));
  }
  EXPECT_TRUE(SameContents(saved[0], saved[1]));
}

TEST(PlaceForPicturesTest, DeviceComesFirstThenHalfOfTheHostThenNothing) {
  const std::vector<View> views = NoiseViewsOfEachKind();
  RaySource source{views, Background::kWhite, 0};
  const size_t on_device = CudaRaySourceBytes(source);
  source.place = PictureMemory::kHost;
  const size_t lists = CudaRaySourceBytes(source), pixels = on_device - lists;
  ASSERT_GT(pixels, 0u);
  ASSERT_GT(lists, 0u);
  EXPECT_EQ(ChoosePictureMemory(source, on_device, 0), PictureMemory::kDevice);
  EXPECT_EQ(ChoosePictureMemory(source, on_device - 1, 2 * pixels), PictureMemory::kHost);
  EXPECT_EQ(ChoosePictureMemory(source, on_device - 1, 2 * pixels - 2), std::nullopt);
  EXPECT_EQ(ChoosePictureMemory(source, on_device - 1, std::nullopt), std::nullopt);
  EXPECT_EQ(ChoosePictureMemory(source, lists - 1, 2 * pixels), std::nullopt);
}

TEST_P(NgpCudaStepTest, RaysThatMeetNothingShowTheirBackground) {
  const auto step = NewNgpCudaStep(TinyConfig(), TinyGeometry());
  TensorFile state = Saved(*step);
  std::fill(state.tensors.at("occupancy.bits").bytes.begin(),
            state.tensors.at("occupancy.bits").bytes.end(), 0);
  ASSERT_THAT(step->Load(state), IsOk());
  EXPECT_EQ(step->OccupiedFraction(), 0);
  const StepResult nothing = step->RunRays(TinyBatch(10));
  EXPECT_EQ(nothing.n_marched, 0);
  EXPECT_GT(nothing.loss, 0);
  step->ReopenGrid();
  EXPECT_EQ(step->OccupiedFraction(), 1);
  EXPECT_GT(step->RunRays(TinyBatch(10)).n_marched, 0);
}

// Past an update of the grid.
TEST_P(NgpCudaStepTest, CellsThatAreKnownToBeEmptyStayEmptyAsOnTheCpu) {
  TrainConfig config = Fp32Config();
  ThreadPool pool(1);
  const auto cpu = NewNgpCpuStep(config, TinyGeometry(), &pool);
  const auto device = NewNgpCudaStep(config, TinyGeometry());
  std::vector<uint64_t> empty;
  const auto cells = [&](const OccupancyGrid& grid) { return empty = SomeEmptyCells(grid); };
  cpu->KeepEmpty(cells);
  device->KeepEmpty(cells);
  EXPECT_LT(device->OccupiedFraction(), 0.6);
  const TensorFile state = LivelyState(*cpu);
  ASSERT_THAT(cpu->Load(state), IsOk());
  ASSERT_THAT(device->Load(state), IsOk());
  for (uint32_t i = 3; i < 6; ++i) {
    const StepResult expected = cpu->RunRays(TinyBatch(8, i)),
                     found = device->RunRays(TinyBatch(8, i));
    EXPECT_NEAR(found.loss, expected.loss, kFp32Loss * expected.loss) << i;
    EXPECT_GT(found.n_trained, 0);
  }
  const std::vector<uint8_t> bytes = Saved(*device).tensors.at("occupancy.bits").bytes;
  EXPECT_EQ(bytes, Saved(*cpu).tensors.at("occupancy.bits").bytes);
  for (size_t block = 0; block < empty.size(); ++block) {
    uint64_t bits = 0;
    std::memcpy(&bits, bytes.data() + sizeof(bits) * block, sizeof(bits));
    ASSERT_EQ(bits & empty[block], 0u) << block;
  }
  device->ReopenGrid();
  EXPECT_EQ(device->OccupiedFraction(), [&] {
    OccupancyGrid grid = FullOccupancyGrid(TinyGeometry().box, 1, config.grid_resolution);
    for (size_t block = 0; block < empty.size(); ++block)
      grid.occupied_blocks[block] = ~empty[block];
    return grid.OccupiedFraction();
  }());
  Ngp(config).pose_rate = 1;  // cameras that move tell nothing
  const std::vector<View> views = NoiseViewsOfEachKind();
  const auto with_poses = NewNgpCudaStep(config, TinyGeometry(), nullptr, views, &pool);
  with_poses->KeepEmpty(cells);
  EXPECT_EQ(with_poses->OccupiedFraction(), 1);
}

TEST_P(NgpCudaStepTest, ACheckpointOfTheDeviceRendersOnTheCpuAndTrainsThere) {
  ThreadPool pool(1);
  const SceneGeometry geometry = TinyGeometry();
  TrainConfig config = TinyConfig();
  Ngp(config).half_table = 0;  // or the CPU rounds the moments
  const auto device = NewNgpCudaStep(config, geometry);
  for (uint32_t i = 0; i < 3; ++i) device->RunRays(TinyBatch(20, i));
  const auto cpu = NewNgpCpuStep(config, geometry, &pool);
  ASSERT_THAT(cpu->Load(Saved(*device)), IsOk());
  EXPECT_TRUE(SameContents(Saved(*cpu), Saved(*device)));
  const Camera camera = TinyCamera(16);
  const auto render = [&](const TrainedModel& model) {
    ViewRender view(model, geometry.near, camera, {});
    EXPECT_TRUE(view.Advance(&pool, nullptr, {}));
    return view.TakeView().colors;
  };
  EXPECT_EQ(render(*device->Snapshot()), render(*cpu->Snapshot()));
}

TEST_P(NgpCudaStepTest, GoingBackContinuesFromWhatWasRemembered) {
  TrainConfig config = TinyConfig();
  config.cuda_deterministic = 1;
  const auto step = NewNgpCudaStep(config, TinyGeometry());
  step->RunRays(TinyBatch(6, 0));
  step->Remember();
  const TensorFile before = Saved(*step);
  step->RunRays(TinyBatch(6, 1));
  const TensorFile once = Saved(*step);
  EXPECT_FALSE(SameContents(once, before));
  ASSERT_THAT(step->Restore(), IsOk());
  EXPECT_TRUE(SameContents(Saved(*step), before));
  step->RunRays(TinyBatch(6, 1));
  EXPECT_TRUE(SameContents(Saved(*step), once));
}

TEST_P(NgpCudaStepTest, LoadNamesWhatIsWrongAndChangesNothing) {
  const auto step = NewNgpCudaStep(TinyConfig(), TinyGeometry());
  step->RunRays(TinyBatch(20));
  const TensorFile before = Saved(*step);
  TensorFile broken = before;
  broken.tensors.erase("field.color_mlp.1");
  EXPECT_THAT(step->Load(broken),
              StatusIs(absl::StatusCode::kInvalidArgument, "field.color_mlp.1"));
  EXPECT_TRUE(SameContents(Saved(*step), before));
}

#ifdef NERF_CUDA_EMULATION

TEST_P(NgpCudaStepTest, AGraphIsRecordedOnceAsLongAsShapesStay) {
  const int before = cuda_emulation::GraphsRecorded();
  const auto step = NewNgpCudaStep(TinyConfig(), TinyGeometry());
  TensorFile state = Saved(*step);
  std::fill(state.tensors.at("occupancy.bits").bytes.begin(),
            state.tensors.at("occupancy.bits").bytes.end(), 0);
  ASSERT_THAT(step->Load(state), IsOk());  // an empty grid: rays cost little
  EXPECT_EQ(cuda_emulation::GraphsRecorded(), before + 1) << "before the first step";
  for (int n_rays : {10, 1024, 1, 500}) step->RunRays(TinyBatch(n_rays));
  EXPECT_EQ(cuda_emulation::GraphsRecorded(), before + 1);
  for (int n_rays : {1025, 2048, 10}) step->RunRays(TinyBatch(n_rays));
  EXPECT_EQ(cuda_emulation::GraphsRecorded(), before + 2) << "once more for more rays";
}

TEST_P(NgpCudaStepTest, MemoryIsWhatWasPredicted) {
  for (TrainConfig config : {TinyConfig(), Fp32Config()}) {
    config.max_rays = 1024;  // no more than there is room for from the start
    const size_t before = cuda_emulation::DeviceBytesInUse();
    const auto step = NewNgpCudaStep(config, TinyGeometry());
    step->RunRays(TinyBatch(20));
    EXPECT_EQ(cuda_emulation::DeviceBytesInUse() - before,
              NgpCudaStepBytes(config, TinyGeometry()));
    const std::vector<View> views = NoiseViewsOfEachKind();
    const RaySource source{views, Background::kWhite, 0};
    const auto drawing = NewNgpCudaStep(config, TinyGeometry(), &source);
    EXPECT_EQ(cuda_emulation::DeviceBytesInUse() - before,
              2 * NgpCudaStepBytes(config, TinyGeometry()) + CudaRaySourceBytes(source));
    const size_t between = cuda_emulation::DeviceBytesInUse();
    const RaySource on_host{
        .views = views, .background = Background::kWhite, .place = PictureMemory::kHost};
    const auto reading = NewNgpCudaStep(config, TinyGeometry(), &on_host);
    EXPECT_EQ(cuda_emulation::DeviceBytesInUse() - between,
              NgpCudaStepBytes(config, TinyGeometry()) + CudaRaySourceBytes(on_host));
  }
}

TEST_P(NgpCudaStepTest, ADeviceThatRunsOutOfMemoryLeavesTheStepUsable) {
  TrainConfig config = TinyConfig();
  config.target_samples = 256;
  config.initial_rays = 1;
  const auto step = NewNgpCudaStep(config, TinyGeometry());
  step->RunRays(TinyBatch(20));
  const TensorFile before = Saved(*step);
  cuda_emulation::SetDeviceBytes(cuda_emulation::DeviceBytesInUse() + 1000);
  EXPECT_THROW(step->RunRays(TinyBatch(150, 2)), kernels::cuda::CudaOutOfMemory);
  cuda_emulation::SetDeviceBytes(size_t{1} << 30);
  const TensorFile after = Saved(*step);
  EXPECT_EQ(after.metadata, before.metadata);
  for (const std::string& name : FieldTensorNames()) {
    EXPECT_EQ(after.tensors.at(name).bytes, before.tensors.at(name).bytes) << name;
  }
  EXPECT_GT(step->RunRays(TinyBatch(20, 1)).n_trained, 0);
}

#endif  // NERF_CUDA_EMULATION

}  // namespace
}  // namespace nerf
