// The binary, while nerf-engine poses photographs with tests/testing/fake_colmap.py that never
// ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>

#include "common/files/file_io.h"
#include "common/process/exit_code.h"
#include "engine/scene/pictures/image_io.h"
#include "tests/client/fake_server.h"
#include "tests/client/run_command.h"
#include "tests/engine/scene/posing/pose_fixture.h"
#include "tests/testing/paths.h"
#include "tests/testing/temp_dir.h"
#include "tests/testing/wait_until.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::Duration kPatience = absl::Seconds(60);

class PosePhotographsTest : public testing::Test {
 protected:
  PosePhotographsTest() {
    fs::create_directories(dir_ / "photos");
    fs::create_directories(dir_ / "bin");
    for (const uint32_t seed : {1, 2, 3}) {
      const std::string file = dir_ / "photos/" + std::to_string(seed) + ".png";
      EXPECT_TRUE(WritePng(file, TexturedImage(64, 48, seed)).ok());
    }
    fs::create_symlink(SourceDir() + "/tests/testing/fake_colmap.py", dir_ / "bin/colmap");
  }

  std::vector<std::string> Train() const {
    return {"train", dir_ / "photos", "--server", server_.address()};
  }
  std::map<std::string, std::string> Environment() const {
    return {{"PATH", (dir_ / "bin:") + std::getenv("PATH")},
            {"FAKE_COLMAP_LOG", dir_ / "log"},
            {"FAKE_COLMAP_FAIL", "feature_extractor:hang"}};
  }
  bool WaitForColmap() const {
    return WaitUntil(kPatience, [this] {
      return ReadFile(dir_ / "log", 1 << 20).value_or("").find("extractor") != std::string::npos;
    });
  }
  // Whether nothing is left but what the test wrote: no file, and no process about the folder.
  bool IsClean() const {
    for (const auto& entry : fs::directory_iterator(dir_.path())) {
      if (entry.path().filename().string().starts_with("photos-posed")) return false;
    }
    for (const auto& process : fs::directory_iterator("/proc")) {
      const std::string words =
          ReadFile(process.path().string() + "/cmdline", 1 << 16).value_or("");
      if (words.find(dir_.path()) != std::string::npos) return false;
    }
    return true;
  }

  const TempDir dir_;
  FakeState state_;  // without workers: nerfctl itself poses, and need not wait for a server
  const FakeServer server_{&state_};
};

TEST_F(PosePhotographsTest, SignalsLeaveNothingBehind) {
  for (const int signal : {SIGINT, SIGTERM}) {
    fs::remove(dir_ / "log");
    RunningBinary nerfctl(Train(), Environment());
    ASSERT_TRUE(WaitForColmap()) << nerfctl.err();
    EXPECT_FALSE(IsClean()) << "a work folder";
    nerfctl.Signal(signal);
    nerfctl.Signal(signal);  // impatience must not cost the work folder's removal
    const CommandResult result = nerfctl.Wait();
    EXPECT_EQ(result.exit_code, 128 + signal);
    EXPECT_THAT(result.err, HasSubstr("nerfctl: interrupted"));
    EXPECT_THAT(result.err, Not(HasSubstr("error:")));
    EXPECT_TRUE(IsClean());
  }
}

TEST_F(PosePhotographsTest, TimeoutLeavesNothingBehind) {
  std::vector<std::string> args = Train();
  args.insert(args.end(), {"--timeout", "2s"});
  const CommandResult result = RunBinary(args, Environment());
  EXPECT_EQ(result.exit_code, kUnreachable);
  EXPECT_THAT(result.err, HasSubstr("--timeout of 2s ran out before the poses were found"));
  EXPECT_THAT(result.err, Not(HasSubstr("error:")));
  EXPECT_TRUE(IsClean());
}

TEST_F(PosePhotographsTest, KilledCommandLeavesNothingBehind) {
  RunningBinary nerfctl(Train(), Environment());
  ASSERT_TRUE(WaitForColmap()) << nerfctl.err();
  nerfctl.Signal(SIGKILL);
  nerfctl.Wait();
  EXPECT_TRUE(WaitUntil(kPatience, [this] { return IsClean(); }));
}

}  // namespace
}  // namespace nerf
