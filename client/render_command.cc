#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>

#include "client/commands.h"
#include "client/progress_display.h"
#include "client/render_plan.h"
#include "client/session.h"
#include "client/text_format.h"
#include "client/view_folder.h"
#include "common/counted.h"
#include "common/exit_code.h"
#include "fmt/format.h"
#include "nerf/v1/render_service.grpc.pb.h"

namespace nerf {
namespace {

// Attempts at a view whose worker was lost or whose server was away. The channel does not retry
// renders: a view that crashes the engine must not do so again and again.
constexpr int kMaxAttempts = 4;

// Renders one view, up to kMaxAttempts times.
absl::StatusOr<v1::RenderImageResponse> RenderView(Session& session, v1::RenderService::Stub& stub,
                                                   const v1::RenderImageRequest& request) {
  absl::Duration delay = session.io().first_retry_delay;
  for (int attempt = 1;; ++attempt) {
    absl::StatusOr<v1::RenderImageResponse> response =
        session.Call(stub, &v1::RenderService::Stub::RenderImage, request, session.WorkLimit());
    if (!absl::IsUnavailable(response.status()) || attempt == kMaxAttempts) return response;
    if (!session.Sleep(delay)) return response;
    delay *= 2;
  }
}

// Renders every view of the plan into the folder and shows the progress.
absl::Status RenderViews(Session& session, const RenderPlan& plan, ViewFolder* folder) {
  const auto stub = session.Stub<v1::RenderService>();
  ProgressDisplay display(session.io(), session.flags().progress);
  // The first view may take long.
  if (session.flags().progress == ProgressMode::kBar) {
    display.Update(
        {.label = fmt::format("render  0/{} views", plan.n_views), .details = "", .json = ""});
  }
  for (size_t i = 0; i < plan.n_views; ++i) {
    const auto response = RenderView(session, *stub, plan.RequestOf(i));
    const absl::Status status =
        response.ok() ? folder->WriteView(i, plan, *response) : response.status();
    if (!status.ok()) {
      display.Clear();
      if (i > 0) session.Say(fmt::format("{} of {} views were rendered", i, plan.n_views));
      return status;
    }
    display.Update(
        {.fraction = static_cast<double>(i + 1) / static_cast<double>(plan.n_views),
         .label = fmt::format("render  {}/{} views", i + 1, plan.n_views),
         .details = fmt::format("{}x{}  {:.2f} s", response->width(), response->height(),
                                response->seconds()),
         .json = fmt::format(R"({{"event":"render","view":{},"views":{}}})", i + 1, plan.n_views)});
  }
  if (absl::Status status = folder->Finish(); !status.ok()) {
    display.Clear();
    return status;
  }
  display.Finish();
  return absl::OkStatus();
}

void PrintWritten(const Printer& printer, const ViewFolder& folder, const std::string& out,
                  size_t n_views) {
  nlohmann::ordered_json report;
  switch (printer.format) {
    case OutputFormat::kTable:
      printer.out << fmt::format("{}, {} in {}\n", Counted(n_views, "view"),
                                 Counted(folder.written().size(), "file"), PlainText(out));
      return;
    case OutputFormat::kName:
      for (const std::string& path : folder.written()) printer.out << path << '\n';
      return;
    case OutputFormat::kJson:
    case OutputFormat::kJsonLines:
      report["views"] = n_views;
      if (folder.far() > 0) report["far"] = folder.far();
      report["files"] = folder.written();
      printer.out << report.dump(printer.format == OutputFormat::kJson ? 2 : -1, ' ', false,
                                 nlohmann::json::error_handler_t::replace)
                  << '\n';
      return;
  }
}

void WarnOfOlderFiles(const Session& session, const ViewFolder& folder, const std::string& out) {
  const std::vector<std::string> older = folder.OlderFiles();
  if (older.empty()) return;
  session.Say(PlainText(fmt::format("warning: {} also holds {} of an earlier render, such as {}",
                                    out, Counted(older.size(), "file"), older.front())));
}

int Render(Session& session, const RenderFlags& flags) {
  absl::StatusOr<RenderPlan> plan = MakeRenderPlan(flags, session.flags().project);
  if (!plan.ok()) return session.FailUsage(plan.status());
  absl::Status status = ReadCameras(flags, &*plan);
  if (!status.ok()) return session.Fail(status);
  absl::StatusOr<ViewFolder> folder = ViewFolder::Open(flags.out);
  if (!folder.ok()) return session.FailUsage(folder.status());
  status = RenderViews(session, *plan, &*folder);
  if (status.ok() && flags.sheet) status = folder->WriteSheet();
  if (!status.ok()) {
    folder->RemoveIfEmpty();
    return session.Fail(status);
  }
  WarnOfOlderFiles(session, *folder, flags.out);
  PrintWritten(session.printer(), *folder, flags.out, plan->n_views);
  return kOk;
}

}  // namespace

void AddRenderCommand(CLI::App& app, Command* selected) {
  CLI::App* render = app.add_subcommand("render", "Render views of a model, checkpoint or job");
  auto flags = std::make_shared<RenderFlags>();
  AddRenderFlags(*render, flags.get());
  render->footer(
      "The images of one view may have 3 MiB in all (about a PNG of 1920x1080). Use JPEG, fewer\n"
      "channels or a smaller view if they have more. For larger views: nerfctl model download,\n"
      "then nerf-engine render.\n"
      "Examples:\n"
      "  nerfctl render mic --orbit 8 --out views --sheet\n"
      "  nerfctl render --job j-7f3k2c81 --camera examples/mic/transforms_test.json \\\n"
      "      --width 400 --height 400 --channels rgb,depth --out views\n"
      "  nerfctl render --job j-7f3k2c81 --camera photos --out views");
  render->callback([=] { *selected = [flags](Session& s) { return Render(s, *flags); }; });
}

}  // namespace nerf
