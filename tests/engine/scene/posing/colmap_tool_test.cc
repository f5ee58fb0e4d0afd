#include "engine/scene/posing/photographs/colmap_tool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>

#include "common/files/file_io.h"
#include "common/process/child_failure.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

using ::testing::HasSubstr;

bool Has(const std::vector<std::string>& command, const std::string& flag,
         const std::string& value) {
  const auto at = std::find(command.begin(), command.end(), flag);
  return at != command.end() && at + 1 != command.end() && at[1] == value;
}

TEST(ColmapToolTest, CommandsAvoidWhatDoesNotWorkWithoutADisplay) {
  const ColmapTool tool{"colmap", "3.8"};
  EXPECT_TRUE(Has(ExtractCommand(tool, {"d", "i", "l"}), "--SiftExtraction.use_gpu", "0"));
  const auto match = MatchCommand(tool, "d", "", 2);
  EXPECT_EQ(match[1], "exhaustive_matcher");
  EXPECT_TRUE(Has(match, "--SiftMatching.use_gpu", "0"));
  EXPECT_TRUE(Has(match, "--ExhaustiveMatching.block_size", "8"));
  const auto listed = MatchCommand(tool, "d", "pairs.txt", 2);
  EXPECT_EQ(listed[1], "matches_importer");
  EXPECT_TRUE(Has(listed, "--match_list_path", "pairs.txt"));
  EXPECT_TRUE(Has(RefineCommand(tool, "a", "b"), "--BundleAdjustment.refine_principal_point", "1"));
}

TEST(ColmapToolTest, NewerVersionsAreCalledByTheirNames) {
  const ColmapTool tool{"colmap", "3.12", "FeatureExtraction", "FeatureMatching"};
  EXPECT_TRUE(Has(ExtractCommand(tool, {"d", "i", "l"}), "--FeatureExtraction.use_gpu", "0"));
  EXPECT_TRUE(
      Has(ExtractCommand(tool, {"d", "i", "l"}), "--SiftExtraction.max_num_features", "4096"));
  EXPECT_TRUE(Has(MatchCommand(tool, "d", "", 2), "--FeatureMatching.use_gpu", "0"));
}

// Lines as COLMAP 3.8 prints them.
TEST(ParseProgressTest, LinesOfEachStageAreUnderstood) {
  EXPECT_EQ(ParseProgress(ColmapStage::kExtract, "Processed file [3/50]"), (ColmapProgress{3, 50}));
  EXPECT_EQ(ParseProgress(ColmapStage::kMatch, "Matching block [1/7, 2/7] in 7.450s"),
            (ColmapProgress{2, 49}));
  EXPECT_EQ(ParseProgress(ColmapStage::kMatch, "Matching block [3/7, 5/7]"),
            (ColmapProgress{19, 49}));
  EXPECT_EQ(ParseProgress(ColmapStage::kMatch, "Matching block [2/4] in 1.2s"),
            (ColmapProgress{2, 4}));
  EXPECT_EQ(ParseProgress(ColmapStage::kMap, "Registering image #12 (5)"), (ColmapProgress{5, 0}));
  EXPECT_EQ(
      ParseProgress(ColmapStage::kRefine, "  12  1.234567e+04    1.23e-01    4.56e+00   1.0e-02"),
      (ColmapProgress{12, 0}));
}

// Lines as COLMAP 3.12 and later versions log them.
TEST(ParseProgressTest, LinesOfNewerVersionsAreUnderstood) {
  const std::string log = "I20260102 10:20:30.123456 4711 file.cc:12] ";
  EXPECT_EQ(ParseProgress(ColmapStage::kExtract, log + "Processed file [3/50]"),
            (ColmapProgress{3, 50}));
  EXPECT_EQ(ParseProgress(ColmapStage::kMatch, log + "Processing block [1/7, 2/7]"),
            (ColmapProgress{2, 49}));
  EXPECT_EQ(ParseProgress(ColmapStage::kMatch, log + "Processing block [2/4]"),
            (ColmapProgress{2, 4}));
  EXPECT_EQ(ParseProgress(ColmapStage::kMap, log + "Registering image #12 (num_reg_frames=5)"),
            (ColmapProgress{5, 0}));
}

TEST(ParseProgressTest, OtherLinesSayNothing) {
  for (const char* line :
       {"", "  Name:            0001.jpg", "Processed file [", "Processed file [a/b]",
        "Processed file [5/3]", "Processed file [-1/3]", "Processed file [99999999999/3]",
        "Matching block [", "Matching block [1/2", "Registering image #12",
        "Registering image #12 )5(", "Registering image #1 (x)",
        "Registering image #1 (num_reg_frames=)", "Registering image #1 (num_reg_frames=-2)",
        "Processing block [", "Processing block [2/1]", "  => Image sees 5 / 6 points",
        "Elapsed time: 1.2 [minutes]"}) {
    EXPECT_EQ(ParseProgress(ColmapStage::kExtract, line), std::nullopt) << line;
    EXPECT_EQ(ParseProgress(ColmapStage::kMatch, line), std::nullopt) << line;
    EXPECT_EQ(ParseProgress(ColmapStage::kMap, line), std::nullopt) << line;
    EXPECT_EQ(ParseProgress(ColmapStage::kRefine, line), std::nullopt) << line;
  }
}

ChildProcessEnd End(ChildProcessEnd::Kind kind, int code, const std::string& output = "") {
  return {kind, code, output};
}

TEST(FailureOfTest, EachEndHasItsCode) {
  using Kind = ChildProcessEnd::Kind;
  const auto failure = [](const ChildProcessEnd& end) {
    return FailureOf("colmap", "matching features", end);
  };
  EXPECT_THAT(failure(End(Kind::kExited, 0)), IsOk());
  EXPECT_THAT(failure(End(Kind::kStopped, 0)), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(failure(End(Kind::kTimeLimit, 0)), StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(failure(End(Kind::kSignaled, SIGKILL)),
              FailsWith(absl::StatusCode::kResourceExhausted, "OUT_OF_MEMORY"));
  EXPECT_THAT(failure(End(Kind::kSignaled, SIGABRT, "what():  std::bad_alloc")),
              FailsWith(absl::StatusCode::kResourceExhausted, "OUT_OF_MEMORY"));
  EXPECT_THAT(failure(End(Kind::kSignaled, SIGXFSZ)),
              StatusIs(absl::StatusCode::kResourceExhausted, "the disk is full"));
  EXPECT_THAT(failure(End(Kind::kExited, 1, "SQLite error: database or disk is full")),
              StatusIs(absl::StatusCode::kResourceExhausted, "the disk is full"));
  EXPECT_THAT(failure(End(Kind::kExited, 7, "one\ntwo\x1b[31m\nthree\nfour\n")),
              StatusIs(absl::StatusCode::kAborted,
                       "colmap: ended with code 7 while matching features; it said: two?[31m / "
                       "three / four"));
  EXPECT_THAT(failure(End(Kind::kSignaled, SIGSEGV)),
              StatusIs(absl::StatusCode::kAborted, "ended by signal 11"));
}

TEST(ColmapToolTest, AbsentProgramIsAFeatureThatIsMissing) {
  EXPECT_THAT(FindColmap("/no/such/colmap"),
              FailsWith(absl::StatusCode::kUnimplemented, "FEATURE_NOT_BUILT"));
  EXPECT_THAT(FindColmap("no-such-colmap"),
              StatusIs(absl::StatusCode::kUnimplemented, "apt-get install colmap"));
}

TEST(ColmapToolTest, OtherProgramsAreNoColmap) {
  EXPECT_THAT(FindColmap("/bin/true"), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(ColmapToolTest, CommandsForCopyingNameTheTraps) {
  const TempDir dir;
  dir.Write("photos/1.jpg", "x");
  const std::string commands = CommandsForCopying(dir / "photos", dir / "photos-posed");
  EXPECT_THAT(commands, HasSubstr("--SiftExtraction.use_gpu 0"));
  EXPECT_THAT(commands, HasSubstr("--ExhaustiveMatching.block_size 8"));
}

// The commands find the pictures where they lie and leave the model where a data set has it.
TEST(ColmapToolTest, CommandsForCopyingRunAsTheyArePrinted) {
  const TempDir dir;
  for (const char* name : {"1.jpg", "2.JPG", "two words.png", "notes.txt", "$(touch hacked).jpg"})
    dir.Write(std::string("my photos/") + name, "x");
  dir.Write("bin/colmap",
            "#!/bin/sh\n"
            "while [ $# -gt 1 ]; do\n"
            "  case $1 in\n"
            "    --image_path) ls \"$2\" > \"$LOG\" ;;\n"
            "    --output_path) test -d \"$2\" || exit 1\n"
            "      case $2 in *models) mkdir \"$2/0\" ;; *) touch \"$2/images.bin\" ;; esac ;;\n"
            "    --input_path) test -d \"$2\" || exit 1 ;;\n"
            "  esac\n"
            "  shift\n"
            "done\n"
            "echo Registered images: 4\n");
  dir.Write("bin/nerfctl", "#!/bin/sh\ntest -e \"$2/sparse/0/images.bin\"\n");
  for (const char* program : {"bin/colmap", "bin/nerfctl"})
    std::filesystem::permissions(dir / program, std::filesystem::perms::owner_all);
  dir.Write("run.sh", "set -e\nLC_ALL=C\ncd " + dir.path() + "\nPATH=" + (dir / "bin") +
                          ":$PATH LOG=" + (dir / "log") + "\nexport PATH LOG LC_ALL\n" +
                          CommandsForCopying(dir / "my photos", dir / "my photos-posed"));
  EXPECT_EQ(std::system(("sh " + (dir / "run.sh") + " > " + (dir / "out")).c_str()), 0);
  EXPECT_EQ(ReadFile(dir / "log", 1 << 10).value_or(""),
            "$(touch hacked).jpg\n1.jpg\n2.JPG\ntwo words.png\n");
  EXPECT_FALSE(std::filesystem::exists(dir / "hacked"));
}

TEST(ColmapToolTest, CommandsForCopyingTakePicturesOfImagesAndFrames) {
  const TempDir dir;
  dir.Write("photos/images/1.jpg", "x");
  dir.Write("clip.mp4", "x");
  EXPECT_THAT(CommandsForCopying(dir / "photos", "p"),
              HasSubstr("  cp " + (dir / "photos/images") + "/*.jpg p/images/\n"));
  EXPECT_THAT(CommandsForCopying(dir / "clip.mp4", "p"),
              HasSubstr("  ffmpeg -i " + (dir / "clip.mp4") +
                        " -vf fps=2 -q:v 2 p/images/clip_%04d.jpg\n"));
}

}  // namespace
}  // namespace nerf
