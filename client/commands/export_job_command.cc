#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "client/calls/export_job.h"
#include "client/calls/follow_job.h"
#include "client/calls/resource_calls.h"
#include "client/calls/session.h"
#include "client/commands/commands.h"
#include "client/commands/job_group.h"
#include "client/flags/file_flag.h"
#include "client/flags/names.h"
#include "client/flags/text_format.h"
#include "client/show/resource_printers.h"
#include "client/show/text_table.h"
#include "common/exit_code.h"
#include "fmt/format.h"
#include "nerf/v1/export_job_service.grpc.pb.h"

namespace nerf {
namespace {

using ExportJobStub = v1::ExportJobService::Stub;

std::string SourceText(const v1::ExportJob& job) {
  return ShortName(job.has_model() ? job.model() : job.checkpoint());
}

std::string SizeText(const v1::ExportJob& job) {
  if (job.has_result() && job.result().files_size() > 0) {
    return FormatBytes(job.result().files(0).blob().size_bytes());
  }
  return ExpectedSizeText(job);
}

void PrintExportJobs(const Printer& printer, const std::vector<v1::ExportJob>& jobs) {
  if (PrintListForPrograms(printer, jobs)) return;
  TextTable table({"ID", "STATE", "OF", "FORMAT", "SIZE", "NAME"});
  for (const v1::ExportJob& job : jobs) {
    table.AddRow({ShortName(job.name()), JobStateText(job), SourceText(job),
                  v1::ExportJob::Format_Name(job.format()), SizeText(job), job.display_name()});
  }
  table.Print(printer.out);
}

void PrintExportJob(const Printer& printer, const v1::ExportJob& job) {
  if (PrintForPrograms(printer, job)) return;
  TextFields fields;
  fields.Add("name", job.name());
  fields.Add("display name", job.display_name());
  fields.Add("state", JobStateText(job));
  fields.Add("again", job.queue_message());
  fields.Add("waits for", job.wait().message());
  fields.Add("worker", job.worker().empty() ? "" : ShortName(job.worker()));
  fields.Add("step", ExportProgressText(job));
  fields.Add("source", SourceText(job));
  fields.Add("format", v1::ExportJob::Format_Name(job.format()));
  fields.Add("size", SizeText(job));
  for (const v1::ExportFile& file : job.result().files()) fields.Add("file", file.name());
  fields.Add("holds", job.result().words());
  fields.Add("axes", job.result().axes());
  fields.Add("error", job.error().message());
  fields.Print(printer.out);
}

int ShowExportJob(Session& session, const std::string& text) {
  return ShowResource<v1::ExportJobService>(session, ResourceKind::kExportJob, text,
                                            &ExportJobStub::GetExportJob, PrintExportJob);
}

int CancelExportJob(Session& session, const std::string& text) {
  return ShowResource<v1::ExportJobService>(session, ResourceKind::kExportJob, text,
                                            &ExportJobStub::CancelExportJob, PrintExportJob);
}

int WatchExportJob(Session& session, const std::string& text) {
  const auto name = ExpandName(ResourceKind::kExportJob, text, session.flags().project);
  if (!name.ok()) return session.FailUsage(name.status());
  v1::ExportJob job;
  if (const int code = AwaitExportJob(session, *name, &job); code != kOk) return code;
  if (!session.flags().prints_events) PrintExportJob(session.printer(), job);
  return kOk;
}

int ListExportJobs(Session& session, int limit) {
  return ListResources<v1::ExportJobService>(session, limit, &ExportJobStub::ListExportJobs,
                                             &v1::ListExportJobsResponse::mutable_export_jobs,
                                             PrintExportJobs,
                                             "nerfctl export --job JOB --mesh out.glb");
}

int RemoveExportJobs(Session& session, const std::vector<std::string>& texts) {
  return RemoveResources<v1::ExportJobService>(session, ResourceKind::kExportJob, texts,
                                               &ExportJobStub::DeleteExportJob);
}

int FetchExportJob(Session& session, const std::string& text, const std::string& out) {
  const auto name = ExpandName(ResourceKind::kExportJob, text, session.flags().project);
  if (!name.ok()) return session.FailUsage(name.status());
  if (absl::Status status = CheckFolderOfFile("--out", out); !status.ok()) {
    return session.FailUsage(status);
  }
  v1::ExportJob job;
  if (const int code = AwaitExportJob(session, *name, &job); code != kOk) return code;
  if (absl::Status status = DownloadExport(session, job, out); !status.ok()) {
    return session.Fail(status);
  }
  PrintFiles(session.printer(), job.name(), {out}, "");
  return kOk;
}

}  // namespace

void AddExportJobCommands(CLI::App& app, Command* selected) {
  CLI::App* group =
      AddJobGroup(app,
                  {.noun = "export-job",
                   .text = "Models as files for other programs",
                   .example = "e-7f3k2c81",
                   .verbs = {{"show", "Show one export job", ShowExportJob},
                             {"watch", "Follow an export job to its end", WatchExportJob},
                             {"cancel", "Stop an export job for good", CancelExportJob}},
                   .list = ListExportJobs,
                   .remove = RemoveExportJobs,
                   .remove_text = "Delete finished export jobs with their files"},
                  selected);
  CLI::App* fetch = group->add_subcommand("fetch", "Wait for an export job and download its file");
  auto name = std::make_shared<std::string>(), out = std::make_shared<std::string>();
  fetch->add_option("export_job", *name, "Name of the export job")->required();
  fetch->add_option("--out", *out, "File to write")->type_name("FILE")->required();
  fetch->footer("Example:\n  nerfctl export-job fetch e-7f3k2c81 --out mesh.glb");
  fetch->callback([=] { *selected = [=](Session& s) { return FetchExportJob(s, *name, *out); }; });
}

}  // namespace nerf
