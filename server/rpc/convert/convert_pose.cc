#include "server/rpc/convert/convert_pose.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "common/logging.h"
#include "common/messages/worker_limits.h"
#include "common/pose_limits.h"
#include "common/status_macros.h"
#include "engine/base/messages/pose_check.h"
#include "engine/base/picture_names.h"
#include "server/queue/kinds/pose_kind.h"
#include "server/queue/resources/request_check.h"
#include "server/rpc/convert/convert_common.h"
#include "server/rpc/convert/convert_scene.h"
#include "server/rpc/convert/kind_messages.h"

namespace nerf {
namespace {

// Of what a worker reports.
constexpr int kMaxReportTexts = 100;
constexpr size_t kMaxReportTextLength = 1024, kMaxDoingLength = 128, kMaxUnitLength = 32;
constexpr size_t kMaxSketchBytes = 600;

void AddTexts(const google::protobuf::RepeatedPtrField<std::string>& texts,
              google::protobuf::RepeatedPtrField<std::string>* cut) {
  for (int i = 0; i < std::min(texts.size(), kMaxReportTexts); ++i)
    cut->Add(Cut(texts[i], kMaxReportTextLength));
}

constexpr std::string_view kMaskFolder = "masks/";

bool IsMask(std::string_view path) { return path.starts_with(kMaskFolder); }

// What is wrong with a name of the files of a pose job; empty when nothing is.
std::string_view NameProblem(std::string_view path) {
  const bool is_mask = IsMask(path);
  const std::string_view name = is_mask ? path.substr(kMaskFolder.size()) : path;
  if (name.find('/') != std::string_view::npos)
    return "must be a name without folders, or that of a mask in masks/";
  if (name.starts_with('.')) return "must not begin with a dot";
  if (is_mask) {
    const std::string lower = absl::AsciiStrToLower(std::string(name));
    return lower.ends_with(".png") || lower.ends_with(".jpg") ? "" : "must be a .png or .jpg";
  }
  if (HasPhotographEnding(path) || HasFilmEnding(path)) return {};
  return HasOtherPictureEnding(path) ? "is of a kind that is not read: save it as JPEG"
                                     : "must end as a photograph (.jpg, .jpeg, .png) or a film "
                                       "(.mp4, .mov, .mkv, ...)";
}

void CheckNames(const std::vector<SceneFileRecord>& files, RequestCheck& check) {
  constexpr int kMaxViolations = 100;
  int n_violations = 0;
  for (size_t i = 0; i < files.size() && n_violations < kMaxViolations; ++i) {
    const std::string_view problem = NameProblem(files[i].path);
    if (problem.empty()) continue;
    ++n_violations;
    check.Require(false, fmt::format("job.pose.files[{}].path", i),
                  fmt::format("{} {}", LogValue(files[i].path.substr(0, 80)), problem));
  }
  const bool are_masks =
      !files.empty() &&
      std::all_of(files.begin(), files.end(), [](const auto& f) { return IsMask(f.path); });
  check.Require(!are_masks, "job.pose.files", "must hold photographs or films, not masks alone");
}

// Of a worker's report, with long texts cut.
absl::StatusOr<internal::JobProgress> PoseProgressOf(const v1::JobReport& report) {
  internal::JobProgress progress;
  if (report.pose_progress().stage() == 0) return progress;
  const v1::PoseProgress& reported = report.pose_progress();
  v1::PoseProgress& pose = *progress.mutable_pose();
  pose.set_stage(reported.stage());
  pose.set_stages(reported.stages());
  pose.set_doing(Cut(reported.doing(), kMaxDoingLength));
  pose.set_done(reported.done());
  pose.set_of(reported.of());
  pose.set_unit(Cut(reported.unit(), kMaxUnitLength));
  if (reported.has_sketch()) {
    pose.mutable_sketch()->set_points(reported.sketch().points().substr(0, kMaxSketchBytes));
    pose.mutable_sketch()->set_cameras(reported.sketch().cameras().substr(0, kMaxSketchBytes));
  }
  for (const v1::PoseStage& stage : reported.finished()) {
    if (pose.finished_size() == static_cast<int>(kMaxPoseStages)) break;
    v1::PoseStage& finished = *pose.add_finished();
    finished.set_doing(Cut(stage.doing(), kMaxDoingLength));
    finished.set_done(stage.done());
    finished.set_of(stage.of());
    finished.set_unit(Cut(stage.unit(), kMaxUnitLength));
  }
  pose.set_seconds(Finite(reported.seconds()));
  pose.set_eta_seconds(std::max(0.0, Finite(reported.eta_seconds())));
  pose.set_matches_per_second(std::max(0.0, Finite(reported.matches_per_second())));
  return progress;
}

absl::Status ParsePose(const v1::CreateJobRequest& request, RequestCheck& check, JobSpec* spec) {
  const v1::PoseSpec& proto = request.job().pose();
  PoseSpec& pose = spec->pose;
  const auto scene_of = [&](std::string_view field, const std::string& name) -> std::string {
    if (name.empty()) return "";
    const ResourceKey scene = TakeOr(ParseSceneName(field, name), check);
    check.Require(spec->project.empty() || scene.project.empty() || scene.project == spec->project,
                  field, "must be of the project in parent");
    return scene.id;
  };
  pose.scene = scene_of("job.pose.scene", proto.scene());
  pose.into = scene_of("job.pose.into", proto.into());
  check.Add(ProblemsOf(proto), "job.pose");
  pose.camera = static_cast<PoseCamera>(proto.camera());
  pose.mask_below = proto.mask_below_degrees();
  pose.min_posed = proto.min_posed() == 0 ? kDefaultMinPosed : proto.min_posed();
  pose.film_frames = proto.film_frames() == 0 ? kDefaultFilmFrames : proto.film_frames();
  if (proto.files_size() <= static_cast<int>(2 * kMaxPoseFiles)) {
    pose.files = ParseManifest("job.pose.", proto.files(), check);
    CheckNames(pose.files, check);
  } else {
    check.Require(false, "job.pose.files",
                  fmt::format("must be 1 to {} photographs and films", kMaxPoseFiles));
  }
  check.Add(CheckPoseSpec(*spec, /*with_files=*/false));
  NERF_RETURN_IF_ERROR(check.Result());
  NERF_RETURN_IF_ERROR(CheckManifestSize(proto.ByteSizeLong()));
  std::sort(pose.files.begin(), pose.files.end(),
            [](const SceneFileRecord& a, const SceneFileRecord& b) { return a.path < b.path; });
  pose.n_masks = static_cast<uint32_t>(
      std::count_if(pose.files.begin(), pose.files.end(),
                    [](const SceneFileRecord& file) { return IsMask(file.path); }));
  const auto n_films = static_cast<size_t>(
      std::count_if(pose.files.begin(), pose.files.end(),
                    [](const SceneFileRecord& file) { return HasFilmEnding(file.path); }));
  pose.has_films = n_films > 0;
  const size_t n_pictures =
      pose.files.size() - pose.n_masks + n_films * (size_t{pose.film_frames} - 1);
  if (n_films > 0 && n_pictures > kMaxPoseFiles) {
    return InvalidFieldsError(
        {{"job.pose.film_frames",
          fmt::format("with the photographs, {} frames of {} films are {} pictures, of {} at most",
                      pose.film_frames, n_films, n_pictures, kMaxPoseFiles)}});
  }
  return absl::OkStatus();
}

void FillPoseOrder(const LeaseGrant& grant, v1::DesiredJob* order) {
  order->set_action(v1::DesiredJob::POSE);
  v1::PoseTask* task = order->mutable_pose();
  AddManifest(grant.job.pose.files, task->mutable_files());
  task->set_min_posed(grant.job.pose.min_posed);
  task->set_film_frames(grant.job.pose.film_frames);
  AddManifest(grant.scene.files, task->mutable_into_files());
  task->set_camera(static_cast<v1::PoseSpec::Camera>(grant.job.pose.camera));
  task->set_mask_below_degrees(grant.job.pose.mask_below);
}

}  // namespace

const KindMessages kPoseMessages = {ParsePose, FillPoseOrder, PoseProgressOf};

absl::StatusOr<CommittedPoses> FromProto(const v1::CommitPosesRequest& request) {
  RequestCheck check;
  CommittedPoses poses;
  poses.lease.job = TakeOr(ParseJobName("job", request.job()), check);
  poses.lease.worker = request.worker_id();
  poses.lease.epoch = request.lease_epoch();
  const v1::PoseReport& reported = request.report();
  v1::PoseReport& report = poses.report;
  report.set_photographs(reported.photographs());
  report.set_usable(reported.usable());
  report.set_posed(reported.posed());
  report.set_points(reported.points());
  report.set_reprojection_error_pixels(Finite(reported.reprojection_error_pixels()));
  report.set_parallax_degrees(Finite(reported.parallax_degrees()));
  AddTexts(reported.warnings(), report.mutable_warnings());
  AddTexts(reported.again(), report.mutable_again());
  const auto take = [&](bool is_there, std::string_view field, const v1::BlobRef& blob,
                        v1::BlobRef* (v1::PoseReport::*set)()) {
    if (is_there) *(report.*set)() = ToProto(TakeOr(FromProto(field, blob), check));
  };
  take(reported.has_json(), "report.json", reported.json(), &v1::PoseReport::mutable_json);
  take(reported.has_text(), "report.text", reported.text(), &v1::PoseReport::mutable_text);
  take(reported.has_picture(), "report.picture", reported.picture(),
       &v1::PoseReport::mutable_picture);
  for (int i = 0; i < request.files_size(); ++i) {
    const v1::SceneManifestEntry& file = request.files(i);
    poses.files.push_back(
        {file.path(), TakeOr(FromProto(fmt::format("files[{}].blob", i), file.blob()), check)});
  }
  NERF_RETURN_IF_ERROR(check.Result());
  return poses;
}

}  // namespace nerf
