#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

#include "common/atomic_file.h"
#include "common/clock.h"
#include "common/counted.h"
#include "common/status_macros.h"
#include "engine/config/view_limits.h"
#include "engine/protocol/json.h"
#include "engine/render/render_device.h"
#include "engine/scene/image_io.h"
#include "engine/tool/command.h"
#include "engine/tool/device.h"
#include "engine/tool/exception_border.h"
#include "engine/tool/loaded_model.h"
#include "engine/tool/png_writer.h"
#include "engine/tool/signal_watcher.h"
#include "engine/tool/training_session.h"
#include "engine/tool/view_progress.h"
#include "engine/tool/view_request.h"
#include "engine/tool/view_writer.h"
#include "engine/train/memory_estimate.h"
#include "fmt/format.h"

namespace nerf {
namespace {

struct RenderFlags {
  std::string model, camera, out, device = "cpu";
  int orbit = 0, width = 0, height = 0, threads = 0;
  std::vector<std::string> channels = {"rgb"};
  bool progressive = false, json = false;
};

constexpr int kProgressiveStride = 8;  // of the first pass: 1/64 of the pixels

// Keeps the depths of all views on disk until the largest depth, which scales them all, is known.
// They may not fit into memory.
class DepthSpool {
 public:
  DepthSpool() : file_(std::tmpfile()) {}
  ~DepthSpool() {
    if (file_ != nullptr) std::fclose(file_);
  }
  DepthSpool(const DepthSpool&) = delete;
  DepthSpool& operator=(const DepthSpool&) = delete;

  absl::Status Append(int width, int height, const std::vector<float>& depths) {
    if (file_ == nullptr ||
        std::fwrite(depths.data(), sizeof(float), depths.size(), file_) != depths.size()) {
      return absl::UnavailableError("cannot write a temporary file for depths");
    }
    for (float depth : depths) largest_ = std::max(largest_, depth);
    sizes_.push_back({width, height});
    return absl::OkStatus();
  }

  // depth_NNNN.png of each view, and depth.json.
  absl::Status WriteImages(const std::string& out) {
    if (sizes_.empty()) return absl::OkStatus();
    const float far = FarOf(largest_);
    std::rewind(file_);
    for (size_t i = 0; i < sizes_.size(); ++i) {
      std::vector<float> depths(static_cast<size_t>(sizes_[i].width) * sizes_[i].height);
      if (std::fread(depths.data(), sizeof(float), depths.size(), file_) != depths.size()) {
        return absl::UnavailableError("cannot read the temporary file for depths");
      }
      NERF_RETURN_IF_ERROR(WritePng16(fmt::format("{}/depth_{:04}.png", out, i), sizes_[i].width,
                                      sizes_[i].height, DepthToGray(depths, far)));
    }
    JsonObject meta;
    meta["far"] = far;
    meta["unit"] = "scene units of the data set";
    meta["encoding"] = "depth / far * 65535; 0: nothing was hit";
    return WriteFileAtomically(out + "/depth.json", JsonLine(meta));
  }

 private:
  struct Size {
    int width, height;
  };
  std::FILE* file_;
  std::vector<Size> sizes_;
  float largest_ = 0;
};

absl::StatusOr<std::vector<Camera>> CamerasOf(const RenderFlags& flags, const LoadedModel& model) {
  if (flags.camera.empty()) {
    return CamerasOfOrbit(model.state, model.renderer->OccupiedBox(), flags.orbit, flags.width,
                          flags.height);
  }
  return CamerasOfFile(flags.camera, model.state, flags.width, flags.height);
}

std::string ColorFile(const RenderFlags& flags, size_t view) {
  return fmt::format("{}/rgb_{:04}.png", flags.out, view);
}

// Writes the view after each pass, over the file of the pass before.
absl::Status WritePasses(const RenderFlags& flags, size_t view, SteadyTime begin,
                         const Clock& clock, const std::stop_token& stop, PictureRender* work) {
  for (int stride = kProgressiveStride; !work->finished(); stride /= 2) {
    if (!work->Advance(nullptr, stop)) return absl::CancelledError("rendering was interrupted");
    if (work->finished()) break;
    const std::string file = ColorFile(flags, view);
    NERF_RETURN_IF_ERROR(WritePng(file, ColorsOf(work->TakePicture())));
    const double seconds = absl::ToDoubleSeconds(clock.Now() - begin);
    if (flags.json) {
      fmt::print("{}", JsonLine({{"event", "pass"},
                                 {"view", view},
                                 {"stride", stride},
                                 {"file", file},
                                 {"seconds", JsonNumber(seconds)}}));
    } else {
      fmt::print(stderr, "{}: one pixel in {} after {:.3f} s\n", file, stride * stride, seconds);
    }
    std::fflush(stdout);
  }
  return absl::OkStatus();
}

absl::Status Render(const RenderFlags& flags, ViewChannels channels, std::stop_token stop) {
  const RealClock clock;
  ThreadPool pool(ThreadsFor(flags.threads));
  NERF_ASSIGN_OR_RETURN(std::unique_ptr<RenderDevice> device, NewRenderDevice(flags.device, &pool));
  NERF_ASSIGN_OR_RETURN(LoadedModel model, LoadModelFile(flags.model, device.get()));
  NERF_ASSIGN_OR_RETURN(std::vector<Camera> cameras, CamerasOf(flags, model));
  for (const Camera& camera : cameras) {
    NERF_RETURN_IF_ERROR(CheckViewFits(camera.width, camera.height, AvailableMemoryBytes()));
  }
  NERF_RETURN_IF_ERROR(CreateFolder(flags.out));

  RenderOptions options;
  options.background = BackgroundColor(model.state.evaluation_background);
  options.min_transmittance = model.state.config.min_transmittance;
  if (flags.progressive) options.first_stride = kProgressiveStride;
  DepthSpool depths;
  PngWriter writer(pool.n_threads());
  absl::Duration rendering, first_rendering;
  std::optional<ViewProgress> progress;
  if (!flags.progressive && ConsoleStyle(flags.json) == ProgressStyle::kTerminal)
    progress.emplace("rendering", &clock, ProgressStyle::kTerminal, cameras.size(), stderr);
  for (size_t i = 0; i < cameras.size(); ++i) {
    const SteadyTime begin = clock.Now();
    const std::unique_ptr<PictureRender> work = model.renderer->Begin(cameras[i], options);
    const absl::Status status = WritePasses(flags, i, begin, clock, stop, work.get());
    if (absl::IsCancelled(status)) {
      NERF_RETURN_IF_ERROR(writer.Finish());
      return absl::CancelledError(fmt::format("{}: {} of {} views are done",
                                              std::string(status.message()), i, cameras.size()));
    }
    NERF_RETURN_IF_ERROR(status);
    const ViewPicture view = work->TakePicture();
    rendering += clock.Now() - begin;
    if (i == 0) first_rendering = rendering;
    if (channels.rgb) {
      NERF_RETURN_IF_ERROR(writer.Add(ColorFile(flags, i), ColorsOf(view)));
    }
    if (channels.opacity) {
      NERF_RETURN_IF_ERROR(
          writer.Add(fmt::format("{}/opacity_{:04}.png", flags.out, i), OpacityImage(view)));
    }
    if (channels.depth) {
      NERF_RETURN_IF_ERROR(depths.Append(view.rgba.width, view.rgba.height,
                                         OwnDepths(view, model.state.geometry.frame.scale)));
    }
    if (progress.has_value()) progress->Add();
  }
  NERF_RETURN_IF_ERROR(writer.Finish());
  progress.reset();
  NERF_RETURN_IF_ERROR(depths.WriteImages(flags.out));

  const double seconds = absl::ToDoubleSeconds(rendering);
  if (flags.json) {
    JsonObject line;
    line["event"] = "done";
    line["images"] = cameras.size();
    line["out"] = flags.out;
    line["seconds_per_image"] =
        JsonNumber(seconds / static_cast<double>(std::max<size_t>(cameras.size(), 1)));
    line["seconds_first_image"] = JsonNumber(absl::ToDoubleSeconds(first_rendering));
    fmt::print("{}", JsonLine(line));
  } else {
    fmt::print("rendered {} in {:.2f} s to {}\n", Counted(cameras.size(), "view"), seconds,
               flags.out);
  }
  return absl::OkStatus();
}

int RunRender(const RenderFlags& flags) {
  if (absl::Status status = CheckDevice(flags.device); !status.ok()) {
    return ReportError(status, flags.json, true);
  }
  absl::StatusOr<ViewChannels> channels = ParseChannels(flags.channels);
  if (!channels.ok()) return ReportError(channels.status(), flags.json, true);
  if (flags.progressive && !channels->rgb) {
    return ReportError(absl::InvalidArgumentError("--progressive: needs rgb in --channels"),
                       flags.json, true);
  }
  SignalWatcher signals;
  const absl::Status status = Guarded([&] { return Render(flags, *channels, signals.token()); });
  if (status.ok()) return kOk;
  const int code = ReportError(status, flags.json);
  return signals.exit_code() != 0 ? signals.exit_code() : code;
}

}  // namespace

void AddRenderCommand(CLI::App* app, CommandBody* chosen) {
  auto flags = std::make_shared<RenderFlags>();
  CLI::App* command = app->add_subcommand("render", "Render views of a model");
  command->add_option("MODEL", flags->model, "model or checkpoint file")->required();
  auto* views = command->add_option_group("views");
  views->add_option(
      "--camera", flags->camera,
      "camera file in the format of transforms.json, or a data set's folder for its test views");
  views->add_option("--orbit", flags->orbit, "this many views on a circle around the scene")
      ->check(CLI::Range(1, kMaxOrbitViews));
  views->require_option(1);
  command->add_option("--width", flags->width, "pixels; default: the camera's")
      ->check(CLI::Range(1, kMaxViewSide));
  command->add_option("--height", flags->height, "pixels; default: the camera's")
      ->check(CLI::Range(1, kMaxViewSide));
  command->add_option("--out", flags->out, "folder for the images")->required();
  command->add_option("--channels", flags->channels, "of rgb, depth, opacity; comma-separated")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_flag("--progressive", flags->progressive,
                    "write each view coarse first and then finer, to the same file; a GPU "
                    "renders it in one pass");
  command->add_option("--threads", flags->threads, "threads (default: one for each core)")
      ->check(CLI::Range(0, 1024));
  command->add_option("--device", flags->device, "cpu or cuda:N")->capture_default_str();
  command->add_flag("--json", flags->json, "one JSON object a line on stdout");
  command->callback([=] { *chosen = [flags] { return RunRender(*flags); }; });
}

}  // namespace nerf
