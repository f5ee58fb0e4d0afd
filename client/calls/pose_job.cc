#include "client/calls/pose_job.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "client/calls/job_calls.h"
#include "client/calls/scene_upload.h"
#include "client/flags/names.h"
#include "client/flags/text_format.h"
#include "client/kinds/job_words.h"
#include "common/counted.h"
#include "common/error_reason.h"
#include "common/files/sha256.h"
#include "common/status_macros.h"
#include "engine/base/messages/pose_check.h"
#include "engine/base/picture_names.h"
#include "engine/scene/read/unposed_photographs.h"
#include "fmt/format.h"
#include "nerf/v1/admin_service.grpc.pb.h"
#include "nerf/v1/scene_service.grpc.pb.h"

namespace nerf {
namespace {

constexpr int kMaxEarlierJobs = 20;

// A UUID4 made of a text.
std::string UuidOf(const std::string& text) {
  std::string hex = Sha256Hex(text);
  hex[12] = '4';
  hex[16] = 'a';
  return fmt::format("{}-{}-{}-{}-{}", hex.substr(0, 8), hex.substr(8, 4), hex.substr(12, 4),
                     hex.substr(16, 4), hex.substr(20, 12));
}

// The id of the `number`th request like this one.
std::string RequestIdOf(const v1::CreateJobRequest& request, int number) {
  const v1::PoseSpec& spec = request.job().pose();
  std::string text =
      fmt::format("poses {} {} {} {} {} {} {}", request.parent(), request.job_id(), spec.scene(),
                  request.job().display_name(), spec.min_posed(), spec.film_frames(), number);
  text += fmt::format(" {} {} {}", spec.into(), static_cast<int>(spec.camera()),
                      spec.mask_below_degrees());
  for (const v1::SceneFile& file : spec.files()) {
    text += fmt::format("\n{} {}", file.path(), file.blob().sha256());
  }
  return UuidOf(text);
}

v1::PoseSpec::Camera CameraOf(const std::string& name) {
  return name == "perspective"       ? v1::PoseSpec::PERSPECTIVE
         : name == "equirectangular" ? v1::PoseSpec::EQUIRECTANGULAR
                                     : v1::PoseSpec::CAMERA_UNSPECIFIED;
}

// What the server would refuse, by flag.
Problems ProblemsOfFlags(const v1::PoseSpec& spec) {
  Problems problems;
  for (const Problem& problem : ProblemsOf(spec)) {
    const std::string flag = absl::StrReplaceAll(problem.field, {{"_degrees", ""}, {"_", "-"}});
    problems.Add("--" + flag, problem.message);
  }
  return problems;
}

// Those that the server lacks.
absl::Status SendFiles(Session& session, const std::string& dir,
                       const std::vector<v1::SceneFile>& files) {
  NERF_ASSIGN_OR_RETURN(const UploadCounts counts, UploadMissingFiles(session, dir, files));
  if (counts.files_sent > 0) {
    session.Say(fmt::format("sent {} of {}, {}", counts.files_sent, Counted(counts.files, "file"),
                            FormatBytes(counts.bytes_sent)));
  }
  return absl::OkStatus();
}

// Sends the files of `dir` and calls once. Blobs that the server collects in between are sent once
// more.
absl::StatusOr<v1::Job> SendPoseJob(Session& session, const std::string& dir,
                                    const std::vector<v1::SceneFile>& files,
                                    const v1::CreateJobRequest& request) {
  for (int attempt = 1;; ++attempt) {
    NERF_RETURN_IF_ERROR(SendFiles(session, dir, files));
    absl::StatusOr<v1::Job> job = CreateJob(session, request);
    const std::optional<ErrorReason> why = GetReason(job.status());
    if (attempt == 2 || !why.has_value() || why->reason != reason::kBlobsMissing) return job;
  }
}

// Whether an earlier job of the same request is of no use any more.
bool IsSpent(Session& session, const absl::StatusOr<v1::Job>& job) {
  if (!job.ok()) return absl::IsNotFound(job.status());
  if (job->state() != v1::Job::SUCCEEDED) return IsFinal(job->state());
  v1::GetSceneRequest request;
  request.set_name(job->pose().scene());
  const auto stub = session.Stub<v1::SceneService>();
  return absl::IsNotFound(session.Call(*stub, &v1::SceneService::Stub::GetScene, request).status());
}

}  // namespace

bool CanServerPose(Session& session, const std::string& source) {
  const PhotographFiles found = FindPhotographFiles(source);
  const bool has_films = std::any_of(found.files.begin(), found.files.end(),
                                     [](const std::string& file) { return HasFilmEnding(file); });
  const auto stub = session.Stub<v1::AdminService>();
  const auto workers =
      session.Call(*stub, &v1::AdminService::Stub::ListWorkers, v1::ListWorkersRequest());
  if (!workers.ok()) return false;
  return std::any_of(workers->workers().begin(), workers->workers().end(),
                     [&](const v1::Worker& worker) {
                       const bool takes_jobs =
                           worker.state() == v1::Worker::IDLE || worker.state() == v1::Worker::BUSY;
                       return takes_jobs && !worker.colmap_version().empty() &&
                              (!has_films || !worker.ffmpeg_version().empty());
                     });
}

absl::StatusOr<v1::Job> CreatePoseJobOf(Session& session, const PoseUpload& upload) {
  const PhotographFiles found = FindPhotographFiles(upload.source);
  if (found.files.empty()) {
    return absl::InvalidArgumentError(PlainText(
        upload.source +
        ": there is no photograph (.jpg, .jpeg, .png) and no film in it or in its images/"));
  }
  if (!found.unread.empty()) {
    session.Say(
        PlainText(fmt::format("warning: {} of kinds that are not read, such as {}: save "
                              "as JPEG",
                              Counted(found.unread.size(), "picture"), found.unread[0])));
  }
  v1::CreateJobRequest request;
  NERF_ASSIGN_OR_RETURN(const std::string parent, ProjectName(session.flags().project));
  request.set_parent(parent);
  request.set_job_id(upload.id);
  request.mutable_job()->set_display_name(upload.display_name);
  v1::PoseSpec& spec = *request.mutable_job()->mutable_pose();
  spec.set_min_posed(upload.min_posed);
  spec.set_film_frames(upload.film_frames);
  spec.set_into(upload.into);
  spec.set_camera(CameraOf(upload.photographs.camera));
  spec.set_mask_below_degrees(upload.photographs.mask_below);
  if (!upload.scene.empty()) spec.set_scene(parent + "/scenes/" + upload.scene);
  NERF_RETURN_IF_ERROR(ProblemsOfFlags(spec).Result());
  std::vector<std::string> paths = found.files;
  paths.insert(paths.end(), found.masks.begin(), found.masks.end());
  NERF_ASSIGN_OR_RETURN(const auto files, HashSceneFiles(found.folder, paths, session.stop()));
  for (const v1::SceneFile& file : files) {
    v1::SceneFile* const sent = spec.add_files();
    *sent = file;
    sent->set_path(std::string(absl::StripPrefix(file.path(), "images/")));
  }
  request.set_request_id(upload.request_id);
  if (!upload.request_id.empty()) return SendPoseJob(session, found.folder, files, request);
  for (int number = 0; number < kMaxEarlierJobs; ++number) {
    request.set_request_id(RequestIdOf(request, number));
    absl::StatusOr<v1::Job> made = SendPoseJob(session, found.folder, files, request);
    if (!IsSpent(session, made)) return made;
  }
  return absl::FailedPreconditionError("these photographs were posed too often");
}

}  // namespace nerf
