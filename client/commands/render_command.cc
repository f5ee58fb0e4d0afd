#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "client/calls/render_wait.h"
#include "client/calls/rendered_training.h"
#include "client/calls/session.h"
#include "client/commands/commands.h"
#include "client/flags/render_plan.h"
#include "client/flags/text_format.h"
#include "client/show/progress_display.h"
#include "client/show/resource_printers.h"
#include "client/show/view_folder.h"
#include "common/counted.h"
#include "common/first_names.h"
#include "common/messages/blob_ref.h"
#include "common/process/exit_code.h"
#include "common/shell_word.h"
#include "common/status_macros.h"
#include "engine/base/config/psnr_advice.h"
#include "engine/views/video_writer.h"
#include "fmt/format.h"
#include "nerf/v1/render_service.grpc.pb.h"

namespace nerf {
namespace {

// Attempts at a view whose worker was lost or whose server was away. The channel does not retry
// renders: a view that crashes the engine must not do so again and again.
constexpr int kMaxAttempts = 4;

// Renders one view, up to kMaxAttempts times.
absl::StatusOr<v1::RenderImageResponse> RenderView(Session& session, v1::RenderService::Stub& stub,
                                                   const v1::RenderImageRequest& request,
                                                   const ProgressLine& line, RenderWait* wait) {
  absl::Duration delay = session.io().first_retry_delay;
  const auto call = [&] {
    return session.Call(stub, &v1::RenderService::Stub::RenderImage, request, session.WorkLimit());
  };
  for (int attempt = 1;; ++attempt) {
    absl::StatusOr<v1::RenderImageResponse> response = wait->During(request, line, call);
    if (!absl::IsUnavailable(response.status()) || attempt == kMaxAttempts) return response;
    if (!session.Sleep(delay)) return response;
    delay *= 2;
  }
}

// Fetches the images that came as blobs.
absl::Status FetchBlobs(Session& session, v1::RenderImageResponse* response) {
  for (v1::RenderedImage& image : *response->mutable_images()) {
    if (!image.has_blob()) continue;
    std::string bytes;
    NERF_RETURN_IF_ERROR(session.Blobs().Read(
        image.blob(),
        [&](std::string_view chunk) {
          bytes += chunk;
          return absl::OkStatus();
        },
        session.stop()));
    if (BlobOfBytes(bytes).sha256() != image.blob().sha256()) {
      return absl::DataLossError("an image arrived with a wrong digest");
    }
    image.set_content(std::move(bytes));
  }
  return absl::OkStatus();
}

std::string_view PathWords(v1::PathKind path) {
  switch (path) {
    case v1::PATH_ORBIT:
      return " on an orbit";
    case v1::PATH_SPIRAL:
      return " on a spiral around the mean camera";
    case v1::PATH_FLYBY:
      return " on a line through the cameras";
    case v1::PATH_CAMERAS:
      return " on a path along the cameras";
    default:
      return "";
  }
}

// "8 views on an orbit, 768x1365 (reduced from the 1080x1920 of the training; --full-size renders
// all of it)".
std::string WhatIsRendered(const RenderPlan& plan, const v1::RenderImageResponse& first) {
  std::string text = fmt::format("{}{}, {}x{}", Counted(plan.n_views, "view"),
                                 PathWords(first.path()), first.width(), first.height());
  std::string full;
  if (plan.reduced_from.width > 0) {
    full = fmt::format("{}x{}", plan.reduced_from.width, plan.reduced_from.height);
  } else if (first.full_width() > 0) {
    // The photographs may have been larger.
    full = fmt::format("the {}x{} of the training", first.full_width(), first.full_height());
  }
  if (full.empty()) return text;
  return text + fmt::format(" (reduced from {}; --full-size renders all of it)", full);
}

// Views of which a smaller share lies in two training views are named in a warning.
constexpr double kWellSeen = 0.75;

// Renders every view of the plan into the folder and shows the progress.
absl::Status RenderViews(Session& session, const RenderPlan& plan, ViewFolder* folder) {
  std::vector<std::string> unseen, far;
  const auto stub = session.Stub<v1::RenderService>();
  ProgressDisplay display(session.io(), session.flags().progress);
  RenderWait wait(session, display);
  ProgressLine line{
      .label = fmt::format("render  0/{} views", plan.n_views), .details = "", .json = ""};
  // The first view may take long.
  if (session.flags().progress == ProgressMode::kBar) display.Update(line);
  for (size_t i = 0; i < plan.n_views; ++i) {
    auto response = RenderView(session, *stub, plan.RequestOf(i), line, &wait);
    absl::Status status = response.ok() ? FetchBlobs(session, &*response) : response.status();
    if (status.ok()) status = folder->WriteView(i, plan, *response);
    if (!status.ok()) {
      display.Clear();
      if (i > 0) session.Say(fmt::format("{} of {} views were rendered", i, plan.n_views));
      return status;
    }
    if (i == 0 && session.flags().progress != ProgressMode::kJson) {
      display.Say(WhatIsRendered(plan, *response));
    }
    if (response->has_seen_twice() && response->seen_twice() < kWellSeen) {
      unseen.push_back(plan.NameOf(i));
    }
    if (response->far_from_cameras()) far.push_back(plan.NameOf(i));
    line.fraction = static_cast<double>(i + 1) / static_cast<double>(plan.n_views);
    line.label = fmt::format("render  {}/{} views", i + 1, plan.n_views);
    ProgressLine finished = line;
    finished.details =
        fmt::format("{}x{}  {:.2f} s", response->width(), response->height(), response->seconds());
    finished.json =
        fmt::format(R"({{"event":"render","view":{},"views":{}}})", i + 1, plan.n_views);
    display.Update(finished);
  }
  if (absl::Status status = folder->Finish(); !status.ok()) {
    display.Clear();
    return status;
  }
  display.Finish();
  if (!far.empty()) {
    session.Say(PlainText(fmt::format(
        "warning: {} of {} far from all training views, as cameras of another data set would be: "
        "{}",
        far.size(), Counted(plan.n_views, "view"), FirstNames(far))));
  }
  if (!unseen.empty()) {
    session.Say(PlainText(fmt::format(
        "warning: {} of {} look where few photographs did (less than {:.0f}% of what they show "
        "lies in two training views): {}",
        unseen.size(), Counted(plan.n_views, "view"), kWellSeen * 100, FirstNames(unseen))));
  }
  return absl::OkStatus();
}

void PrintWritten(const Printer& printer, const ViewFolder& folder, const std::string& out,
                  size_t n_views) {
  nlohmann::ordered_json report;
  report["views"] = n_views;
  if (folder.far() > 0) report["far"] = folder.far();
  if (folder.comparison().n_views() > 0) report["psnr"] = folder.comparison().mean_psnr();
  report["files"] = folder.written();
  if (PrintJson(printer, report)) return;
  if (printer.format == OutputFormat::kTable) {
    printer.out << fmt::format("{}, {} in {}\n", Counted(n_views, "view"),
                               Counted(folder.written().size(), "file"), PlainText(out));
    return;
  }
  for (const std::string& path : folder.written()) printer.out << path << '\n';
}

// Names the files of an earlier render that are overwritten, before it is too late.
void WarnOfReplacedFiles(const Session& session, const std::vector<std::string>& files,
                         const std::string& out) {
  if (files.empty()) return;
  session.Say(PlainText(fmt::format("warning: overwriting {} of an earlier render in {}: {}",
                                    Counted(files.size(), "file"), out, FirstNames(files))));
}

void WarnOfOlderFiles(const Session& session, const ViewFolder& folder, const std::string& out) {
  const std::vector<std::string> older = folder.OlderFiles();
  if (older.empty()) return;
  session.Say(PlainText(fmt::format("warning: {} also holds {} of an earlier render: {}", out,
                                    Counted(older.size(), "file"), FirstNames(older))));
}

// Of the views of `camera`, a camera file or a folder that holds one.
void SayComparison(Session& session, const ViewFolder& folder, const RenderPlan& plan,
                   const std::string& camera, const std::string& out) {
  const ViewComparison& comparison = folder.comparison();
  if (comparison.n_views() == 0) return;
  session.Say(PlainText(
      fmt::format("PSNR of {} against their photographs: {:.2f} dB; side by side in {}/compare.png",
                  Counted(comparison.n_views(), "view"), comparison.mean_psnr(), out)));
  const std::filesystem::path path = camera;
  std::error_code ignored;
  const std::filesystem::path dataset =
      std::filesystem::is_directory(path, ignored)
          ? path
          : std::filesystem::absolute(path, ignored).parent_path();
  const double psnr = comparison.mean_psnr();
  const auto job =
      psnr < kLowPsnr ? TrainingOf(session, plan.request) : absl::NotFoundError("not asked");
  const TrainedQuality quality = {
      .psnr = psnr,
      .samples = job.ok() ? job->training_status().progress().samples() : 0,
      .check_command = session.Runnable("nerfctl scene check " + ShellWord(dataset.string())),
      .psnr_name = "PSNR"};
  for (const std::string& line : LowPsnrAdvice(quality)) session.Say(PlainText(line));
}

int Render(Session& session, const RenderFlags& flags) {
  absl::StatusOr<RenderPlan> plan = MakeRenderPlan(flags, session.flags().project);
  if (!plan.ok()) return session.FailUsage(plan.status());
  absl::Status status = ReadCameras(flags, &*plan);
  if (!status.ok()) return session.Fail(status);
  for (const std::string& warning : plan->warnings) session.Say(PlainText("warning: " + warning));
  std::optional<VideoWriter> video;
  if (!flags.video.empty()) {
    absl::StatusOr<VideoWriter> opened =
        VideoWriter::Open(flags.ffmpeg, flags.video, flags.fps, plan->VideoContentOf());
    if (!opened.ok()) return session.Fail(opened.status());
    video.emplace(*std::move(opened));
  }
  // Without --out the frames of a video are kept beside it until it is complete.
  const std::string out = flags.out.empty() ? flags.video + ".frames" : flags.out;
  absl::StatusOr<ViewFolder> folder = ViewFolder::Open(out);
  if (!folder.ok()) return session.FailUsage(folder.status());
  WarnOfReplacedFiles(session, folder->ReplacedFiles(*plan, flags.sheet), out);
  std::error_code ignored;
  if (!flags.video.empty() && std::filesystem::exists(flags.video, ignored)) {
    session.Say(
        PlainText(fmt::format("warning: {} is there already and is replaced", flags.video)));
  }
  if (video.has_value()) folder->AddVideo(*std::move(video));
  status = RenderViews(session, *plan, &*folder);
  if (status.ok() && flags.sheet) status = folder->WriteSheet();
  if (!status.ok()) {
    folder->RemoveIfEmpty();
    return session.Fail(status);
  }
  SayComparison(session, *folder, *plan, flags.camera, out);
  status = folder->FinishVideo(session.stop());
  if (!status.ok()) {
    const int exit_code = session.Fail(status);
    session.SayError(PlainText("  the frames are in " + out));
    return exit_code;
  }
  if (flags.out.empty()) {
    folder->RemoveImages();
    if (const nlohmann::ordered_json report = {{"views", plan->n_views}, {"files", {flags.video}}};
        PrintJson(session.printer(), report)) {
      return kOk;
    }
    PrintDone(session.printer(), flags.video,
              fmt::format("{} in {}", Counted(plan->n_views, "view"), flags.video));
    return kOk;
  }
  WarnOfOlderFiles(session, *folder, out);
  PrintWritten(session.printer(), *folder, out, plan->n_views);
  return kOk;
}

}  // namespace

void AddRenderCommand(CLI::App& app, Command* selected) {
  CLI::App* render = app.add_subcommand("render", "Render views of a model, checkpoint or job");
  auto flags = std::make_shared<RenderFlags>();
  AddRenderFlags(*render, flags.get());
  render->footer(
      "Without --camera and --orbit the views lie on a path that suits the training views.\n"
      "Examples:\n"
      "  nerfctl render mic --out views --sheet\n"
      "  nerfctl render mic --video mic.mp4\n"
      "  nerfctl render --job j-7f3k2c81 --camera examples/mic/transforms_test.json \\\n"
      "      --width 400 --height 400 --channels rgb,depth --out views\n"
      "  nerfctl render --job j-7f3k2c81 --camera photos --out views\n"
      "  nerfctl render mic --camera camera_path.json --dataset photos --video mic.mp4");
  render->callback([=] { *selected = [flags](Session& s) { return Render(s, *flags); }; });
}

}  // namespace nerf
