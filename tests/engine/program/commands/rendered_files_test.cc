#include "engine/program/serve/rendered_files.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "common/files/file_io.h"
#include "engine/scene/pictures/exr_codec.h"
#include "engine/scene/pictures/image_io.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

TEST(RenderedFilesTest, FilesAreNamedAfterTheRequestAndAStopLeavesNoFolder) {
  const TempDir dir;
  ViewPicture view;
  view.rgba = {4, 2, 4, std::vector<uint8_t>(32, 200)};
  view.depths.assign(8, 2.0f);
  internal::Render request;
  request.set_out(dir / "job");
  for (const auto channel : {v1::DEPTH, v1::RGB, v1::OPACITY})
    request.mutable_view()->add_channels(channel);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THAT(WriteRenderedFiles(view, "r7", request, {}, {}, stop.get_token()),
              StatusIs(absl::StatusCode::kCancelled));
  EXPECT_FALSE(std::filesystem::exists(request.out())) << "its owner may have removed it";

  const auto written = WriteRenderedFiles(view, "r7", request, {}, {}, {});
  ASSERT_THAT(written, IsOk());
  ASSERT_EQ(written->files_size(), 3);
  ASSERT_EQ(written->response().images_size(), 3);
  EXPECT_EQ(written->response().images(1).channel(), v1::RGB) << "in the request's order";
  EXPECT_EQ(written->files(1), request.out() + "/r7_rgb.png");
  EXPECT_EQ(DecodeImage(written->files(1))->width, 4);
  EXPECT_GE(written->response().far(), 2);
  request.mutable_view()->set_format(v1::EXR);
  SeenFrom seen_from;
  seen_from.frame.scale = 0.5f;
  const auto exr = WriteRenderedFiles(view, "r7", request, {}, seen_from, {});
  ASSERT_THAT(exr, IsOk());
  EXPECT_EQ(exr->files(1), request.out() + "/r7_rgb.exr");
  EXPECT_EQ(ReadFile(exr->files(0), 1 << 20), EncodeExrDepth(4, 2, std::vector<float>(8, 4.0f)))
      << "in the data set's unit";
}

TEST(RenderedFilesTest, FilesAreOfTheRequestedForms) {
  const TempDir dir;
  ViewPicture view;
  view.rgba = {4, 2, 4, std::vector<uint8_t>(32, 200)};
  view.depths.assign(8, 2.0f);
  internal::Render request;
  request.set_out(dir / "job");
  // No channel is RGB, and no format PNG.
  const auto plain = WriteRenderedFiles(view, "a/b", request, {}, {}, {});
  ASSERT_THAT(plain, IsOk());
  ASSERT_EQ(plain->files_size(), 1);
  EXPECT_EQ(plain->files(0), request.out() + "/a_b_rgb.png");
  EXPECT_EQ(plain->response().images(0).channel(), v1::RGB);
  EXPECT_EQ(plain->response().far(), 0);

  request.mutable_view()->add_channels(v1::RGBA);
  request.mutable_view()->add_channels(v1::DEPTH);
  request.mutable_view()->set_format(v1::PNG);
  const auto rgba = WriteRenderedFiles(view, "r", request, {}, {}, {});
  ASSERT_THAT(rgba, IsOk());
  EXPECT_EQ(rgba->files(0), request.out() + "/r_rgba.png");
  request.mutable_view()->set_format(v1::JPEG);
  EXPECT_THAT(WriteRenderedFiles(view, "r", request, {}, {}, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, "rgba"));

  request.mutable_view()->set_channels(0, v1::OPACITY);
  const auto jpeg = WriteRenderedFiles(view, "r", request, {}, {}, {});
  ASSERT_THAT(jpeg, IsOk());
  EXPECT_EQ(jpeg->files(1), request.out() + "/r_depth.png") << "JPEG has too few bits";
  request.mutable_view()->set_channels(0, v1::RGBAZ);
  EXPECT_THAT(WriteRenderedFiles(view, "r", request, {}, {}, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, "rgbaz"));
  request.mutable_view()->set_format(v1::EXR);
  const auto exr = WriteRenderedFiles(view, "r", request, {}, {}, {});
  ASSERT_THAT(exr, IsOk());
  EXPECT_EQ(exr->files(0), request.out() + "/r_rgbaz.exr");
  EXPECT_EQ(exr->response().images(0).channel(), v1::RGBAZ);

  request.mutable_view()->set_channels(0, v1::OPACITY);
  request.mutable_live()->set_jpeg_quality(40);
  const auto live = WriteRenderedFiles(view, "r", request, {}, {}, {});
  ASSERT_THAT(live, IsOk());
  EXPECT_EQ(live->files(0), request.out() + "/r_opacity.jpg") << "whatever the format";
  EXPECT_EQ(live->files(1), request.out() + "/r_depth.jpg");
}

}  // namespace
}  // namespace nerf
