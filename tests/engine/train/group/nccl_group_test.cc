// Exchanges by NCCL, whose place fake_nccl.cc takes: arrays are in host memory. On devices this is
// not tested.
#include "engine/train/group/nccl/nccl_device_group.h"

#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "engine/train/group/thread_group.h"
#include "gmock/gmock.h"
#include "tests/testing/fake_nccl.h"

namespace nerf {
namespace {

using testing::ElementsAre;

// Runs body(group, device group) on a thread for each rank.
void RunRanks(int n_ranks, const std::function<void(Group*, DeviceGroup*)>& body) {
  std::vector<std::unique_ptr<Group>> groups = NewThreadGroups(n_ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n_ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto device = NewNcclDeviceGroup(groups[rank].get());
      body(groups[rank].get(), device.get());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Unequal parts of 10 elements, one of them empty.
std::vector<ElementRange> Parts(size_t unit) {
  return {{0, 7 * unit}, {7 * unit, 7 * unit}, {7 * unit, 10 * unit}};
}

TEST(NcclDeviceGroupTest, APartIsSummedOverAllRanks) {
  RunRanks(3, [](Group* group, DeviceGroup* device) {
    std::vector<int64_t> values(10);
    std::iota(values.begin(), values.end(), (int64_t{1} << 60) * (group->rank() - 1));
    std::vector<float> floats(10, static_cast<float>(group->rank() + 1));
    device->SumScatter(values.data(), Parts(1), nullptr);
    device->SumScatter(floats.data(), Parts(1), nullptr);
    const ElementRange own = Parts(1)[group->rank()];
    for (size_t i = own.begin; i < own.end; ++i) {
      EXPECT_EQ(values[i], 3 * static_cast<int64_t>(i));
      EXPECT_EQ(floats[i], 6);
    }
  });
}

TEST(NcclDeviceGroupTest, EveryRankGetsThePartsOfAll) {
  RunRanks(3, [](Group* group, DeviceGroup* device) {
    std::vector<uint16_t> values(10, static_cast<uint16_t>(group->rank()));
    const GroupTraffic before = group->traffic();
    device->AllGather(values.data(), Parts(sizeof(uint16_t)), nullptr);
    EXPECT_THAT(values, ElementsAre(0, 0, 0, 0, 0, 0, 0, 2, 2, 2));
    const GroupTraffic traffic = group->traffic().Since(before);
    const int64_t of_others[] = {6, 20, 14};
    EXPECT_EQ(traffic.bytes_received, of_others[group->rank()]);
    EXPECT_EQ(traffic.n_transfers, 1);
  });
}

TEST(NcclDeviceGroupTest, TheLargestOfEachElementIsEverywhere) {
  RunRanks(2, [](Group* group, DeviceGroup* device) {
    std::vector<float> values{0, 0, 0};
    values[group->rank()] = 5;
    device->Max(values.data(), values.size(), nullptr);
    EXPECT_THAT(values, ElementsAre(5, 5, 0));
  });
}

TEST(NcclDeviceGroupTest, ALostRankEndsTheExchangeByItsTimeLimit) {
  std::vector<std::unique_ptr<Group>> groups = NewThreadGroups(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      NcclOptions options;
      options.time_limit = absl::Milliseconds(20);
      const auto device = NewNcclDeviceGroup(groups[rank].get(), options);
      if (rank == 1) return;
      fake_nccl::LoseOtherRanks();
      std::vector<float> values(3);
      EXPECT_THROW(device->Max(values.data(), 3, nullptr), GroupError);
      EXPECT_THROW(device->Max(values.data(), 3, nullptr), GroupError) << "and for good";
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fake_nccl::OpenCommunicators(), 0);
}

// Neither of two ranks gets a group; both are told what NCCL said.
void ExpectNoGroup(const char* what_nccl_says) {
  const std::vector<std::unique_ptr<Group>> groups = NewThreadGroups(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        NewNcclDeviceGroup(groups[rank].get());
        ADD_FAILURE();
      } catch (const GroupError& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr(what_nccl_says));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fake_nccl::OpenCommunicators(), 0);
}

TEST(NcclDeviceGroupTest, WhatNcclSaysIsToldWhereRanksDoNotConnect) {
  fake_nccl::RefuseToConnect(true);
  ExpectNoGroup("invalid usage");
  fake_nccl::RefuseToConnect(false);
}

TEST(NcclDeviceGroupTest, RanksThatConnectAndCannotExchangeGetNoGroup) {
  fake_nccl::RefuseToExchange(true);
  ExpectNoGroup("system error");
  fake_nccl::RefuseToExchange(false);
}

TEST(NcclDeviceGroupTest, SocketsAreOnTheLoopbackUnlessAnInterfaceIsNamed) {
  RunRanks(2, [](Group*, DeviceGroup*) {});
  EXPECT_EQ(std::string(std::getenv("NCCL_SOCKET_IFNAME")), "=lo");
}

}  // namespace
}  // namespace nerf
