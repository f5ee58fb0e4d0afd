#include "client/kinds/job_printers.h"

#include <algorithm>
#include <ostream>

#include "client/flags/names.h"
#include "client/flags/text_format.h"
#include "client/kinds/job_words.h"
#include "client/kinds/kind_view.h"
#include "client/show/resource_printers.h"
#include "client/show/text_table.h"
#include "fmt/format.h"

namespace nerf {
namespace {

std::string Colored(const Printer& printer, v1::Job::State state) {
  const std::string text = StateText(state);
  if (!printer.color) return text;
  const int color = state == v1::Job::SUCCEEDED                                   ? 32
                    : state == v1::Job::FAILED                                    ? 31
                    : state == v1::Job::RUNNING                                   ? 36
                    : state == v1::Job::CANCELLED || v1::Job::CANCELLING == state ? 33
                                                                                  : 0;
  return color == 0 ? text : fmt::format("\x1b[{}m{}\x1b[0m", color, text);
}

// "run=7, team=blue".
std::string LabelsText(const v1::Job& job) {
  std::vector<std::string> labels;
  for (const auto& [key, value] : job.labels()) labels.push_back(fmt::format("{}={}", key, value));
  std::sort(labels.begin(), labels.end());
  return fmt::format("{}", fmt::join(labels, ", "));
}

}  // namespace

std::string WorkersText(const v1::Job& job) {
  std::vector<std::string> ids;
  for (const std::string& worker : job.workers()) ids.push_back(ShortName(worker));
  return fmt::format("{}", fmt::join(ids, ", "));
}

void PrintJobs(const Printer& printer, const std::vector<v1::Job>& jobs) {
  if (PrintListForPrograms(printer, jobs)) return;
  TextTable table(
      {"ID", "KIND", "NAME", "STATE", "OF", "PROGRESS", "RESULT", "WORKER", "AGE", "ETA", "NOTE"});
  for (const v1::Job& job : jobs) {
    const KindView& kind = KindViewOf(job);
    table.AddRow({ShortName(job.name()), std::string(kind.word()), job.display_name(),
                  StateText(job.state()), kind.Subject(job), kind.Progress(job), kind.Result(job),
                  WorkersText(job), FormatAge(ToTime(job.create_time()), printer.now),
                  IsFinal(job.state()) ? "" : FormatClock(kind.SecondsLeft(job)), NoteText(job)});
  }
  table.Print(printer.out);
}

void PrintJob(const Printer& printer, const v1::Job& job) {
  if (PrintForPrograms(printer, job)) return;
  printer.out << Colored(printer, job.state()) << "  " << PlainText(job.name()) << '\n';
  const KindView& kind = KindViewOf(job);
  TextFields fields;
  fields.Add("kind", std::string(kind.word()));
  fields.Add("display name", job.display_name());
  if (job.priority() != 0) fields.Add("priority", fmt::format("{}", job.priority()));
  fields.Add("labels", LabelsText(job));
  kind.AddSpec(job, &fields);
  fields.Add("must start by", TimeText(job.start_by_time()));
  fields.Add("must end by", TimeText(job.end_by_time()));
  fields.Add("queued because", QueueReasonText(job));
  fields.Add("waits because", job.wait().message());
  fields.Add("error", FailureText(job));
  kind.AddWorkers(job, &fields);
  if (job.attempt() > 0) fields.Add("attempt", fmt::format("{}", job.attempt()));
  kind.AddStatus(job, &fields);
  fields.Add("created", TimeText(job.create_time()));
  fields.Add("started", TimeText(job.start_time()));
  fields.Add("ended", TimeText(job.end_time()));
  fields.Print(printer.out);
  for (const v1::SceneProblem& problem : job.problems()) {
    printer.out << "problem  " << ProblemText(problem) << '\n';
  }
  kind.PrintTables(printer, job);
}

void PrintMetrics(const Printer& printer, const v1::ListJobMetricsResponse& metrics) {
  if (PrintJson(printer, metrics)) return;
  TextTable table({"STEP", "SECONDS", "LOSS", "PSNR", "PREVIEW PSNR", "RAYS/S"});
  for (const v1::TrainingMetrics& point : metrics.points()) {
    table.AddRow({fmt::format("{}", point.step()), fmt::format("{:.1f}", point.seconds()),
                  fmt::format("{:.6f}", point.loss()), DbText(point.psnr_train()),
                  point.has_psnr_preview() ? DbText(point.psnr_preview()) : "",
                  FormatCount(point.rays_per_second())});
  }
  table.Print(printer.out);
}

}  // namespace nerf
