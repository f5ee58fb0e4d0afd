// The commands about jobs, with jobs of each kind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/error_reason.h"
#include "common/files/file_io.h"
#include "common/messages/blob_ref.h"
#include "common/process/exit_code.h"
#include "tests/client/service_fixture.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class JobKindsTest : public ServiceTest {
 protected:
  CommandResult Fetch(const std::string& id, const std::string& out) {
    return Run({"job", "fetch", id, "--out", dir_ / out});
  }
  std::string Content(const std::string& file) {
    return ReadFile(dir_ / file, 1 << 20).value_or("none");
  }

  const TempDir dir_;
};

TEST_F(JobKindsTest, FetchBringsWhatAJobOfEachKindHasMade) {
  CommandResult result = Fetch("r-1", "film");
  EXPECT_EQ(result.exit_code, kOk) << result.err;
  EXPECT_EQ(result.out, dir_ / "film/movie.mp4\n");
  EXPECT_EQ(Content("film/movie.mp4"), "a movie");
  EXPECT_EQ(Fetch("r-1", "mine.mp4").exit_code, kOk);
  EXPECT_EQ(Content("mine.mp4"), "a movie");

  EXPECT_EQ(Fetch("e-1", "export").exit_code, kOk);
  EXPECT_EQ(Content("export/mesh.glb"), "a mesh");
  EXPECT_EQ(Fetch("projects/default/jobs/e-1", "mine.glb").exit_code, kOk);
  EXPECT_EQ(Content("mine.glb"), "a mesh");

  EXPECT_EQ(Fetch("p-1", "report").exit_code, kOk);
  EXPECT_EQ(Content("report/pose.txt"), "a report");
  result = Fetch("p-1", "report.txt");
  EXPECT_EQ(result.exit_code, kUsage);
  EXPECT_THAT(result.err, HasSubstr("report.txt is a file's name, and the job makes several"));

  W done = Message(W::STATE_CHANGED, 2, J::SUCCEEDED, 100);
  state_.watch_scripts = {{{done}, absl::OkStatus()}};
  result = Fetch("j-fake", "none");
  EXPECT_EQ(result.exit_code, kNotFound);
  EXPECT_THAT(result.err, HasSubstr("job j-fake has no file"));
  state_.blobs[Sha256Hex("a model")] = "a model";
  v1::Checkpoint& checkpoint = *done.mutable_job()->mutable_training_status()->add_checkpoints();
  *checkpoint.mutable_model_blob() = BlobOfBytes("a model");
  state_.watch_scripts = {{{done}, absl::OkStatus()}};
  EXPECT_EQ(Fetch("j-fake", "models").exit_code, kOk);
  EXPECT_EQ(Content("models/j-fake.safetensors"), "a model");
}

TEST_F(JobKindsTest, FramesAreFetchedBesideTheMovie) {
  state_.render_job.mutable_render()->set_images(true);
  for (const uint32_t index : {0u, 1u}) {
    v1::RenderedFrame* frame = state_.render_job.mutable_render_status()->add_frames();
    frame->set_index(index);
    *frame->add_images() = BlobOfBytes("a movie");
  }
  const CommandResult result = Run({"job", "fetch", "r-1", "--out", dir_ / "f", "--json"});
  EXPECT_EQ(result.exit_code, kOk) << result.err;
  EXPECT_THAT(nlohmann::json::parse(result.out)["files"],
              ElementsAre(dir_ / "f/movie.mp4", dir_ / "f/frame_00000_RGB.png",
                          dir_ / "f/frame_00001_RGB.png"));
  EXPECT_GE(state_.calls["GetJob"], 2) << "while it runs, and at its end";
}

TEST_F(JobKindsTest, OnlyANameThatEndsAsTheJobsFileIsAFile) {
  EXPECT_EQ(Fetch("r-1", "frames.v2").exit_code, kOk);
  EXPECT_EQ(Content("frames.v2/movie.mp4"), "a movie");
  EXPECT_EQ(Fetch("r-1", "loud.MP4").exit_code, kOk);
  EXPECT_EQ(Content("loud.MP4"), "a movie");
  const CommandResult other = Fetch("e-1", "mesh.ply");
  EXPECT_EQ(other.exit_code, kUsage);
  EXPECT_THAT(other.err, HasSubstr("mesh.ply: the job makes a file that ends in .glb"));
  EXPECT_EQ(Content("mesh.ply"), "none");
  // An ending that this program does not know.
  state_.export_job.mutable_export_status()->mutable_result()->mutable_files(0)->set_name("a.new");
  EXPECT_EQ(Fetch("e-1", "mine.new").exit_code, kOk);
  EXPECT_EQ(Content("mine.new"), "a mesh");
}

TEST_F(JobKindsTest, NameOfAFileFromTheServerLeadsIntoNoOtherFolder) {
  state_.export_job.mutable_export_status()->mutable_result()->mutable_files(0)->set_name(
      "../../up.glb");
  EXPECT_EQ(Fetch("e-1", "a/b").exit_code, kOk);
  EXPECT_EQ(Content("a/b/up.glb"), "a mesh");
}

TEST_F(JobKindsTest, FetchOfAPoseJobThatFailedBringsItsReport) {
  state_.pose_job.set_state(v1::Job::FAILED);
  state_.pose_job.mutable_error()->set_code(static_cast<int>(absl::StatusCode::kInvalidArgument));
  state_.pose_job.mutable_error()->set_message("1 of 2 could be posed");
  const CommandResult result = Fetch("p-1", "report");
  EXPECT_EQ(result.exit_code, kBadData);
  EXPECT_THAT(result.err, HasSubstr("pose job p-1 failed: 1 of 2 could be posed"));
  EXPECT_EQ(Content("report/pose.txt"), "a report");
}

TEST_F(JobKindsTest, LsShowsAllKindsOrOne) {
  for (v1::Job job : {SucceededRenderJob(), SucceededPoseJob(), SucceededExportJob()}) {
    job.set_name(fmt::format("projects/default/jobs/x-{}", state_.jobs.size()));
    state_.jobs.push_back(job);
  }
  const CommandResult result = Run({"job", "ls"});
  EXPECT_EQ(result.exit_code, kOk) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("x-0  render"), HasSubstr("x-1  pose"),
                                HasSubstr("x-2  export"), HasSubstr("2/2 posed")));
  EXPECT_EQ(nlohmann::json::parse(Run({"job", "ls", "--json"}).out)[1]["pose"]["scene"],
            "projects/default/scenes/s-fake");
  Run({"job", "ls", "--kind", "pose"});
  Run({"job", "ls", "--kind", "export", "--filter", "state = FAILED"});
  ASSERT_EQ(state_.list_jobs.size(), 4u);
  EXPECT_EQ(state_.list_jobs[1].filter(), "");
  EXPECT_EQ(state_.list_jobs[2].filter(), "kind = pose");
  EXPECT_EQ(state_.list_jobs[3].filter(), "kind = export AND state = FAILED");
}

TEST_F(JobKindsTest, EachKindIsShownWatchedCancelledAndDeleted) {
  const struct {
    std::string id, noun, shown, progress;
  } cases[] = {{"r-1", "render job", "frames:", "render  2/2 frames"},
               {"p-1", "pose job", "posed:", "6/7 placing cameras"},
               {"e-1", "export job", "holds:", "exporting  surface"}};
  for (const auto& c : cases) {
    SCOPED_TRACE(c.id);
    EXPECT_THAT(Run({"job", "show", c.id}).out,
                AllOf(HasSubstr("SUCCEEDED  projects/default/jobs/" + c.id), HasSubstr(c.shown)));
    const CommandResult watched = Run({"job", "watch", c.id, "--progress", "plain"});
    EXPECT_EQ(watched.exit_code, kOk);
    EXPECT_THAT(watched.out, HasSubstr(c.shown));
    EXPECT_THAT(watched.err,
                AllOf(HasSubstr(c.noun + " " + c.id + " RUNNING\n"), HasSubstr(c.progress),
                      HasSubstr(c.noun + " " + c.id + " SUCCEEDED\n")));
    EXPECT_EQ(Run({"job", "cancel", c.id}).out, "CANCELLING  " + c.id + "\n");
    EXPECT_EQ(Run({"job", "rm", c.id}).out, "deleted " + c.id + "\n");
    EXPECT_EQ(state_.names.back(), "projects/default/jobs/" + c.id);
  }
}

TEST_F(JobKindsTest, WhatAKindCannotIsRefusedWithItsReason) {
  state_.errors["PauseJob"] = {WithReason(
      absl::FailedPreconditionError("projects/default/jobs/r-1 is a render job: it cannot be "
                                    "paused"),
      reason::kKindCannot)};
  const CommandResult result = Run({"job", "pause", "r-1"});
  EXPECT_EQ(result.exit_code, kWrongState);
  EXPECT_EQ(result.err, "nerfctl: job r-1 is a render job: it cannot be paused (KIND_CANNOT)\n");
}

}  // namespace
}  // namespace nerf
