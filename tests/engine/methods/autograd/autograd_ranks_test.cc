// Ranks that train with LibTorch: what they sum, and that it is what one process trains.
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/methods/autograd/autograd_step.h"
#include "engine/methods/autograd/gradient_sum.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/train/group/thread_group.h"
#include "gtest/gtest.h"
#include "tests/testing/changing_group.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tiny_training.h"

namespace nerf {
namespace {

// Runs body(group) on a thread for each rank.
void RunRanks(int n_ranks, const std::function<void(Group* group)>& body) {
  const std::vector<std::unique_ptr<Group>> groups = NewThreadGroups(n_ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n_ranks; ++rank)
    threads.emplace_back([&, rank] { body(groups[rank].get()); });
  for (std::thread& thread : threads) thread.join();
}

TEST(GradientSumTest, EveryRankGetsTheSumOfAll) {
  for (int n_ranks = 2; n_ranks <= 4; ++n_ranks) {
    RunRanks(n_ranks, [n_ranks](Group* group) {
      const std::unique_ptr<GradientSum> sum = NewGradientSum(group);
      // Also fewer values than ranks, and more than a message of Gloo's holds.
      for (const int64_t n : {1, 2, 5, 1000, 1'100'003}) {
        const torch::Tensor ramp = torch::arange(n, torch::kFloat32).remainder(1000);
        const torch::Tensor values = ramp * (group->rank() + 1);
        const int64_t before = group->traffic().bytes_received;
        sum->AllReduce(values);
        const int n_shares = n_ranks * (n_ranks + 1) / 2;
        EXPECT_TRUE(torch::equal(values, ramp * n_shares)) << n_ranks << " ranks, " << n;
        if (n > n_ranks) {
          EXPECT_GT(group->traffic().bytes_received, before);
        }
      }
    });
  }
}

TEST(GradientSumTest, ARankThatIsGoneIsAnError) {
  RunRanks(2, [](Group* group) {
    std::unique_ptr<GradientSum> sum = NewGradientSum(group);
    const torch::Tensor values = torch::ones({1000});
    sum->AllReduce(values);
    if (group->rank() == 1) {
      sum = nullptr;
      group->Abort("has left");
      return;
    }
    EXPECT_THROW(
        {
          for (int i = 0; i < 3; ++i) sum->AllReduce(values);
        },
        GroupError);
  });
}

struct Trained {
  StepResult last;
  TensorFile state;
};

// n_steps steps from the same state: what each rank has then.
std::vector<Trained> TrainOnRanks(int n_ranks, int n_rays, uint32_t n_steps) {
  TrainConfig config = TinyConfig();
  Ngp(config).half_table = 0;
  std::vector<Trained> trained(n_ranks);
  const auto train = [&](Group* group) {
    ThreadPool pool(1);
    const auto step = NewAutogradStep(config, TinyGeometry(), &pool, {}, group);
    Trained& mine = trained[group == nullptr ? 0 : group->rank()];
    ASSERT_THAT(step->Load(LivelyState(*step)), IsOk());
    for (uint32_t i = 0; i < n_steps; ++i) mine.last = step->RunRays(TinyBatch(n_rays, i, 1e-3f));
    mine.state = Saved(*step);
  };
  if (n_ranks == 1) {
    train(nullptr);
  } else {
    RunRanks(n_ranks, train);
  }
  return trained;
}

// Expects floats that differ by at most `tolerance` times the largest of `b`.
void ExpectNear(const Trained& a, const Trained& b, const std::string& name, float tolerance) {
  const std::vector<float> x = ToFloats(a.state.tensors.at(name));
  const std::vector<float> y = ToFloats(b.state.tensors.at(name));
  ASSERT_EQ(x.size(), y.size());
  float largest = 0;
  for (const float value : y) largest = std::max(largest, std::abs(value));
  ASSERT_GT(largest, 0) << name;
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_NEAR(x[i], y[i], tolerance * largest) << name << ", " << i;
}

// A mean over the ranks in place of the sum, or a rank's share left out, changes the moments, which
// were zero and are (1 - beta) times the gradient and its square now. Adam's first step hides that
// from the weights.
TEST(AutogradRanksTest, AStepHasTheMomentsAndWeightsOfOneRank) {
  const Trained alone = TrainOnRanks(1, 64, 1)[0];
  for (int n_ranks = 2; n_ranks <= 3; ++n_ranks) {
    SCOPED_TRACE(n_ranks);
    for (const Trained& rank : TrainOnRanks(n_ranks, 64, 1)) {
      EXPECT_EQ(rank.last.n_rays, alone.last.n_rays);
      EXPECT_EQ(rank.last.n_marched, alone.last.n_marched);
      EXPECT_EQ(rank.last.n_trained, alone.last.n_trained);
      EXPECT_GT(rank.last.n_trained, 200);
      EXPECT_NEAR(rank.last.loss, alone.last.loss, 1e-5 * alone.last.loss);
      EXPECT_NEAR(rank.last.squared_error, alone.last.squared_error,
                  1e-5 * alone.last.squared_error);
      for (const std::string& name : FieldTensorNames()) {
        ExpectNear(rank, alone, "adam.first." + name, 3e-5f);
        ExpectNear(rank, alone, "adam.second." + name, 3e-5f);
        // A gradient of rounding errors alone moves a weight by the whole learning rate.
        ExpectNear(rank, alone, name, 2.1e-3f);
      }
    }
  }
}

TEST(AutogradRanksTest, AllRanksHaveTheSameBytesAndStayCloseToOne) {
  constexpr uint32_t kSteps = 18;  // with updates of the grid and of the averages
  const Trained alone = TrainOnRanks(1, 64, kSteps)[0];
  for (int n_ranks = 2; n_ranks <= 3; ++n_ranks) {
    const std::vector<Trained> ranks = TrainOnRanks(n_ranks, 64, kSteps);
    for (const Trained& rank : ranks) {
      EXPECT_TRUE(SameContents(rank.state, ranks[0].state)) << n_ranks;
      EXPECT_EQ(rank.last.loss, ranks[0].last.loss);
    }
    EXPECT_NEAR(ranks[0].last.loss, alone.last.loss, 2e-3 * alone.last.loss) << n_ranks;
  }
}

TEST(AutogradRanksTest, ARankWithoutRaysTakesPart) {
  const Trained alone = TrainOnRanks(1, 1, 2)[0];
  const std::vector<Trained> ranks = TrainOnRanks(3, 1, 2);
  ASSERT_GT(alone.last.n_trained, 0);
  for (const Trained& rank : ranks) {
    EXPECT_EQ(rank.last.n_trained, alone.last.n_trained);
    EXPECT_TRUE(SameContents(rank.state, ranks[0].state));
  }
}

// Blocks that come to rank 0 of two in a step without an update of the grid.
constexpr int kCellsBlock = 0, kSigmasBlock = 1, kSumsBlock = 2;

// Whether rank 0 ends the training because of a block that is changed.
bool IsRefused(int at, const BlockChange& change) {
  TrainConfig config = TinyConfig();
  Ngp(config).half_table = 0;
  bool refused = false;
  RunRanks(2, [&](Group* group) {
    ChangingGroup hostile(group, ChangeBlock(at, change));
    ThreadPool pool(1);
    const auto step =
        NewAutogradStep(config, TinyGeometry(), &pool, {}, group->rank() == 0 ? &hostile : group);
    ASSERT_THAT(step->Load(LivelyState(*step)), IsOk());
    try {
      step->RunRays(TinyBatch(64, 0));
    } catch (const GroupError& error) {
      if (group->rank() > 0) return;
      refused = true;
      group->Abort(error.what());
    }
  });
  return refused;
}

BlockChange ChangeSize(int by) {
  return [by](ByteBlock* block) { block->Resize(block->bytes().size() + by); };
}

// A value of the block that begins `offset` bytes behind its start.
template <typename T>
BlockChange ChangeValue(size_t offset, T value) {
  return [offset, value](ByteBlock* block) {
    ASSERT_GE(block->bytes().size(), offset + sizeof(value));
    std::memcpy(block->Resize(block->bytes().size()) + offset, &value, sizeof(value));
  };
}

TEST(AutogradRanksTest, CellsOutsideTheGridAreRefused) {
  constexpr uint32_t kCells = 32 * 32 * 32;
  EXPECT_FALSE(IsRefused(kCellsBlock, ChangeValue(0, kCells - 1)));
  EXPECT_TRUE(IsRefused(kCellsBlock, ChangeValue(0, kCells)));
  EXPECT_TRUE(IsRefused(kCellsBlock, ChangeValue(0, ~0u)));
}

TEST(AutogradRanksTest, CountsThatNoRankCanHaveAreRefused) {
  // Behind two doubles: samples marched and trained.
  constexpr size_t kMarched = 16, kTrained = 24;
  EXPECT_FALSE(IsRefused(kSumsBlock, ChangeValue<int64_t>(kTrained, 1)));
  EXPECT_TRUE(IsRefused(kSumsBlock, ChangeValue<int64_t>(kTrained, -1)));
  EXPECT_TRUE(IsRefused(kSumsBlock, ChangeValue<int64_t>(kTrained, int64_t{1} << 40)));
  EXPECT_TRUE(IsRefused(kSumsBlock, ChangeValue<int64_t>(kMarched, int64_t{1} << 41)));
}

TEST(AutogradRanksTest, BlocksOfAnotherSizeAreRefused) {
  EXPECT_FALSE(IsRefused(kCellsBlock, ChangeSize(0)));
  for (const int by : {-4, 4}) {
    for (const int at : {kCellsBlock, kSigmasBlock, kSumsBlock}) {
      EXPECT_TRUE(IsRefused(at, ChangeSize(by))) << at << by;
    }
  }
}

}  // namespace
}  // namespace nerf
