#include "engine/program/session/device_choices.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace nerf {
namespace {

using ::testing::HasSubstr;

TEST(DeviceClassTest, FollowsMultiprocessorsClockAndMemory) {
  constexpr uint64_t kGiB = uint64_t{1} << 30;
  EXPECT_EQ(ClassOf({}), DeviceClass::kCpu);
  EXPECT_EQ(ClassOf({kOnCuda, 58, 2040, 24 * kGiB}), DeviceClass::kSmallGpu);
  EXPECT_EQ(ClassOf({kOnCuda, 108, 1410, 40 * kGiB}), DeviceClass::kLargeGpu);
  EXPECT_EQ(ClassOf({kOnCuda, 132, 1980, 80 * kGiB}), DeviceClass::kLargeGpu);
  EXPECT_EQ(ClassOf({kOnCuda, 132, 1980, 8 * kGiB}), DeviceClass::kSmallGpu);
  EXPECT_EQ(ClassOf({kOnCuda, 1, 1000, kGiB}), DeviceClass::kSmallGpu);
}

// The cells behind the device's name, by name and budget.
std::map<std::string, std::vector<std::string>> Rows(const std::string& table) {
  std::map<std::string, std::vector<std::string>> rows;
  std::istringstream lines(table);
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream words(line.substr(std::min<size_t>(line.size(), 23)));
    std::vector<std::string> cells{std::istream_iterator<std::string>(words), {}};
    std::string name = line.substr(0, 12);
    name.erase(name.find_last_not_of(' ') + 1);
    if (cells.size() == 12) rows[name + " " + cells[2]] = cells;
  }
  return rows;
}

TEST(DeviceChoicesTest, LargerDevicesGetLargerTablesAndShorterStepsSooner) {
  const std::string table = DeviceChoiceTable({{"cuda:0", {kOnCuda, 1, 1000, 1 << 30}}});
  const auto rows = Rows(table);
  ASSERT_EQ(rows.size(), 15u) << table;
  const auto choice = [&](const std::string& row) {
    const std::vector<std::string>& cells = rows.at(row);
    return std::vector<std::string>(cells.begin() + 4, cells.end());
  };
  using Cells = std::vector<std::string>;
  // Samples of a step and their growth, its most rays, entries, step, where rays end, rays of a
  // pixel.
  EXPECT_EQ(choice("CPU 2"), (Cells{"8192", "x", "4", "65536", "18", "0.5", "0.03", "1"}));
  EXPECT_EQ(choice("CPU 60"), (Cells{"8192", "x", "4", "65536", "18", "0.5", "0.03", "1"}));
  EXPECT_EQ(choice("NVIDIA L4 2"), (Cells{"8192", "x", "4", "65536", "18", "0.5", "0.03", "1"}));
  EXPECT_EQ(choice("NVIDIA L4 10"), (Cells{"8192", "x", "4", "65536", "19", "0.25", "0.03", "1"}));
  EXPECT_EQ(choice("NVIDIA L4 60"), (Cells{"8192", "x", "4", "65536", "19", "0.25", "0.001", "1"}));
  for (const char* device : {"NVIDIA A100", "NVIDIA H100"}) {
    EXPECT_EQ(choice(std::string(device) + " 2"),
              (Cells{"16384", "x", "16", "262144", "19", "0.5", "0.03", "1"}));
    EXPECT_EQ(choice(std::string(device) + " 10"),
              (Cells{"16384", "x", "16", "262144", "19", "0.25", "0.001", "1"}));
    EXPECT_EQ(choice(std::string(device) + " 60"),
              (Cells{"16384", "x", "16", "262144", "19", "0.25", "0.001", "1"}));
  }
  EXPECT_EQ(choice("cuda:0 10"), choice("NVIDIA L4 10"));
  EXPECT_THAT(table, HasSubstr("large GPU"));
}

}  // namespace
}  // namespace nerf
