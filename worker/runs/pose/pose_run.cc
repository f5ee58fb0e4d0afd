#include "worker/runs/pose/pose_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "common/counted.h"
#include "common/error_reason.h"
#include "common/files/file_io.h"
#include "common/messages/worker_limits.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "engine/base/protocol/pose_lines.h"
#include "worker/files/scene_folder.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxPoseReportBytes = uint64_t{64} << 20;
constexpr size_t kMaxPosedFiles = 20'000;  // of a scene
constexpr int kMaxPoseProblems = 500;

// The real path of a file of the data set. nerf-engine has written it and is not trusted, since it
// reads strangers' files. Errors: DataLoss, which no try mends.
absl::StatusOr<std::string> PosedFile(const std::string& posed, const std::string& path) {
  const absl::Status good_name = CheckScenePath(path);
  if (!good_name.ok()) return absl::DataLossError(good_name.message());
  absl::StatusOr<std::string> file = CheckInsideFolder(posed, posed + "/" + path);
  if (!file.ok()) return absl::DataLossError(file.status().message());
  return file;
}

// The scene's files by their paths in it: the posed photographs, their masks and COLMAP's model.
absl::StatusOr<std::vector<std::string>> FilesOfScene(const std::string& posed,
                                                      const protocol::PoseReportFile& report) {
  std::vector<std::string> files;
  for (const protocol::PosedPhoto& photo : report.photos) {
    if (!photo.posed || photo.file.empty()) continue;
    files.push_back(photo.file);
    const std::string mask = "masks/" + fs::path(photo.file).filename().string() + ".png";
    std::error_code ignored;
    if (fs::exists(posed + "/" + mask, ignored)) files.push_back(mask);
  }
  std::error_code error;
  for (fs::directory_iterator it(posed + "/sparse/0", error), end; !error && it != end;
       it.increment(error)) {
    files.push_back("sparse/0/" + it->path().filename().string());
  }
  if (error) return absl::DataLossError("the data set has no model: " + error.message());
  std::sort(files.begin(), files.end());
  if (files.size() > kMaxPosedFiles) return absl::DataLossError("the data set has too many files");
  return files;
}

// The same of a scene that photographs were added to: all that is in its folder, but for the
// report.
absl::StatusOr<std::vector<std::string>> FilesOfAddedScene(const std::string& posed) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::recursive_directory_iterator it(posed, error), end; !error && it != end;
       it.increment(error)) {
    const std::string path = fs::relative(it->path(), posed, error).string();
    const bool is_folder = fs::is_directory(it->symlink_status(error));
    if (error) break;
    if (is_folder || path == "pose.json" || path == "pose.txt" || path == "pose.png") continue;
    files.push_back(path);
    if (files.size() > kMaxPosedFiles) {
      return absl::DataLossError("the data set has too many files");
    }
  }
  if (error) return absl::DataLossError("the data set cannot be read: " + error.message());
  std::sort(files.begin(), files.end());
  return files;
}

std::string CameraFlag(v1::PoseSpec::Camera camera) {
  return camera == v1::PoseSpec::PERSPECTIVE       ? "perspective"
         : camera == v1::PoseSpec::EQUIRECTANGULAR ? "equirectangular"
                                                   : "";
}

v1::PoseReport ToPoseReport(const protocol::PoseReportFile& report) {
  v1::PoseReport proto;
  proto.set_photographs(report.photographs);
  proto.set_usable(report.usable);
  proto.set_posed(report.posed);
  proto.set_points(report.points);
  proto.set_reprojection_error_pixels(report.reprojection_error);
  proto.set_parallax_degrees(report.parallax);
  *proto.mutable_warnings() = {report.warnings.begin(), report.warnings.end()};
  *proto.mutable_again() = {report.again.begin(), report.again.end()};
  return proto;
}

absl::StatusOr<protocol::PoseReportFile> ReadReport(const std::string& posed) {
  NERF_ASSIGN_OR_RETURN(const std::string path, PosedFile(posed, "pose.json"));
  NERF_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxPoseReportBytes));
  return protocol::ParsePoseReport(text);
}

absl::Status UploadPosed(const std::string& posed, const protocol::PoseReportFile& report,
                         bool with_scene, bool is_added, BlobTransport& blobs,
                         const std::stop_token& stop, v1::CommitPosesRequest* request) {
  *request->mutable_report() = ToPoseReport(report);
  const auto upload = [&](const std::string& path) -> absl::StatusOr<v1::BlobRef> {
    NERF_ASSIGN_OR_RETURN(const std::string file, PosedFile(posed, path));
    return UploadOwnFile(blobs, file, stop);
  };
  NERF_ASSIGN_OR_RETURN(*request->mutable_report()->mutable_json(), upload("pose.json"));
  NERF_ASSIGN_OR_RETURN(*request->mutable_report()->mutable_text(), upload("pose.txt"));
  NERF_ASSIGN_OR_RETURN(*request->mutable_report()->mutable_picture(), upload("pose.png"));
  if (!with_scene) return absl::OkStatus();
  NERF_ASSIGN_OR_RETURN(const std::vector<std::string> files,
                        is_added ? FilesOfAddedScene(posed) : FilesOfScene(posed, report));
  for (const std::string& path : files) {
    v1::SceneManifestEntry* entry = request->add_files();
    entry->set_path(path);
    NERF_ASSIGN_OR_RETURN(*entry->mutable_blob(), upload(path));
  }
  return absl::OkStatus();
}

// The sentence for a person whose photographs could not be posed.
std::string TooFew(const protocol::PoseReportFile& report, double min_posed) {
  std::string text =
      report.posed == 0 ? "no photograph could be posed"
                        : fmt::format("{} of {} could be posed, fewer than {:.0f}%", report.posed,
                                      Counted(report.usable, "usable photograph"), 100 * min_posed);
  for (const std::string& again : report.again) text += "; " + again;
  return text;
}

}  // namespace

struct PoseRun::Search {
  std::string photos, work, posed;
  std::string into;                 // data set that they are added to; may be empty
  bool has_scene = false;           // enough photographs are posed
  protocol::PoseReportFile report;  // read by Commit
  Mutex mu;
  std::optional<protocol::Posing> news ABSL_GUARDED_BY(mu);    // not reported yet
  protocol::Posing last ABSL_GUARDED_BY(mu);                   // line of the search
  std::vector<protocol::Posing> finished ABSL_GUARDED_BY(mu);  // the last of each stage before

  void Take(const protocol::Posing& posing) ABSL_LOCKS_EXCLUDED(mu) {
    MutexLock lock(mu);
    if (last.stage > 0 && posing.stage > last.stage && finished.size() < kMaxPoseStages)
      finished.push_back(last);
    news = posing;
    last = posing;
    last.points.clear();  // of a finished stage none is told
    last.cameras.clear();
  }
};

PoseRun::PoseRun(PartRunOptions options, PoseProgramOptions program, JobContext context,
                 v1::DesiredJob grant, std::string folder)
    : ProgramRun(options, std::move(context), std::move(grant), std::move(folder)),
      program_(std::move(program)),
      search_(std::make_shared<Search>()) {
  search_->photos = folder_ + "/photos";
  search_->work = folder_ + "/work";
  search_->posed = search_->work + "/posed";
  if (grant_.pose().into_files_size() > 0) search_->into = folder_ + "/scene";
}

PoseRun::~PoseRun() = default;

void PoseRun::Fetch() {
  Work(
      [files = grant_.pose().files(), into_files = grant_.pose().into_files(), search = search_,
       folder = folder_, &cache = context_.cache, stop = stop_.get_token()]() -> CallResult {
        std::error_code ignored;
        fs::remove_all(search->photos, ignored);  // of an earlier try
        if (!search->into.empty()) fs::remove_all(search->into, ignored);
        absl::Status status = MakeFolders(folder);
        status.Update(MakeFolders(search->work));
        if (status.ok()) status = LayOutScene(files, search->photos, cache, stop);
        if (status.ok() && !search->into.empty()) {
          status = LayOutScene(into_files, search->into, cache, stop);
        }
        return ToCallResult(status);
      },
      [this](const CallResult& result) {
        if (!result.ok()) return TryAgain(result, [this] { Fetch(); });
        Pose();
      });
}

void PoseRun::Pose() {
  stage_ = Stage::kWorking;
  report_.set_phase(v1::JobReport::RUNNING);
  context_.report_changed();
  const PoseSearchTask task{search_->photos,
                            search_->work,
                            grant_.pose().min_posed(),
                            grant_.pose().film_frames(),
                            search_->into,
                            CameraFlag(grant_.pose().camera()),
                            grant_.pose().mask_below_degrees()};
  Work(
      [task, program = program_, search = search_, stop = stop_.get_token()]() -> CallResult {
        const auto posed = SearchPosesInSandbox(
            program, task, [&](const protocol::Posing& posing) { search->Take(posing); }, stop);
        search->has_scene = posed.value_or(false);
        return ToCallResult(posed.status());
      },
      [this](const CallResult& result) {
        TakeNews();
        if (result.ok()) return Commit();
        CallResult failure = result;
        if (failure.code == absl::StatusCode::kInvalidArgument && failure.reason.empty()) {
          failure.reason = reason::kDatasetInvalid;
        }
        failure.message = WithoutFolder(failure.message, search_->photos);
        EndFailed(failure);
      });
}

void PoseRun::Commit() {
  v1::CommitPosesRequest request;
  request.set_job(name());
  request.set_lease_epoch(lease_epoch());
  request.set_worker_id(context_.worker_id);
  Work(
      [request, search = search_, &blobs = context_.blobs, &server = context_.server,
       stop = stop_.get_token()]() mutable -> CallResult {
        auto report = ReadReport(search->posed);
        if (!report.ok()) {
          return ToCallResult(absl::DataLossError(std::string(report.status().message())));
        }
        search->report = *std::move(report);
        const absl::Status uploaded = UploadPosed(search->posed, search->report, search->has_scene,
                                                  !search->into.empty(), blobs, stop, &request);
        if (!uploaded.ok()) return ToCallResult(uploaded);
        return server.CommitPoses(request, stop);
      },
      [this](const CallResult& result) {
        if (!result.ok()) return TryAgain(result, [this] { Commit(); });
        if (search_->has_scene) return Finish(v1::JobReport::SUCCEEDED);
        for (const protocol::PosedPhoto& photo : search_->report.photos) {
          if (photo.posed || report_.problems_size() == kMaxPoseProblems) continue;
          v1::SceneProblem* problem = report_.add_problems();
          problem->set_file(photo.name);
          problem->set_message(photo.words.empty() ? photo.reason : photo.words);
        }
        Fail(WithReason(
            absl::InvalidArgumentError(TooFew(search_->report, grant_.pose().min_posed())),
            reason::kDatasetInvalid));
      });
}

void PoseRun::TakeNews() {
  std::optional<protocol::Posing> news;
  std::vector<protocol::Posing> finished;
  {
    MutexLock lock(search_->mu);
    news.swap(search_->news);
    finished = search_->finished;
  }
  if (!news.has_value() || ending()) return;
  v1::PoseProgress* progress = report_.mutable_pose_progress();
  progress->set_stage(news->stage);
  progress->set_stages(news->stages);
  progress->set_doing(news->doing);
  progress->set_done(news->done);
  progress->set_of(news->of);
  progress->set_unit(news->unit);
  progress->set_seconds(news->seconds);
  progress->set_eta_seconds(news->eta_seconds);
  progress->set_matches_per_second(news->matches_per_second);
  if (!news->cameras.empty()) {
    progress->mutable_sketch()->set_points(news->points);
    progress->mutable_sketch()->set_cameras(news->cameras);
  }
  progress->clear_finished();
  for (const protocol::Posing& each : finished) {
    v1::PoseStage* stage = progress->add_finished();
    stage->set_doing(each.doing);
    stage->set_done(each.done);
    stage->set_of(each.of);
    stage->set_unit(each.unit);
  }
  context_.progress_changed();
}

}  // namespace nerf
