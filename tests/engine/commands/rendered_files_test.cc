#include "engine/serve/rendered_files.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "common/file_io.h"
#include "engine/scene/exr_codec.h"
#include "engine/scene/image_io.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

TEST(RenderedFilesTest, FilesAreNamedAfterTheRequestAndAStopLeavesNoFolder) {
  const TempDir dir;
  ViewPicture view;
  view.rgba = {4, 2, 4, std::vector<uint8_t>(32, 200)};
  view.depths.assign(8, 2.0f);
  protocol::Render request;
  request.id = "r7";
  request.out = dir / "job";
  const ViewChannels channels{.rgb = true, .depth = true, .opacity = true};
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THAT(WriteRenderedFiles(view, request, channels, 1, stop.get_token()),
              StatusIs(absl::StatusCode::kCancelled));
  EXPECT_FALSE(std::filesystem::exists(request.out)) << "its owner may have removed it";

  const auto written = WriteRenderedFiles(view, request, channels, 1, {});
  ASSERT_THAT(written, IsOk());
  EXPECT_EQ(written->files.size(), 3u);
  EXPECT_EQ(written->files.at("rgb"), request.out + "/r7_rgb.png");
  EXPECT_EQ(DecodeImage(written->files.at("rgb"))->width, 4);
  request.exr = true;
  const auto exr = WriteRenderedFiles(view, request, channels, 0.5f, {});
  ASSERT_THAT(exr, IsOk());
  EXPECT_EQ(exr->files.at("rgb"), request.out + "/r7_rgb.exr");
  EXPECT_EQ(ReadFile(exr->files.at("depth"), 1 << 20),
            EncodeExrDepth(4, 2, std::vector<float>(8, 4.0f)))
      << "in the data set's unit";
}

}  // namespace
}  // namespace nerf
