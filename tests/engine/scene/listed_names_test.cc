// Names in a data set's file that differ from those on disk, and near misses that must not match.
#include "engine/scene/read/listed_names.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "engine/scene/read/scene_reader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/scene/scene_fixture.h"

namespace nerf {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct NameCase {
  const char* what;
  std::vector<std::string> disk;    // files
  std::vector<std::string> listed;  // names
  std::vector<std::string> found;   // the file of each name; "": missing, "?": several fit
};

void PrintTo(const NameCase& name, std::ostream* out) { *out << name.what; }

FoundFiles FindIn(const NameCase& name, NamedFiles kind) {
  const TempFolder folder;
  for (const std::string& file : name.disk) folder.Write(file, "x");
  return FindListedNames(SceneFolder::Open(folder.path()).value(), name.listed, kind);
}

std::vector<std::string> FilesOf(const FoundFiles& found) {
  std::vector<std::string> files;
  for (const auto& file : found.files) {
    files.push_back(file.ok() ? *file : absl::IsFailedPrecondition(file.status()) ? "?" : "");
  }
  return files;
}

class ListedNamesTest : public ::testing::TestWithParam<NameCase> {};

TEST_P(ListedNamesTest, StandForTheFilesThatFit) {
  const FoundFiles found = FindIn(GetParam(), NamedFiles::kPictures);
  EXPECT_EQ(FilesOf(found), GetParam().found);
  const bool conflicts = std::count(GetParam().found.begin(), GetParam().found.end(), "?") > 0;
  EXPECT_EQ(found.conflict.empty(), !conflicts) << found.conflict;
}

const char kNfc[] = "images/F\xc3\xbc\xc3\x9f\x65.jpg",
           kNfd[] = "images/Fu\xcc\x88\xc3\x9f\x65.jpg";

std::vector<NameCase> Matches() {
  return {
      {"AsWritten", {"images/a.jpg"}, {"images/a.jpg"}, {"images/a.jpg"}},
      {"UpperCaseEnding", {"images/a.JPG"}, {"images/a.jpg"}, {"images/a.JPG"}},
      {"OtherCase", {"Images/IMG_1.jpg"}, {"images/img_1.JPG"}, {"Images/IMG_1.jpg"}},
      {"JpegForJpg",
       {"images/a.jpeg", "images/b.JPG"},
       {"images/a.jpg", "images/b.jpeg"},
       {"images/a.jpeg", "images/b.JPG"}},
      {"ComposedAgainstDecomposed", {kNfd}, {kNfc}, {kNfd}},
      {"DecomposedAgainstComposed", {kNfc}, {kNfd}, {kNfc}},
      {"NoUtf8", {"images/\xff\xfe.JPG"}, {"images/\xff\xfe.jpg"}, {"images/\xff\xfe.JPG"}},
      {"WhereTheToolRan", {"images/a.jpg"}, {"./data/nerf/fox/images/a.jpg"}, {"images/a.jpg"}},
      {"Absolute", {"images/a.jpg"}, {"/home/me/fox/images/a.jpg"}, {"images/a.jpg"}},
      {"OfWindows", {"images/a.jpg"}, {"C:\\Users\\me\\fox\\images\\a.JPG"}, {"images/a.jpg"}},
      {"OfADriveAlone", {"images/a.jpg"}, {"D:images\\a.jpg"}, {"images/a.jpg"}},
      {"Above", {"images/a.jpg"}, {"../fox/images/a.jpg"}, {"images/a.jpg"}},
      {"FolderLeftOut", {"images/a.jpg"}, {"a.jpg"}, {"images/a.jpg"}},
      {"FolderTooMuch", {"a.jpg"}, {"images/a.jpg"}, {"a.jpg"}},
      {"DoubledInTheFile", {"images/a.jpg"}, {"images/images/a.jpg"}, {"images/a.jpg"}},
      {"DoubledOnDisk", {"images/images/a.jpg"}, {"images/a.jpg"}, {"images/images/a.jpg"}},
      {"NoEnding", {"images/a.JPEG"}, {"./images/a"}, {"images/a.JPEG"}},
      {"Flattened",
       {"images/flight 1_a.JPG", "images/flight 2_a.JPG"},
       {"images/flight 1/a.jpg", "images/flight 2/a.jpg"},
       {"images/flight 1_a.JPG", "images/flight 2_a.JPG"}},
      {"FlattenedByAHyphen",
       {"left-a.jpg", "right-a.jpg"},
       {"left/a.jpg", "right/a.jpg"},
       {"left-a.jpg", "right-a.jpg"}},
      {"FlattenedInTheFile",
       {"images/left/a.jpg", "images/right/a.jpg"},
       {"left_a.jpg", "right_a.jpg"},
       {"images/left/a.jpg", "images/right/a.jpg"}},
      {"LongestEndWins",
       {"left/a.jpg", "right/a.jpg"},
       {"x/left/a.jpg", "x/right/a.jpg"},
       {"left/a.jpg", "right/a.jpg"}},
      {"ReducedAlone", {"images_4/a.jpg"}, {"images/a.jpg"}, {"images_4/a.jpg"}},
      {"LeastReduced", {"images_8/a.jpg", "images_2/a.jpg"}, {"images/a.jpg"}, {"images_2/a.jpg"}},
      {"BlanksAround", {"images/a b.jpg"}, {"images /a b.jpg\r"}, {"images/a b.jpg"}},
      {"OfAUrl",
       {"my photos/\xc3\xa9 1.jpg"},
       {"file:///home/me/my%20photos/%C3%A9%201.jpg"},
       {"my photos/\xc3\xa9 1.jpg"}},
      {"PercentSigns", {"images/50%.JPG"}, {"images/50%.jpg"}, {"images/50%.JPG"}},
      {"MaskBeside", {"pictures/a.jpg", "masks/a.jpg"}, {"images/a.jpg"}, {"pictures/a.jpg"}},
  };
}

std::vector<NameCase> NearMisses() {
  return {
      {"OtherEnding", {"images/a.png"}, {"images/a.jpg"}, {""}},
      {"OtherNumber", {"images/0010.jpg"}, {"images/010.jpg"}, {""}},
      {"PartOfTheName", {"images/xa.jpg", "images/a.jpg.txt"}, {"images/a.jpg"}, {""}},
      {"OtherLetter", {"images/Fusse.jpg"}, {kNfc}, {""}},
      {"Hidden",
       {"images/.a.jpg", ".old/a.jpg", "__MACOSX/a.jpg", "@eaDir/a.jpg"},
       {"images/a.jpg"},
       {""}},
      {"MasksAndTheLike",
       {"masks/a.jpg", "depths/a.jpg", "Normals/a.jpg", "stereo/x/a.jpg"},
       {"images/a.jpg"},
       {""}},
      // Somebody removed b.jpg from the capture.
      {"RemovedAndKeptElsewhere",
       {"images/a.jpg", "rejected/b.jpg"},
       {"images/a.jpg", "images/b.jpg"},
       {"images/a.jpg", ""}},
      {"RemovedButNotReduced",
       {"images/a.jpg", "images_2/a.jpg", "images_2/b.jpg"},
       {"images/a.jpg", "images/b.jpg"},
       {"images/a.jpg", ""}},
      {"RemovedFromRenamed",
       {"images/a.JPG", "rejected/b.JPG"},
       {"images/a.jpg", "images/b.jpg"},
       {"images/a.JPG", ""}},
      {"RemovedFromMoved",
       {"images/a.jpg", "rejected/b.jpg"},
       {"/home/me/images/a.jpg", "/home/me/images/b.jpg"},
       {"images/a.jpg", ""}},
      {"OtherEndingOfNoEnding", {"images/a.txt"}, {"images/a"}, {""}},
      {"Nothing", {}, {"images/a.jpg"}, {""}},
      {"TwoFit", {"left/a.jpg", "right/a.jpg"}, {"images/a.jpg"}, {"?"}},
      {"TwoFitByCase", {"images/A.jpg", "images/a.JPG"}, {"images/a.jpg"}, {"?"}},
      {"TwoFitWithoutEnding", {"pictures/a.png", "pictures/a.jpg"}, {"images/a"}, {"?"}},
      {"ReducedAndAnother", {"images_2/a.jpg", "copy/a.jpg"}, {"images/a.jpg"}, {"?"}},
      {"TwoNamesForOneFile",
       {"images/a.jpg"},
       {"left/a.jpg", "right/a.jpg"},
       {"images/a.jpg", "?"}},
      {"WrittenNameComesFirst",
       {"images/a.jpg"},
       {"left/a.jpg", "images/a.jpg"},
       {"?", "images/a.jpg"}},
      {"Empty", {"images/a.jpg"}, {""}, {""}},
      {"OnlyDots", {"images/a.jpg"}, {"../.."}, {""}},
      {"Zero", {"images/a.jpg"}, {std::string("images/a.jpg\0", 13)}, {""}},
      {"Secret", {"images/a.jpg"}, {"/etc/passwd"}, {""}},
      {"SecretOfAUrl", {"images/a.jpg"}, {"%2e%2e%2f%2e%2e%2fetc%2fpasswd%00"}, {""}},
  };
}

std::string NameOfCase(const ::testing::TestParamInfo<NameCase>& info) { return info.param.what; }
INSTANTIATE_TEST_SUITE_P(Matches, ListedNamesTest, ::testing::ValuesIn(Matches()), NameOfCase);
INSTANTIATE_TEST_SUITE_P(NearMisses, ListedNamesTest, ::testing::ValuesIn(NearMisses()),
                         NameOfCase);

TEST(ListedNamesTest, MasksMustLieInAFolderOfTheirName) {
  const auto find = [](const NameCase& name) {
    return FilesOf(FindIn(name, NamedFiles::kCompanions));
  };
  EXPECT_THAT(find({"", {"masks/a.PNG"}, {"/home/me/masks/a.png"}, {}}),
              ElementsAre("masks/a.PNG"));
  EXPECT_THAT(find({"", {"images/a.png"}, {"masks/a.png"}, {}}), ElementsAre(""));
  EXPECT_THAT(find({"", {"depths/a.png"}, {"depths/a.npy"}, {}}), ElementsAre(""));
  EXPECT_THAT(find({"", {"Depths/A.npy"}, {"x/depths/a.npy"}, {}}), ElementsAre("Depths/A.npy"));
}

TEST(ListedNamesTest, LinksOutOfTheFolderAreNoMatch) {
  const TempFolder folder, outside;
  folder.Write("notes.txt", "x");
  outside.Write("a.jpg", "x");
  ASSERT_EQ(symlink(outside.path().c_str(), folder.PathOf("pictures").c_str()), 0);
  const std::vector<std::string> names = {"images/a.jpg"};
  const auto files = [&](bool follow_links) {
    return FilesOf(FindListedNames(SceneFolder::Open(folder.path(), follow_links).value(), names));
  };
  EXPECT_THAT(files(false), ElementsAre(""));
  EXPECT_THAT(files(true), ElementsAre("pictures/a.jpg")) << "the user's own links";
}

// A data set of `n` pictures in `folder_on_disk`, listed in `folder_in_file`.
void WriteNamedScene(const TempFolder& folder, const std::string& folder_on_disk,
                     const std::string& folder_in_file, int n = 9) {
  std::string frames;
  for (int i = 0; i < n; ++i) {
    folder.Write(absl::StrCat(folder_on_disk, i, ".png"), MakePng(20, 10));
    absl::StrAppend(&frames, i == 0 ? "" : ",",
                    FrameJson(absl::StrCat(folder_in_file, i, ".png"), i, 0, 4));
  }
  folder.Write("transforms.json", absl::StrCat(R"({"fl_x":80,"cx":40,"cy":20,"w":80,"h":40,)",
                                               R"("train_filenames":[")", folder_in_file,
                                               R"(0.png"],"frames":[)", frames, "]}"));
}

TEST(ListedNamesTest, OneWarningCountsThemAndIntrinsicsFollowReducedPictures) {
  const TempFolder folder;
  WriteNamedScene(folder, "images_4/", "images/");
  const SceneDescription scene = DescribeScene(folder.path());
  ASSERT_TRUE(scene.ok()) << SummaryOf(scene.problems);
  EXPECT_THAT(scene.warnings,
              ElementsAre("transforms.json: 9 of 9 listed pictures were found under other names, "
                          "e.g. images_4/0.png for images/0.png; intrinsics are scaled to the "
                          "pictures' size"));
  ASSERT_EQ(scene.train.size(), 1u) << "train_filenames are found, too";
  EXPECT_EQ(scene.train[0].camera.fl_x, 20);
  EXPECT_EQ(scene.train[0].camera.cx, 10);
}

TEST(ListedNamesTest, TwoThatFitAreOneErrorThatNamesBoth) {
  const TempFolder folder;
  WriteNamedScene(folder, "left/", "images/");
  WriteNamedScene(folder, "right/", "images/");
  const SceneDescription scene = DescribeScene(folder.path());
  ASSERT_EQ(scene.problems.size(), 1u);
  const std::string message = ToString(scene.problems[0]);
  EXPECT_THAT(message, HasSubstr("transforms.json: frames[0].file_path: \"images/0.png\" is not "
                                 "there, and 2 files fit: "));
  EXPECT_THAT(message, HasSubstr("left/0.png"));
  EXPECT_THAT(message, HasSubstr("right/0.png"));
  EXPECT_THAT(message, HasSubstr("; so for 8 more"));
}

TEST(ListedNamesTest, ColmapsNamesAreFoundLikewise) {
  const TempFolder folder;
  for (int i = 0; i < 4; ++i) folder.Write(absl::StrCat("photos/", i, ".JPG"), MakeJpeg(40, 30));
  folder.Write("sparse/0/cameras.txt", "1 PINHOLE 40 30 50 51 20 15\n");
  std::string images;
  for (int i = 0; i < 4; ++i)
    absl::StrAppend(&images, i + 1, " 1 0 0 0 ", i, " 0 0 1 /home/me/", i, ".jpg\n\n");
  folder.Write("sparse/0/images.txt", images);
  const SceneDescription scene = DescribeScene(folder.path());
  EXPECT_TRUE(scene.ok()) << SummaryOf(scene.problems);
  EXPECT_THAT(scene.warnings, Contains(HasSubstr("4 of 4 listed pictures were found")));
}

}  // namespace
}  // namespace nerf
