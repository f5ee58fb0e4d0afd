#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "client/calls/job_create.h"
#include "client/calls/job_flags.h"
#include "client/calls/pose_job.h"
#include "client/calls/pose_photographs.h"
#include "client/calls/scene_upload.h"
#include "client/calls/session.h"
#include "client/commands/commands.h"
#include "client/flags/names.h"
#include "client/flags/text_format.h"
#include "client/kinds/job_words.h"
#include "common/files/places.h"
#include "common/files/sha256.h"
#include "common/problems.h"
#include "common/process/exit_code.h"
#include "common/shell_word.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "engine/scene/read/source.h"
#include "fmt/format.h"

namespace nerf {
namespace {

struct TrainFlags : JobFlags {
  int downscale = 0;  // 0: none
  std::string pose = "auto";
  std::string engine = ProgramBesideThis("nerf-engine");
  PhotographFlags photographs;
};

// The request id of the job's scene or pose job, derived from the job's: repeating `train` with its
// --request-id finds both again.
std::string RequestIdFor(std::string_view what, const std::string& job_request_id) {
  std::string hex = Sha256Hex(fmt::format("{} of {}", what, job_request_id));
  hex[12] = '4';  // version and variant of a UUID4
  hex[16] = 'a';
  return fmt::format("{}-{}-{}-{}-{}", hex.substr(0, 8), hex.substr(8, 4), hex.substr(12, 4),
                     hex.substr(16, 4), hex.substr(20, 12));
}

// The name of the job's scene: one with exactly the folder's files, or a new one. With
// validate_only nothing is created, and the name of a new scene is empty.
absl::StatusOr<std::string> SceneOf(Session& session, const std::string& dir,
                                    const SceneDescription& description,
                                    const v1::CreateJobRequest& request) {
  NERF_ASSIGN_OR_RETURN(const std::vector<v1::SceneFile> files,
                        ManifestOf(session, dir, description));
  NERF_ASSIGN_OR_RETURN(const std::optional<v1::Scene> found, FindSceneOfFiles(session, files));
  if (found.has_value()) {
    const std::string& name = found->name();
    session.Say(fmt::format("scene {} on the server holds these {} files already", ShortName(name),
                            files.size()));
    return name;
  }
  if (request.validate_only()) return std::string();
  NERF_ASSIGN_OR_RETURN(
      const v1::Scene created,
      CreateSceneFromFolder(session,
                            {.dir = dir,
                             .display_name = request.job().display_name(),
                             .id = "",
                             .request_id = RequestIdFor("scene", request.request_id())},
                            files));
  return created.name();
}

// The longer side of the largest training picture, divided.
std::string DownscaledSide(const SceneDescription& scene, int factor) {
  int side = 1;
  for (const ViewDescription& view : scene.train) {
    side = std::max({side, view.camera.width, view.camera.height});
  }
  return std::to_string(std::max(1, side / factor));
}

// What is wrong with the command line, but for the flags of the job.
absl::Status CheckTrainFlags(const Session& session, const TrainFlags& flags,
                             const Source& source) {
  Problems problems;
  if (source.path.empty())
    problems.Add("", "train needs a folder with a data set; try examples/mic");
  problems.Add(CheckWatchFlags(session, flags, !flags.detach));
  if (flags.pose == "server" && flags.downscale > 0) {
    problems.Add("--downscale", "needs the pictures here: name --max-side, or --pose local");
  }
  if (flags.photographs.AnyGiven() && !source.path.empty() && !source.HasNoPoses()) {
    problems.Add("--camera, --mask-below", "are of photographs without poses");
  }
  return problems.Result();
}

int SubmitAndWatch(Session& session, const TrainFlags& flags, const v1::CreateJobRequest& request,
                   const std::function<int(const v1::Job& job)>& before_watch = nullptr) {
  if (flags.detach) return SubmitJob(session, request, std::nullopt);
  return SubmitJob(session, request,
                   WatchOptions{.patient_from_start = true, .preview = flags.preview},
                   before_watch);
}

// Whether a worker finds the poses of the photographs.
bool IsPosedByServer(Session& session, const TrainFlags& flags, const Source& source) {
  if (flags.pose == "local" || !source.MustBePosed()) return false;
  return flags.pose == "server" || (flags.downscale == 0 && CanServerPose(session, source.path));
}

// Queues a pose job and a training that waits for it: this machine may leave after that. Follows
// both.
int TrainPosedByServer(Session& session, const TrainFlags& flags, const std::string& dir,
                       v1::CreateJobRequest& request) {
  if (flags.display_name.empty()) {
    request.mutable_job()->set_display_name(FolderName(dir));
  }
  session.Say(
      PlainText(fmt::format("{} has no poses: a worker finds them, which takes minutes "
                            "(--pose local: this machine)",
                            dir)));
  if (flags.validate_only) return SubmitJob(session, request, std::nullopt);
  const absl::Status taken =
      AskBeforeUpload(session, request, /*may_be_repeated=*/!flags.request_id.empty());
  if (!taken.ok()) return session.Fail(taken);
  PoseUpload upload;
  upload.source = dir;
  upload.display_name = FolderName(dir);
  upload.photographs = flags.photographs;
  if (!flags.request_id.empty()) upload.request_id = RequestIdFor("poses", flags.request_id);
  const absl::StatusOr<v1::Job> created = CreatePoseJobOf(session, upload);
  if (!created.ok()) {
    const int exit_code = session.Fail(created.status());
    session.SayError(
        "  no job was created; run the same command again: files that arrived are not sent again");
    return exit_code;
  }
  request.mutable_job()->mutable_training()->set_pose_job(created->name());
  return SubmitAndWatch(session, flags, request, [&](const v1::Job& job) {
    v1::Job posed;
    const int code = AwaitJob(session, created->name(), {}, &posed);
    if (code != kOk && !IsFinal(posed.state())) {
      session.SayError(session.Runnable(
          PlainText(fmt::format("  job {0} starts after it; `nerfctl job watch {0}` follows it",
                                ShortName(job.name())))));
    }
    return code;
  });
}

int Train(Session& session, const TrainFlags& flags, const Source& source,
          v1::CreateJobRequest& request) {
  if (source.kind != Source::Kind::kFilm) {
    if (absl::Status status = RequireFolder(source); !status.ok())
      return FailFolder(session, status);
  }
  if (IsPosedByServer(session, flags, source)) {
    return TrainPosedByServer(session, flags, source.path, request);
  }
  if (flags.validate_only && source.MustBePosed()) {
    session.Say(PlainText(fmt::format(
        "{} has no poses: training begins with finding them, which takes minutes (nerf-engine pose "
        "{} --out {}); its photographs are checked after that",
        source.path, ShellWord(source.path), ShellWord(source.posed))));
    if (const int code = CheckPosing(session, source, flags.engine, flags.photographs);
        code != kOk) {
      return code;
    }
    return SubmitJob(session, request, std::nullopt);
  }
  PoseOutcome posed = FolderWithPoses(session, source, flags.engine, flags.photographs);
  if (posed.exit_code != kOk) return posed.exit_code;
  const std::string dir = std::move(posed.folder);
  session.Say(fmt::format("checking {}", dir));
  const absl::StatusOr<SceneDescription> description =
      CheckLocalScene(session, dir, *ParseTestEvery(flags.test_every),
                      flags.background.empty() ? "auto" : flags.background,
                      ReadingOf(request.job().training().config().settings()));
  if (!description.ok()) return session.Fail(description.status());
  if (flags.downscale > 0) {
    (*request.mutable_job()->mutable_training()->mutable_config()->mutable_settings())["max_side"] =
        DownscaledSide(*description, flags.downscale);
  }
  if (flags.display_name.empty()) {
    request.mutable_job()->set_display_name(FolderName(source.path));
  }
  if (!flags.validate_only) {  // SubmitJob asks in that case
    const absl::Status taken =
        AskBeforeUpload(session, request, /*may_be_repeated=*/!flags.request_id.empty());
    if (!taken.ok()) return session.Fail(taken);
  }
  const absl::StatusOr<std::string> scene = SceneOf(session, dir, *description, request);
  if (!scene.ok()) {
    const int exit_code = session.Fail(scene.status());
    session.SayError(
        "  no job was created; run the same command again: files that arrived are not sent again");
    return exit_code;
  }
  request.mutable_job()->mutable_training()->set_scene(*scene);
  return SubmitAndWatch(session, flags, request);
}

}  // namespace

void AddTrainCommand(CLI::App& app, Command* selected) {
  CLI::App* train = app.add_subcommand("train", "Check a folder, upload it, train and watch");
  auto flags = std::make_shared<TrainFlags>();
  auto dir = std::make_shared<std::string>();
  train->add_option("dir", *dir,
                    "Folder with transforms.json, a COLMAP model, LLFF's poses or\nphotographs "
                    "alone, or a film; their poses are then found with COLMAP");
  AddJobFlags(*train, flags.get());
  train
      ->add_option("--engine", flags->engine,
                   "nerf-engine's program, which finds poses of photographs")
      ->type_name("PROGRAM");
  train
      ->add_option("--pose", flags->pose,
                   "Who finds poses of photographs: server (a worker with COLMAP), local\n"
                   "(nerf-engine here) or auto: a worker where one can, else local")
      ->type_name("WHERE")
      ->check(OneOf({"auto", "server", "local"}))
      ->capture_default_str();
  AddPhotographFlags(*train, &flags->photographs);
  train->add_option("--downscale", flags->downscale, "Divide the pictures' sides by this")
      ->type_name("N")
      ->check(CLI::Range(1, 64))
      ->excludes(train->get_option("--max-side"));
  train->footer(
      "Examples:\n"
      "  nerfctl train examples/mic --seconds 60\n"
      "  nerfctl train photos --samples 40M --init mic --detach");
  train->add_flag("--detach", flags->detach, "Return once the job is queued");
  train->callback([=] {
    *selected = [=](Session& s) {
      const Source source = SourceAt(*dir);
      return WithJobRequest(
          s, *flags, CheckTrainFlags(s, *flags, source),
          [&](v1::CreateJobRequest& request) { return Train(s, *flags, source, request); });
    };
  });
}

}  // namespace nerf
