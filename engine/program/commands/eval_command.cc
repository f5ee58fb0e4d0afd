#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
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
#include "engine/program/commands/compared_scene.h"
#include "engine/program/console/command.h"
#include "engine/program/console/signal_watcher.h"
#include "engine/program/console/view_progress.h"
#include "engine/program/device/device.h"
#include "engine/program/device/exception_border.h"
#include "engine/program/session/evaluation_forecast.h"
#include "engine/program/session/loaded_model.h"
#include "engine/program/session/training_session.h"
#include "engine/program/written_views/scene_match.h"
#include "engine/scene/cameras/camera_file.h"
#include "engine/scene/pictures/image_io.h"
#include "engine/scene/read/scene_reader.h"
#include "engine/scene/read/source.h"
#include "engine/views/measure/camera_alignment.h"
#include "engine/views/measure/evaluation.h"
#include "engine/views/measure/lpips.h"
#include "fmt/format.h"

namespace nerf {
namespace {

struct EvalFlags {
  std::string model, dataset, split = "test", background, images, device = "cpu";
  std::vector<std::string> lpips;  // files of weights
  int threads = 0, test_every = 8;
  bool has_test_every = false, align = false, json = false, full_size = false;
};

absl::Status WriteNamedImage(const std::string& folder, const View& view, const ImageU8& image) {
  std::string name = std::filesystem::path(view.file).replace_extension("").string();
  for (char& c : name) {
    if (c == '/' || c == '\\') c = '_';
  }
  return WritePng(folder + "/" + name + ".png", image);
}

// Views without a PSNR, of which every pixel is masked, come last.
void SortWorstFirst(std::vector<ImageScore>* images) {
  const auto rank = [](const ImageScore& image) {
    return std::isnan(image.psnr) ? std::numeric_limits<double>::infinity() : image.psnr;
  };
  std::stable_sort(images->begin(), images->end(),
                   [&](const ImageScore& a, const ImageScore& b) { return rank(a) < rank(b); });
}

// depth_error: median at the points and depths that training held out; NaN without any. lenses:
// whose focal lengths the training found.
void PrintResult(const EvaluationResult& result, double depth_error, Background background,
                 const std::vector<LensScale>& lenses, const EvalFlags& flags) {
  const bool has_lpips = !flags.lpips.empty();
  if (!flags.json) {
    for (const LensScale& lens : lenses)
      fmt::print("focal lengths found: {:.4f} of those stated\n", lens.scale);
    for (const ImageScore& image : result.images) {
      const std::string lpips = has_lpips ? fmt::format("{:.4f}  ", image.lpips) : "";
      fmt::print("{:6.2f} dB  {:.4f}  {}{}\n", image.psnr, image.ssim, lpips, image.file);
    }
    if (!std::isnan(depth_error))
      fmt::print("depth error {:.2f}% (median at the points held out)\n", 100 * depth_error);
    if (const Specks& specks = result.specks; specks.n_pixels() > 0) {
      fmt::print(
          "specks: opacity {:.1e}, 99.9th percentile {:.3f} (of {} pixels that see nothing)\n",
          specks.Mean(), specks.Percentile(0.999), specks.n_pixels());
    }
    if (has_lpips) fmt::print("LPIPS {:.4f}\n", result.lpips);
    fmt::print("SSIM {:.4f}\nPSNR after color alignment {:.2f} dB\n", result.ssim,
               result.psnr_color_aligned);
    fmt::print("PSNR {:.2f} dB ({} background, {})\n", result.psnr, BackgroundName(background),
               Counted(result.images.size(), flags.split + " view"));
    return;
  }
  JsonObject line;
  line["event"] = "done";
  line["psnr"] = JsonNumber(result.psnr);
  line["ssim"] = JsonNumber(result.ssim);
  line["psnr_color_aligned"] = JsonNumber(result.psnr_color_aligned);
  if (has_lpips) line["lpips"] = JsonNumber(result.lpips);
  line["images"] = result.images.size();
  line["background"] = BackgroundName(background);
  const Specks& specks = result.specks;
  line["specks"] = {{"pixels", specks.n_pixels()},
                    {"mean", JsonNumber(specks.Mean())},
                    {"percentile_99_9", JsonNumber(specks.Percentile(0.999))}};
  line["depth_error"] = JsonNumber(depth_error);
  JsonObject scales = JsonObject::array();
  for (const LensScale& lens : lenses) scales.push_back(JsonNumber(lens.scale));
  line["focal_scales"] = std::move(scales);
  line["seconds_per_image"] = JsonNumber(result.seconds_per_image);
  JsonObject per_image = JsonObject::array();
  for (const ImageScore& image : result.images) {
    JsonObject entry;
    entry["file"] = image.file;
    entry["psnr"] = JsonNumber(image.psnr);
    entry["ssim"] = JsonNumber(image.ssim);
    entry["psnr_color_aligned"] = JsonNumber(image.psnr_color_aligned);
    if (has_lpips) entry["lpips"] = JsonNumber(image.lpips);
    per_image.push_back(std::move(entry));
  }
  line["per_image"] = std::move(per_image);
  fmt::print("{}", JsonLine(line));
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
  std::optional<Lpips> lpips;
  if (!flags.lpips.empty()) {
    NERF_ASSIGN_OR_RETURN(lpips, Lpips::Load(flags.lpips));
  }
  NERF_ASSIGN_OR_RETURN(std::unique_ptr<RenderDevice> device, NewRenderDevice(flags.device, &pool));
  NERF_ASSIGN_OR_RETURN(LoadedModel model,
                        WithModelHint(LoadModelFile(flags.model, device.get()), flags.model));
  const SceneOptions scene_options = SceneOptionsOf(flags, model.state.config, &pool);
  NERF_ASSIGN_OR_RETURN(Scene scene,
                        LoadComparedScene(flags.dataset, scene_options, model, flags.split));
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
  if (lpips.has_value()) options.lpips = &*lpips;
  std::optional<MadeFolder> folder;
  if (!flags.images.empty()) {
    NERF_ASSIGN_OR_RETURN(MadeFolder made, MadeFolder::Make(flags.images));
    folder.emplace(std::move(made));
  }
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
    if (flags.images.empty()) return absl::OkStatus();
    return WriteNamedImage(flags.images, view, image);
  };
  absl::StatusOr<EvaluationResult> result =
      EvaluateViews(model.renderer.get(), views, options, &pool, clock, stop);
  progress.reset();
  NERF_RETURN_IF_ERROR(result.status());
  NERF_ASSIGN_OR_RETURN(
      const double depth_error,
      MedianDepthError(model.renderer.get(), scene.train, scene.held_out_points, options, stop));
  SortWorstFirst(&result->images);
  PrintResult(*result, depth_error, options.background, model.lenses, flags);
  if (!flags.json) {
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
  command
      ->add_option("--lpips", flags->lpips,
                   "print LPIPS, too, with the weights in this file: AlexNet's and those of LPIPS "
                   "0.1; twice where they are in two files")
      ->type_name("FILE")
      ->allow_extra_args(false);
  command->add_option("--images", flags->images, "write the rendered views to this folder");
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
