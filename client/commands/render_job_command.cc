#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <filesystem>
#include <memory>
#include <ostream>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "client/calls/resource_calls.h"
#include "client/calls/session.h"
#include "client/commands/commands.h"
#include "client/commands/job_group.h"
#include "client/flags/file_flag.h"
#include "client/flags/interrupt.h"
#include "client/flags/names.h"
#include "client/flags/render_job_flags.h"
#include "client/flags/text_format.h"
#include "client/flags/violations.h"
#include "client/show/progress_display.h"
#include "client/show/resource_printers.h"
#include "client/show/text_table.h"
#include "common/error_reason.h"
#include "common/exit_code.h"
#include "common/rpc/rpc_status.h"
#include "common/shell_word.h"
#include "common/status_macros.h"
#include "fmt/format.h"
#include "nerf/v1/render_job_service.grpc.pb.h"

namespace nerf {
namespace {

using RenderJobStub = v1::RenderJobService::Stub;

constexpr absl::Duration kPollInterval = absl::Milliseconds(250);

// With alpha a movie is a WebM.
bool HasAlpha(const v1::RenderJob& job) {
  return !job.channels().empty() && job.channels(0) == v1::RGBA;
}
std::string_view MovieEnding(const v1::RenderJob& job) { return HasAlpha(job) ? ".webm" : ".mp4"; }
bool IsMovieFile(std::string_view out) { return out.ends_with(".mp4") || out.ends_with(".webm"); }

std::string StateOf(const v1::RenderJob& job) {
  const std::string& name = v1::RenderJob::State_Name(job.state());
  return name.empty() ? fmt::format("STATE_{}", static_cast<int>(job.state())) : name;
}

std::string FramesOf(const v1::RenderJob& job) {
  return fmt::format("{}/{}", job.frames_done(), job.frame_count());
}

bool IsOver(const v1::RenderJob& job) {
  return job.state() == v1::RenderJob::SUCCEEDED || job.state() == v1::RenderJob::FAILED ||
         job.state() == v1::RenderJob::CANCELLED;
}

void PrintRenderJobs(const Printer& printer, const std::vector<v1::RenderJob>& jobs) {
  if (PrintListForPrograms(printer, jobs)) return;
  TextTable table({"ID", "STATE", "FRAMES", "SIZE", "NAME"});
  for (const v1::RenderJob& job : jobs) {
    table.AddRow({ShortName(job.name()), StateOf(job), FramesOf(job),
                  fmt::format("{}x{}", job.width(), job.height()), job.display_name()});
  }
  table.Print(printer.out);
}

void PrintRenderJob(const Printer& printer, const v1::RenderJob& job) {
  if (PrintForPrograms(printer, job)) return;
  TextFields fields;
  fields.Add("name", job.name());
  fields.Add("display name", job.display_name());
  fields.Add("state", StateOf(job));
  fields.Add("waits for", job.wait().message());
  fields.Add("source", job.has_model() ? job.model() : job.checkpoint());
  fields.Add("frames", FramesOf(job));
  fields.Add("size", fmt::format("{}x{}", job.width(), job.height()));
  for (const std::string& worker : job.workers()) fields.Add("worker", ShortName(worker));
  if (job.has_movie_blob()) fields.Add("movie", FormatBytes(job.movie_blob().size_bytes()));
  if (job.has_error()) fields.Add("error", job.error().message());
  fields.Print(printer.out);
}

absl::Status MovieWithPictures(const std::string& out) {
  return InvalidFieldsError(
      {{"--out", out + " is a movie's name, and the job has pictures too: name a folder"}});
}

// The pictures and the movie of a job, as files.
class JobFiles {
 public:
  // Fetches into the folder `out`. The movie of a job without pictures becomes the file `out` if
  // that has its ending; a job with pictures is then refused. If `out` is empty, nothing is
  // fetched.
  JobFiles(Session& session, std::string out)
      : session_(session), blobs_(session.Blobs()), out_(std::move(out)) {}

  // Fetches the pictures that are new since the last call. InvalidArgument if `out` is a movie's
  // file.
  absl::Status FetchPictures(const v1::RenderJob& job) {
    if (out_.empty() || !job.images()) return absl::OkStatus();
    if (IsMovieFile(out_)) return MovieWithPictures(out_);
    for (const v1::RenderedFrame& frame : job.frames()) {
      for (int i = 0; i < frame.images_size(); ++i) {
        const std::string channel =
            i < job.channels_size() ? v1::RenderChannel_Name(job.channels(i)) : "RGB";
        const std::string path = fmt::format("{}/frame_{:05}_{}.{}", out_, frame.index(), channel,
                                             job.format() == v1::EXR ? "exr" : "png");
        if (pictures_.contains(path)) continue;
        NERF_RETURN_IF_ERROR(MakeFolder());
        NERF_RETURN_IF_ERROR(blobs_.DownloadToFile(frame.images(i), path, session_.stop()));
        pictures_.insert(path);
      }
    }
    return absl::OkStatus();
  }

  // Fetches what is missing of a job that has succeeded, and prints all paths.
  absl::Status Finish(const v1::RenderJob& job) {
    NERF_RETURN_IF_ERROR(FetchPictures(job));
    std::vector<std::string> files(pictures_.begin(), pictures_.end());
    if (job.has_movie_blob()) {
      const bool is_file = IsMovieFile(out_);
      if (!is_file) NERF_RETURN_IF_ERROR(MakeFolder());
      const std::string path = is_file ? out_ : fmt::format("{}/movie{}", out_, MovieEnding(job));
      NERF_RETURN_IF_ERROR(blobs_.DownloadToFile(job.movie_blob(), path, session_.stop()));
      files.insert(files.begin(), path);
    }
    PrintFiles(session_.printer(), job.name(), files, /*words=*/"");
    return absl::OkStatus();
  }

 private:
  absl::Status MakeFolder() const {
    std::error_code error;
    std::filesystem::create_directories(out_, error);
    if (error) return absl::InternalError(fmt::format("{}: {}", out_, error.message()));
    return absl::OkStatus();
  }

  Session& session_;
  BlobClient blobs_;
  const std::string out_;
  std::set<std::string> pictures_;  // paths of those that are here
};

// Follows the job to its end and fetches its pictures meanwhile. Errors: those of the calls; that
// of a job that failed.
absl::StatusOr<v1::RenderJob> AwaitEnd(Session& session, const std::string& name, JobFiles* files) {
  ProgressDisplay display(session.io(), session.flags().progress);
  while (true) {
    const auto job = CallByName<v1::RenderJobService>(session, name, &RenderJobStub::GetRenderJob);
    if (!job.ok() && !absl::IsUnavailable(job.status())) {
      display.Clear();
      return job.status();
    }
    if (job.ok()) {
      const double n = std::max(1u, job->frame_count());
      display.Update(
          {.fraction = job->frames_done() / n,
           .label = fmt::format("render  {} frames", FramesOf(*job)),
           .details = StateOf(*job) + (job->has_wait() ? ", waits: " + job->wait().message() : ""),
           .json = fmt::format(R"({{"event":"render_job","state":"{}","frames":{}}})",
                               StateOf(*job), job->frames_done())});
    }
    if (job.ok() && IsOver(*job)) {
      display.Finish();
      return *job;
    }
    const absl::Status fetched = job.ok() ? files->FetchPictures(*job) : absl::OkStatus();
    if (!fetched.ok() && !absl::IsUnavailable(fetched)) {
      display.Clear();
      return fetched;
    }
    if (!session.Sleep(kPollInterval)) {
      display.Clear();
      return session.io().interrupt->requested()
                 ? absl::CancelledError("interrupted")
                 : session.TimeIsOver("before the render job ended");
    }
  }
}

void SayGoesOn(Session& session, const std::string& id, const std::string& out) {
  session.SayError(session.Runnable(PlainText(
      fmt::format("  the render job goes on; `nerfctl render-job fetch {0}{1}` waits for it, "
                  "`nerfctl render-job cancel {0}` stops it",
                  id, out.empty() ? "" : " --out " + ShellWord(out)))));
}

int FollowRenderJob(Session& session, const std::string& name, const std::string& out) {
  JobFiles files(session, out);
  const auto job = AwaitEnd(session, name, &files);
  if (!job.ok()) {
    const int exit_code = session.Fail(job.status());
    if (absl::IsCancelled(job.status()) || absl::IsDeadlineExceeded(job.status())) {
      SayGoesOn(session, ShortName(name), out);
    }
    return exit_code;
  }
  if (job->state() != v1::RenderJob::SUCCEEDED) {
    session.SayError(PlainText(fmt::format("nerfctl: render job {} is {}{}", ShortName(job->name()),
                                           StateOf(*job),
                                           job->has_error() ? ": " + job->error().message() : "")));
    return kJobFailed;
  }
  if (out.empty()) {
    PrintRenderJob(session.printer(), *job);
    return kOk;
  }
  const absl::Status written = files.Finish(*job);
  return written.ok() ? kOk : session.Fail(written);
}

// OK if --out is a folder, which is made, or a movie in a folder that is there.
absl::Status CheckOut(const std::string& out) {
  if (IsMovieFile(out)) return CheckFolderOfFile("--out", out);
  std::error_code ignored;
  if (!std::filesystem::exists(out, ignored) || std::filesystem::is_directory(out, ignored)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(fmt::format(
      "--out: {} is a file; name a folder, or a movie's file (.mp4, with alpha .webm)", out));
}

int CreateRenderJob(Session& session, const RenderJobFlags& flags, bool wait,
                    const std::string& out) {
  Violations violations;
  const auto request = BuildRenderJobRequest(flags, session.flags().project, *session.io().random);
  if (!GetFieldViolations(request.status()).empty()) violations.Add(request.status());
  violations.Add(CheckOut(out));
  const bool has_pictures = request.ok() && request->render_job().images();
  if (has_pictures && IsMovieFile(out)) violations.Add(MovieWithPictures(out));
  if (request.ok() && IsMovieFile(out) && !out.ends_with(MovieEnding(request->render_job()))) {
    violations.Add("--out", fmt::format("a movie of these channels ends in {}",
                                        MovieEnding(request->render_job())));
  }
  if (!violations.empty()) return session.FailUsage(violations.ToStatus());
  if (!request.ok()) return session.Fail(request.status());
  const auto stub = session.Stub<v1::RenderJobService>();
  const auto job = session.Call(*stub, &RenderJobStub::CreateRenderJob, *request);
  if (!job.ok()) return session.Fail(job.status());
  if (wait || !out.empty()) return FollowRenderJob(session, job->name(), out);
  PrintRenderJob(session.printer(), *job);
  session.SayNext(fmt::format("nerfctl render-job fetch {} --out {}", ShortName(job->name()),
                              has_pictures ? "frames" : fmt::format("movie{}", MovieEnding(*job))));
  return kOk;
}

int FetchRenderJob(Session& session, const std::string& text, const std::string& out) {
  const auto name = ExpandName(ResourceKind::kRenderJob, text, session.flags().project);
  if (!name.ok()) return session.FailUsage(name.status());
  if (absl::Status status = CheckOut(out); !status.ok()) return session.FailUsage(status);
  return FollowRenderJob(session, *name, out);
}

int WatchRenderJob(Session& session, const std::string& text) {
  const auto name = ExpandName(ResourceKind::kRenderJob, text, session.flags().project);
  if (!name.ok()) return session.FailUsage(name.status());
  return FollowRenderJob(session, *name, /*out=*/"");
}

int ShowRenderJob(Session& session, const std::string& text) {
  return ShowResource<v1::RenderJobService>(session, ResourceKind::kRenderJob, text,
                                            &RenderJobStub::GetRenderJob, PrintRenderJob);
}

int CancelRenderJob(Session& session, const std::string& text) {
  return ShowResource<v1::RenderJobService>(session, ResourceKind::kRenderJob, text,
                                            &RenderJobStub::CancelRenderJob, PrintRenderJob);
}

int ListRenderJobs(Session& session, int limit) {
  return ListResources<v1::RenderJobService>(session, limit, &RenderJobStub::ListRenderJobs,
                                             &v1::ListRenderJobsResponse::mutable_render_jobs,
                                             PrintRenderJobs);
}

int RemoveRenderJobs(Session& session, const std::vector<std::string>& texts) {
  return RemoveResources<v1::RenderJobService>(session, ResourceKind::kRenderJob, texts,
                                               &RenderJobStub::DeleteRenderJob);
}

}  // namespace

void AddRenderJobCommands(CLI::App& app, Command* selected) {
  CLI::App* group =
      AddJobGroup(app,
                  {.noun = "render-job",
                   .text = "Movies and frames along a camera path",
                   .example = "r-7f3k2c81",
                   .verbs = {{"show", "Show one render job", ShowRenderJob},
                             {"watch", "Follow a render job to its end", WatchRenderJob},
                             {"cancel", "Stop a render job for good", CancelRenderJob}},
                   .list = ListRenderJobs,
                   .remove = RemoveRenderJobs,
                   .remove_text = "Delete finished render jobs with their files"},
                  selected);

  CLI::App* create = group->add_subcommand("create", "Queue a render job of a model or a job");
  auto flags = std::make_shared<RenderJobFlags>();
  auto wait = std::make_shared<bool>(false);
  auto out = std::make_shared<std::string>();
  AddRenderJobFlags(*create, flags.get());
  create->add_flag("--wait", *wait, "Follow the job to its end");
  create->add_option("--out", *out, "Wait, and write the movie (.mp4), or all into this folder");
  create->footer(
      "Examples:\n"
      "  nerfctl render-job create mic --frames 120 --out movie.mp4\n"
      "  nerfctl render-job create --job j-7f3k2c81 --channels rgba,depth --format exr \\\n"
      "      --no-movie --out frames");
  create->callback(
      [=] { *selected = [=](Session& s) { return CreateRenderJob(s, *flags, *wait, *out); }; });

  CLI::App* fetch = group->add_subcommand("fetch", "Wait for a render job and download its files");
  auto fetched = std::make_shared<std::string>();
  auto target = std::make_shared<std::string>(".");
  fetch->add_option("render_job", *fetched, "Name of the render job")->required();
  fetch->add_option("--out", *target, "The movie's file (.mp4), or a folder")
      ->capture_default_str();
  fetch->footer("Example:\n  nerfctl render-job fetch r-7f3k2c81 --out movie.mp4");
  fetch->callback(
      [=] { *selected = [=](Session& s) { return FetchRenderJob(s, *fetched, *target); }; });
}

}  // namespace nerf
