#include "engine/train/group/group.h"

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/train/group/open_gloo.h"
#include "engine/train/group/rendezvous.h"
#include "engine/train/group/shared_memory_group.h"
#include "engine/train/group/thread_group.h"
#include "gtest/gtest.h"
#include "tests/engine/train/group/star.h"

namespace nerf {
namespace {

using Body = std::function<void(Group*)>;

// A group of the kind that the test's parameter names, for the rank of the rendezvous.
absl::StatusOr<std::unique_ptr<Group>> OpenGroup(const std::string& kind, Rendezvous* rendezvous,
                                                 absl::Duration time_limit) {
  if (kind == "gloo") return OpenGlooGroup(rendezvous, {.interface = "", .time_limit = time_limit});
  // Ranks that sleep at once, and ranks that stay awake.
  const absl::Duration spin = kind == "asleep" ? absl::ZeroDuration() : absl::Milliseconds(2);
  return OpenSharedMemoryGroup(rendezvous, {.time_limit = time_limit, .spin = spin});
}

class GroupTest : public testing::TestWithParam<std::string> {
 protected:
  // Runs body(group) for each rank on a thread of its own. A rank's group is destroyed when its
  // body returns. Returns what each rank threw, empty for nothing.
  static std::vector<std::string> RunRanks(int n_ranks, const Body& body,
                                           absl::Duration time_limit = absl::Seconds(60)) {
    std::vector<std::unique_ptr<Group>> groups(n_ranks);
    std::vector<Rendezvous> star;
    if (GetParam() == "threads") {
      groups = NewThreadGroups(n_ranks);
    } else {
      star = Star(n_ranks);
    }
    std::vector<std::string> errors(n_ranks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < n_ranks; ++rank) {
      threads.emplace_back([&, rank] {
        std::unique_ptr<Group> group = std::move(groups[rank]);
        if (group == nullptr) {
          absl::StatusOr<std::unique_ptr<Group>> opened =
              OpenGroup(GetParam(), &star[rank], time_limit);
          ASSERT_TRUE(opened.ok()) << opened.status();
          ASSERT_NE(*opened, nullptr);
          group = *std::move(opened);
        }
        try {
          body(group.get());
        } catch (const GroupError& e) {
          errors[rank] = e.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return errors;
  }

  static const std::vector<std::string> NoErrors(int n_ranks) {
    return std::vector<std::string>(n_ranks);
  }
};

Bytes BytesIn(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string TextOf(const ByteBlock& block) {
  return std::string(reinterpret_cast<const char*>(block.bytes().data()), block.bytes().size());
}

// What `from` sends to `to`: of a size of its own, from nothing to 1 MB.
std::string Message(int from, int to) {
  const size_t sizes[] = {0, 1, 4087, 4088, 4089, 1 << 20};
  return std::string(sizes[(from * 4 + to) % 6], static_cast<char>('a' + from * 4 + to));
}

TEST_P(GroupTest, AllToAllTakesBlocksOfAnySize) {
  for (int n_ranks = 1; n_ranks <= 4; ++n_ranks) {
    const auto errors = RunRanks(n_ranks, [&](Group* group) {
      std::vector<std::string> texts;
      for (int to = 0; to < n_ranks; ++to) texts.push_back(Message(group->rank(), to));
      std::vector<Bytes> to;
      for (const std::string& text : texts) to.push_back(BytesIn(text));
      std::vector<ByteBlock> from;
      for (int round = 0; round < 3; ++round) {
        AllToAll(group, to, &from);
        for (int rank = 0; rank < n_ranks; ++rank) {
          if (rank == group->rank()) continue;
          EXPECT_EQ(TextOf(from[rank]), Message(rank, group->rank()));
        }
      }
    });
    EXPECT_EQ(errors, NoErrors(n_ranks));
  }
}

TEST_P(GroupTest, BlocksGrowAndShrinkFromTransferToTransfer) {
  const auto errors = RunRanks(2, [](Group* group) {
    std::vector<ByteBlock> from;
    for (const size_t size : {10u, 5000u, 4000u, 9000u, 100'000u, 20u << 20, 1u << 20, 20u << 20}) {
      std::string text(size, static_cast<char>('a' + group->rank()));
      text.back() = '.';
      AllGather(group, BytesIn(text), &from);
      text.assign(size, static_cast<char>('b' - group->rank()));
      text.back() = '.';
      EXPECT_TRUE(TextOf(from[1 - group->rank()]) == text) << size;
    }
  });
  EXPECT_EQ(errors, NoErrors(2));
}

TEST_P(GroupTest, BlocksOfTheGroupAreWrittenAgainOnceTheyAreRead) {
  const auto errors = RunRanks(3, [](Group* group) {
    ByteBlock mine = group->NewBlock();
    std::vector<ByteBlock> from;
    for (int round = 0; round < 50; ++round) {
      const auto text = [round](int rank) {
        return std::string(1 + 1000 * round, static_cast<char>(round + 50 * rank));
      };
      group->AwaitUnused(mine);
      mine.Resize(0);
      for (const char c : text(group->rank())) {
        const size_t size = mine.bytes().size();
        mine.Resize(size + 1)[size] = static_cast<std::byte>(c);
      }
      AllGather(group, mine.bytes(), &from);
      for (int rank = 0; rank < 3; ++rank) {
        if (rank != group->rank()) {
          EXPECT_EQ(TextOf(from[rank]), text(rank));
        }
      }
    }
  });
  EXPECT_EQ(errors, NoErrors(3));
}

TEST_P(GroupTest, ARankMaySendMuchBeforeAnotherOneReads) {
  const auto errors = RunRanks(3, [](Group* group) {
    for (int round = 0; round < 100; ++round) {
      std::vector<int> values(round * 100, round);
      if (group->rank() != 0) values.assign(values.size(), -1);
      Broadcast(group, 0, std::as_writable_bytes(std::span(values)));
      EXPECT_EQ(values, std::vector<int>(round * 100, round));
    }
  });
  EXPECT_EQ(errors, NoErrors(3));
}

TEST_P(GroupTest, GatherBroadcastAndReduce) {
  const auto errors = RunRanks(3, [](Group* group) {
    const std::string mine(5000 * group->rank(), 'x');
    std::vector<ByteBlock> from;
    Gather(group, 1, BytesIn(mine), &from);
    if (group->rank() == 1) {
      EXPECT_EQ(from[0].bytes().size(), 0u);
      EXPECT_EQ(from[2].bytes().size(), 10000u);
    }
    double value = group->rank();
    BroadcastValue(group, 2, &value);
    EXPECT_EQ(value, 2);
    std::vector<int64_t> counts = {group->rank(), 10};
    Reduce(group, counts);
    EXPECT_EQ(counts, (std::vector<int64_t>{3, 30}));
  });
  EXPECT_EQ(errors, NoErrors(3));
}

TEST_P(GroupTest, TrafficIsCounted) {
  const auto errors = RunRanks(2, [](Group* group) {
    const std::string mine(group->rank() == 0 ? 100 : 9000, 'x');
    std::vector<ByteBlock> from;
    AllGather(group, BytesIn(mine), &from);
    EXPECT_EQ(group->traffic().bytes_sent, group->rank() == 0 ? 100 : 9000);
    EXPECT_EQ(group->traffic().bytes_received, group->rank() == 0 ? 9000 : 100);
    EXPECT_EQ(group->traffic().n_transfers, 1);
  });
  EXPECT_EQ(errors, NoErrors(2));
}

TEST_P(GroupTest, ABroadcastOfAnotherSizeIsAnError) {
  const auto errors = RunRanks(2, [](Group* group) {
    std::vector<std::byte> bytes(group->rank() + 1);
    Broadcast(group, 0, bytes);
  });
  EXPECT_EQ(errors[1], "rank 0 sent 1 bytes where rank 1 expects 2");
}

TEST_P(GroupTest, ALostRankEndsTheOthers) {
  const auto errors = RunRanks(3, [](Group* group) {
    std::vector<ByteBlock> from;
    AllGather(group, {}, &from);
    if (group->rank() == 2) return;
    AllGather(group, {}, &from);
    ADD_FAILURE() << "rank " << group->rank() << " went on";
  });
  EXPECT_NE(errors[0], "");
  EXPECT_NE(errors[1], "");
}

TEST_P(GroupTest, AbortEndsEveryRankAndSaysWhy) {
  const auto errors = RunRanks(2, [](Group* group) {
    std::vector<ByteBlock> from;
    AllGather(group, {}, &from);
    if (group->rank() == 1) group->Abort("the disk is full");
    AllGather(group, {}, &from);
  });
  EXPECT_EQ(errors[1], "the disk is full");
  EXPECT_NE(errors[0], "");
}

INSTANTIATE_TEST_SUITE_P(Threads, GroupTest, testing::Values("threads"));
INSTANTIATE_TEST_SUITE_P(SharedMemory, GroupTest, testing::Values("asleep", "awake"));

class GlooGroupTest : public GroupTest {};

TEST_P(GlooGroupTest, ARankThatStandsStillIsGivenUp) {
  std::vector<std::string> errors = RunRanks(
      2,
      [](Group* group) {
        std::vector<ByteBlock> from;
        AllGather(group, {}, &from);
        if (group->rank() == 0) {
          AllGather(group, {}, &from);
          return;
        }
        // Rank 1 makes no transfer until rank 0 has given up, which closes its sockets.
        const Incoming in{0, &from[0]};
        group->Transfer({}, {&in, 1});
        group->Transfer({}, {&in, 1});
      },
      absl::Milliseconds(300));
  EXPECT_NE(errors[0].find("rank 1 is lost"), std::string::npos) << errors[0];
}

#ifdef NERF_HAS_GLOO
INSTANTIATE_TEST_SUITE_P(Gloo, GroupTest, testing::Values("gloo"));
INSTANTIATE_TEST_SUITE_P(Gloo, GlooGroupTest, testing::Values("gloo"));
#else
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GlooGroupTest);
#endif

}  // namespace
}  // namespace nerf
