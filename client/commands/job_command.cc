#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>

#include "client/calls/job_calls.h"
#include "client/calls/job_create.h"
#include "client/calls/job_files.h"
#include "client/calls/job_flags.h"
#include "client/calls/job_watch.h"
#include "client/calls/paging.h"
#include "client/calls/resource_calls.h"
#include "client/calls/session.h"
#include "client/commands/commands.h"
#include "client/flags/names.h"
#include "client/kinds/job_printers.h"
#include "client/kinds/kind_view.h"
#include "common/problems.h"
#include "common/process/exit_code.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "fmt/format.h"
#include "nerf/v1/job_service.grpc.pb.h"
#include "nerf/v1/scene_service.grpc.pb.h"

namespace nerf {
namespace {

using JobStub = v1::JobService::Stub;

// What a job is to train on: a scene, or the pose job that makes it.
struct TrainedScene {
  std::string scene, pose_job;  // one of them; names, as typed or whole
};

// The names of the server. Errors: InvalidArgument that lists what is wrong with them and the flags
// of the watch.
absl::StatusOr<TrainedScene> SceneOf(const Session& session, const JobFlags& flags,
                                     const TrainedScene& typed, bool watch) {
  Problems problems;
  TrainedScene names;
  const std::string& project = session.flags().project;
  if (typed.scene.empty() == typed.pose_job.empty()) {
    problems.Add("", "job create needs the name of a scene, or --pose-job");
  } else if (!typed.scene.empty()) {
    problems.AddOrAssign(ExpandName(ResourceKind::kScene, typed.scene, project), &names.scene);
  } else {
    problems.AddOrAssign(ExpandName(ResourceKind::kJob, typed.pose_job, project), &names.pose_job);
  }
  problems.Add(CheckWatchFlags(session, flags, watch));
  NERF_RETURN_IF_ERROR(problems.Result());
  return names;
}

// Names the job after its scene or pose job. One that is gone, or that the caller may not read,
// leaves the job without a name: creating the job says what is wrong, or finds it created before.
absl::Status NameAfterScene(Session& session, v1::Job* job) {
  const auto take = [job](const auto& found) -> absl::Status {
    if (absl::IsNotFound(found.status()) || absl::IsPermissionDenied(found.status()))
      return absl::OkStatus();
    NERF_RETURN_IF_ERROR(found.status());
    job->set_display_name(found->display_name().empty() ? ShortName(found->name())
                                                        : found->display_name());
    return absl::OkStatus();
  };
  const v1::TrainingSpec& spec = job->training();
  if (!spec.pose_job().empty()) return take(GetJob(session, spec.pose_job()));
  return take(
      CallByName<v1::SceneService>(session, spec.scene(), &v1::SceneService::Stub::GetScene));
}

int QueueTraining(Session& session, const JobFlags& flags, const TrainedScene& trained, bool watch,
                  v1::CreateJobRequest& request) {
  v1::Job& job = *request.mutable_job();
  job.mutable_training()->set_scene(trained.scene);
  job.mutable_training()->set_pose_job(trained.pose_job);
  if (flags.display_name.empty()) {
    if (absl::Status named = NameAfterScene(session, &job); !named.ok()) return session.Fail(named);
  }
  if (!watch) return SubmitJob(session, request, std::nullopt);
  return SubmitJob(session, request,
                   WatchOptions{.patient_from_start = true, .preview = flags.preview});
}

int ListJobs(Session& session, int limit, const std::string& kind, const std::string& filter) {
  v1::ListJobsRequest request;
  const auto parent = ProjectName(session.flags().project);
  if (!parent.ok()) return session.Fail(parent.status());
  request.set_parent(*parent);
  request.set_filter(kind.empty()     ? filter
                     : filter.empty() ? "kind = " + kind
                                      : fmt::format("kind = {} AND {}", kind, filter));
  const auto stub = session.Stub<v1::JobService>();
  const auto jobs =
      ListPages<v1::Job>(session, *stub, &JobStub::ListJobs, request, limit,
                         [](v1::ListJobsResponse& page) { return page.mutable_jobs(); });
  if (!jobs.ok()) return session.Fail(jobs.status());
  PrintJobs(session.printer(), *jobs);
  if (jobs->empty() && request.filter().empty()) session.SayNext("nerfctl train DIR");
  return kOk;
}

int ShowJob(Session& session, const std::string& text) {
  return ShowResource<v1::JobService>(session, ResourceKind::kJob, text, &JobStub::GetJob,
                                      PrintJob);
}

int ShowMetrics(Session& session, const std::string& text) {
  return ShowResource<v1::JobService>(session, ResourceKind::kJob, text, &JobStub::ListJobMetrics,
                                      PrintMetrics);
}

int RemoveJobs(Session& session, const std::vector<std::string>& texts) {
  return RemoveResources<v1::JobService>(session, ResourceKind::kJob, texts, &JobStub::DeleteJob);
}

int WatchNamedJob(Session& session, const std::string& text, const PreviewFlags& preview) {
  if (absl::Status status = CheckPreviewFlags(session, preview); !status.ok()) {
    return session.FailUsage(status);
  }
  const auto name = ExpandName(ResourceKind::kJob, text, session.flags().project);
  if (!name.ok()) return session.FailUsage(name.status());
  return WatchJobToTheEnd(session, *name, {.preview = preview});
}

int FetchNamedJob(Session& session, const std::string& text, const std::string& out) {
  const auto name = ExpandName(ResourceKind::kJob, text, session.flags().project);
  if (!name.ok()) return session.FailUsage(name.status());
  if (absl::Status status = CheckJobOut(out); !status.ok()) return session.FailUsage(status);
  return FetchJob(session, *name, out);
}

// The commands that print what is known of one job.
void AddShowCommands(CLI::App& job, Command* selected) {
  CLI::App* show = job.add_subcommand("show", "Show one job and what has come of it");
  auto shown = std::make_shared<std::string>();
  show->add_option("job", *shown, "Name of the job")->required();
  show->footer("Example:\n  nerfctl job show j-7f3k2c81");
  show->callback([=] { *selected = [=](Session& s) { return ShowJob(s, *shown); }; });
  CLI::App* metrics =
      job.add_subcommand("metrics", "Show a training's curves: loss, PSNR and speed by step");
  auto measured = std::make_shared<std::string>();
  metrics->add_option("job", *measured, "Name of the job")->required();
  metrics->footer("Example:\n  nerfctl job metrics j-7f3k2c81");
  metrics->callback([=] { *selected = [=](Session& s) { return ShowMetrics(s, *measured); }; });
}

}  // namespace

void AddJobCommands(CLI::App& app, Command* selected) {
  CLI::App* job = app.add_subcommand("job", "Trainings, renders, poses and exports");
  job->require_subcommand(1);
  job->footer("Example:\n  nerfctl job create mic --steps 2000 --watch");

  CLI::App* create = job->add_subcommand("create", "Queue a training of a scene");
  auto flags = std::make_shared<JobFlags>();
  auto trained = std::make_shared<TrainedScene>();
  auto watch = std::make_shared<bool>(false);
  create->add_option("scene,--scene", trained->scene, "Name of the scene");
  create
      ->add_option("--pose-job", trained->pose_job,
                   "In place of a scene: the pose job that makes it, which is waited for")
      ->type_name("JOB");
  AddJobFlags(*create, flags.get());
  CLI::Option* watch_flag = create->add_flag("--watch", *watch, "Follow the job to its end");
  CLI::Option* detach_flag =
      create->add_flag("--detach", flags->detach, "Return once the job is queued (the default)");
  watch_flag->excludes(detach_flag);
  detach_flag->excludes(watch_flag);
  create->footer(
      "Examples:\n"
      "  nerfctl job create mic --steps 2000 --watch\n"
      "  nerfctl job create mic --samples 40M --set learning_rate=0.01");
  create->callback([=] {
    *selected = [=](Session& s) {
      const auto name = SceneOf(s, *flags, *trained, *watch);
      return WithJobRequest(s, *flags, name.status(), [&](v1::CreateJobRequest& request) {
        return QueueTraining(s, *flags, *name, *watch, request);
      });
    };
  });

  CLI::App* ls = job->add_subcommand("ls", "List jobs, newest first");
  auto limit = AddLimitFlag(*ls);
  auto kind = std::make_shared<std::string>(), filter = std::make_shared<std::string>();
  ls->add_option("--kind", *kind,
                 fmt::format("Only those of one kind: {}", fmt::join(JobKindWords(), ", ")))
      ->type_name("KIND")
      ->check(OneOf(JobKindWords()));
  ls->add_option("--filter", *filter,
                 "Which jobs: comparisons of kind, state, scene, display_name, priority, part_of "
                 "and labels.KEY, joined by AND")
      ->type_name("TEXT");
  ls->footer(
      "Examples:\n"
      "  nerfctl job ls --limit 5\n"
      "  nerfctl job ls --kind render\n"
      "  nerfctl job ls --filter 'state = RUNNING AND labels.team = blue'");
  ls->callback(
      [=] { *selected = [=](Session& s) { return ListJobs(s, *limit, *kind, *filter); }; });

  AddShowCommands(*job, selected);
  AddJobRender(*job, selected);
  AddJobLifeCommands(*job, selected);

  CLI::App* follow = job->add_subcommand("watch", "Follow a job to its end");
  auto watched = std::make_shared<std::string>();
  auto previews = std::make_shared<PreviewFlags>();
  follow->add_option("job", *watched, "Name of the job")->required();
  AddPreviewFlags(*follow, previews.get());
  follow->footer(
      "Examples:\n"
      "  nerfctl job watch j-7f3k2c81\n"
      "  nerfctl job watch j-7f3k2c81 --preview newest.png");
  follow->callback(
      [=] { *selected = [=](Session& s) { return WatchNamedJob(s, *watched, *previews); }; });

  CLI::App* fetch = job->add_subcommand("fetch", "Wait for a job and download what it has made");
  auto fetched = std::make_shared<std::string>(), out = std::make_shared<std::string>(".");
  fetch->add_option("job", *fetched, "Name of the job")->required();
  fetch
      ->add_option("--out", *out,
                   "Folder for the movie and frames of a render, the file of an export, the report "
                   "of a pose job or the model of a training; or a name with the ending of the one "
                   "file, such as movie.mp4")
      ->capture_default_str();
  fetch->footer(
      "Examples:\n"
      "  nerfctl job fetch r-7f3k2c81 --out movie.mp4\n"
      "  nerfctl job fetch p-7f3k2c81 --out report");
  fetch->callback(
      [=] { *selected = [=](Session& s) { return FetchNamedJob(s, *fetched, *out); }; });

  CLI::App* preview = job->add_subcommand("preview", "Fetch the newest preview of a training");
  auto previewed = std::make_shared<std::string>();
  auto preview_flags = std::make_shared<PreviewFlags>();
  preview->add_option("job", *previewed, "Name of the job")->required();
  preview->add_option("--out", preview_flags->file, "PNG file to write")->type_name("FILE");
  preview->add_flag("--show", preview_flags->show, "Show it in the terminal");
  preview->footer("Example:\n  nerfctl job preview j-7f3k2c81 --out preview.png");
  preview->callback(
      [=] { *selected = [=](Session& s) { return PrintPreview(s, *previewed, *preview_flags); }; });

  CLI::App* rm = job->add_subcommand("rm", "Delete finished jobs with all that they have made");
  auto removed = std::make_shared<std::vector<std::string>>();
  rm->add_option("job", *removed, "Names of jobs")->required();
  rm->footer("Example:\n  nerfctl job rm j-7f3k2c81 j-9x2k4d11");
  rm->callback([=] { *selected = [removed](Session& s) { return RemoveJobs(s, *removed); }; });
}

}  // namespace nerf
