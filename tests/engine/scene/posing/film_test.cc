// Films are made and read by the installed ffmpeg; without one these tests are skipped.
#include "engine/scene/posing/photographs/film.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "common/error_reason.h"
#include "common/process/child_process.h"
#include "engine/scene/pictures/image_io.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

class FilmTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!FindProgram("ffmpeg").ok()) GTEST_SKIP() << "no ffmpeg";
    std::filesystem::create_directories(out_);
    options_.pool = &pool_;
  }
  void MakeFilm(const std::string& name, const std::string& source) {
    ChildProcessSpec spec;
    spec.arguments = {"ffmpeg", "-v", "error", "-f", "lavfi", "-i", source, dir_ / name};
    const auto end = RunChildProcess(spec, nullptr, nullptr, {});
    ASSERT_THAT(end, IsOk());
    ASSERT_TRUE(end->ok()) << end->last_output;
  }
  // Runs ffmpeg in the test's folder.
  void Ffmpeg(std::vector<std::string> arguments) {
    ChildProcessSpec spec;
    spec.arguments = {"ffmpeg", "-v", "error"};
    spec.arguments.insert(spec.arguments.end(), arguments.begin(), arguments.end());
    const auto end = RunChildProcess(spec, nullptr, nullptr, {});
    ASSERT_THAT(end, IsOk());
    ASSERT_TRUE(end->ok()) << end->last_output;
  }
  absl::StatusOr<std::vector<PhotoSources::Picture>> Frames(const std::string& name) {
    return FramesOfFilm(dir_ / name, out_, options_);
  }

  TempDir dir_;
  const std::string out_ = dir_ / "out";
  ThreadPool pool_{2};
  FilmOptions options_;
};

TEST_F(FilmTest, FramesAreSpreadOverTheFilm) {
  MakeFilm("walk.mp4", "testsrc=duration=4:size=160x120:rate=25");
  options_.n_frames = 10;
  const auto frames = Frames("walk.mp4");
  ASSERT_THAT(frames, IsOk());
  EXPECT_EQ(frames->size(), 10u);
  EXPECT_EQ(frames->front().file, "walk_0001.jpg");
  EXPECT_THAT(frames->back().name, ::testing::HasSubstr("walk.mp4 at 3."));
  const auto image = DecodeImage(frames->back().path);
  ASSERT_THAT(image, IsOk());
  EXPECT_EQ(image->width, 160);
}

TEST_F(FilmTest, NamesThatLookLikeFlagsAreFiles) {
  MakeFilm("x.mp4", "testsrc=duration=1:size=64x48:rate=10");
  std::filesystem::rename(dir_ / "x.mp4", dir_ / "-i %d.mp4");
  options_.n_frames = 3;
  EXPECT_THAT(Frames("-i %d.mp4"), IsOk());
  std::filesystem::create_directory(dir_ / "100%d done");
  const auto frames = FramesOfFilm(dir_ / "-i %d.mp4", dir_ / "100%d done", options_);
  ASSERT_THAT(frames, IsOk());
  EXPECT_EQ(frames->size(), 3u);
}

TEST_F(FilmTest, WhatIsNoFilmIsRefused) {
  dir_.Write("text.mp4", "this is text");
  EXPECT_THAT(Frames("text.mp4"), StatusIs(absl::StatusCode::kInvalidArgument));
  dir_.Write("empty.mov", "");
  EXPECT_THAT(Frames("empty.mov"), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Frames("absent.mov"), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(FilmTest, SoundAloneIsNoFilm) {
  MakeFilm("sound.mp4", "sine=duration=1");
  EXPECT_THAT(Frames("sound.mp4"), StatusIs(absl::StatusCode::kInvalidArgument, "no pictures"));
}

// A list of other files in a film's clothes.
TEST_F(FilmTest, PlaylistsOpenNothingElse) {
  dir_.Write("list.mp4", "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nhttp://127.0.0.1:9/x.ts\n");
  EXPECT_THAT(Frames("list.mp4"), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(FilmTest, FilmThatIsCutOffGivesItsBeginning) {
  MakeFilm("whole.mkv", "testsrc=duration=4:size=160x120:rate=25");
  const auto size = std::filesystem::file_size(dir_ / "whole.mkv");
  std::filesystem::resize_file(dir_ / "whole.mkv", size / 2);
  options_.n_frames = 10;
  const auto frames = Frames("whole.mkv");
  ASSERT_THAT(frames, IsOk());
  EXPECT_GT(frames->size(), 2u);
}

// A phone that is held upright films lying down and says by how much to turn.
TEST_F(FilmTest, TurnedFilmIsShownUpright) {
  MakeFilm("lying.mp4", "testsrc=duration=1:size=160x120:rate=10");
  Ffmpeg({"-i", dir_ / "lying.mp4", "-c", "copy", "-metadata:s:v:0", "rotate=90",
          dir_ / "turned.mp4"});
  options_.n_frames = 3;
  const auto frames = Frames("turned.mp4");
  ASSERT_THAT(frames, IsOk());
  const auto image = DecodeImage(frames->front().path);
  ASSERT_THAT(image, IsOk());
  EXPECT_EQ(image->width, 120);
  EXPECT_EQ(image->height, 160);
}

// A small film of many large frames must not fill a disk.
TEST_F(FilmTest, FramesAreBoundedByWhatTheHeaderSays) {
  MakeFilm("walk.mp4", "testsrc=duration=4:size=160x120:rate=25");
  options_.n_frames = 20;
  options_.max_pixels = 40 * 160 * 120;
  EXPECT_EQ(Frames("walk.mp4")->size(), 20u) << "of two neighbors each";
  options_.max_pixels = 19 * 160 * 120;
  EXPECT_THAT(Frames("walk.mp4"), StatusIs(absl::StatusCode::kInvalidArgument,
                                           "walk.mp4: the frames of a film of 160x120 would have "
                                           "0.384 megapixels, at most 0.365 are taken"));
  options_.max_pixels = 1e9;
  options_.max_bytes = 400'000;
  const absl::Status full = Frames("walk.mp4").status();
  EXPECT_THAT(full, StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(GetReason(full)->reason, reason::kStoreReadOnly);
}

TEST_F(FilmTest, NoFrameIsTakenTwiceAndOthersAreRemoved) {
  MakeFilm("short.mp4", "testsrc=duration=2:size=160x120:rate=10");
  options_.n_frames = 15;
  const auto frames = Frames("short.mp4");
  ASSERT_THAT(frames, IsOk());
  EXPECT_EQ(frames->size(), 15u);
  size_t n_files = 0;
  for ([[maybe_unused]] const auto& file : std::filesystem::directory_iterator(out_)) ++n_files;
  EXPECT_EQ(n_files, 15u);
  options_.n_frames = 100;
  std::filesystem::create_directory(dir_ / "all");
  const auto all = FramesOfFilm(dir_ / "short.mp4", dir_ / "all", options_);
  ASSERT_THAT(all, IsOk());
  EXPECT_EQ(all->size(), 20u);
}

TEST_F(FilmTest, FilmOfOneFrameGivesIt) {
  MakeFilm("one.mp4", "color=red:duration=1:size=64x48:rate=1");
  options_.n_frames = 10;
  const auto frames = Frames("one.mp4");
  ASSERT_THAT(frames, IsOk());
  EXPECT_GE(frames->size(), 1u);
}

TEST_F(FilmTest, LargeFramesAreReduced) {
  MakeFilm("large.mp4", "color=red:duration=0.2:size=2048x64:rate=5");
  options_.n_frames = 1;
  const auto frames = Frames("large.mp4");
  ASSERT_THAT(frames, IsOk());
  const auto image = DecodeImage(frames->front().path);
  ASSERT_THAT(image, IsOk());
  EXPECT_EQ(image->width, 1920);
  EXPECT_EQ(image->height, 60);
}

TEST_F(FilmTest, PictureThatIsNamedLikeAFilmIsRefused) {
  Ffmpeg({"-f", "lavfi", "-i", "color=red:size=64x48", "-frames:v", "1", dir_ / "still.jpg"});
  std::filesystem::rename(dir_ / "still.jpg", dir_ / "still.mp4");
  EXPECT_THAT(Frames("still.mp4"), StatusIs(absl::StatusCode::kInvalidArgument, "no film"));
}

TEST_F(FilmTest, AbsentFfmpegIsAFeatureThatIsMissing) {
  options_.ffmpeg = "/no/such/ffmpeg";
  EXPECT_THAT(Frames("x.mp4"), FailsWith(absl::StatusCode::kUnimplemented, "FEATURE_NOT_BUILT"));
}

TEST_F(FilmTest, StopEndsTheReading) {
  MakeFilm("walk.mp4", "testsrc=duration=2:size=160x120:rate=25");
  std::stop_source source;
  source.request_stop();
  options_.stop = source.get_token();
  EXPECT_THAT(Frames("walk.mp4"), StatusIs(absl::StatusCode::kCancelled));
}

// A gray film of one level as phones film in HDR, white at 203 nits.
TEST_F(FilmTest, FilmInHdrIsToneMapped) {
  for (const char* transfer : {"arib-std-b67", "smpte2084"}) {
    const std::string made = std::string(transfer) + ".mkv";
    const std::string filter =
        std::string("format=gbrp,setparams=color_primaries=bt709:color_trc=iec61966-2-1:") +
        "colorspace=gbr:range=pc,zscale=p=bt2020:t=" + transfer +
        ":m=bt2020nc:r=limited:npl=203,format=yuv420p10le";
    ChildProcessSpec spec;
    spec.arguments = {"ffmpeg",
                      "-v",
                      "error",
                      "-f",
                      "lavfi",
                      "-i",
                      "color=c=0xb08040:size=64x48:rate=5:duration=2",
                      "-vf",
                      filter,
                      "-c:v",
                      "ffv1",
                      "-color_primaries",
                      "bt2020",
                      "-color_trc",
                      transfer,
                      "-colorspace",
                      "bt2020nc",
                      dir_ / made};
    const auto end = RunChildProcess(spec, nullptr, nullptr, {});
    ASSERT_THAT(end, IsOk());
    if (!end->ok()) GTEST_SKIP() << "no zscale: " << end->last_output;
    options_.n_frames = 3;
    const auto frames = Frames(made);
    ASSERT_THAT(frames, IsOk());
    EXPECT_THAT(frames->front().note, ::testing::HasSubstr("tone-mapped to sRGB"));
    const auto image = DecodeImage(frames->front().path);
    ASSERT_THAT(image, IsOk());
    const uint8_t* pixel = image->Pixel(32, 24);
    EXPECT_NEAR(pixel[0], 0xb0, 10) << transfer;
    EXPECT_NEAR(pixel[1], 0x80, 10) << transfer;
    EXPECT_NEAR(pixel[2], 0x40, 10) << transfer;
    std::filesystem::remove_all(out_);
    std::filesystem::create_directories(out_);
  }
}

TEST_F(FilmTest, FilmInSdrHasNoNote) {
  MakeFilm("plain.mp4", "testsrc=duration=1:size=64x48:rate=10");
  options_.n_frames = 3;
  const auto frames = Frames("plain.mp4");
  ASSERT_THAT(frames, IsOk());
  EXPECT_EQ(frames->front().note, "");
}

}  // namespace
}  // namespace nerf
