#include "server/rpc/convert/convert_pose.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "engine/base/picture_names.h"
#include "server/queue/kinds/pose_kind.h"
#include "server/queue/resources/request_check.h"
#include "server/rpc/convert/convert_common.h"
#include "server/rpc/convert/convert_scene.h"
#include "server/rpc/convert/kind_messages.h"

namespace nerf {
namespace {

constexpr double kDefaultMinPosed = 0.9;
constexpr uint32_t kDefaultFilmFrames = 120;
// Of what a worker reports.
constexpr int kMaxReportTexts = 100;
constexpr size_t kMaxReportTextLength = 1024, kMaxDoingLength = 128;

v1::PoseProgress ToPoseProgress(const PoseStage& pose) {
  v1::PoseProgress proto;
  proto.set_stage(pose.stage);
  proto.set_stages(pose.stages);
  proto.set_doing(pose.doing);
  proto.set_done(pose.done);
  proto.set_of(pose.of);
  proto.set_seconds(pose.seconds);
  proto.set_eta_seconds(pose.eta_seconds);
  proto.set_matches_per_second(pose.matches_per_second);
  return proto;
}

v1::PoseReport ToPoseReport(const PoseResult& result) {
  v1::PoseReport proto;
  proto.set_photographs(result.photographs);
  proto.set_usable(result.usable);
  proto.set_posed(result.posed);
  proto.set_points(result.points);
  proto.set_reprojection_error_pixels(result.reprojection_error);
  proto.set_parallax_degrees(result.parallax);
  *proto.mutable_warnings() = {result.warnings.begin(), result.warnings.end()};
  *proto.mutable_again() = {result.again.begin(), result.again.end()};
  if (result.json.has_value()) *proto.mutable_json() = ToProto(*result.json);
  if (result.text.has_value()) *proto.mutable_text() = ToProto(*result.text);
  if (result.picture.has_value()) *proto.mutable_picture() = ToProto(*result.picture);
  return proto;
}

template <typename Texts>
std::vector<std::string> CutTexts(const Texts& texts) {
  std::vector<std::string> cut;
  for (int i = 0; i < std::min(texts.size(), kMaxReportTexts); ++i) {
    cut.push_back(Cut(texts[i], kMaxReportTextLength));
  }
  return cut;
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
PoseStage StageOf(const v1::PoseProgress& progress) {
  return {progress.stage(),
          progress.stages(),
          Cut(progress.doing(), kMaxDoingLength),
          progress.done(),
          progress.of(),
          Finite(progress.seconds()),
          std::max(0.0, Finite(progress.eta_seconds())),
          std::max(0.0, Finite(progress.matches_per_second()))};
}

absl::StatusOr<std::optional<JobProgress>> PoseProgressOf(const v1::JobReport& report) {
  std::optional<JobProgress> progress;
  if (report.has_pose_progress()) progress.emplace().pose = StageOf(report.pose_progress());
  return progress;
}

void FillPose(const Job& job, bool whole, v1::Job* proto) {
  v1::PoseSpec& spec = *proto->mutable_pose();
  for (size_t i = 0; whole && i < job.pose.files.size(); ++i) {
    v1::SceneFile* file = spec.add_files();
    file->set_path(job.pose.files[i].path);
    *file->mutable_blob() = ToProto(job.pose.files[i].blob);
  }
  spec.set_scene(SceneName({job.key.project, job.pose.scene}));
  spec.set_min_posed(job.pose.min_posed);
  spec.set_film_frames(job.pose.film_frames);
  if (!job.pose.into.empty()) spec.set_into(SceneName({job.key.project, job.pose.into}));
  spec.set_camera(static_cast<v1::PoseSpec::Camera>(job.pose.camera));
  spec.set_mask_below_degrees(job.pose.mask_below);
  v1::PoseStatus& status = *proto->mutable_pose_status();
  status.set_file_count(static_cast<uint32_t>(job.pose.files.size()) + job.pose.n_stored_files -
                        job.pose.n_masks);
  if (job.progress.pose.stage > 0) *status.mutable_progress() = ToPoseProgress(job.progress.pose);
  if (job.pose_result.has_value()) *status.mutable_report() = ToPoseReport(*job.pose_result);
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
  const bool is_known = v1::PoseSpec::Camera_IsValid(proto.camera());
  check.Require(is_known, "job.pose.camera", "must be PERSPECTIVE or EQUIRECTANGULAR");
  if (is_known) pose.camera = static_cast<PoseCamera>(proto.camera());
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

const KindMessages kPoseMessages = {v1::Job::kPose, FillPose, ParsePose, FillPoseOrder,
                                    PoseProgressOf};

absl::StatusOr<CommittedPoses> FromProto(const v1::CommitPosesRequest& request) {
  RequestCheck check;
  CommittedPoses poses;
  poses.lease.job = TakeOr(ParseJobName("job", request.job()), check);
  poses.lease.worker = request.worker_id();
  poses.lease.epoch = request.lease_epoch();
  const v1::PoseReport& report = request.report();
  PoseResult& result = poses.result;
  result.photographs = report.photographs();
  result.usable = report.usable();
  result.posed = report.posed();
  result.points = report.points();
  result.reprojection_error = Finite(report.reprojection_error_pixels());
  result.parallax = Finite(report.parallax_degrees());
  result.warnings = CutTexts(report.warnings());
  result.again = CutTexts(report.again());
  if (report.has_json()) result.json = TakeOr(FromProto("report.json", report.json()), check);
  if (report.has_text()) result.text = TakeOr(FromProto("report.text", report.text()), check);
  if (report.has_picture()) {
    result.picture = TakeOr(FromProto("report.picture", report.picture()), check);
  }
  for (int i = 0; i < request.files_size(); ++i) {
    const v1::SceneManifestEntry& file = request.files(i);
    poses.files.push_back(
        {file.path(), TakeOr(FromProto(fmt::format("files[{}].blob", i), file.blob()), check)});
  }
  NERF_RETURN_IF_ERROR(check.Result());
  return poses;
}

}  // namespace nerf
