// Any number of ranks trains the bytes of one.
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "engine/base/method_list/method_descriptions.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp/network.h"
#include "engine/methods/ngp/steps.h"
#include "engine/program/bench/synthetic_scene.h"
#include "engine/train/group/thread_group.h"
#include "engine/train/method.h"
#include "engine/train/ranks/rank_words.h"
#include "engine/train/trainer.h"
#include "gmock/gmock.h"
#include "tests/testing/changing_group.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tiny_training.h"

namespace nerf {

const Method& NgpMethod();

namespace {

// Runs body(rank, group) on a thread for each rank. group is null where there is one rank.
void RunRanks(int n_ranks, const std::function<void(int rank, Group* group)>& body) {
  if (n_ranks == 1) {
    body(0, nullptr);
    return;
  }
  std::vector<std::unique_ptr<Group>> groups = NewThreadGroups(n_ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n_ranks; ++rank)
    threads.emplace_back([&, rank] { body(rank, groups[rank].get()); });
  for (std::thread& thread : threads) thread.join();
}

// Steps on rays: what every rank holds in the end, and the last step's result.
struct Trained {
  TensorFile state;
  StepResult last;
  RankCosts costs;             // of a process alone, for two ranks
  int64_t bytes_received = 0;  // in the steps
};

constexpr uint32_t kSteps = 18;  // with updates of the grid and of the averages

// The group that a rank uses in place of its own.
using Wrap = std::function<std::unique_ptr<Group>(Group*)>;

std::vector<Trained> TrainOnRays(const TrainConfig& config, const SceneGeometry& geometry,
                                 int n_ranks, int n_rays, const Wrap& wrap = nullptr) {
  std::vector<Trained> trained(n_ranks);
  RunRanks(n_ranks, [&](int rank, Group* group) {
    ThreadPool pool(1 + rank % 2);
    std::unique_ptr<Group> wrapped;
    if (wrap != nullptr && rank == 0) group = (wrapped = wrap(group)).get();
    const std::vector<View> views(3);
    const auto step = NewNgpCpuStep(config, geometry, &pool, views, group);
    ASSERT_THAT(step->Load(LivelyViewState(*step)), IsOk());
    if (group == nullptr) step->MeasureCosts();
    for (uint32_t i = 0; i < kSteps; ++i) {
      RayBatch batch = TinyBatch(n_rays, i);
      const IndexRange own = step->OwnPixels(n_rays, i / static_cast<double>(kSteps));
      for (int r = 0; r < n_rays; ++r)
        batch.views.push_back(r >= own.begin && r < own.end ? r % 3 : -1);
      if (RaysPerPixel(config) > 1 && 2 * i >= kSteps) batch = InFours(std::move(batch));
      batch.fraction = i / static_cast<double>(kSteps);
      batch.target_samples = config.target_samples;
      trained[rank].last = step->RunRays(batch);
    }
    if (group == nullptr) trained[rank].costs = step->CostsOf(2);
    if (group != nullptr) trained[rank].bytes_received = group->traffic().bytes_received;
    try {
      step->CollectState();
    } catch (const GroupError&) {
      return;  // the ranks have come to different weights
    }
    trained[rank].state = Saved(*step);
  });
  return trained;
}

void ExpectTheBytesOfOneRank(const TrainConfig& config, const SceneGeometry& geometry, int n_rays) {
  const Trained alone = TrainOnRays(config, geometry, 1, n_rays)[0];
  for (int n_ranks = 2; n_ranks <= 5; ++n_ranks) {
    const std::vector<Trained> ranks = TrainOnRays(config, geometry, n_ranks, n_rays);
    for (int rank = 0; rank < n_ranks; ++rank) {
      EXPECT_TRUE(SameContents(ranks[rank].state, alone.state))
          << "rank " << rank << " of " << n_ranks;
      EXPECT_EQ(ranks[rank].last.loss, alone.last.loss);
      EXPECT_EQ(ranks[rank].last.n_trained, alone.last.n_trained);
      EXPECT_EQ(ranks[rank].last.n_marched, alone.last.n_marched);
    }
  }
}

TEST(NgpRankTest, AnyNumberOfRanksTrainsTheBytesOfOne) {
  ExpectTheBytesOfOneRank(TinyConfig(), TinyGeometry(), 200);
}

TEST(NgpRankTest, AlsoWithMoreBoxesFloatTablesAndOtherLevels) {
  TrainConfig config = TinyConfig();
  Ngp(config).half_table = 0;
  Ngp(config).n_features_per_level = 2;
  Ngp(config).coarse_share = 0.5f;
  ExpectTheBytesOfOneRank(config, TinyGeometry(3), 150);
}

TEST(NgpRankTest, AlsoOfScenesWithoutBounds) {
  TrainConfig config = TinyConfig();
  Ngp(config).contraction = Contraction::kLinf;
  Ngp(config).learned_background = true;
  Ngp(config).near_gradients = 1;
  ExpectTheBytesOfOneRank(config, TinyGeometry(2), 150);
}

// Chunks of 22 rays would cut pixels in two.
TEST(NgpRankTest, AlsoWithFourRaysForEachPixel) {
  TrainConfig config = TinyConfig();
  config.rays_per_pixel = 4;
  ExpectTheBytesOfOneRank(config, TinyGeometry(), 44);
  ExpectTheBytesOfOneRank(config, TinyGeometry(), 4);
}

// Ranks know the views of their own rays alone.
TEST(NgpRankTest, AlsoWithExposures) {
  TrainConfig config = TinyConfig();
  config.batch_growth = 1;  // the target that OwnPixels goes by is that of the batches
  Ngp(config).exposure_rate = 0.3f;
  ExpectTheBytesOfOneRank(config, TinyGeometry(), 200);
  ExpectTheBytesOfOneRank(config, TinyGeometry(), 3);  // ranks without rays
}

TEST(NgpRankTest, OtherwiseWhatIsLearnedOfViewsIsRefused) {
  TrainConfig config = TinyConfig();
  const MethodDescription& ngp = NgpMethod().description();
  EXPECT_THAT(ngp.CheckRanks(config, kOnCpu, 2), IsOk());
  Ngp(config).exposure_rate = 0.3f;
  EXPECT_THAT(ngp.CheckRanks(config, kOnCpu, 2), IsOk());
  EXPECT_THAT(ngp.CheckRanks(config, kOnCuda, 2),
              StatusIs(absl::StatusCode::kInvalidArgument, "exposure_rate"));
  for (const char* key : {"pose_rate", "focal_rate", "appearance_rate", "error_share"}) {
    TrainConfig with = config;
    ASSERT_THAT(SetConfigField(key, "0.1", &with), IsOk());
    EXPECT_THAT(std::string(ngp.CheckRanks(with, kOnCpu, 2).message()), testing::HasSubstr(key));
  }
}

TEST(NgpRankTest, AlsoWhereRanksHaveNoRays) {
  ExpectTheBytesOfOneRank(TinyConfig(), TinyGeometry(), 3);
}

TEST(NgpRankTest, AForecastOfTheBytesComesTrue) {
  constexpr int kRays = 256;  // four chunks, two for each rank
  const RankCosts costs = TrainOnRays(TinyConfig(), TinyGeometry(), 1, kRays)[0].costs;
  EXPECT_EQ(costs.n_steps, static_cast<int64_t>(kSteps));
  EXPECT_GT(costs.n_trained, 0);
  const auto received =
      static_cast<double>(TrainOnRays(TinyConfig(), TinyGeometry(), 2, kRays)[0].bytes_received);
  EXPECT_NEAR(costs.bytes_received, received, 0.05 * received);
}

// Multiplies the last floats of each block from rank 1: the sum of the MLPs' gradients.
ChangingGroup::Change ScaleGradients(float factor) {
  return [factor](int number, ByteBlock* block) {
    constexpr size_t kSize = kNgpWeights * sizeof(float);
    const size_t size = block->bytes().size();
    // Only the lanes' messages of both ranks end in gradients; other blocks are left alone.
    if (number % 2 == 1 || size < kSize) return;
    std::byte* const end = block->Resize(size) + size;
    for (std::byte* at = end - kSize; at < end; at += sizeof(float)) {
      float value = 0;
      std::memcpy(&value, at, sizeof(value));
      value *= factor;
      std::memcpy(at, &value, sizeof(value));
    }
  };
}

// The tests above see ranks that lose another's share or take the mean where it must be the sum.
TEST(NgpRankTest, AShareThatIsLostOrHalvedIsSeen) {
  const Trained alone = TrainOnRays(TinyConfig(), TinyGeometry(), 1, 200)[0];
  for (const float factor : {0.0f, 0.5f}) {
    const auto ranks = TrainOnRays(TinyConfig(), TinyGeometry(), 2, 200, [&](Group* group) {
      return std::make_unique<ChangingGroup>(group, ScaleGradients(factor));
    });
    EXPECT_FALSE(SameContents(ranks[0].state, alone.state)) << factor;
  }
}

// Blocks that come to rank 0 of two: the lanes and the lines of each step, before step 4 probes of
// the grid.
constexpr int kLanesBlock = 0, kLinesBlock = 1, kProbesBlock = 8;

// Whether rank 0 ends the training because of a block that is changed.
bool IsRefused(int at, const BlockChange& change) {
  bool refused = false;
  RunRanks(2, [&](int rank, Group* group) {
    ChangingGroup hostile(group, ChangeBlock(at, change));
    ThreadPool pool(1);
    const auto step =
        NewNgpCpuStep(TinyConfig(), TinyGeometry(), &pool, {}, rank == 0 ? &hostile : group);
    EXPECT_THAT(step->Load(LivelyState(*step)), IsOk());
    try {
      for (uint32_t i = 0; i < 6; ++i) step->RunRays(TinyBatch(64, i));
    } catch (const GroupError& error) {
      if (rank > 0) return;
      refused = true;
      group->Abort(error.what());
    }
  });
  return refused;
}

// What a message says of its first lane.
struct FirstLane {
  uint64_t n_samples = 0, n_cells = 0;
  int64_t n_marched = 0, n_trained = 0;
};

BlockChange ChangeLane(const std::function<void(FirstLane*)>& change) {
  return [change](ByteBlock* block) {
    std::byte* const bytes = block->Resize(block->bytes().size());
    FirstLane lane;
    std::memcpy(&lane, bytes, sizeof(lane));
    ASSERT_GT(lane.n_cells, 0u);
    ASSERT_GT(lane.n_trained, 0);
    change(&lane);
    std::memcpy(bytes, &lane, sizeof(lane));
  };
}

BlockChange ChangeFirstCell(uint32_t cell) {
  return [cell](ByteBlock* block) {
    std::byte* const bytes = block->Resize(block->bytes().size());
    FirstLane lane;
    std::memcpy(&lane, bytes, sizeof(lane));
    ASSERT_GT(lane.n_cells, 0u);
    constexpr size_t kHeadBytes = sizeof(FirstLane) + 2 * sizeof(double);
    std::memcpy(bytes + kHeadBytes + lane.n_samples * sizeof(Vec3), &cell, sizeof(cell));
  };
}

BlockChange ChangeSize(int by) {
  return [by](ByteBlock* block) { block->Resize(block->bytes().size() + by); };
}

TEST(NgpRankTest, CellsOutsideTheGridAreRefused) {
  constexpr uint32_t kCells = 32 * 32 * 32;
  EXPECT_FALSE(IsRefused(kLanesBlock, ChangeFirstCell(kCells - 1)));
  EXPECT_TRUE(IsRefused(kLanesBlock, ChangeFirstCell(kCells)));
  EXPECT_TRUE(IsRefused(kLanesBlock, ChangeFirstCell(~0u)));
}

TEST(NgpRankTest, CountsThatNoRankCanHaveAreRefused) {
  const auto refused = [](const std::function<void(FirstLane*)>& change) {
    return IsRefused(kLanesBlock, ChangeLane(change));
  };
  EXPECT_FALSE(refused([](FirstLane*) {}));
  EXPECT_TRUE(refused([](FirstLane* lane) { lane->n_samples = uint64_t{1} << 60; }));
  EXPECT_TRUE(refused([](FirstLane* lane) { lane->n_samples = ~uint64_t{0}; }));
  EXPECT_TRUE(refused([](FirstLane* lane) { ++lane->n_samples; }));
  EXPECT_TRUE(refused([](FirstLane* lane) { lane->n_cells = ~uint64_t{0}; }));
  EXPECT_TRUE(refused([](FirstLane* lane) { lane->n_trained = -1; }));
  EXPECT_TRUE(refused([](FirstLane* lane) { lane->n_trained = lane->n_marched + 1; }));
  EXPECT_TRUE(refused([](FirstLane* lane) { lane->n_marched = int64_t{1} << 41; }));
}

TEST(NgpRankTest, BlocksOfAnotherSizeAreRefused) {
  for (const int at : {kLanesBlock, kLinesBlock, kProbesBlock}) {
    EXPECT_FALSE(IsRefused(at, ChangeSize(0))) << at;
    for (const int by : {-4, -1, 1, 4}) EXPECT_TRUE(IsRefused(at, ChangeSize(by))) << at << by;
  }
}

TEST(NgpRankTest, PixelsOfViewsThatAreNotThereAreRefused) {
  for (const int32_t view : {2, 3, -1}) {
    RunRanks(2, [&](int rank, Group* group) {
      PixelBatch batch;
      batch.n_pixels = 4;
      batch.pixels.resize(4);
      batch.targets.resize(4);
      batch.backgrounds.resize(4);
      if (rank == 0) batch.pixels[3].view = view;
      if (rank == 0 || view == 2) {
        FeedRanks(group, 3, &batch);
        EXPECT_EQ(batch.pixels[3].view, view);
      } else {
        EXPECT_THROW(FeedRanks(group, 3, &batch), GroupError);
      }
    });
  }
}

// A training through the trainer. Returns each rank's checkpoint.
struct RankRun {
  std::string checkpoint;
  TrainOutcome outcome = TrainOutcome::kFinished;
  double seconds = 0;
  std::vector<ImageU8> views;    // of rank 0: previews and, after the training, a test view
  int64_t n_view_transfers = 0;  // of that view
};

// How ranks get their pixels.
struct Feed {
  bool central = false;
  int batches_ahead = 0;
  float coarse_pictures = 0;
  int rays_per_pixel = 1;
};

std::vector<RankRun> TrainScene(int n_ranks, Budget budget, const std::string& resume = "",
                                std::optional<uint32_t> stop_after = std::nullopt,
                                const Feed& feed = {}) {
  const Scene scene = SyntheticBallScene(3, 1, 24);
  std::vector<RankRun> runs(n_ranks);
  RunRanks(n_ranks, [&](int rank, Group* group) {
    TrainState state;
    state.config = TinyConfig();
    state.config.budget = budget;
    state.config.rays_per_pixel = feed.rays_per_pixel;
    Ngp(state.config).coarse_pictures = feed.coarse_pictures;
    state.geometry = scene.geometry;
    state.reference_camera = scene.test[0].camera;
    ThreadPool pool(1 + rank % 2);
    auto step = NewNgpCpuStep(state.config, state.geometry, &pool, scene.train, group);
    if (!resume.empty()) {
      absl::StatusOr<TensorFile> file = ParseTensorFile(resume, "resume");
      ASSERT_THAT(file, IsOk());
      ASSERT_THAT(step->Load(*file), IsOk());
      state = LoadTrainState(*file, "resume")->state;
    }
    FakeClock fake_clock;
    const RealClock real_clock;
    const bool real = budget.kind == BudgetKind::kSeconds;
    // Previews of rank 0 come every few steps.
    struct Ticking final : TrainerObserver {
      FakeClock* clock = nullptr;
      std::vector<ImageU8>* views = nullptr;
      absl::Status OnPreview(const TrainPreview& preview) override {
        views->push_back(preview.image);
        return absl::OkStatus();
      }
      absl::Status BetweenSteps() override {
        clock->Advance(absl::Milliseconds(10));
        return absl::OkStatus();
      }
    } observer;
    observer.clock = &fake_clock;
    observer.views = &runs[rank].views;
    TrainerOptions options;
    options.group = group;
    options.stop_after = stop_after;
    options.central_feed = feed.central;
    options.batches_ahead = feed.batches_ahead;
    options.preview_interval = absl::Milliseconds(50);
    Trainer trainer(&scene, state, step.get(), &pool,
                    real ? static_cast<const Clock*>(&real_clock) : &fake_clock, options,
                    &observer);
    const absl::StatusOr<TrainOutcome> outcome = trainer.Run({});
    ASSERT_THAT(outcome, IsOk());
    runs[rank].outcome = *outcome;
    runs[rank].checkpoint = SerializeTensorFile(trainer.Checkpoint());
    runs[rank].seconds = trainer.state().seconds;
    if (rank > 0) return;
    ViewPicture picture;
    RenderOptions in_passes;
    in_passes.first_stride = 4;
    in_passes.rays_per_pixel = feed.rays_per_pixel;
    const auto renderer = trainer.NewRenderer();
    const GroupTraffic before = group != nullptr ? group->traffic() : GroupTraffic();
    ASSERT_TRUE(renderer->Render(Resized(scene.test[0].camera, 100, 75), in_passes, {}, &picture));
    runs[rank].views.push_back(picture.rgba);
    if (group != nullptr) runs[rank].n_view_transfers = group->traffic().Since(before).n_transfers;
    trainer.EndRanks();
  });
  return runs;
}

TEST(NgpRankTest, TrainersDrawOnlyTheirRaysAndWriteTheSameCheckpoint) {
  const Budget budget{BudgetKind::kSteps, 40};
  const std::string alone = TrainScene(1, budget)[0].checkpoint;
  for (int n_ranks = 2; n_ranks <= 4; ++n_ranks) {
    for (const RankRun& run : TrainScene(n_ranks, budget)) EXPECT_TRUE(run.checkpoint == alone);
  }
}

// Ranks draw their own pixels, ahead of the step in which each pixel has four rays, or rank 0 does.
TEST(NgpRankTest, RanksTrainAndShowPixelsOfFourRaysAsOne) {
  const Budget budget{BudgetKind::kSteps, 40};
  const Feed four{.batches_ahead = 2, .rays_per_pixel = 4};
  const RankRun alone = TrainScene(1, budget, "", std::nullopt, four)[0];
  EXPECT_FALSE(alone.checkpoint == TrainScene(1, budget)[0].checkpoint);
  for (const bool central : {false, true}) {
    Feed feed = four;
    feed.central = central;
    const RankRun run = TrainScene(3, budget, "", std::nullopt, feed)[0];
    EXPECT_TRUE(run.checkpoint == alone.checkpoint) << central;
    ASSERT_EQ(run.views.size(), alone.views.size());
    for (size_t i = 0; i < alone.views.size(); ++i)
      EXPECT_TRUE(run.views[i].pixels == alone.views[i].pixels) << central << ", view " << i;
  }
}

TEST(NgpRankTest, AllRanksRenderTheViewsOfOne) {
  const Budget budget{BudgetKind::kSteps, 40};
  const std::vector<ImageU8> alone = TrainScene(1, budget)[0].views;
  ASSERT_GT(alone.size(), 2u);
  for (int n_ranks = 2; n_ranks <= 4; ++n_ranks) {
    const RankRun run = TrainScene(n_ranks, budget)[0];
    ASSERT_EQ(run.views.size(), alone.size());
    for (size_t i = 0; i < alone.size(); ++i)
      EXPECT_TRUE(run.views[i].pixels == alone[i].pixels) << n_ranks << " ranks, view " << i;
    EXPECT_EQ(run.n_view_transfers, 3 * 3) << "a word, what to render and the rays of each pass";
  }
}

TEST(NgpRankTest, ARankThatIsLostInAViewEndsTheTraining) {
  const Scene scene = SyntheticBallScene(3, 1, 24);
  RunRanks(2, [&](int rank, Group* group) {
    TrainState state;
    state.config = TinyConfig();
    state.config.budget = {BudgetKind::kSteps, 5};
    state.geometry = scene.geometry;
    ThreadPool pool(1);
    auto step = NewNgpCpuStep(state.config, state.geometry, &pool, scene.train, group);
    // Leaves when it was told to load the weights of a view: after 5 steps and "collect".
    struct Leaving final : TrainerObserver {
      Group* group = nullptr;
      int n_words = 0;
      absl::Status BetweenSteps() override {
        if (group->rank() > 0 && ++n_words == 7) group->Abort("has left");
        return absl::OkStatus();
      }
    } observer;
    observer.group = group;
    TrainerOptions options;
    options.group = group;
    options.preview_interval = absl::InfiniteDuration();
    const FakeClock clock;
    Trainer trainer(&scene, state, step.get(), &pool, &clock, options, &observer);
    if (rank > 0) {
      EXPECT_THROW(trainer.Run({}).status().IgnoreError(), GroupError);
      return;
    }
    ASSERT_THAT(trainer.Run({}), IsOk());
    EXPECT_THROW(trainer.Preview({}), GroupError);
    EXPECT_THROW(trainer.EndRanks(), GroupError);
  });
}

TEST(NgpRankTest, HoweverRanksAreFedTheyWriteTheSameCheckpoint) {
  const Budget budget{BudgetKind::kSteps, 40};
  const std::string alone = TrainScene(1, budget)[0].checkpoint;
  for (const Feed& feed : {Feed{true, 0}, Feed{true, 2}, Feed{false, 1}, Feed{false, 3}}) {
    for (int n_ranks = 1; n_ranks <= 3; ++n_ranks) {
      for (const RankRun& run : TrainScene(n_ranks, budget, "", std::nullopt, feed))
        EXPECT_TRUE(run.checkpoint == alone) << n_ranks << feed.central << feed.batches_ahead;
    }
  }
}

TEST(NgpRankTest, AlsoFromReducedPicturesAndResumedAmongThem) {
  const Budget budget{BudgetKind::kSteps, 40};
  Feed coarse;
  coarse.coarse_pictures = 0.7f;
  const std::string alone = TrainScene(1, budget, "", std::nullopt, coarse)[0].checkpoint;
  EXPECT_FALSE(alone == TrainScene(1, budget)[0].checkpoint);
  for (const auto& [central, batches_ahead] :
       {std::pair(true, 0), {true, 2}, {false, 0}, {false, 3}}) {
    coarse.central = central;
    coarse.batches_ahead = batches_ahead;
    for (int n_ranks = 1; n_ranks <= 3; ++n_ranks) {
      for (const RankRun& run : TrainScene(n_ranks, budget, "", std::nullopt, coarse))
        EXPECT_TRUE(run.checkpoint == alone) << n_ranks << central << batches_ahead;
    }
  }
  // Within a quarter of the sides, at the change to half, and after it.
  for (const uint32_t stop_after : {5, 14, 20, 28}) {
    const RankRun part = TrainScene(2, budget, "", stop_after, coarse)[0];
    EXPECT_TRUE(TrainScene(1, budget, part.checkpoint, std::nullopt, coarse)[0].checkpoint == alone)
        << stop_after;
  }
}

TEST(NgpRankTest, AnotherNumberOfRanksGoesOn) {
  const Budget budget{BudgetKind::kSteps, 40};
  const std::string alone = TrainScene(1, budget)[0].checkpoint;
  const RankRun half = TrainScene(2, budget, "", 20)[0];
  EXPECT_EQ(half.outcome, TrainOutcome::kStoppedAfter);
  for (const int n_ranks : {1, 3})
    EXPECT_TRUE(TrainScene(n_ranks, budget, half.checkpoint)[0].checkpoint == alone) << n_ranks;
}

TEST(NgpRankTest, TheClockOfRank0CountsForAll) {
  const std::vector<RankRun> runs = TrainScene(3, {BudgetKind::kSeconds, 0.2});
  for (const RankRun& run : runs) {
    EXPECT_EQ(run.outcome, TrainOutcome::kFinished);
    EXPECT_EQ(run.seconds, runs[0].seconds);
    EXPECT_TRUE(run.checkpoint == runs[0].checkpoint);
  }
}

TEST(NgpRankTest, StopsOfRank0EndTheOthers) {
  for (const RankRun& run : TrainScene(3, {BudgetKind::kSteps, 40}, "", 10))
    EXPECT_EQ(run.outcome, TrainOutcome::kStoppedAfter);
}

}  // namespace
}  // namespace nerf
