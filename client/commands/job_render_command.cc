#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>
#include <string>

#include "client/calls/job_calls.h"
#include "client/calls/job_files.h"
#include "client/calls/job_watch.h"
#include "client/commands/commands.h"
#include "client/flags/names.h"
#include "client/flags/render_job_flags.h"
#include "client/kinds/kind_view.h"
#include "common/problems.h"
#include "common/process/exit_code.h"
#include "fmt/format.h"

namespace nerf {
namespace {

int QueueRender(Session& session, const RenderJobFlags& flags, bool wait, const std::string& out) {
  Problems problems;
  const auto request = BuildRenderJobRequest(flags, session.flags().project, *session.io().random);
  if (!GetProblems(request.status()).empty()) problems.Add(request.status());
  problems.Add(CheckJobOut(out));
  if (request.ok()) problems.Add(JobFiles(session, out).Check(request->job()));
  if (!problems.empty()) return session.FailUsage(problems.Result());
  if (!request.ok()) return session.Fail(request.status());
  const auto job = CreateJob(session, *request);
  if (!job.ok()) return session.Fail(job.status());
  if (!out.empty()) return FetchJob(session, job->name(), out, /*patient_from_start=*/true);
  if (wait) return WatchJobToTheEnd(session, job->name(), {.patient_from_start = true});
  const v1::RenderSpec& spec = request->job().render();
  PrintQueued(session, *job,
              fmt::format("nerfctl job fetch {} --out {}", ShortName(job->name()),
                          spec.images() ? "frames" : fmt::format("movie{}", MovieEnding(spec))));
  return kOk;
}

}  // namespace

void AddJobRender(CLI::App& job, Command* selected) {
  CLI::App* render =
      job.add_subcommand("render", "Queue a movie or frames along a path of a model or a training");
  auto flags = std::make_shared<RenderJobFlags>();
  auto wait = std::make_shared<bool>(false);
  auto out = std::make_shared<std::string>();
  AddRenderJobFlags(*render, flags.get());
  render->add_flag("--wait", *wait, "Follow the job to its end");
  render->add_option("--out", *out,
                     "Wait, and write the movie to this file, if the name ends in .mp4 (.webm with "
                     "alpha), else movie and frames into this folder");
  render->footer(
      "Examples:\n"
      "  nerfctl job render mic --frames 120 --out movie.mp4\n"
      "  nerfctl job render --job j-7f3k2c81 --channels rgbaz --format exr \\\n"
      "      --no-movie --out frames");
  render->callback(
      [=] { *selected = [=](Session& s) { return QueueRender(s, *flags, *wait, *out); }; });
}

}  // namespace nerf
