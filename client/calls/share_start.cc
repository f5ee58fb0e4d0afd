#include "client/calls/share_start.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "client/calls/job_calls.h"
#include "client/calls/resource_calls.h"
#include "engine/base/local_origin.h"
#include "engine/base/messages/pose_message.h"
#include "engine/views/path/camera_path.h"
#include "nerf/v1/model_service.grpc.pb.h"
#include "nerf/v1/scene_service.grpc.pb.h"

namespace nerf {
namespace {

// Length of the mean of the cameras' directions along the ground: 0 all around, 0.64 of half a
// circle.
constexpr float kOneSided = 0.4f;
constexpr absl::Duration kReadTime = absl::Seconds(20);
constexpr float kSameAxis = 1e-3f;
constexpr float kCornerAzimuth = 0.8f;  // radians

float Median(std::vector<float> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

void SetStart(std::span<const v1::Camera> cameras, v1::Share* share) {
  std::vector<CaptureCamera> captures;
  std::vector<const v1::Camera*> sources;
  std::vector<Vec3d> places;
  Vec3 backward{0, 0, 0}, middle{0, 0, 0};
  for (const v1::Camera& camera : cameras) {
    if (camera.transform_matrix_size() != 16) continue;
    sources.push_back(&camera);
    places.push_back(PlaceOf(camera.transform_matrix()));
  }
  const Vec3d origin = LocalOrigin(places);
  for (const v1::Camera* camera : sources) {
    captures.emplace_back().camera_to_world = ReadPose(camera->transform_matrix(), origin);
    backward = backward - captures.back().forward();
    middle = middle + captures.back().position();
  }
  if (captures.empty()) return;
  const float share_of_one = 1.0f / static_cast<float>(captures.size());
  backward = backward * share_of_one;
  middle = middle * share_of_one;
  const Vec3 up = UpOf(captures, std::nullopt, std::nullopt);
  const Vec3 center =
      FocusOf(captures).value_or(Norm(backward) > 0 ? middle - Normalized(backward) : middle);
  const Vec3 along = backward - up * Dot(up, backward);
  size_t best = 0;
  for (size_t i = 1; i < captures.size(); ++i) {
    if (Dot(captures[i].forward(), backward) < Dot(captures[best].forward(), backward)) best = i;
  }
  *share->mutable_camera() = *sources[best];
  if (Norm(along) < kOneSided) {
    std::vector<float> distances, heights;
    for (const CaptureCamera& capture : captures) {
      distances.push_back(Norm(capture.position() - center));
      heights.push_back(Dot(capture.position() - center, up));
    }
    const float distance = Median(std::move(distances));
    const float sine = std::clamp(Median(std::move(heights)) / distance, -1.0f, 1.0f);
    // The axis that `up` has least of gives the steadiest first direction along the ground; where
    // it has as much of two, the first of them.
    Vec3 axis{1, 0, 0};
    float least = std::abs(up.x) - kSameAxis;
    if (std::abs(up.y) < least) {
      axis = {0, 1, 0};
      least = std::abs(up.y) - kSameAxis;
    }
    if (std::abs(up.z) < least) axis = {0, 0, 1};
    const Vec3 first = Normalized(axis - up * Dot(up, axis));
    const Vec3 around =
        first * std::cos(kCornerAzimuth) + Cross(up, first) * std::sin(kCornerAzimuth);
    const Vec3 position = center + (around * std::sqrt(1 - sine * sine) + up * sine) * distance;
    WritePose(LookAt(position, center, up), origin,
              share->mutable_camera()->mutable_transform_matrix());
  }
  for (const double value : Sum({center.x, center.y, center.z}, origin)) share->add_center(value);
  for (const float value : {up.x, up.y, up.z}) share->add_up(value);
}

void FindStart(Session& session, const std::string& model, v1::Share* share) {
  const auto found =
      CallByName<v1::ModelService>(session, model, &v1::ModelService::Stub::GetModel);
  if (!found.ok() || found->training_job().empty()) return;
  const auto job = GetJob(session, found->training_job());
  if (!job.ok() || job->training().scene().empty()) return;
  v1::DescribeSceneRequest of_scene;
  of_scene.set_name(job->training().scene());
  of_scene.set_page_size(1000);
  const auto scenes = session.Stub<v1::SceneService>();
  std::vector<v1::Camera> cameras;
  do {
    const auto page =
        session.Call(*scenes, &v1::SceneService::Stub::DescribeScene, of_scene, kReadTime);
    if (!page.ok()) return;
    for (const v1::SceneView& view : page->views()) cameras.push_back(view.camera());
    of_scene.set_page_token(page->next_page_token());
  } while (!of_scene.page_token().empty());
  SetStart(cameras, share);
}

}  // namespace nerf
