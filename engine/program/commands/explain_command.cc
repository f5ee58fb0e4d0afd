#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "engine/base/config/setting.h"
#include "engine/base/method_list/method_descriptions.h"
#include "engine/base/protocol/json.h"
#include "engine/program/console/command.h"
#include "engine/program/console/signal_watcher.h"
#include "engine/program/console/view_progress.h"
#include "engine/program/device/device.h"
#include "engine/program/device/exception_border.h"
#include "engine/program/session/loaded_model.h"
#include "engine/program/session/picture_limits.h"
#include "engine/program/written_views/compared_scene.h"
#include "engine/scene/read/scene_reader.h"
#include "engine/scene/read/source.h"
#include "engine/scene/reduce_views.h"
#include "engine/views/measure/causes.h"
#include "engine/views/measure/scene_measures.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr size_t kFurther = 3;  // causes that are printed after the first

struct ExplainFlags {
  std::string model, dataset, device = "cpu";
  int threads = 0;
  bool json = false;
};

// Sets the entries of a table and those that nerfd chooses for the scene, where the method has any,
// and whether exposures were learned.
void CompareSettings(const TrainConfig& trained, const std::string& dataset, SceneOptions options,
                     SceneMeasures* measures) {
  const auto number = [](const TrainConfig& config, const char* key) {
    const std::map<std::string, std::string> settings = ConfigSettings(config);
    const auto found = settings.find(key);
    return found == settings.end() ? 0 : std::atof(found->second.c_str());  // 0: "auto"
  };
  measures->learned_exposures = number(trained, "exposure_rate") > 0;
  absl::StatusOr<TrainConfig> chosen = DefaultConfig(trained.method);
  options.decode_images = false;
  options.placement = trained.placement;
  SceneDescription description = DescribeScene(dataset, options);
  if (!chosen.ok() || !description.ok()) return;
  ReduceViews(options, &description);
  MethodDescriptionOf(*chosen).ChooseSettings(
      FactsOfScene(description, static_cast<double>(measures->n_trained)), &*chosen);
  measures->log2_entries = static_cast<int>(number(trained, "log2_hashmap_size"));
  measures->chosen_log2_entries = static_cast<int>(number(*chosen, "log2_hashmap_size"));
}

std::string Figure(double value) { return std::isnan(value) ? "-" : fmt::format("{:.2f}", value); }

// Of a view: the first five have means over views, which both forms print.
struct Column {
  const char* name;
  const char* key;  // of JSON
  double ViewMeasure::*figure;
};
constexpr Column kColumns[] = {
    {"PSNR", "psnr", &ViewMeasure::psnr},
    {"colors aligned", "psnr_color_aligned", &ViewMeasure::psnr_color},
    {"camera aligned", "psnr_camera_aligned", &ViewMeasure::psnr_camera},
    {"seen by three", "psnr_seen", &ViewMeasure::psnr_seen},
    {"half size", "psnr_half_size", &ViewMeasure::psnr_half},
    {"", "light_left", &ViewMeasure::light_left},
    {"", "few_seen", &ViewMeasure::few_seen},
    {"", "small_psnr", &ViewMeasure::small_psnr},
    {"", "small_color_aligned", &ViewMeasure::small_color},
    {"", "small_camera_aligned", &ViewMeasure::small_camera},
    {"", "sharpness_db", &ViewMeasure::sharpness},
    {"", "match_error", &ViewMeasure::match_error},
};
constexpr size_t kPrinted = 5;

// The mean PSNR, and what views that have the figure gain by it: some have it not.
double MeanWith(const SceneMeasures& measures, bool is_test, const Column& column) {
  double gain = 0, n = 0;
  for (const ViewMeasure& view : measures.views) {
    if (view.is_test != is_test || std::isnan(view.*column.figure - view.psnr)) continue;
    gain += view.*column.figure - view.psnr;
    ++n;
  }
  return MeanOf(measures.views, is_test, &ViewMeasure::psnr) + gain / n;  // NaN without any
}

std::string FirstSentence(const SceneMeasures& measures, const std::vector<Cause>& causes) {
  if (!causes.empty()) return causes[0].sentence;
  return fmt::format("Nothing stands out: {} views are at {} dB.",
                     measures.held_out ? "test" : "training",
                     Figure(MeanOf(measures.views, true, &ViewMeasure::psnr)));
}

void PrintText(const SceneMeasures& measures, const std::vector<Cause>& causes) {
  fmt::print("{}\n", FirstSentence(measures, causes));
  for (size_t i = 1; i < std::min(causes.size(), 1 + kFurther); ++i)
    fmt::print("also ({:.1f} dB): {}\n", causes[i].gain_db, causes[i].sentence);
  if (!measures.held_out)
    fmt::print("no photographs are held out: each 8th training view stands for a test view\n");
  fmt::print("\n{:<14}", "mean dB");
  for (const Column& column : std::span(kColumns, kPrinted)) fmt::print("  {:>14}", column.name);
  for (const bool is_test : {false, true}) {
    fmt::print("\n{:<14}", is_test ? "test views" : "training views");
    for (const Column& column : std::span(kColumns, kPrinted))
      fmt::print("  {:>14}", Figure(MeanWith(measures, is_test, column)));
  }
  fmt::print("\na pixel: {:.2g} samples, {:.2g} rays, {:.0f}% of the light passes the scene\n",
             measures.samples, measures.rays,
             100 * MeanOf(measures.views, false, &ViewMeasure::light_left));
}

void PrintJson(const SceneMeasures& measures, const std::vector<Cause>& causes) {
  JsonObject line = {{"event", "done"},
                     {"sentence", FirstSentence(measures, causes)},
                     {"causes", JsonObject::array()},
                     {"held_out", measures.held_out},
                     {"samples_per_pixel", JsonNumber(measures.samples)},
                     {"rays_per_pixel", JsonNumber(measures.rays)},
                     {"times_seen", JsonNumber(measures.seen)},
                     {"match_error", JsonNumber(measures.match_error)},
                     {"focal_scale", JsonNumber(measures.focal_scale)},
                     {"match_error_at_scale", JsonNumber(measures.match_error_at_scale)},
                     {"views", JsonObject::array()}};
  for (const Cause& cause : causes) {
    line["causes"].push_back({{"cause", cause.cause},
                              {"gain_db", JsonNumber(cause.gain_db)},
                              {"place", cause.place},
                              {"sentence", cause.sentence}});
  }
  for (const Column& column : std::span(kColumns, kPrinted)) {
    line["train"][column.key] = JsonNumber(MeanWith(measures, false, column));
    line["test"][column.key] = JsonNumber(MeanWith(measures, true, column));
  }
  for (const ViewMeasure& view : measures.views) {
    const ErrorRegion& region = view.region;
    JsonObject entry = {
        {"file", view.file},
        {"test", view.is_test},
        {"exposure", JsonNumber(view.exposure)},
        {"gains", view.gains},
        {"region", {{"gain_db", region.gain_db}, {"x", region.x}, {"y", region.y}}}};
    for (const Column& column : kColumns) entry[column.key] = JsonNumber(view.*column.figure);
    line["views"].push_back(std::move(entry));
  }
  fmt::print("{}", JsonLine(line));
}

absl::Status Explain(const ExplainFlags& flags, std::stop_token stop) {
  const RealClock clock;
  ThreadPool pool(ThreadsFor(flags.threads));
  NERF_ASSIGN_OR_RETURN(std::unique_ptr<RenderDevice> device, NewRenderDevice(flags.device, &pool));
  NERF_ASSIGN_OR_RETURN(LoadedModel model,
                        WithModelHint(LoadModelFile(flags.model, device.get()), flags.model));
  const SceneOptions scene_options = ComparedOptions(model.state.config, &pool);
  NERF_ASSIGN_OR_RETURN(Scene scene,
                        LoadComparedScene(flags.dataset, scene_options, model.state, "train"));
  for (auto* views : {&scene.train, &scene.test}) {
    for (View& view : *views) view.camera = WithFoundFocal(model.lenses, view.camera);
  }
  EvaluationOptions options;
  options.alpha_is_mask = scene.alpha_is_mask;
  options.background = model.state.evaluation_background;
  options.min_transmittance = MinTransmittance(model.state.config);
  options.rays_per_pixel = RaysPerPixel(model.state.config);
  options.picture_pixel = MedianPixel(model.state.capture);
  std::optional<ViewProgress> progress;
  const ProgressStyle style = ConsoleStyle(flags.json);
  const auto on_part = [&](size_t n_done, size_t n) {
    if (n_done == 0) {
      progress.emplace("measuring", &clock, style, n, ConsoleStream(style));
    } else {
      progress->Add();
    }
  };
  absl::StatusOr<SceneMeasures> measures =
      MeasureScene(model.renderer.get(), model.state, scene, options, &pool, stop, on_part);
  progress.reset();
  NERF_RETURN_IF_ERROR(measures.status());
  CompareSettings(model.state.config, flags.dataset, scene_options, &*measures);
  const std::vector<Cause> causes = FindCauses(*measures);
  flags.json ? PrintJson(*measures, causes) : PrintText(*measures, causes);
  return absl::OkStatus();
}

int RunExplain(ExplainFlags flags) {
  if (absl::Status status = CheckDevice(flags.device); !status.ok())
    return ReportError(status, flags.json, true);
  std::error_code ignored;
  const std::filesystem::path inside = std::filesystem::path(flags.model) / "model.safetensors";
  if (std::filesystem::exists(inside, ignored)) flags.model = inside.string();
  const Source source = SourceAt(flags.dataset);
  flags.dataset = source.Dataset();
  SignalWatcher signals;
  const absl::Status status = Guarded([&] { return Explain(flags, signals.token()); });
  if (status.ok()) return kOk;
  const int code = ReportError(status, flags.json);
  const bool is_about_data = absl::IsInvalidArgument(status) || absl::IsNotFound(status);
  if (is_about_data && !source.was_posed && std::filesystem::exists(flags.model, ignored))
    SuggestPosing(source);
  return signals.exit_code() != 0 ? signals.exit_code() : code;
}

}  // namespace

void AddExplainCommand(CLI::App* app, CommandBody* chosen) {
  auto flags = std::make_shared<ExplainFlags>();
  CLI::App* command =
      app->add_subcommand("explain", "Say what keeps a trained scene from being better");
  command->add_option("MODEL", flags->model, "model or checkpoint file, or a training's --out")
      ->required();
  command->add_option("DIR", flags->dataset, "data set")->required();
  command->add_option("--threads", flags->threads, "threads (default: one for each core)")
      ->check(CLI::Range(0, 1024));
  command->add_option("--device", flags->device, "cpu or cuda:N")->capture_default_str();
  command->add_flag("--json", flags->json, "one JSON object a line on stdout, with all measures");
  command->footer("Example:\n  nerf-engine explain run examples/mic");
  command->callback([=] { *chosen = [flags] { return RunExplain(*flags); }; });
}

}  // namespace nerf
