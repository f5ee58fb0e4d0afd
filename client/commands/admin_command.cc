#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/calls/paging.h"
#include "client/calls/session.h"
#include "client/commands/commands.h"
#include "client/flags/names.h"
#include "client/flags/text_format.h"
#include "client/flags/time_flag.h"
#include "client/show/printer.h"
#include "client/show/resource_printers.h"
#include "client/show/text_table.h"
#include "common/error_reason.h"
#include "common/problems.h"
#include "common/process/exit_code.h"
#include "common/status_macros.h"
#include "nerf/v1/admin_service.grpc.pb.h"

namespace nerf {
namespace {

using AdminStub = v1::AdminService::Stub;

// The settings of `admin project update`; what is unset stays.
struct ProjectFlags {
  std::optional<double> max_queued_jobs, max_running_jobs, max_stored_bytes, max_device_seconds,
      max_renders, max_ended_jobs;
  std::string ended_job_age, unused_scene_age, model_age;
};

// "3 of 10", or "3" without a limit.
std::string UseText(double used, double max) {
  return max > 0 ? fmt::format("{:.0f} of {:.0f}", used, max) : fmt::format("{:.0f}", used);
}

std::string BytesText(const v1::Project& project) {
  const std::string used = FormatBytes(project.usage().stored_bytes());
  const double max = project.quota().max_stored_bytes();
  return max > 0 ? fmt::format("{} of {}", used, FormatBytes(max)) : used;
}

std::string AgeText(bool is_set, const google::protobuf::Duration& age) {
  return is_set ? absl::FormatDuration(absl::Seconds(age.seconds())) : "no limit";
}

void PrintProject(const Printer& printer, const v1::Project& project) {
  if (PrintForPrograms(printer, project)) return;
  const v1::Project::Quota& quota = project.quota();
  const v1::Project::Usage& usage = project.usage();
  const v1::Project::Retention& kept = project.retention();
  printer.out << PlainText(project.name()) << '\n';
  TextFields fields;
  fields.Add("queued jobs", UseText(usage.queued_jobs(), quota.max_queued_jobs()));
  fields.Add("running jobs", UseText(usage.running_jobs(), quota.max_running_jobs()));
  fields.Add("stored", BytesText(project));
  fields.Add("device seconds today",
             UseText(usage.device_seconds(), quota.max_device_seconds_per_day()));
  fields.Add("renders", UseText(usage.renders(), quota.max_renders()));
  fields.Add("ended jobs are kept for", AgeText(kept.has_ended_job_age(), kept.ended_job_age()));
  fields.Add("ended jobs that are kept", kept.max_ended_jobs() > 0
                                             ? fmt::format("{:.0f}", kept.max_ended_jobs())
                                             : "10000 (default)");
  fields.Add("unused scenes are kept for",
             AgeText(kept.has_unused_scene_age(), kept.unused_scene_age()));
  fields.Add("models are kept for", AgeText(kept.has_model_age(), kept.model_age()));
  fields.Print(printer.out);
}

int ListProjects(Session& session, int limit) {
  const auto stub = session.Stub<v1::AdminService>();
  const auto projects =
      ListPages<v1::Project>(session, *stub, &AdminStub::ListProjects, v1::ListProjectsRequest(),
                             limit, [](auto& page) { return page.mutable_projects(); });
  if (!projects.ok()) return session.Fail(projects.status());
  const Printer printer = session.printer();
  if (PrintListForPrograms(printer, *projects)) return kOk;
  TextTable table({"PROJECT", "QUEUED", "RUNNING", "STORED", "DEVICE SECONDS", "RENDERS"});
  for (const v1::Project& project : *projects) {
    const v1::Project::Quota& quota = project.quota();
    const v1::Project::Usage& usage = project.usage();
    table.AddRow({ShortName(project.name()), UseText(usage.queued_jobs(), quota.max_queued_jobs()),
                  UseText(usage.running_jobs(), quota.max_running_jobs()), BytesText(project),
                  UseText(usage.device_seconds(), quota.max_device_seconds_per_day()),
                  UseText(usage.renders(), quota.max_renders())});
  }
  table.Print(printer.out);
  return kOk;
}

// Whether the server lists the project. A project needs no creation, so the server shows any name.
// True for callers that may not list projects: what they may read is theirs.
absl::StatusOr<bool> IsListed(Session& session, const std::string& name) {
  const auto stub = session.Stub<v1::AdminService>();
  const auto projects =
      ListPages<v1::Project>(session, *stub, &AdminStub::ListProjects, v1::ListProjectsRequest(),
                             /*limit=*/0, [](auto& page) { return page.mutable_projects(); });
  if (absl::IsPermissionDenied(projects.status())) return true;
  NERF_RETURN_IF_ERROR(projects.status());
  return std::any_of(projects->begin(), projects->end(),
                     [&](const v1::Project& project) { return project.name() == name; });
}

int ShowProject(Session& session, const std::string& id) {
  v1::GetProjectRequest request;
  const auto name = ProjectName(id.empty() ? session.flags().project : id);
  if (!name.ok()) return session.FailUsage(name.status());
  request.set_name(*name);
  const auto stub = session.Stub<v1::AdminService>();
  const auto project = session.Call(*stub, &AdminStub::GetProject, request);
  if (!project.ok()) return session.Fail(project.status());
  if (!id.empty()) {
    const absl::StatusOr<bool> is_listed = IsListed(session, *name);
    if (!is_listed.ok()) return session.Fail(is_listed.status());
    if (!*is_listed) {
      const int exit_code = session.Fail(WithReason(
          absl::NotFoundError(fmt::format("project {} has no resources and no settings", id)),
          reason::kResourceNotFound));
      session.SayError(session.Runnable("  `nerfctl admin project ls` lists what there is"));
      return exit_code;
    }
  }
  PrintProject(session.printer(), *project);
  return kOk;
}

absl::StatusOr<v1::UpdateProjectRequest> BuildUpdate(const ProjectFlags& flags) {
  v1::UpdateProjectRequest request;
  Problems problems;
  v1::Project::Quota& quota = *request.mutable_project()->mutable_quota();
  v1::Project::Retention& kept = *request.mutable_project()->mutable_retention();
  google::protobuf::FieldMask& mask = *request.mutable_update_mask();
  const auto set_number = [&](const std::optional<double>& value, const char* path, auto* message,
                              auto set) {
    if (!value.has_value()) return;
    (message->*set)(*value);
    mask.add_paths(path);
  };
  set_number(flags.max_queued_jobs, "quota.max_queued_jobs", &quota,
             &v1::Project::Quota::set_max_queued_jobs);
  set_number(flags.max_running_jobs, "quota.max_running_jobs", &quota,
             &v1::Project::Quota::set_max_running_jobs);
  set_number(flags.max_stored_bytes, "quota.max_stored_bytes", &quota,
             &v1::Project::Quota::set_max_stored_bytes);
  set_number(flags.max_device_seconds, "quota.max_device_seconds_per_day", &quota,
             &v1::Project::Quota::set_max_device_seconds_per_day);
  set_number(flags.max_renders, "quota.max_renders", &quota, &v1::Project::Quota::set_max_renders);
  set_number(flags.max_ended_jobs, "retention.max_ended_jobs", &kept,
             &v1::Project::Retention::set_max_ended_jobs);
  const auto set_age = [&](const char* flag, const std::string& text, const char* path,
                           google::protobuf::Duration* (v1::Project::Retention::*field)()) {
    if (text.empty()) return;
    mask.add_paths(path);
    if (text == "none") return;  // the field without a value removes the limit
    absl::Duration age;
    problems.AddOrAssign(ParseTimeFlag(flag, text), &age);
    (kept.*field)()->set_seconds(absl::ToInt64Seconds(age));
  };
  set_age("--ended-job-age", flags.ended_job_age, "retention.ended_job_age",
          &v1::Project::Retention::mutable_ended_job_age);
  set_age("--unused-scene-age", flags.unused_scene_age, "retention.unused_scene_age",
          &v1::Project::Retention::mutable_unused_scene_age);
  set_age("--model-age", flags.model_age, "retention.model_age",
          &v1::Project::Retention::mutable_model_age);
  if (mask.paths().empty()) {
    problems.Add("", "admin project update needs a setting, such as --max-queued-jobs 100");
  }
  NERF_RETURN_IF_ERROR(problems.Result());
  return request;
}

int UpdateProject(Session& session, const std::string& id, const ProjectFlags& flags) {
  const auto name = ProjectName(id);
  if (!name.ok()) return session.FailUsage(name.status());
  auto request = BuildUpdate(flags);
  if (!request.ok()) return session.FailUsage(request.status());
  request->mutable_project()->set_name(*name);
  const auto stub = session.Stub<v1::AdminService>();
  const auto project = session.Call(*stub, &AdminStub::UpdateProject, *request);
  if (!project.ok()) return session.Fail(project.status());
  PrintProject(session.printer(), *project);
  return kOk;
}

template <typename Request>
int ChangeWorker(Session& session, const std::string& text,
                 grpc::Status (AdminStub::*method)(grpc::ClientContext*, const Request&,
                                                   v1::Worker*),
                 const std::string& done) {
  const auto name = ExpandName(ResourceKind::kWorker, text, session.flags().project);
  if (!name.ok()) return session.FailUsage(name.status());
  Request request;
  request.set_name(*name);
  const auto stub = session.Stub<v1::AdminService>();
  const auto worker = session.Call(*stub, method, request);
  if (!worker.ok()) return session.Fail(worker.status());
  const Printer printer = session.printer();
  if (!PrintJson(printer, *worker)) {
    PrintDone(printer, *name, fmt::format("{} {}", ShortName(*name), done));
  }
  return kOk;
}

void AddProjectCommands(CLI::App& admin, Command* selected) {
  CLI::App* project = admin.add_subcommand("project", "Quotas, retention and use of projects");
  project->require_subcommand(1);
  project->footer("Example:\n  nerfctl admin project show team-a");
  CLI::App* ls = project->add_subcommand("ls", "List projects and what they use");
  auto limit = AddLimitFlag(*ls);
  ls->footer("Example:\n  nerfctl admin project ls");
  ls->callback([=] { *selected = [limit](Session& s) { return ListProjects(s, *limit); }; });

  CLI::App* show = project->add_subcommand("show", "Show a project's quota, retention and use");
  auto shown = std::make_shared<std::string>();
  show->add_option("id", *shown, "Its id; default: that of --project");
  show->footer("Example:\n  nerfctl admin project show team-a");
  show->callback([=] { *selected = [shown](Session& s) { return ShowProject(s, *shown); }; });

  CLI::App* update = project->add_subcommand("update", "Change a project's quota or retention");
  auto updated = std::make_shared<std::string>();
  auto flags = std::make_shared<ProjectFlags>();
  update->add_option("id", *updated, "Its id")->required();
  const auto add_number = [&](const char* name, std::optional<double>& value, const char* help) {
    update->add_option(name, value, help)->type_name("N");
  };
  add_number("--max-queued-jobs", flags->max_queued_jobs, "Most queued jobs; 0: no limit");
  add_number("--max-running-jobs", flags->max_running_jobs, "Most jobs at work; 0: no limit");
  add_number("--max-stored-bytes", flags->max_stored_bytes, "Most bytes stored; 0: no limit");
  add_number("--max-device-seconds", flags->max_device_seconds,
             "Most seconds a day on workers; 0: no limit");
  add_number("--max-renders", flags->max_renders, "Most renders in progress; 0: no limit");
  add_number("--max-ended-jobs", flags->max_ended_jobs,
             "Ended jobs that are kept, the newest; 0: 10000");
  const auto add_age = [&](const char* name, std::string& value, const char* help) {
    update->add_option(name, value, help)->type_name("TIME|none");
  };
  add_age("--ended-job-age", flags->ended_job_age, "Delete ended jobs after this time");
  add_age("--unused-scene-age", flags->unused_scene_age, "Delete unused scenes after this time");
  add_age("--model-age", flags->model_age, "Delete models after this time");
  update->footer("Example:\n  nerfctl admin project update team-a --max-running-jobs 2");
  update->callback(
      [=] { *selected = [=](Session& s) { return UpdateProject(s, *updated, *flags); }; });
}

}  // namespace

void AddAdminCommands(CLI::App& app, Command* selected) {
  CLI::App* admin = app.add_subcommand("admin", "Projects and workers, for operators");
  admin->require_subcommand(1);
  admin->footer("Example:\n  nerfctl admin drain w-7f3k2c81");
  AddProjectCommands(*admin, selected);

  CLI::App* drain =
      admin->add_subcommand("drain", "Give a worker nothing more and its job back to the queue");
  auto drained = std::make_shared<std::string>();
  drain->add_option("worker", *drained, "Its id")->required();
  drain->footer("Example:\n  nerfctl admin drain w-7f3k2c81");
  drain->callback([=] {
    *selected = [drained](Session& s) {
      return ChangeWorker(s, *drained, &AdminStub::DrainWorker, "is drained");
    };
  });

  CLI::App* undrain = admin->add_subcommand("undrain", "Use a drained worker again");
  auto undrained = std::make_shared<std::string>();
  undrain->add_option("worker", *undrained, "Its id")->required();
  undrain->footer("Example:\n  nerfctl admin undrain w-7f3k2c81");
  undrain->callback([=] {
    *selected = [undrained](Session& s) {
      return ChangeWorker(s, *undrained, &AdminStub::UndrainWorker, "is in use again");
    };
  });
}

}  // namespace nerf
