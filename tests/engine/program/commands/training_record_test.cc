#include "engine/program/commands/training_record.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "common/files/file_io.h"
#include "engine/program/commands/event_file.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

class TrainingRecordTest : public ::testing::Test {
 protected:
  void Add(const std::string& folder, uint32_t from_step, bool tensorboard, uint32_t step) {
    TrainingRecord record(dir_ / folder, from_step, tensorboard, &clock_);
    JsonObject line;
    line["event"] = "progress";
    line["step"] = step;
    line["loss"] = 0.5;
    EXPECT_THAT(record.Add(line), IsOk());
  }
  std::string Events(const std::string& folder) {
    return ReadFile(dir_ / folder + "/" + kEventFile, 1 << 20).value_or("");
  }

  TempDir dir_;
  FakeClock clock_;
};

TEST_F(TrainingRecordTest, ATrainingThatGoesOnKeepsItsEventFile) {
  for (const std::string folder : {"asked", "kept", "never"}) {
    std::filesystem::create_directory(dir_ / folder);
    Add(folder, 0, /*tensorboard=*/folder != "never", 10);
  }
  // A later line that the resumed training does not know, and its own.
  const std::string ten = Events("kept");
  Add("asked", 5, /*tensorboard=*/true, 6);
  Add("kept", 5, /*tensorboard=*/false, 6);
  Add("never", 5, /*tensorboard=*/false, 6);
  EXPECT_NE(Events("kept"), ten);
  EXPECT_EQ(Events("kept"), Events("asked"));
  EXPECT_EQ(Events("never"), "");
}

TEST_F(TrainingRecordTest, ANewTrainingRemovesTheEventFileOfAnEarlierOne) {
  std::filesystem::create_directory(dir_ / "o");
  Add("o", 0, /*tensorboard=*/true, 10);
  ASSERT_NE(Events("o"), "");
  Add("o", 0, /*tensorboard=*/false, 1);
  EXPECT_EQ(Events("o"), "");
}

}  // namespace
}  // namespace nerf
