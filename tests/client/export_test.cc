// nerfctl export against a scripted server, with a shell script in place of nerf-engine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "common/exit_code.h"
#include "common/file_io.h"
#include "tests/client/service_fixture.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

using ::testing::HasSubstr;

class ExportTest : public ServiceTest {
 protected:
  const TempDir dir_, scripts_;
  // Its viewer files are its arguments but for the model, then the model.
  std::string engine_ = FakeEngine(scripts_, "echo $1 $3 >\"$4\"\ncat \"$2\" >>\"$4\"\n");

  CommandResult Export(const std::string& flag, const std::string& name) {
    return Run({"export", flag, name, "--viewer", dir_ / "mine.html", "--engine", engine_});
  }
  std::string Written() { return ReadFile(dir_ / "mine.html", 1 << 20).value_or("none"); }
  void AddCheckpoint(v1::TrainingJob* job, int step, const std::string& content) {
    state_.blobs[Sha256Hex(content)] = content;
    v1::Checkpoint& checkpoint = *job->add_checkpoints();
    checkpoint.set_name(fmt::format("{}/checkpoints/{}", job->name(), step));
    *checkpoint.mutable_model_blob() = BlobOfBytes(content);
  }
};

TEST_F(ExportTest, ModelIsFetchedAndHandedToTheEngine) {
  AddModel("the model");
  const CommandResult result = Export("--model", "mic");
  ASSERT_EQ(result.exit_code, kOk) << result.err;
  EXPECT_EQ(Written(), "export --viewer\nthe model");
  EXPECT_THAT(result.out, HasSubstr("viewer of mic in " + (dir_ / "mine.html")));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "mine.html.safetensors.part"));
}

TEST_F(ExportTest, JobGivesItsNewestCheckpointOrTheNamedOne) {
  v1::TrainingJob& job = state_.jobs.emplace_back();
  job.set_name(kJob);
  const CommandResult none = Export("--job", "j-fake");
  EXPECT_EQ(none.exit_code, kNotFound);
  EXPECT_THAT(none.err, HasSubstr("job j-fake has no checkpoint yet"));
  AddCheckpoint(&job, 600, "earlier");
  AddCheckpoint(&job, 1200, "newest");
  EXPECT_EQ(Export("--job", "j-fake").exit_code, kOk);
  EXPECT_EQ(Written(), "export --viewer\nnewest");
  EXPECT_EQ(Export("--job", "j-fake/600").exit_code, kOk);
  EXPECT_EQ(Written(), "export --viewer\nearlier");
  EXPECT_EQ(Export("--job", "j-fake/601").exit_code, kNotFound);
}

TEST_F(ExportTest, EngineThatFailsLeavesNoFile) {
  AddModel("the model");
  engine_ = FakeEngine(scripts_, "echo \"$2: trained by method mlp\" >&2\nexit 2\n");
  const CommandResult result = Export("--model", "mic");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("trained by method mlp"));
  EXPECT_THAT(result.err, HasSubstr("nerfctl: mic was not exported"));
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
  engine_ = "/no/engine";
  EXPECT_EQ(Export("--model", "mic").exit_code, kNotFound);
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
}

}  // namespace
}  // namespace nerf
