#include "engine/train/occupancy_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <numeric>
#include <vector>

#include "tests/testing/status_matchers.h"
#include "tests/testing/tiny_training.h"

namespace nerf {
namespace {

constexpr char kBlocks[] = "occupancy.blocks", kValues[] = "occupancy.values";

class OccupancyFileTest : public testing::Test {
 protected:
  static OccupancyUpdater NewUpdater() { return {TinyConfig(), TinyGeometry()}; }

  // Blocks 2 and 5 may hold something; each cell has its own value there.
  static OccupancyUpdater Object() {
    OccupancyUpdater updater = NewUpdater();
    std::vector<uint64_t> empty(updater.allowed().size(), ~uint64_t{0});
    empty[2] = 0;
    empty[5] = ~uint64_t{0} >> 1;  // all but the last cell
    updater.KeepEmpty(empty);
    for (const size_t block : {2, 5}) {
      std::iota(&updater.values()[64 * block], &updater.values()[64 * block] + 64, 100.0f * block);
    }
    return updater;
  }
  static TensorFile Stored(const OccupancyUpdater& updater) {
    TensorFile file;
    StoreOccupancy(updater, &file);
    return file;
  }
  static void SetBlocks(const std::vector<int32_t>& blocks, TensorFile* file) {
    Tensor& tensor = file->tensors.at(kBlocks);
    tensor.shape = {static_cast<uint32_t>(blocks.size())};
    tensor.bytes.resize(blocks.size() * sizeof(int32_t));
    std::memcpy(tensor.bytes.data(), blocks.data(), tensor.bytes.size());
  }
  static std::vector<float> Values(const OccupancyUpdater& updater) {
    return {updater.values().begin(), updater.values().end()};
  }
};

TEST_F(OccupancyFileTest, ValuesOfBlocksThatStayEmptyAreLeftOut) {
  const OccupancyUpdater updater = Object();
  const TensorFile file = Stored(updater);
  EXPECT_EQ(file.tensors.at(kBlocks).shape, std::vector<uint32_t>{2});
  EXPECT_EQ(file.tensors.at(kValues).shape, (std::vector<uint32_t>{2, 64}));

  OccupancyUpdater loaded = NewUpdater();
  std::ranges::fill(loaded.values(), 9.0f);
  ASSERT_THAT(LoadOccupancy(file, TinyGeometry(), &loaded), IsOk());
  EXPECT_EQ(Values(loaded), Values(updater));
  EXPECT_EQ(loaded.grid().occupied_blocks, updater.grid().occupied_blocks);
}

// As checkpoints were written before blocks were left out.
TEST_F(OccupancyFileTest, ValuesOfAllBlocksLoadWhereSomeStayEmpty) {
  OccupancyUpdater whole = NewUpdater();
  std::ranges::fill(whole.values(), 0.5f);
  const TensorFile file = Stored(whole);
  EXPECT_FALSE(file.tensors.contains(kBlocks));
  EXPECT_EQ(file.tensors.at(kValues).shape.size(), 4u);

  OccupancyUpdater object = Object();
  ASSERT_THAT(LoadOccupancy(file, TinyGeometry(), &object), IsOk());
  EXPECT_EQ(Values(object), Values(whole));
  EXPECT_EQ(object.grid().occupied_blocks, object.allowed());
}

TEST_F(OccupancyFileTest, DamagedBlocksAreRefusedAndChangeNothing) {
  OccupancyUpdater updater = Object();
  const TensorFile good = Stored(updater);
  const std::vector<float> before = Values(updater);
  const auto n_blocks = static_cast<int32_t>(updater.allowed().size());
  const auto expect_refusal = [&](const std::function<void(TensorFile*)>& damage,
                                  const char* named) {
    TensorFile file = good;
    damage(&file);
    EXPECT_THAT(LoadOccupancy(file, TinyGeometry(), &updater),
                StatusIs(absl::StatusCode::kInvalidArgument, named));
    EXPECT_EQ(Values(updater), before);
  };
  for (const std::vector<int32_t>& blocks :
       {std::vector{5, 2}, {2, 2}, {-1, 5}, {2, n_blocks}, {2, 1 << 30}}) {
    expect_refusal([&](TensorFile* file) { SetBlocks(blocks, file); }, kBlocks);
  }
  expect_refusal([](TensorFile* file) { file->tensors.at(kBlocks).dtype = DType::kF32; }, kBlocks);
  expect_refusal([](TensorFile* file) { file->tensors.at(kBlocks).shape = {1, 2}; }, kBlocks);
  for (const std::vector<int32_t>& blocks : {std::vector<int32_t>{}, {2}, {2, 5, 6}}) {
    expect_refusal([&](TensorFile* file) { SetBlocks(blocks, file); }, kValues);
  }
  expect_refusal([](TensorFile* file) { file->tensors.erase(kBlocks); }, kValues);
  expect_refusal([](TensorFile* file) { file->tensors.erase(kValues); }, kValues);
}

}  // namespace
}  // namespace nerf
