#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "client/calls/follow_job.h"
#include "client/calls/pose_job.h"
#include "client/calls/resource_calls.h"
#include "client/calls/scene_upload.h"
#include "client/calls/session.h"
#include "client/commands/commands.h"
#include "client/commands/job_group.h"
#include "client/flags/names.h"
#include "client/flags/new_resource_flags.h"
#include "client/flags/text_format.h"
#include "client/show/resource_printers.h"
#include "client/show/text_table.h"
#include "common/exit_code.h"
#include "common/ids.h"
#include "engine/scene/unposed_photographs.h"
#include "fmt/format.h"
#include "nerf/v1/pose_job_service.grpc.pb.h"

namespace nerf {
namespace {

using PoseJobStub = v1::PoseJobService::Stub;

struct PoseCommandFlags : NewResourceFlags {
  std::string dir, scene, into;
  PhotographFlags photographs;
  double min_posed = 0.9;
  uint32_t film_frames = 120;
  bool detach = false;
};

std::string PosedOf(const v1::PoseJob& job) {
  return job.has_report() ? fmt::format("{}/{}", job.report().posed(), job.report().photographs())
                          : "";
}

void PrintPoseJobs(const Printer& printer, const std::vector<v1::PoseJob>& jobs) {
  if (PrintListForPrograms(printer, jobs)) return;
  TextTable table({"ID", "STATE", "FILES", "POSED", "SCENE", "NAME"});
  for (const v1::PoseJob& job : jobs) {
    table.AddRow({ShortName(job.name()), JobStateText(job), std::to_string(job.file_count()),
                  PosedOf(job), ShortName(job.scene()), job.display_name()});
  }
  table.Print(printer.out);
}

void PrintPoseJob(const Printer& printer, const v1::PoseJob& job) {
  if (PrintForPrograms(printer, job)) return;
  const auto line = [&](const char* key, const std::string& value) {
    if (!value.empty()) printer.out << fmt::format("{:<10} {}\n", key, PlainText(value));
  };
  line("id", ShortName(job.name()));
  line("name", job.display_name());
  line("state", JobStateText(job));
  line("again", job.queue_message());
  line("waits", job.wait().message());
  line("worker", job.worker().empty() ? "" : ShortName(job.worker()));
  line("stage", PoseProgressText(job));
  if (job.progress().eta_seconds() > 0) {
    line("left", fmt::format("about {:.0f} s", job.progress().eta_seconds()));
  }
  line("files", std::to_string(job.file_count()));
  line("scene", ShortName(job.scene()));
  if (!job.into().empty()) line("into", ShortName(job.into()));
  line("posed", PosedOf(job));
  for (const std::string& again : job.report().again()) line("again", again);
  line("error", job.error().message());
  for (const v1::SceneProblem& problem : job.problems()) {
    line("", fmt::format("{}: {}", problem.file(), problem.message()));
  }
}

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
  if (absl::Status status = IsFilm(flags.dir) ? absl::OkStatus() : RequireFolder(flags.dir);
      !status.ok()) {
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
  const absl::StatusOr<v1::PoseJob> created = CreatePoseJobOf(session, upload);
  if (!created.ok()) return session.Fail(created.status());
  if (flags.detach) {
    PrintPoseJob(session.printer(), *created);
    session.SayNext(fmt::format("nerfctl pose-job watch {}", ShortName(created->name())));
    return kOk;
  }
  v1::PoseJob job;
  if (const int code = AwaitPoseJob(session, created->name(), &job); code != kOk) return code;
  if (!session.flags().prints_events) PrintPoseJob(session.printer(), job);
  session.SayNext(fmt::format("nerfctl job create {} --watch", ShortName(job.scene())));
  return kOk;
}

int WatchPoseJobCommand(Session& session, const std::string& text) {
  const auto name = ExpandName(ResourceKind::kPoseJob, text, session.flags().project);
  if (!name.ok()) return session.FailUsage(name.status());
  v1::PoseJob job;
  if (const int code = AwaitPoseJob(session, *name, &job); code != kOk) return code;
  if (!session.flags().prints_events) PrintPoseJob(session.printer(), job);
  return kOk;
}

int ShowPoseJob(Session& session, const std::string& text) {
  return ShowResource<v1::PoseJobService>(session, ResourceKind::kPoseJob, text,
                                          &PoseJobStub::GetPoseJob, PrintPoseJob);
}

int CancelPoseJob(Session& session, const std::string& text) {
  return ShowResource<v1::PoseJobService>(session, ResourceKind::kPoseJob, text,
                                          &PoseJobStub::CancelPoseJob, PrintPoseJob);
}

int ListPoseJobs(Session& session, int limit) {
  return ListResources<v1::PoseJobService>(session, limit, &PoseJobStub::ListPoseJobs,
                                           &v1::ListPoseJobsResponse::mutable_pose_jobs,
                                           PrintPoseJobs, "nerfctl pose photos");
}

int RemovePoseJobs(Session& session, const std::vector<std::string>& texts) {
  return RemoveResources<v1::PoseJobService>(session, ResourceKind::kPoseJob, texts,
                                             &PoseJobStub::DeletePoseJob);
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
      ->check(CLI::Range(3, 2000))
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

  AddJobGroup(app,
              {.noun = "pose-job",
               .text = "Photographs that become scenes",
               .example = "p-7f3k2c81",
               .verbs = {{"show", "Show one pose job and its report", ShowPoseJob},
                         {"watch", "Follow a pose job to its end", WatchPoseJobCommand},
                         {"cancel", "Stop a pose job for good", CancelPoseJob}},
               .list = ListPoseJobs,
               .remove = RemovePoseJobs,
               .remove_text = "Delete finished pose jobs; their scenes stay"},
              selected);
}

}  // namespace nerf
