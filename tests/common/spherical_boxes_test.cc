#include "common/files/spherical_boxes.h"

#include "common/files/atomic_file.h"
#include "common/files/file_io.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

using ::absl::StatusCode;

std::string Number(uint32_t number) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(number >> shift & 255);
  return bytes;
}
std::string MovieBox(const std::string& type, const std::string& content) {
  return Number(static_cast<uint32_t>(content.size()) + 8) + type + content;
}

// A movie of one sample, "picture", whose index is in front or behind.
std::string Movie(bool index_in_front) {
  const std::string head = MovieBox("ftyp", "isom");
  const std::string samples = MovieBox("mdat", "picture");
  const auto index = [](uint32_t offset) {
    const std::string entries =
        MovieBox("stsd", Number(0) + Number(1) + MovieBox("avc1", std::string(78, 'e')));
    const std::string offsets = MovieBox("stco", Number(0) + Number(1) + Number(offset));
    const std::string table = MovieBox("stbl", entries + offsets);
    return MovieBox("moov", MovieBox("trak", MovieBox("mdia", MovieBox("minf", table))));
  };
  const auto before = static_cast<uint32_t>(head.size() + 8);
  if (!index_in_front) return head + samples + index(before);
  const auto index_bytes = static_cast<uint32_t>(index(0).size());
  return head + index(before + index_bytes) + samples;
}

TEST(SphericalBoxesTest, BoxesAreAddedAndSamplesAreFound) {
  const TempDir folder;
  const std::string path = folder.path() + "/movie.mp4";
  for (const bool index_in_front : {true, false}) {
    ASSERT_THAT(WriteFileAtomically(path, Movie(index_in_front)), IsOk());
    ASSERT_THAT(AddSphericalBoxes(path, StereoBox::kTopBottom), IsOk());
    const auto bytes = ReadFile(path, 1 << 20);
    ASSERT_THAT(bytes, IsOk());
    const size_t stereo = bytes->find("st3d");
    ASSERT_NE(stereo, std::string::npos);
    EXPECT_EQ((*bytes)[stereo + 8], 1);
    EXPECT_NE(bytes->find("sv3d"), std::string::npos);
    EXPECT_NE(bytes->find("equi"), std::string::npos);
    const size_t offset = bytes->find("stco") + 12;
    EXPECT_EQ(bytes->substr(offset, 4), Number(static_cast<uint32_t>(bytes->find("picture"))));
    const size_t index = bytes->find("moov") - 4;
    const std::string rest = index_in_front ? bytes->substr(bytes->find("mdat") - 4) : "";
    EXPECT_EQ(bytes->substr(index, 4),
              Number(static_cast<uint32_t>(bytes->size() - index - rest.size())));
  }
}

TEST(SphericalBoxesTest, WhatIsNoMovieStaysAsItIs) {
  const TempDir folder;
  const std::string path = folder.path() + "/movie.mp4";
  EXPECT_THAT(AddSphericalBoxes(path, StereoBox::kMono), StatusIs(StatusCode::kNotFound, path));
  std::string cut = Movie(true);
  cut.resize(cut.find("stco") + 6);
  std::string lies = Movie(true);
  lies[lies.find("stbl") - 1] = '\xff';
  for (const std::string& content : {std::string(), std::string("text"), cut, lies,
                                     MovieBox("moov", ""), MovieBox("moov", "short")}) {
    ASSERT_THAT(WriteFileAtomically(path, content), IsOk());
    EXPECT_THAT(AddSphericalBoxes(path, StereoBox::kMono),
                StatusIs(StatusCode::kInvalidArgument, path));
    EXPECT_EQ(*ReadFile(path, 1 << 20), content);
  }
}

}  // namespace
}  // namespace nerf
