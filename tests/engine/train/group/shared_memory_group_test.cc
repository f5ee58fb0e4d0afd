// Ranks that are processes, which are killed and stopped; contract: group_test.cc.
#include "engine/train/group/shared_memory_group.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/train/group/shared_memory.h"
#include "gtest/gtest.h"
#include "tests/engine/train/group/star.h"

namespace nerf {
namespace {

// A process that runs `body` as a rank and then stands still until it is killed.
class RankProcess {
 public:
  RankProcess(Rendezvous* rendezvous, const std::function<void(Group*)>& body) : pid_(fork()) {
    if (pid_ != 0) return;
    auto group = OpenSharedMemoryGroup(rendezvous);
    if (group.ok() && *group != nullptr) body(group->get());
    while (true) pause();
  }
  ~RankProcess() { Kill(); }

  void Kill() {
    if (pid_ == 0) return;
    kill(pid_, SIGKILL);
    waitpid(std::exchange(pid_, 0), nullptr, 0);
  }
  void AwaitStop() {
    int status = 0;
    ASSERT_EQ(waitpid(pid_, &status, WUNTRACED), pid_);
    ASSERT_TRUE(WIFSTOPPED(status));
  }

 private:
  pid_t pid_;
};

// What the group throws when this rank waits for a block of rank 1.
GroupError ErrorOf(Group* group) {
  std::vector<ByteBlock> from;
  try {
    AllGather(group, {}, &from);
  } catch (const GroupError& e) {
    return e;
  }
  return GroupError("nothing was thrown");
}

TEST(SharedMemoryGroupTest, AKilledRankIsLost) {
  std::vector<Rendezvous> star = Star(2);
  RankProcess other(&star[1], [](Group* group) {
    std::vector<ByteBlock> from;
    AllGather(group, {}, &from);
  });
  const auto group = OpenSharedMemoryGroup(&star[0]);
  ASSERT_TRUE(group.ok() && *group != nullptr) << group.status();
  std::vector<ByteBlock> from;
  AllGather(group->get(), {}, &from);
  other.Kill();
  const GroupError error = ErrorOf(group->get());
  EXPECT_STREQ(error.what(), "rank 1 is lost: its process is gone");
  EXPECT_EQ(error.lost_rank(), 1);
  EXPECT_STREQ(ErrorOf(group->get()).what(), error.what());
}

TEST(SharedMemoryGroupTest, ARankThatIsKilledWhileItIsWaitedForIsLost) {
  std::vector<Rendezvous> star = Star(2);
  RankProcess other(&star[1], [](Group*) { raise(SIGKILL); });
  const auto group = OpenSharedMemoryGroup(&star[0]);
  ASSERT_TRUE(group.ok() && *group != nullptr) << group.status();
  EXPECT_EQ(ErrorOf(group->get()).lost_rank(), 1);
}

TEST(SharedMemoryGroupTest, ALostRankIsNamedToThoseWhoWaitForOthers) {
  std::vector<Rendezvous> star = Star(3);
  // Rank 1 waits for rank 2, and rank 0 for rank 1.
  RankProcess second(&star[1], [](Group* group) {
    ByteBlock block;
    const Incoming in{2, &block};
    try {
      group->Transfer({}, {&in, 1});
    } catch (const GroupError&) {
    }
  });
  RankProcess third(&star[2], [](Group*) { raise(SIGKILL); });
  const auto group = OpenSharedMemoryGroup(&star[0]);
  ASSERT_TRUE(group.ok() && *group != nullptr) << group.status();
  EXPECT_EQ(ErrorOf(group->get()).lost_rank(), 2);
}

TEST(SharedMemoryGroupTest, AStoppedRankIsLostAfterTheTimeLimit) {
  std::vector<Rendezvous> star = Star(2);
  RankProcess other(&star[1], [](Group*) { raise(SIGSTOP); });
  const auto group = OpenSharedMemoryGroup(&star[0], {.time_limit = absl::Milliseconds(100)});
  ASSERT_TRUE(group.ok() && *group != nullptr) << group.status();
  other.AwaitStop();
  EXPECT_STREQ(ErrorOf(group->get()).what(), "rank 1 is lost: it does not answer");
}

TEST(SharedMemoryGroupTest, ABlockThatWasSentBeforeItsRankDiedArrives) {
  std::vector<Rendezvous> star = Star(2);
  RankProcess other(&star[1], [](Group* group) {
    const std::string text(1 << 20, 'x');
    const Outgoing out{0, std::as_bytes(std::span(text))};
    group->Transfer({&out, 1}, {});
    raise(SIGSTOP);
  });
  const auto group = OpenSharedMemoryGroup(&star[0]);
  ASSERT_TRUE(group.ok() && *group != nullptr) << group.status();
  other.AwaitStop();
  other.Kill();
  ByteBlock block;
  const Incoming in{1, &block};
  (*group)->Transfer({}, {&in, 1});
  ASSERT_EQ(block.bytes().size(), size_t{1} << 20);
  EXPECT_EQ(block.bytes().back(), std::byte{'x'});
}

// A rank that others take for one of another machine: the address that it tells is not its own.
class StrangerRendezvous final : public Rendezvous {
 public:
  explicit StrangerRendezvous(Rendezvous rendezvous) : Rendezvous(std::move(rendezvous)) {}
  absl::StatusOr<std::vector<std::string>> Gather(std::string_view mine) override {
    return Rendezvous::Gather(mine.starts_with("1") || mine.size() > 20 ? "1 3 nerf-ranks-stranger"
                                                                        : mine);
  }
};

TEST(SharedMemoryGroupTest, RanksThatCannotShareMemoryMakeNoGroup) {
  std::vector<Rendezvous> star = Star(2);
  StrangerRendezvous stranger(std::move(star[1]));
  std::thread other([&] {
    const auto group = OpenSharedMemoryGroup(&stranger);
    EXPECT_TRUE(group.ok() && *group == nullptr) << group.status();
  });
  const auto group = OpenSharedMemoryGroup(&star[0]);
  EXPECT_TRUE(group.ok() && *group == nullptr) << group.status();
  other.join();
}

TEST(SharedMemoryTest, MemoryIsFoundByItsAddressWhileItIsOpen) {
  auto memory = SharedMemory::Create(1 << 20);
  ASSERT_TRUE(memory.ok()) << memory.status();
  memory->data()[12345] = std::byte{7};
  const std::string address = memory->Address();
  const auto reader = SharedMemory::Open(address);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(reader->size(), size_t{1} << 20);
  EXPECT_EQ(reader->data()[12345], std::byte{7});
  EXPECT_TRUE(reader->OwnerRuns());
  memory->Close();
  EXPECT_FALSE(SharedMemory::Open(address).ok());
}

TEST(SharedMemoryTest, OtherTextsAreNoAddresses) {
  for (const char* text : {"", "none", "1 2", "x 3 nerf", "1 2 3 4", "1 0 nerf-ranks-0",
                           "999999999 3 nerf-ranks-0", "-1 -1 x"}) {
    EXPECT_FALSE(SharedMemory::Open(text).ok()) << text;
  }
}

}  // namespace
}  // namespace nerf
