#include "engine/views/video_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "common/process/child_process.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

using ::absl::StatusCode;
using ::testing::HasSubstr;

ImageU8 GrayFrame(int width, int height, uint8_t level) {
  ImageU8 image{width, height, 3, {}};
  image.pixels.assign(size_t(width) * height * 3, level);
  return image;
}

class VideoWriterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!FindProgram("ffmpeg").ok()) GTEST_SKIP() << "no ffmpeg";
  }
  TempDir dir_;
};

TEST_F(VideoWriterTest, FramesBecomeAFilmThatPlays) {
  auto video = VideoWriter::Open("ffmpeg", dir_ / "out.mp4", 10);
  ASSERT_THAT(video, IsOk());
  for (int i = 0; i < 20; ++i) {
    ASSERT_THAT(video->Add(GrayFrame(65, 49, static_cast<uint8_t>(10 * i)), {}), IsOk());
  }
  EXPECT_FALSE(std::filesystem::exists(dir_ / "out.mp4"));
  ASSERT_THAT(video->Finish({}), IsOk());
  ChildProcessSpec probe;
  probe.arguments = {"ffprobe",
                     "-v",
                     "error",
                     "-count_frames",
                     "-select_streams",
                     "v",
                     "-show_entries",
                     "stream=width,height,nb_read_frames,pix_fmt",
                     "-of",
                     "default=noprint_wrappers=1",
                     dir_ / "out.mp4"};
  const auto end = RunChildProcess(probe, nullptr, nullptr, {});
  ASSERT_THAT(end, IsOk());
  EXPECT_THAT(end->last_output, HasSubstr("width=66"));
  EXPECT_THAT(end->last_output, HasSubstr("height=50"));
  EXPECT_THAT(end->last_output, HasSubstr("nb_read_frames=20"));
  EXPECT_THAT(end->last_output, HasSubstr("yuv420p"));
}

// What ffprobe says of `entries`.
std::string Probed(const std::string& path, const std::string& entries) {
  ChildProcessSpec probe;
  probe.arguments = {"ffprobe",
                     "-v",
                     "error",
                     "-select_streams",
                     "v",
                     "-show_entries",
                     entries,
                     "-of",
                     "default=noprint_wrappers=1",
                     path};
  const auto end = RunChildProcess(probe, nullptr, nullptr, {});
  EXPECT_THAT(end, IsOk());
  return end.ok() ? end->last_output : "";
}

TEST_F(VideoWriterTest, FilmsKeepTheirAlpha) {
  ImageU8 frame{16, 16, 4, {}};
  frame.pixels.assign(size_t{16} * 16 * 4, 128);
  for (const char* name : {"out.webm", "out.mov"}) {
    auto video = VideoWriter::Open("ffmpeg", dir_ / name, 10, {.alpha = true});
    ASSERT_THAT(video, IsOk());
    EXPECT_THAT(video->Add(frame, {}), IsOk());
    EXPECT_THAT(video->Finish({}), IsOk());
  }
  EXPECT_THAT(Probed(dir_ / "out.webm", "stream_tags=alpha_mode"), HasSubstr("=1"));
  EXPECT_THAT(Probed(dir_ / "out.mov", "stream=codec_name,pix_fmt"),
              AllOf(HasSubstr("prores"), HasSubstr("yuva444p")));
}

TEST_F(VideoWriterTest, FilmsOfPanoramasSayWhatTheyAre) {
  auto video =
      VideoWriter::Open("ffmpeg", dir_ / "out.mp4", 10, {.panorama = StereoLayout::kTopBottom});
  ASSERT_THAT(video, IsOk());
  for (int i = 0; i < 3; ++i) EXPECT_THAT(video->Add(GrayFrame(64, 64, 99), {}), IsOk());
  ASSERT_THAT(video->Finish({}), IsOk());
  const std::string said = Probed(dir_ / "out.mp4", "stream=codec_name:stream_side_data");
  EXPECT_THAT(said, AllOf(HasSubstr("equirectangular"), HasSubstr("top and bottom")));
  EXPECT_THAT(Probed(dir_ / "out.mp4", "packet=size"), HasSubstr("size=")) << "samples are found";
}

TEST_F(VideoWriterTest, FramesOfAnotherSizeAreRefusedAndNothingIsLeft) {
  {
    auto video = VideoWriter::Open("ffmpeg", dir_ / "out.mp4", 10);
    ASSERT_THAT(video, IsOk());
    ASSERT_THAT(video->Add(GrayFrame(64, 48, 0), {}), IsOk());
    EXPECT_THAT(video->Add(GrayFrame(48, 64, 0), {}),
                StatusIs(StatusCode::kInvalidArgument, "48x64"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
}

TEST_F(VideoWriterTest, FolderThatIsNotThereFailsWithItsWords) {
  auto video = VideoWriter::Open("ffmpeg", dir_ / "none/out.mp4", 10);
  ASSERT_THAT(video, IsOk());
  absl::Status status;
  for (int i = 0; i < 50 && status.ok(); ++i) status = video->Add(GrayFrame(640, 480, 0), {});
  if (status.ok()) status = video->Finish({});
  EXPECT_THAT(status, StatusIs(StatusCode::kAborted, "No such file"));
}

TEST(VideoWriterFlagsTest, OtherNamesAndAbsentProgramsAreRefused) {
  EXPECT_THAT(VideoWriter::Open("ffmpeg", "out.gif", 10), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(CheckVideoPath("out.mp4", {.alpha = true}),
              StatusIs(StatusCode::kInvalidArgument, ".webm or .mov"));
  EXPECT_THAT(CheckVideoPath("out.webm"), StatusIs(StatusCode::kInvalidArgument, ".mkv"));
  EXPECT_THAT(CheckVideoPath("out.mkv", {.panorama = StereoLayout::kMono}),
              StatusIs(StatusCode::kInvalidArgument, ".mp4 or .mov"));
  EXPECT_THAT(VideoWriter::Open("/no/ffmpeg", "out.mp4", 10),
              FailsWith(StatusCode::kUnimplemented, "FEATURE_NOT_BUILT"));
  EXPECT_THAT(VideoWriter::Open("/bin/true", "out.mp4", 10),
              FailsWith(StatusCode::kUnimplemented, "FEATURE_NOT_BUILT"));
}

}  // namespace
}  // namespace nerf
