#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "common/counted.h"
#include "common/files/made_folder.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "engine/base/config/psnr_advice.h"
#include "engine/base/config/slow_views.h"
#include "engine/base/config/view_limits.h"
#include "engine/base/protocol/json.h"
#include "engine/program/commands/evaluation_report.h"
#include "engine/program/console/command.h"
#include "engine/program/console/signal_watcher.h"
#include "engine/program/console/view_progress.h"
#include "engine/program/device/device.h"
#include "engine/program/device/exception_border.h"
#include "engine/program/session/evaluation_forecast.h"
#include "engine/program/session/loaded_model.h"
#include "engine/program/session/training_session.h"
#include "engine/program/written_views/compared_scene.h"
#include "engine/program/written_views/scene_match.h"
#include "engine/scene/cameras/camera_file.h"
#include "engine/scene/read/scene_reader.h"
#include "engine/scene/read/source.h"
#include "engine/views/measure/camera_alignment.h"
#include "engine/views/measure/evaluation.h"
#include "fmt/format.h"

namespace nerf {
namespace {

struct EvalFlags {
  std::string model, dataset, split = "test", background, out, device = "cpu";
  ScoreFlags scores;
  int threads = 0, test_every = 8;
  bool has_test_every = false, align = false, json = false, full_size = false;
};

// depth_error: median at the points and depths that training held out; NaN without any. lenses:
// whose focal lengths the training found.
void PrintResult(const EvaluationResult& result, double depth_error, Background background,
                 const std::vector<LensScale>& lenses, const EvalFlags& flags) {
  const bool has_lpips = !flags.scores.lpips.empty();
  for (const LensScale& lens : lenses)
    fmt::print("focal lengths found: {:.4f} of those stated\n", lens.scale);
  for (const ImageScore& image : result.images) {
    const std::string lpips = has_lpips ? fmt::format("{:.4f}  ", image.lpips) : "";
    fmt::print("{:6.2f} dB  {:.4f}  {}{}\n", image.psnr, image.ssim, lpips, image.file);
  }
  if (!std::isnan(depth_error))
    fmt::print("depth error {:.2f}% (median at the points held out)\n", 100 * depth_error);
  if (const Specks& specks = result.specks; specks.n_pixels() > 0) {
    fmt::print("specks: opacity {:.1e}, 99.9th percentile {:.3f} (of {} pixels that see nothing)\n",
               specks.Mean(), specks.Percentile(0.999), specks.n_pixels());
  }
  if (has_lpips) fmt::print("LPIPS {:.4f}\n", result.lpips);
  fmt::print("SSIM {:.4f}\nPSNR after color alignment {:.2f} dB\n", result.ssim,
             result.psnr_color_aligned);
  fmt::print("PSNR {:.2f} dB ({} background, {})\n", result.psnr, BackgroundName(background),
             Counted(result.images.size(), flags.split + " view"));
}

JsonObject ReportOf(const EvaluationResult& result, double depth_error, Background background,
                    const std::vector<LensScale>& lenses, const EvalFlags& flags) {
  JsonObject line;
  line["event"] = "done";
  line["split"] = flags.split;
  SetEvaluation(result, background, !flags.scores.lpips.empty(), &line);
  line["depth_error"] = JsonNumber(depth_error);
  JsonObject scales = JsonObject::array();
  for (const LensScale& lens : lenses) scales.push_back(JsonNumber(lens.scale));
  line["focal_scales"] = std::move(scales);
  return line;
}

// Says where the views are smaller than their files.
void SayReduction(const EvalFlags& flags, const SceneOptions& options,
                  const std::vector<View>& views) {
  if (options.max_side == 0 && options.max_test_pixels == 0) return;
  for (const View& view : views) {
    const absl::StatusOr<ImageHeader> header = ReadImageHeader(flags.dataset + "/" + view.file);
    if (!header.ok() || header->width <= view.image.width) continue;
    fmt::print(stderr, "pictures of {}x{} pixels are compared at {}x{}{}\n", header->width,
               header->height, view.image.width, view.image.height,
               flags.split == "train" ? ", as trained on" : "; --full-size compares all of them");
    return;
  }
}

SceneOptions SceneOptionsOf(const EvalFlags& flags, const TrainConfig& trained, ThreadPool* pool) {
  SceneOptions options = ComparedOptions(trained, pool);
  if (flags.has_test_every) options.test_every = flags.test_every;
  if (flags.split == "test") options.max_side = 0;
  if (flags.split == "train" || flags.full_size) options.max_test_pixels = 0;
  return options;
}

absl::Status Eval(const EvalFlags& flags, std::stop_token stop) {
  const RealClock clock;
  ThreadPool pool(ThreadsFor(flags.threads));
  NERF_ASSIGN_OR_RETURN(ScoreOutput scores, ScoreOutput::Open(flags.scores));
  std::optional<MadeFolder> folder;
  if (!flags.out.empty()) {
    NERF_ASSIGN_OR_RETURN(MadeFolder made, MadeFolder::Make(flags.out));
    folder.emplace(std::move(made));
  }
  NERF_ASSIGN_OR_RETURN(std::unique_ptr<RenderDevice> device, NewRenderDevice(flags.device, &pool));
  NERF_ASSIGN_OR_RETURN(LoadedModel model,
                        WithModelHint(LoadModelFile(flags.model, device.get()), flags.model));
  const SceneOptions scene_options = SceneOptionsOf(flags, model.state.config, &pool);
  NERF_ASSIGN_OR_RETURN(Scene scene,
                        LoadComparedScene(flags.dataset, scene_options, model.state, flags.split));
  std::vector<View>& views = flags.split == "train" ? scene.train : scene.test;
  std::vector<Camera> cameras;  // as the data set has them
  for (View& view : views) {
    cameras.push_back(view.camera);
    view.camera = WithFoundFocal(model.lenses, view.camera);
  }
  EvaluationOptions options;
  options.alpha_is_mask = scene.alpha_is_mask;
  options.background = model.state.evaluation_background;
  if (flags.background == "white") options.background = Background::kWhite;
  if (flags.background == "black") options.background = Background::kBlack;
  options.min_transmittance = MinTransmittance(model.state.config);
  options.rays_per_pixel = RaysPerPixel(model.state.config);
  options.picture_pixel = MedianPixel(model.state.capture);
  options.with_color_alignment = true;
  options.lpips = scores.lpips();
  if (!flags.json) SayReduction(flags, scene_options, views);
  if (flags.align) {
    const float distance = model.state.geometry.median_distance;
    for (View& view : views) {
      NERF_ASSIGN_OR_RETURN(view.camera,
                            AlignedCamera(model.renderer.get(), view, distance, options, stop));
    }
  }
  NERF_ASSIGN_OR_RETURN(const EvaluationForecast forecast,
                        ForecastOf(model.renderer.get(), views, options, clock, stop));
  const std::string slowness = SlowViewsReason(forecast.expected, forecast.occupied_share);
  if (!flags.json && !slowness.empty()) fmt::print(stderr, "{}\n", slowness);
  std::optional<ViewProgress> progress;
  const ProgressStyle style = ConsoleStyle(flags.json);
  progress.emplace("evaluating", &clock, style, views.size(), ConsoleStream(style),
                   forecast.expected);
  options.on_image = [&](const View& view, const ImageU8& image) -> absl::Status {
    progress->Add();
    return scores.WriteView(view, image, options.background, options.alpha_is_mask);
  };
  absl::StatusOr<EvaluationResult> result =
      EvaluateViews(model.renderer.get(), views, options, &pool, clock, stop);
  progress.reset();
  NERF_RETURN_IF_ERROR(result.status());
  NERF_ASSIGN_OR_RETURN(
      const double depth_error,
      MedianDepthError(model.renderer.get(), scene.train, scene.held_out_points, options, stop));
  SortWorstFirst(&result->images);
  const JsonObject report = ReportOf(*result, depth_error, options.background, model.lenses, flags);
  if (!flags.out.empty()) NERF_RETURN_IF_ERROR(WriteEvaluation(report, flags.out));
  if (flags.json) {
    fmt::print("{}", JsonLine(report));
  } else {
    PrintResult(*result, depth_error, options.background, model.lenses, flags);
    std::fflush(stdout);  // the figures come first
    const TrainedQuality quality =
        ComparedQuality(model.state, cameras, result->psnr, flags.dataset);
    for (const std::string& line : LowPsnrAdvice(quality)) fmt::print(stderr, "{}\n", line);
  }
  return absl::OkStatus();
}

int RunEval(EvalFlags flags) {
  if (absl::Status status = CheckDevice(flags.device); !status.ok()) {
    return ReportError(status, flags.json, true);
  }
  const Source source = SourceAt(flags.dataset);
  if (source.was_posed) {
    fmt::print(stderr, "{} has no poses; using {}\n", source.path, source.posed);
    flags.dataset = source.posed;
  }
  SignalWatcher signals;
  const absl::Status status = Guarded([&] { return Eval(flags, signals.token()); });
  if (status.ok()) return kOk;
  const int code = ReportError(status, flags.json);
  std::error_code ignored;
  const bool is_about_data = absl::IsInvalidArgument(status) || absl::IsNotFound(status);
  if (is_about_data && !source.was_posed && std::filesystem::exists(flags.model, ignored))
    SuggestPosing(source);
  return signals.exit_code() != 0 ? signals.exit_code() : code;
}

}  // namespace

void AddEvalCommand(CLI::App* app, CommandBody* chosen) {
  auto flags = std::make_shared<EvalFlags>();
  CLI::App* command = app->add_subcommand("eval", "Compare a model's views with pictures");
  command->add_option("MODEL", flags->model, "model or checkpoint file")->required();
  command->add_option("DIR", flags->dataset, "data set")->required();
  command->add_option("--split", flags->split, "which views: test or train")
      ->check(OneOf({"test", "train"}))
      ->capture_default_str();
  command
      ->add_option("--background", flags->background,
                   "white or black; default: the one stored in the model")
      ->check(OneOf({"white", "black"}));
  auto* test_every = command
                         ->add_option("--test-every", flags->test_every,
                                      "default: the one the model was trained with")
                         ->check(CLI::Range(0, 1'000'000));
  command->add_flag("--align", flags->align,
                    "first move each camera to where its view agrees best, as after a training "
                    "with pose_rate");
  command->add_option("--out", flags->out, "write what --json prints to eval.json in this folder");
  AddScoreOptions(command, &flags->scores);
  command->add_option("--threads", flags->threads, "threads (default: one for each core)")
      ->check(CLI::Range(0, 1024));
  command->add_option("--device", flags->device, "cpu or cuda:N")->capture_default_str();
  command->add_flag("--full-size", flags->full_size,
                    "do not reduce test views of more than 1 megapixel");
  command->add_flag("--json", flags->json, "one JSON object a line on stdout");
  command->footer(
      "Examples:\n"
      "  nerf-engine eval run/model.safetensors examples/mic\n"
      "  nerf-engine eval run/model.safetensors examples/mic --split train --images run/compared");
  command->callback([=] {
    flags->has_test_every = test_every->count() > 0;
    *chosen = [flags] { return RunEval(*flags); };
  });
}

}  // namespace nerf
