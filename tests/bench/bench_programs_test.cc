// Runs the built programs of this folder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "common/file_io.h"
#include "engine/kernels/simd_path.h"
#include "tests/engine/commands/ball_dataset.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

using ::testing::HasSubstr;

class BenchProgramsTest : public ::testing::Test {
 protected:
  // A path that no program selects by itself, if this machine has any.
  static std::string UnselectedSimdPath() {
    const std::vector<std::string> paths = kernels::cpu::SimdPaths();
    return paths.size() > 1 ? paths[1] : paths[0];
  }
  // Standard output and error of a program of this folder; *code becomes its exit code.
  std::string Run(const std::string& variable, const std::string& command, int* code) {
    const std::string out = dir_ / "out.txt";
    const int status =
        std::system((variable + " " NERF_BENCH_DIR "/" + command + " >" + out + " 2>&1").c_str());
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return ReadFile(out, 1 << 24).value_or("");
  }
  TempDir dir_;
};

TEST_F(BenchProgramsTest, TimeToQualityRunsAndNamesTheForcedSimdPath) {
  WriteBallDataset(dir_ / "ball");
  const std::string path = UnselectedSimdPath();
  int code = -1;
  const std::string out = Run("NERF_SIMD=" + path,
                              "time_to_quality " + (dir_ / "ball") + " --out " + (dir_ / "out") +
                                  " --seconds 0.1 --threads 1 --set log2_hashmap_size=12" +
                                  " --set grid_resolution=32 --set target_samples=512",
                              &code);
  EXPECT_EQ(code, 0) << out;
  EXPECT_THAT(out, HasSubstr(", " + path + "\n"));
}

TEST_F(BenchProgramsTest, SimdPathThatTheMachineLacksIsRefused) {
  int code = -1;
  const std::string out = Run("NERF_SIMD=MMX", "time_to_quality s --out o", &code);
  EXPECT_EQ(code, 1);
  EXPECT_THAT(out, HasSubstr("NERF_SIMD: 'MMX' is not one of this machine's instruction sets: "));
}

}  // namespace
}  // namespace nerf
