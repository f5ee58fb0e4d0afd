#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "common/files/file_io.h"
#include "tests/engine/program/commands/ball_dataset.h"
#include "tests/testing/paths.h"
#include "tests/testing/temp_dir.h"

namespace nerf {

struct Ended {
  int code = -1;
  std::string out, err;
};

class ExportCommandTest : public ::testing::Test {
 protected:
  // Trained once for all tests, with one ray for each pixel: four leave more detail between the
  // texels than the bounds of the tests allow.
  static void SetUpTestSuite() {
    trained_ = new TempDir();
    WriteBallDataset(*trained_ / "ball", 12, 2, 48);
    const std::string train =
        BinDir() + "/nerf-engine train " + (*trained_ / "ball") + " --out " + (*trained_ / "run") +
        " --steps 400 --threads 2 --no-eval --set log2_hashmap_size=13 --set grid_resolution=32" +
        " --set target_samples=8192 --set initial_rays=512 --set warmup_steps=50" +
        " --set rays_per_pixel=1 >/dev/null 2>&1";
    ASSERT_EQ(std::system(train.c_str()), 0);
  }
  static void TearDownTestSuite() {
    delete trained_;
    trained_ = nullptr;
  }

  static std::string Model() { return *trained_ / "run/model.safetensors"; }

  // before: shell words in front of the program.
  Ended Export(const std::string& arguments, const std::string& before = "") {
    const std::string out = dir_ / ".out", err = dir_ / ".err";
    const std::string command =
        before + BinDir() + "/nerf-engine export " + arguments + " >" + out + " 2>" + err;
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
            ReadFile(out, 1 << 24).value_or(""), ReadFile(err, 1 << 24).value_or("")};
  }

  std::string Bytes(const std::string& name) { return ReadFile(dir_ / name, 1 << 30).value_or(""); }

  // What is in the test's folder, but for the output of commands.
  std::vector<std::string> Files() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_.path())) {
      const std::string name = std::filesystem::relative(entry.path(), dir_.path());
      if (name != ".out" && name != ".err") names.push_back(name);
    }
    return names;
  }

  TempDir dir_;
  static inline TempDir* trained_ = nullptr;
};

}  // namespace nerf
