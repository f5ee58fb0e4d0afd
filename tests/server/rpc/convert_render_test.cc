#include "server/rpc/convert/convert_render.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "common/error_reason.h"
#include "server/queue/kinds/kind_policy.h"
#include "server/queue/kinds/render_work.h"
#include "server/rpc/convert/convert_job.h"
#include "server/rpc/convert/view_request.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

v1::Keyframe KeyframeAt(double x, double fov) {
  v1::Keyframe keyframe;
  for (const double number :
       {1.0, 0.0, 0.0, x, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 4.0, 0.0, 0.0, 0.0, 1.0}) {
    keyframe.add_transform_matrix(number);
  }
  keyframe.set_fov_degrees(fov);
  return keyframe;
}

v1::CreateJobRequest Request(uint32_t n_frames = 20) {
  v1::CreateJobRequest request;
  v1::RenderSpec& render = *request.mutable_job()->mutable_render();
  render.set_model("projects/default/models/mic");
  v1::KeyframePath& path = *render.mutable_path()->mutable_keyframes();
  *path.add_keyframes() = KeyframeAt(0, 40);
  *path.add_keyframes() = KeyframeAt(2, 60);
  path.set_frames(n_frames);
  render.set_width(64);
  render.set_height(48);
  render.set_movie(true);
  return request;
}

std::vector<std::string> WrongFields(const v1::CreateJobRequest& request) {
  std::vector<std::string> fields;
  for (const Problem& violation : GetProblems(FromProto(request).status())) {
    fields.push_back(violation.field);
  }
  return fields;
}

// A job that is granted to a worker, as the queue makes it.
LeaseGrant GrantOf(const JobSpec& spec, uint32_t part, const v1::CropBox& crop = {}) {
  LeaseGrant grant;
  grant.job.key = {"default", "film"};
  grant.job.kind = JobKind::kRender;
  grant.job.render = spec.render;
  FoundModel found;
  found.blob = {std::string(64, 'a'), 7};
  found.crop = crop;
  PolicyOf(grant.job).UseModel(spec.model, found, grant.job);
  grant.lease = {grant.job.key, "w", 5, part};
  return grant;
}

TEST(ConvertRenderTest, RequestBecomesASpecWithDefaults) {
  const auto spec = FromProto(Request());
  ASSERT_THAT(spec, IsOk());
  EXPECT_EQ(spec->kind, JobKind::kRender);
  EXPECT_EQ(spec->model.source, (ResourceKey{"default", "mic"}));
  EXPECT_EQ(FramesOf(spec->render.path()), 20u);
  EXPECT_TRUE(spec->render.movie());
  EXPECT_EQ(spec->render.fps(), 30);
  ASSERT_EQ(spec->render.channels_size(), 1);
  EXPECT_EQ(spec->render.channels(0), v1::RGB);
}

TEST(ConvertRenderTest, EveryWrongFieldIsNamed) {
  v1::CreateJobRequest request = Request();
  v1::RenderSpec& render = *request.mutable_job()->mutable_render();
  render.clear_model();
  render.mutable_path()->mutable_keyframes()->mutable_keyframes(1)->set_fov_degrees(180);
  render.mutable_path()->mutable_keyframes()->mutable_keyframes(0)->set_transform_matrix(
      3, std::numeric_limits<double>::quiet_NaN());
  render.set_width(0);
  render.set_height(20'000);
  render.set_movie(false);
  render.set_fps(-1);
  render.add_channels(v1::RGB);
  render.add_channels(v1::RGB);
  EXPECT_THAT(
      WrongFields(request),
      testing::IsSupersetOf(
          {"job.render.source", "job.render.path.keyframes[0].transform_matrix[3]",
           "job.render.path.keyframes[1].fov_degrees", "job.render.width", "job.render.height",
           "job.render.images", "job.render.fps", "job.render.channels[1]"}));
}

TEST(ConvertRenderTest, StyleOfAJobReachesItsFramesAndItsMovie) {
  v1::CreateJobRequest request = Request();
  v1::RenderSpec& render = *request.mutable_job()->mutable_render();
  render.add_channels(v1::RGBA);
  for (const double number : {0.0, 0.0, 0.5})
    render.mutable_style()->mutable_crop()->add_center(number);
  for (int i = 0; i < 3; ++i) render.mutable_style()->mutable_crop()->add_size(1);
  const auto spec = FromProto(request);
  ASSERT_THAT(spec, IsOk());
  EXPECT_EQ(spec->render.style().crop().center(2), 0.5);
  const v1::DesiredJob frames = ToProto(GrantOf(*spec, 0));
  EXPECT_EQ(frames.frames().frames(0).view().style().crop().center(2), 0.5);
  EXPECT_TRUE(ToProto(GrantOf(*spec, 2)).movie().alpha());
  EXPECT_EQ(spec->model.feature, "style");
  EXPECT_EQ(FromProto(Request())->model.feature, "");
}

TEST(ConvertRenderTest, FramesAreExrIfAskedForAndGoToWorkersThatKnowIt) {
  v1::CreateJobRequest request = Request();
  v1::RenderSpec& render = *request.mutable_job()->mutable_render();
  render.set_format(v1::EXR);
  render.add_channels(v1::RGB);
  render.add_channels(v1::DEPTH);
  EXPECT_EQ(WrongFields(request), std::vector<std::string>{"job.render.movie"});
  render.set_movie(false);
  render.set_images(true);
  const auto spec = FromProto(request);
  ASSERT_THAT(spec, IsOk());
  EXPECT_EQ(spec->model.feature, "style");
  render.set_channels(0, v1::RGBAZ);
  const auto rgbaz = FromProto(request);
  ASSERT_THAT(rgbaz, IsOk());
  EXPECT_EQ(rgbaz->model.feature, "style-2");
  EXPECT_EQ(rgbaz->model.crop_feature, "style-2") << "also with a kept box";
  render.set_channels(0, v1::RGB);
  const LeaseGrant grant = GrantOf(*spec, 0);
  EXPECT_EQ(ToProto(grant).frames().frames(3).view().format(), v1::EXR);
  EXPECT_EQ(ToProto(grant.job, false).render().format(), v1::EXR);
  for (const int format : {static_cast<int>(v1::JPEG), 77}) {
    render.set_format(static_cast<v1::ImageFormat>(format));
    EXPECT_EQ(WrongFields(request), std::vector<std::string>{"job.render.format"});
  }
  render.set_format(v1::PNG);
  EXPECT_EQ(FromProto(request)->model.feature, "");
}

TEST(ConvertRenderTest, KeyframesInCoordinatesOfAMapKeepTheirDigits) {
  const double shift[3] = {500000, 5200000, 300};
  v1::CreateJobRequest near = Request(), far = Request();
  for (int i = 0; i < 2; ++i) {
    v1::Keyframe& keyframe = *far.mutable_job()
                                  ->mutable_render()
                                  ->mutable_path()
                                  ->mutable_keyframes()
                                  ->mutable_keyframes(i);
    for (int row = 0; row < 3; ++row) {
      const int at = 4 * row + 3;
      keyframe.set_transform_matrix(at, keyframe.transform_matrix(at) + shift[row]);
    }
  }
  const auto near_spec = FromProto(near), far_spec = FromProto(far);
  ASSERT_THAT(near_spec, IsOk());
  ASSERT_THAT(far_spec, IsOk());
  const v1::DesiredJob here = ToProto(GrantOf(*near_spec, 0)),
                       there = ToProto(GrantOf(*far_spec, 0));
  ASSERT_GT(here.frames().frames_size(), 3);
  for (int i = 0; i < here.frames().frames_size(); ++i) {
    const auto& a = here.frames().frames(i).view().camera().transform_matrix();
    const auto& b = there.frames().frames(i).view().camera().transform_matrix();
    for (int at = 0; at < 12; ++at)
      EXPECT_NEAR(b[at] - a[at], at % 4 == 3 ? shift[at / 4] : 0, 1e-6) << i << " " << at;
  }
}

TEST(ConvertRenderTest, KeptBoxCutsFramesThatNameNone) {
  v1::CropBox kept;
  for (int axis = 0; axis < 3; ++axis) {
    kept.add_center(0);
    kept.add_size(2);
  }
  for (const bool whole : {false, true}) {
    v1::CreateJobRequest request = Request();
    if (whole) request.mutable_job()->mutable_render()->mutable_style()->set_whole(true);
    const auto spec = FromProto(request);
    ASSERT_THAT(spec, IsOk());
    const LeaseGrant grant = GrantOf(*spec, 0, kept);
    EXPECT_EQ(ToProto(grant).frames().frames(0).view().style().has_crop(), !whole);
    EXPECT_EQ(ToProto(grant.job, false).render().style().has_crop(), !whole);
  }
}

TEST(ConvertRenderTest, WrongFieldsOfAStyleAreNamed) {
  v1::CreateJobRequest request = Request();
  v1::RenderSpec& render = *request.mutable_job()->mutable_render();
  v1::ViewStyle& style = *render.mutable_style();
  const auto wrong = [&] { return WrongFields(request); };
  style.add_background(2);
  EXPECT_THAT(wrong(), testing::Contains("job.render.style.background"));
  style.add_background(std::nan(""));
  style.add_background(0);
  EXPECT_THAT(wrong(), testing::IsSupersetOf(
                           {"job.render.style.background[0]", "job.render.style.background[1]"}));
  style.Clear();
  style.mutable_crop();
  EXPECT_THAT(wrong(), testing::IsSupersetOf(
                           {"job.render.style.crop.center", "job.render.style.crop.size"}));
  for (const double number : {1e300, 0.0, -std::numeric_limits<double>::infinity()})
    style.mutable_crop()->add_center(number);
  for (const double number : {0.0, -1.0, 1e10}) style.mutable_crop()->add_size(number);
  for (int i = 0; i < 4; ++i) style.mutable_crop()->add_turn(1);
  EXPECT_THAT(wrong(), testing::IsSupersetOf(
                           {"job.render.style.crop.center[0]", "job.render.style.crop.center[2]",
                            "job.render.style.crop.size[0]", "job.render.style.crop.size[1]",
                            "job.render.style.crop.size[2]", "job.render.style.crop.turn"}));
  style.Clear();
  style.mutable_panorama()->set_stereo(v1::Panorama::TOP_BOTTOM);
  render.set_width(400);
  render.set_height(200);
  EXPECT_THAT(wrong(), testing::IsSupersetOf(
                           {"job.render.style.panorama.eye_distance", "job.render.width"}));
  style.mutable_panorama()->set_stereo(static_cast<v1::Panorama::Stereo>(7));
  EXPECT_THAT(wrong(), testing::Contains("job.render.style.panorama.stereo"));
  style.mutable_panorama()->clear_stereo();
  style.mutable_panorama()->clear_eye_distance();
  render.add_channels(v1::RGBA);
  EXPECT_THAT(wrong(), testing::Contains("job.render.movie"));
  render.add_channels(v1::RGB);
  EXPECT_THAT(wrong(), testing::Contains("job.render.channels"));
}

// Camera-to-world matrices that no picture can be taken from.
std::map<std::string, std::vector<double>> BadMatrices() {
  return {{"zero", {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}},
          {"no numbers at all", {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
          {"of rank 2", {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}},
          {"of rank 1", {1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 0, 0, 0, 0, 1}},
          {"mirrored", {-1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}},
          {"sheared", {1, 0.5, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}},
          {"unequally scaled", {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 1}},
          {"of a projection", {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0}},
          {"transposed", {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 1, 2, 3, 1}}};
}

TEST(ConvertRenderTest, MatrixThatIsNoPoseIsRefusedByName) {
  for (const auto& [what, matrix] : BadMatrices()) {
    v1::CreateJobRequest request = Request();
    v1::CameraPath& path = *request.mutable_job()->mutable_render()->mutable_path();
    v1::Keyframe& keyframe = *path.mutable_keyframes()->mutable_keyframes(1);
    *keyframe.mutable_transform_matrix() = {matrix.begin(), matrix.end()};
    EXPECT_THAT(WrongFields(request),
                testing::ElementsAre("job.render.path.keyframes[1].transform_matrix"))
        << what;
    EXPECT_THAT(ExpandPath("path", path, 64, 48),
                FailsWith(absl::StatusCode::kInvalidArgument, reason::kFieldInvalid))
        << what;

    v1::Camera camera;
    camera.set_width(8);
    camera.set_height(8);
    camera.set_fl_x(9);
    *camera.mutable_transform_matrix() = keyframe.transform_matrix();
    *path.mutable_cameras()->add_cameras() = camera;
    EXPECT_THAT(WrongFields(request),
                testing::ElementsAre("job.render.path.cameras[0].transform_matrix"))
        << what;
    v1::View view;
    view.set_width(8);
    view.set_height(8);
    *view.mutable_camera() = camera;
    const std::vector<Problem> wrong = GetProblems(CheckLiveView(view));
    ASSERT_EQ(wrong.size(), 1u) << what;
    EXPECT_EQ(wrong[0].field, "view.camera.transform_matrix") << what;
  }
}

TEST(ConvertRenderTest, ScaledRotationIsAPose) {
  v1::CreateJobRequest request = Request();
  v1::KeyframePath& path =
      *request.mutable_job()->mutable_render()->mutable_path()->mutable_keyframes();
  const std::vector<double> scaled = {0, -3, 0, 7, 3, 0, 0, -1e9, 0, 0, 3, 2, 0, 0, 0, 1};
  *path.mutable_keyframes(0)->mutable_transform_matrix() = {scaled.begin(), scaled.end()};
  EXPECT_THAT(FromProto(request), IsOk());
  path.mutable_keyframes(0)->set_transform_matrix(7, -1.1e9);
  EXPECT_THAT(WrongFields(request),
              testing::ElementsAre("job.render.path.keyframes[0].transform_matrix[7]"));
}

TEST(ConvertRenderTest, NumberOfFramesHasALimitAndIsNotZero) {
  for (const uint32_t n_frames : {0u, kMaxPathFrames + 1}) {
    v1::CreateJobRequest request = Request(n_frames);
    EXPECT_THAT(WrongFields(request), testing::ElementsAre("job.render.path.keyframes.frames"))
        << n_frames;
    request.mutable_job()->mutable_render()->mutable_path()->mutable_scene()->set_frames(n_frames);
    EXPECT_THAT(WrongFields(request), testing::ElementsAre("job.render.path.scene.frames"))
        << n_frames;
  }
  EXPECT_THAT(FromProto(Request(kMaxPathFrames)), IsOk());
  v1::CreateJobRequest request = Request();
  request.mutable_job()->mutable_render()->mutable_path()->mutable_cameras();
  EXPECT_THAT(WrongFields(request), testing::ElementsAre("job.render.path.cameras"));
  request.mutable_job()->mutable_render()->mutable_path()->clear_kind();
  EXPECT_THAT(WrongFields(request), testing::ElementsAre("job.render.path"));
}

TEST(ConvertRenderTest, PartGetsItsMissingFramesWithTheCamerasThatExpandCameraPathShows) {
  const v1::CreateJobRequest request = Request();
  const JobSpec spec = *FromProto(request);
  LeaseGrant grant = GrantOf(spec, 1);
  grant.job.render_work.frames[17].images = {{std::string(64, 'b'), 1}};
  const v1::DesiredJob order = ToProto(grant);
  EXPECT_EQ(order.action(), v1::DesiredJob::RENDER);
  EXPECT_EQ(order.job(), "projects/default/jobs/film");
  EXPECT_EQ(order.part(), 1u);
  ASSERT_EQ(order.frames().frames_size(), 3);  // 16, 18 and 19
  EXPECT_EQ(order.frames().frames(1).index(), 18u);
  const auto cameras = ExpandPath("path", request.job().render().path(), 64, 48);
  ASSERT_THAT(cameras, IsOk());
  ASSERT_EQ(cameras->size(), 20u);
  const v1::Camera& last = order.frames().frames(2).view().camera();
  EXPECT_EQ(last.SerializeAsString(), cameras->back().SerializeAsString());
  // The last frame is at the last keyframe: 60 degrees of 48 pixels.
  EXPECT_NEAR(last.fl_x(), 24 / std::tan(std::acos(-1.0) / 6), 1e-3);
  EXPECT_NEAR(last.transform_matrix(3), 2, 1e-5);
}

TEST(ConvertRenderTest, PathOfTheSceneIsLeftToTheEngine) {
  v1::CreateJobRequest request = Request();
  v1::CameraPath& path = *request.mutable_job()->mutable_render()->mutable_path();
  path.mutable_scene()->set_path(v1::PATH_SPIRAL);
  path.mutable_scene()->set_frames(3);
  EXPECT_FALSE(ExpandPath("path", path, 64, 48).ok());
  const v1::DesiredJob order = ToProto(GrantOf(*FromProto(request), 0));
  ASSERT_EQ(order.frames().frames_size(), 3);
  EXPECT_EQ(order.frames().frames(2).view().orbit().index(), 2u);
  EXPECT_EQ(order.frames().frames(2).view().orbit().path(), v1::PATH_SPIRAL);
}

TEST(ConvertRenderTest, CommitWithoutImagesOrWithBadNamesIsRefused) {
  v1::CommitFramesRequest request;
  request.set_job("projects/default/models/j-1");
  request.add_frames()->set_index(3);
  std::vector<std::string> fields;
  for (const Problem& violation : GetProblems(FromProto(request).status())) {
    fields.push_back(violation.field);
  }
  EXPECT_THAT(fields, testing::UnorderedElementsAre("job", "frames.images"));
}

}  // namespace
}  // namespace nerf
