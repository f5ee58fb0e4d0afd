// Ranks that train on CUDA devices, here threads of one process, on a device or under the host
// emulation: any number of them trains the bytes of one where sums are deterministic.
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/field/files/checkpoint.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp/network.h"
#include "engine/methods/ngp/steps.h"
#include "engine/train/group/thread_group.h"
#include "engine/train/trainer.h"
#include "tests/testing/changing_group.h"
#include "tests/testing/cuda_test.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/random_floats.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tiny_training.h"
#ifdef NERF_CUDA_EMULATION
#include "tests/testing/cuda_emulation/emulated_device.h"
#endif

namespace nerf {
namespace {

TrainConfig DeterministicConfig(bool fp32 = false) {
  TrainConfig config = TinyConfig();
  config.cuda_deterministic = 1;
  config.cuda_fp32 = fp32 ? 1 : 0;
  return config;
}

// What a rank holds in the end.
struct Trained {
  TensorFile state;
  std::vector<StepResult> results;
  bool failed = false;  // by a GroupError
};

struct Training {
  TrainConfig config = DeterministicConfig();
  uint32_t begin = 0, end = 3;  // steps
  std::function<RayBatch(uint32_t step)> batch = [](uint32_t step) { return TinyBatch(12, step); };
  const TensorFile* from = nullptr;                    // null: a lively state
  const RaySource* source = nullptr;                   // from which ranks draw their rays
  std::function<std::unique_ptr<Group>(Group*)> wrap;  // of rank 0
};

std::vector<Trained> Train(int n_ranks, const Training& training) {
  std::vector<std::unique_ptr<Group>> groups = NewThreadGroups(n_ranks);
  std::vector<Trained> trained(n_ranks);
  const auto run = [&](int rank) {
    kernels::cuda::UseDevice(rank % kernels::cuda::DeviceCount());
    Group* group = n_ranks > 1 ? groups[rank].get() : nullptr;
    std::unique_ptr<Group> wrapped;
    if (training.wrap && rank == 0) group = (wrapped = training.wrap(group)).get();
    try {
      const auto step =
          NewNgpCudaStep(training.config, TinyGeometry(), training.source, {}, nullptr, group);
      ASSERT_THAT(step->Load(training.from != nullptr ? *training.from : LivelyState(*step)),
                  IsOk());
      for (uint32_t i = training.begin; i < training.end; ++i)
        trained[rank].results.push_back(step->RunRays(training.batch(i)));
      step->CollectState();
      trained[rank].state = Saved(*step);
    } catch (const GroupError& error) {
      trained[rank].failed = true;
      group->Abort(error.what());
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n_ranks; ++rank) threads.emplace_back(run, rank);
  for (std::thread& thread : threads) thread.join();
  return trained;
}

void ExpectTheBytesOfOneRank(const Training& training, int most_ranks = 3) {
  const Trained alone = Train(1, training)[0];
  for (int n_ranks = 2; n_ranks <= most_ranks; ++n_ranks) {
    const std::vector<Trained> ranks = Train(n_ranks, training);
    for (int rank = 0; rank < n_ranks; ++rank) {
      ASSERT_FALSE(ranks[rank].failed);
      EXPECT_TRUE(SameContents(ranks[rank].state, alone.state))
          << "rank " << rank << " of " << n_ranks;
      for (size_t i = 0; i < alone.results.size(); ++i) {
        EXPECT_EQ(ranks[rank].results[i].loss, alone.results[i].loss) << i;
        EXPECT_EQ(ranks[rank].results[i].squared_error, alone.results[i].squared_error) << i;
        EXPECT_EQ(ranks[rank].results[i].n_trained, alone.results[i].n_trained) << i;
        EXPECT_EQ(ranks[rank].results[i].n_marched, alone.results[i].n_marched) << i;
      }
    }
  }
}

class NgpCudaRankTest : public CudaTest {};
// Every kernel has met both orders of threads in its own test.
INSTANTIATE_TEST_SUITE_P(Cuda, NgpCudaRankTest, testing::Values(CudaPlaces().front()),
                         CudaPlaceName);

TEST_P(NgpCudaRankTest, AnyNumberOfRanksTrainsTheBytesOfOne) {
  Training training;
  training.end = 5;  // past an update of the grid
  ExpectTheBytesOfOneRank(training);
}

TEST_P(NgpCudaRankTest, AlsoWithATableInFp32AndLayersInHalfPrecision) {
  Training training;
  Ngp(training.config).half_table = 0;
  ExpectTheBytesOfOneRank(training, 2);
}

TEST_P(NgpCudaRankTest, AlsoInFp32PastAnUpdateOfTheAverages) {
  Training training;
  training.config = DeterministicConfig(true);
  training.end = 17;
  training.batch = [](uint32_t step) { return TinyBatch(9, step); };
  ExpectTheBytesOfOneRank(training, 2);
}

TEST_P(NgpCudaRankTest, AlsoInOpenScenesWithLevelsThatComeIn) {
  Training training;
  Ngp(training.config).contraction = Contraction::kL2;
  Ngp(training.config).learned_background = 1;
  Ngp(training.config).near_gradients = 2;
  Ngp(training.config).coarse_share = 0.5f;
  training.config.alpha_is_mask = 1;
  training.end = 5;
  training.batch = [](uint32_t step) {
    RayBatch batch = TinyBatch(12, step);
    batch.fraction = 0.2 * step;
    batch.weights = RandomFloats(12, 0, 1, 3);
    return batch;
  };
  ExpectTheBytesOfOneRank(training);
}

TEST_P(NgpCudaRankTest, AlsoWithFourRaysForEachPixel) {
  Training training;
  training.config.rays_per_pixel = 4;
  training.batch = [](uint32_t step) {
    RayBatch batch = TinyBatch(20, step);
    return step < 2 ? batch : InFours(std::move(batch));
  };
  ExpectTheBytesOfOneRank(training);
}

TEST_P(NgpCudaRankTest, AlsoWhereRanksHaveNoRays) {
  Training training;
  training.batch = [](uint32_t step) { return TinyBatch(2, step); };
  ExpectTheBytesOfOneRank(training);
}

// Pictures of noise.
std::vector<View> NoiseViews() {
  std::vector<View> views(2);
  for (View& view : views) {
    view.camera = TinyCamera(8);
    view.image.width = view.image.height = 8;
    view.image.n_channels = 3;
    for (uint32_t i = 0; i < 8 * 8 * 3; ++i)
      view.image.pixels.push_back(
          static_cast<uint8_t>(RandomWords(1, RandomUse::kTest, 0, i)[0] >> 24));
  }
  return views;
}

TEST_P(NgpCudaRankTest, AlsoWhereDevicesDrawTheirRays) {
  const std::vector<View> views = NoiseViews();
  const RaySource source{views, Background::kRandom, 0.05f};
  Training training;
  training.source = &source;
  training.end = 2;
  training.batch = [](uint32_t step) {
    RayBatch bare;
    bare.step = step;
    bare.n_rays = 13;
    bare.learning_rate = 1e-2f;
    return bare;
  };
  ExpectTheBytesOfOneRank(training, 2);
}

// The checkpoint of a training through trainers, of each rank.
std::vector<std::string> TrainScene(int n_ranks) {
  Scene scene;
  scene.geometry = TinyGeometry();
  scene.train = NoiseViews();
  scene.test = {scene.train[0]};
  std::vector<std::unique_ptr<Group>> groups = NewThreadGroups(n_ranks);
  std::vector<std::string> checkpoints(n_ranks);
  std::vector<std::thread> threads;
  const auto run = [&](int rank) {
    Group* const group = n_ranks > 1 ? groups[rank].get() : nullptr;
    TrainState state;
    state.config = DeterministicConfig();
    state.config.budget = {BudgetKind::kSteps, 6};
    state.config.initial_rays = 20;
    state.config.target_samples = 256;
    state.geometry = scene.geometry;
    state.reference_camera = scene.test[0].camera;
    ThreadPool pool(1);
    const auto step =
        NewNgpCudaStep(state.config, state.geometry, nullptr, scene.train, &pool, group);
    const FakeClock clock;
    TrainerObserver observer;
    TrainerOptions options;
    options.group = group;
    options.preview_interval = absl::ZeroDuration();  // after each step, by all ranks
    Trainer trainer(&scene, state, step.get(), &pool, &clock, options, &observer);
    ASSERT_THAT(trainer.Run({}), IsOk());
    checkpoints[rank] = SerializeTensorFile(trainer.Checkpoint());
    if (rank == 0) trainer.EndRanks();
  };
  for (int rank = 0; rank < n_ranks; ++rank) threads.emplace_back(run, rank);
  for (std::thread& thread : threads) thread.join();
  return checkpoints;
}

TEST_P(NgpCudaRankTest, TrainersDrawOnlyTheirRaysAndWriteTheSameCheckpoint) {
  const std::string alone = TrainScene(1)[0];
  for (int n_ranks = 2; n_ranks <= 3; ++n_ranks) {
    for (const std::string& checkpoint : TrainScene(n_ranks)) EXPECT_TRUE(checkpoint == alone);
  }
}

TEST_P(NgpCudaRankTest, AnotherNumberOfRanksGoesOn) {
  Training training;
  training.end = 6;
  const TensorFile whole = Train(1, training)[0].state;
  training.end = 3;
  const TensorFile half = Train(2, training)[1].state;
  training.begin = 3;
  training.end = 6;
  training.from = &half;
  for (const int n_ranks : {1, 3})
    EXPECT_TRUE(SameContents(Train(n_ranks, training)[0].state, whole)) << n_ranks;
}

// Rays of the second half alone meet the box, and more samples than there is room for.
TEST_P(NgpCudaRankTest, WhereSamplesOfOneRankDoNotFitNoneUpdatesBeforeTheyDo) {
  Training training;
  training.config.target_samples = 256;
  training.config.initial_rays = 1;
  training.end = 2;
  training.batch = [](uint32_t step) {
    RayBatch batch = TinyBatch(300, step);
    for (int i = 0; i < 150; ++i) batch.rays[i].direction = batch.rays[i].direction * -1.0f;
    return batch;
  };
#ifdef NERF_CUDA_EMULATION
  const int before = cuda_emulation::GraphsRecorded();
  Train(2, training);
  EXPECT_EQ(cuda_emulation::GraphsRecorded() - before, 2 * 2 + 2) << "rank 1 records again";
#endif
  ExpectTheBytesOfOneRank(training, 2);
}

TEST_P(NgpCudaRankTest, WithoutDeterministicSumsTwoRanksAreCloseToOne) {
  Training training;
  training.config.cuda_deterministic = 0;
  training.config.cuda_fp32 = 1;
  training.end = 2;
  const Trained alone = Train(1, training)[0], ranks = Train(2, training)[1];
  for (size_t i = 0; i < alone.results.size(); ++i)
    EXPECT_NEAR(ranks.results[i].loss, alone.results[i].loss, 1e-5 * alone.results[i].loss);
  for (const std::string& name : FieldTensorNames()) {
    const std::vector<float> a = ToFloats(ranks.state.tensors.at("adam.first." + name)),
                             b = ToFloats(alone.state.tensors.at("adam.first." + name));
    double error = 0, norm = 1e-30;
    for (size_t i = 0; i < a.size(); ++i) {
      error += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
      norm += double{b[i]} * b[i];
    }
    EXPECT_LT(error, 1e-8 * norm) << name;
  }
}

// The blocks of a step, in order.
enum Kind { kCounts, kTableGradients, kRows, kTable, kKinds, kHasNccl };

// Of block number `block`: behind the first one ranks say whether they have NCCL.
int KindOf(int block) {
  if (block == 1) return kHasNccl;
  return (block > 1 ? block - 1 : block) % kKinds;
}

template <typename T>
void Multiply(double factor, ByteBlock* block) {
  const size_t size = block->bytes().size();
  std::byte* const bytes = block->Resize(size);
  for (size_t at = 0; at + sizeof(T) <= size; at += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes + at, sizeof(T));
    value = static_cast<T>(static_cast<double>(value) * factor);
    std::memcpy(bytes + at, &value, sizeof(T));
  }
}

Training WithChange(const ChangingGroup::Change& change) {
  Training training;
  training.end = 2;
  training.wrap = [change](Group* group) { return std::make_unique<ChangingGroup>(group, change); };
  return training;
}

// The tests above see ranks that lose another's share or take the mean where it must be the sum.
TEST_P(NgpCudaRankTest, AShareThatIsLostOrHalvedIsSeen) {
  Training training;
  training.end = 2;
  const TensorFile alone = Train(1, training)[0].state;
  const auto differs = [&](int kind, double factor) {
    const auto change = [=](int block, ByteBlock* bytes) {
      if (block > 2 * kKinds || KindOf(block) != kind) return;
      kind == kTableGradients ? Multiply<int64_t>(factor, bytes) : Multiply<float>(factor, bytes);
    };
    return !SameContents(Train(2, WithChange(change))[0].state, alone);
  };
  for (const double factor : {0.0, 0.5}) {
    EXPECT_TRUE(differs(kTableGradients, factor)) << factor;
    EXPECT_TRUE(differs(kRows, factor)) << factor;
  }
  EXPECT_FALSE(differs(kTableGradients, 1.0));
  EXPECT_FALSE(differs(kRows, 1.0));
}

TEST_P(NgpCudaRankTest, BlocksOfAnotherSizeAreRefused) {
  for (const int at : {kCounts, kHasNccl, kTableGradients, kRows, kTable}) {
    for (const int by : {-1, 1}) {
      const auto change = [=](int block, ByteBlock* bytes) {
        if (KindOf(block) == at) bytes->Resize(bytes->bytes().size() + by);
      };
      EXPECT_TRUE(Train(2, WithChange(change))[0].failed) << at << ", " << by;
    }
  }
}

TEST_P(NgpCudaRankTest, DevicesThatSumInOtherBlocksAreRefused) {
  const auto change = [](int block, ByteBlock* bytes) {
    if (block != kCounts) return;
    std::byte* const all = bytes->Resize(bytes->bytes().size());
    all[bytes->bytes().size() - 4] ^= std::byte{1};  // the number of blocks comes last
  };
  EXPECT_TRUE(Train(2, WithChange(change))[0].failed);
  Training loose = WithChange(change);
  loose.config.cuda_deterministic = 0;
  EXPECT_FALSE(Train(2, loose)[0].failed);
}

}  // namespace
}  // namespace nerf
