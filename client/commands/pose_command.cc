#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>
#include <string>

#include "client/calls/job_calls.h"
#include "client/calls/job_watch.h"
#include "client/calls/pose_job.h"
#include "client/calls/scene_upload.h"
#include "client/commands/commands.h"
#include "client/flags/names.h"
#include "client/flags/new_resource_flags.h"
#include "client/flags/text_format.h"
#include "common/ids.h"
#include "common/pose_limits.h"
#include "common/process/exit_code.h"
#include "engine/scene/read/source.h"
#include "fmt/format.h"

namespace nerf {
namespace {

struct PoseCommandFlags : NewResourceFlags {
  std::string dir, scene, into;
  PhotographFlags photographs;
  double min_posed = kDefaultMinPosed;
  uint32_t film_frames = kDefaultFilmFrames;
  bool detach = false;
};

int Pose(Session& session, PoseCommandFlags flags) {
  // Left empty, so that the same photographs find their earlier job.
  const bool has_request_id = !flags.request_id.empty();
  if (absl::Status status = CompleteNewResourceFlags(&flags, *session.io().random); !status.ok()) {
    return session.FailUsage(status);
  }
  if (!has_request_id) flags.request_id.clear();
  if (!flags.scene.empty() && !IsResourceId(flags.scene)) {
    return session.FailUsage(absl::InvalidArgumentError(
        "--scene: must be 1 to 63 of a-z, 0-9 and '-', starting with a letter"));
  }
  std::string into;
  if (!flags.into.empty()) {
    const auto name = ExpandName(ResourceKind::kScene, flags.into, session.flags().project);
    if (!name.ok()) return session.FailUsage(name.status());
    into = *name;
  }
  const Source source = SourceAt(flags.dir);
  if (source.kind != Source::Kind::kFilm) {
    if (absl::Status status = RequireFolder(source); !status.ok())
      return FailFolder(session, status);
  }
  if (flags.display_name.empty()) flags.display_name = FolderName(flags.dir);
  PoseUpload upload;
  upload.source = flags.dir;
  upload.id = flags.id;
  upload.scene = flags.scene.empty() ? flags.id : flags.scene;
  upload.display_name = flags.display_name;
  upload.request_id = flags.request_id;
  upload.min_posed = flags.min_posed;
  upload.film_frames = flags.film_frames;
  upload.into = into;
  upload.photographs = flags.photographs;
  const absl::StatusOr<v1::Job> created = CreatePoseJobOf(session, upload);
  if (!created.ok()) return session.Fail(created.status());
  if (!flags.detach) return WatchJobToTheEnd(session, created->name());
  PrintQueued(session, *created, fmt::format("nerfctl job watch {}", ShortName(created->name())));
  return kOk;
}

// The arguments and flags of both commands that pose photographs, but for the scene to add to.
void AddPoseFlags(CLI::App* command, PoseCommandFlags* flags) {
  command->add_option("dir", flags->dir, "Folder of photographs and films, or one film")
      ->required();
  AddNewResourceFlags(*command, flags, "the folder's");
  command
      ->add_option("--min-posed", flags->min_posed,
                   "Share of the usable photographs that has to be posed")
      ->check(CLI::Range(0.01, 1.0))
      ->capture_default_str();
  command->add_option("--film-frames", flags->film_frames, "Frames extracted from each film")
      ->check(CLI::Range(kMinFilmFrames, kMaxFilmFrames))
      ->capture_default_str();
  command->add_flag("--detach", flags->detach, "Return once the job is queued");
}

}  // namespace

void AddSceneAddition(CLI::App& scene, Command* selected) {
  CLI::App* add = scene.add_subcommand(
      "add", "Make a scene with more photographs, in the same frame, on a worker with COLMAP");
  auto flags = std::make_shared<PoseCommandFlags>();
  add->add_option("scene", flags->into, "Name of the scene to add to, which stays as it is")
      ->required();
  AddPoseFlags(add, flags.get());
  add->footer("Example:\n  nerfctl scene add garden clip.mp4 --id garden-2");
  add->callback([=] { *selected = [flags](Session& s) { return Pose(s, *flags); }; });
}

void AddPoseCommands(CLI::App& app, Command* selected) {
  CLI::App* pose =
      app.add_subcommand("pose", "Make a scene of photographs on a worker with COLMAP");
  auto flags = std::make_shared<PoseCommandFlags>();
  AddPoseFlags(pose, flags.get());
  pose->add_option("--scene", flags->scene, "Id of the scene; without it that of --id")
      ->type_name("ID");
  AddPhotographFlags(*pose, &flags->photographs);
  pose->footer(
      "Examples:\n"
      "  nerfctl pose garden --id garden\n"
      "  nerfctl pose clip.mp4 --film-frames 200 --detach");
  pose->callback([=] { *selected = [flags](Session& s) { return Pose(s, *flags); }; });
}

}  // namespace nerf
