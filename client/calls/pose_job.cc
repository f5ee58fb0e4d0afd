#include "client/calls/pose_job.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/strip.h"
#include "client/calls/follow_job.h"
#include "client/calls/paging.h"
#include "client/calls/resource_calls.h"
#include "client/calls/scene_upload.h"
#include "client/calls/session.h"
#include "client/flags/names.h"
#include "client/flags/text_format.h"
#include "common/counted.h"
#include "common/error_reason.h"
#include "common/exit_code.h"
#include "common/sha256.h"
#include "common/status_macros.h"
#include "engine/base/picture_names.h"
#include "engine/scene/unposed_photographs.h"
#include "fmt/format.h"
#include "nerf/v1/admin_service.grpc.pb.h"
#include "nerf/v1/pose_job_service.grpc.pb.h"
#include "nerf/v1/scene_service.grpc.pb.h"

namespace nerf {
namespace {

using PoseStub = v1::PoseJobService::Stub;

constexpr int kMaxProblemsShown = 20;
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
std::string RequestIdOf(const v1::CreatePoseJobRequest& request, int number) {
  const v1::PoseJob& job = request.pose_job();
  std::string text =
      fmt::format("poses {} {} {} {} {} {} {}", request.parent(), request.pose_job_id(),
                  job.scene(), job.display_name(), job.min_posed(), job.film_frames(), number);
  text += fmt::format(" {} {} {}", job.into(), static_cast<int>(job.camera()),
                      job.mask_below_degrees());
  for (const v1::SceneFile& file : job.files()) {
    text += fmt::format("\n{} {}", file.path(), file.blob().sha256());
  }
  return UuidOf(text);
}

v1::PoseJob::Camera CameraOf(const std::string& name) {
  return name == "perspective"       ? v1::PoseJob::PERSPECTIVE
         : name == "equirectangular" ? v1::PoseJob::EQUIRECTANGULAR
                                     : v1::PoseJob::CAMERA_UNSPECIFIED;
}

constexpr std::string_view kMaskFolder = "masks/";

// Whether the server's version takes no masks: it refuses names with a folder.
bool IsBeforeMasks(const absl::Status& status) {
  const std::vector<FieldViolation> violations = GetFieldViolations(status);
  return std::any_of(violations.begin(), violations.end(), [](const FieldViolation& violation) {
    return violation.field.starts_with("pose_job.files[") &&
           violation.description.ends_with("must be a name without folders");
  });
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
// more. With masks it calls once before it sends, so that a server that takes none refuses at once.
// Errors: Unimplemented for that; those of the calls.
absl::StatusOr<v1::PoseJob> SendPoseJob(Session& session, const std::string& dir,
                                        const std::vector<v1::SceneFile>& files,
                                        const v1::CreatePoseJobRequest& request) {
  const auto stub = session.Stub<v1::PoseJobService>();
  absl::StatusOr<v1::PoseJob> job = absl::UnknownError("");
  const bool has_masks = std::any_of(files.begin(), files.end(), [](const v1::SceneFile& file) {
    return file.path().starts_with(kMaskFolder);
  });
  for (int attempt = has_masks ? 0 : 1; attempt <= 2; ++attempt) {
    if (attempt > 0) NERF_RETURN_IF_ERROR(SendFiles(session, dir, files));
    job = session.Call(*stub, &PoseStub::CreatePoseJob, request);
    if (has_masks && IsBeforeMasks(job.status())) {
      return absl::UnimplementedError(PlainText(fmt::format(
          "this server is of an earlier version, which takes no masks beside photographs: update "
          "it, or take {} out of {}",
          kMaskFolder, dir)));
    }
    const std::optional<ErrorReason> why = GetReason(job.status());
    if (!why.has_value() || why->reason != reason::kBlobsMissing) break;
  }
  return job;
}

// Whether an earlier job of the same request is of no use any more.
bool IsSpent(Session& session, const absl::StatusOr<v1::PoseJob>& job) {
  if (!job.ok()) return absl::IsNotFound(job.status());
  if (job->state() != v1::PoseJob::SUCCEEDED) return IsJobOver(*job);
  v1::GetSceneRequest request;
  request.set_name(job->scene());
  const auto stub = session.Stub<v1::SceneService>();
  return absl::IsNotFound(session.Call(*stub, &v1::SceneService::Stub::GetScene, request).status());
}

struct PoseFollow {
  using Job = v1::PoseJob;
  using Service = v1::PoseJobService;
  using Request = v1::WatchPoseJobRequest;
  using Response = v1::WatchPoseJobResponse;
  static constexpr std::string_view kNoun = "pose job";

  static auto Watch(PoseStub& stub, grpc::ClientContext* context, const Request& request) {
    return stub.WatchPoseJob(context, request);
  }
  static const Job* JobOf(const Response& response) {
    return response.has_pose_job() ? &response.pose_job() : nullptr;
  }
  static std::optional<ProgressLine> ProgressOf(const Job& job) {
    if (job.progress().stage() == 0 || job.progress().stages() == 0) return std::nullopt;
    const double of = std::max(1u, job.progress().of());
    const double within = job.progress().of() == 0 ? 0 : job.progress().done() / of;
    return ProgressLine{
        .fraction = (job.progress().stage() - 1 + std::min(within, 1.0)) / job.progress().stages(),
        .label = "poses  " + PlainText(PoseProgressText(job)),
        .details =
            fmt::format("({:.0f} s{})", job.progress().seconds(),
                        job.progress().eta_seconds() > 0
                            ? fmt::format(", about {:.0f} s left", job.progress().eta_seconds())
                            : ""),
        .json = fmt::format(
            R"({{"event":"posing","stage":{},"stages":{},"done":{},"of":{},"seconds":{:.1f},)"
            R"("eta_seconds":{:.1f},"matches_per_second":{:.0f}}})",
            job.progress().stage(), job.progress().stages(), job.progress().done(),
            job.progress().of(), job.progress().seconds(), job.progress().eta_seconds(),
            job.progress().matches_per_second())};
  }
};

}  // namespace

std::string PoseProgressText(const v1::PoseJob& job) {
  const v1::PoseProgress& progress = job.progress();
  if (progress.stage() == 0) return "";
  std::string text = fmt::format("{}/{} {}", progress.stage(), progress.stages(), progress.doing());
  if (progress.of() > 0) text += fmt::format(": {} of {}", progress.done(), progress.of());
  return text;
}

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

absl::StatusOr<v1::PoseJob> CreatePoseJobOf(Session& session, const PoseUpload& upload) {
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
  std::vector<std::string> paths = found.files;
  paths.insert(paths.end(), found.masks.begin(), found.masks.end());
  NERF_ASSIGN_OR_RETURN(const auto files, HashSceneFiles(found.folder, paths, session.stop()));
  v1::CreatePoseJobRequest request;
  NERF_ASSIGN_OR_RETURN(const std::string parent, ProjectName(session.flags().project));
  request.set_parent(parent);
  request.set_pose_job_id(upload.id);
  v1::PoseJob& job = *request.mutable_pose_job();
  job.set_display_name(upload.display_name);
  job.set_min_posed(upload.min_posed);
  job.set_film_frames(upload.film_frames);
  job.set_into(upload.into);
  job.set_camera(CameraOf(upload.photographs.camera));
  job.set_mask_below_degrees(upload.photographs.mask_below);
  if (!upload.scene.empty()) job.set_scene(parent + "/scenes/" + upload.scene);
  for (const v1::SceneFile& file : files) {
    v1::SceneFile* const sent = job.add_files();
    *sent = file;
    sent->set_path(std::string(absl::StripPrefix(file.path(), "images/")));
  }
  request.set_request_id(upload.request_id);
  if (!upload.request_id.empty()) return SendPoseJob(session, found.folder, files, request);
  for (int number = 0; number < kMaxEarlierJobs; ++number) {
    request.set_request_id(RequestIdOf(request, number));
    absl::StatusOr<v1::PoseJob> made = SendPoseJob(session, found.folder, files, request);
    if (!IsSpent(session, made)) return made;
  }
  return absl::FailedPreconditionError("these photographs were posed too often");
}

int AwaitPoseJob(Session& session, const std::string& name, v1::PoseJob* job) {
  const int exit_code = AwaitEndOf<PoseFollow>(session, name, "pose-job", job);
  if (exit_code == kOk) {
    const v1::PoseReport& report = job->report();
    session.Say(PlainText(fmt::format(
        "{} of {} posed, {} points, reprojection error {:.2f} pixels, parallax {:.1f} degrees",
        report.posed(), Counted(report.photographs(), "photograph"), report.points(),
        report.reprojection_error_pixels(), report.parallax_degrees())));
    for (const std::string& warning : report.warnings())
      session.Say(PlainText("warning: " + warning));
    return kOk;
  }
  for (int i = 0; i < std::min(job->problems_size(), kMaxProblemsShown); ++i) {
    session.SayError(
        PlainText(fmt::format("  {}: {}", job->problems(i).file(), job->problems(i).message())));
  }
  if (job->problems_size() > kMaxProblemsShown) {
    session.SayError(fmt::format("  and {} more; all are in the report",
                                 job->problems_size() - kMaxProblemsShown));
  }
  return exit_code;
}

}  // namespace nerf
