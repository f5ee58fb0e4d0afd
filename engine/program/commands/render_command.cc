#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <system_error>

#include "common/clock.h"
#include "common/counted.h"
#include "common/files/atomic_file.h"
#include "common/files/made_folder.h"
#include "common/first_names.h"
#include "common/status_macros.h"
#include "engine/base/config/psnr_advice.h"
#include "engine/base/config/slow_views.h"
#include "engine/base/config/view_limits.h"
#include "engine/base/config/view_style_check.h"
#include "engine/base/protocol/json.h"
#include "engine/field/parameters/memory_estimate.h"
#include "engine/program/commands/render_flags.h"
#include "engine/program/commands/wanted_views.h"
#include "engine/program/console/command.h"
#include "engine/program/console/signal_watcher.h"
#include "engine/program/console/view_progress.h"
#include "engine/program/device/device.h"
#include "engine/program/device/exception_border.h"
#include "engine/program/serve/engine_messages.h"
#include "engine/program/session/evaluation_forecast.h"
#include "engine/program/session/loaded_model.h"
#include "engine/program/session/training_session.h"
#include "engine/program/written_views/picture_writer.h"
#include "engine/program/written_views/rgbaz_file.h"
#include "engine/program/written_views/scene_match.h"
#include "engine/program/written_views/view_paths.h"
#include "engine/program/written_views/view_request.h"
#include "engine/program/written_views/view_style.h"
#include "engine/program/written_views/view_writer.h"
#include "engine/scene/cameras/camera_file.h"
#include "engine/scene/pictures/exr_codec.h"
#include "engine/scene/pictures/image_compare.h"
#include "engine/scene/pictures/image_io.h"
#include "engine/views/contact_sheet.h"
#include "engine/views/depth_spool.h"
#include "engine/views/render/render_device.h"
#include "engine/views/video_writer.h"
#include "engine/views/view_comparison.h"
#include "engine/views/view_files.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr int kProgressiveStride = 8;  // of the first pass: 1/64 of the pixels
// How long fewer pixels take is not found out by rendering some of them first.
constexpr double kForecastPixels = 200'000;
constexpr absl::Duration kLongRender = absl::Seconds(5);  // that a log has lines of
// Views of which a smaller share lies in two training views are named in a warning.
constexpr double kWellSeen = 0.75;

// Renders the views of one command and writes the files.
class RenderRun {
 public:
  RenderRun(const RenderFlags& flags, ViewChannels channels, const ViewStyle& style,
            std::stop_token stop)
      : flags_(flags), channels_(channels), style_(style), stop_(std::move(stop)) {}

  absl::Status Run() {
    ThreadPool pool(ThreadsFor(flags_.threads));
    NERF_ASSIGN_OR_RETURN(std::unique_ptr<RenderDevice> device,
                          NewRenderDevice(flags_.device, &pool));
    NERF_ASSIGN_OR_RETURN(
        LoadedModel model,
        WithModelHint(LoadModelFile(flags_.model, device.get(), flags_.appearance), flags_.model));
    capture_ = CaptureCamerasOf(model.state);
    NERF_ASSIGN_OR_RETURN(wanted_, WantedViewsOf(flags_, style_, model));
    for (const WantedView& view : wanted_.views) {
      NERF_RETURN_IF_ERROR(
          CheckViewFits(view.camera.width, view.camera.height, AvailableMemoryBytes()));
    }
    if (!flags_.video.empty()) {
      NERF_ASSIGN_OR_RETURN(VideoWriter video,
                            VideoWriter::Open(flags_.ffmpeg, flags_.video, flags_.fps,
                                              VideoContentOf(channels_, style_)));
      video_ = std::make_unique<VideoWriter>(std::move(video));
    }
    NERF_ASSIGN_OR_RETURN(const MadeFolder folder, MadeFolder::Make(out()));
    older_ = ViewFilesIn(out());
    SayWhat();
    SayFar();
    SayOverwritten();
    NERF_RETURN_IF_ERROR(RenderAll(model, pool.n_threads()));
    std::vector<std::string> depth_files;
    NERF_RETURN_IF_ERROR(depths_.WriteImages(out(), FarOf(depths_.largest()), &depth_files));
    NERF_RETURN_IF_ERROR(WriteSheets());
    const absl::Status video = FinishVideo();
    SayOlder();
    Report(model.state);
    return video;
  }

 private:
  // Without --out the frames of a video are kept beside it until it is complete.
  std::string out() const { return flags_.out.empty() ? flags_.video + ".frames" : flags_.out; }

  void SayWhat() const {
    if (flags_.json) return;
    const Camera& first = wanted_.views.front().camera;
    std::string size = fmt::format("{}x{}", first.width, first.height);
    if (wanted_.reduced_from.width > 0) {
      size += fmt::format(" (reduced from {}x{}; --full-size renders all of it)",
                          wanted_.reduced_from.width, wanted_.reduced_from.height);
    }
    fmt::print(stderr, "{}, {}\n", wanted_.words, size);
  }

  const char* ColorName() const {
    return channels_.rgbaz ? "rgbaz" : channels_.rgba ? "rgba" : "rgb";
  }

  std::string ColorFile(const WantedView& view) const {
    return fmt::format("{}/{}_{}.{}", out(), ColorName(), view.name, flags_.format);
  }

  absl::Status RenderAll(const LoadedModel& model, int n_threads) {
    options_ = OptionsOf(model.state, style_, channels_, wanted_.views.front().camera);
    apply_exif_ = ReadingOf(model).apply_exif;
    if (flags_.progressive) options_.first_stride = kProgressiveStride;
    PictureWriter writer(n_threads);
    size_t n_done = 0;
    const absl::Status status = RenderViews(model, &writer, &n_done);
    progress_.reset();
    if (status.ok()) return writer.Finish();
    if (!absl::IsCancelled(status)) return status;
    NERF_RETURN_IF_ERROR(writer.Finish());
    std::string words = fmt::format("rendering was interrupted: {} of {} views are done", n_done,
                                    wanted_.views.size());
    if (flags_.out.empty() && channels_.HasColor() && n_done > 0)
      words += "; their pictures are in " + out();
    return absl::CancelledError(words);
  }

  absl::Status RenderViews(const LoadedModel& model, PictureWriter* writer, size_t* n_done) {
    NERF_RETURN_IF_ERROR(BeginProgress(model));
    for (size_t i = 0; i < wanted_.views.size(); ++i) {
      const WantedView& wanted = wanted_.views[i];
      const SteadyTime begin = clock_.Now();
      options_.rays_per_pixel =
          OptionsOf(model.state, style_, channels_, wanted.camera).rays_per_pixel;
      const std::unique_ptr<PictureRender> work = model.renderer->Begin(wanted.camera, options_);
      NERF_RETURN_IF_ERROR(WritePasses(wanted, i, begin, work.get()));
      const ViewPicture view = work->TakePicture();
      rendering_ += clock_.Now() - begin;
      if (i == 0) first_rendering_ = rendering_;
      NERF_RETURN_IF_ERROR(Take(wanted, view, model.state.geometry.frame, writer));
      ++*n_done;
      if (progress_.has_value()) progress_->Add();
    }
    return absl::OkStatus();
  }

  // Passes of --progressive show themselves. A log has no line of a render that is over at once.
  absl::Status BeginProgress(const LoadedModel& model) {
    if (flags_.progressive) return absl::OkStatus();
    std::vector<View> views;
    double n_pixels = 0;
    for (const WantedView& wanted : wanted_.views) {
      views.emplace_back().camera = wanted.camera;
      n_pixels += static_cast<double>(wanted.camera.width) * wanted.camera.height;
    }
    const ProgressStyle style = ConsoleStyle(flags_.json);
    absl::Duration expected = absl::InfiniteDuration();
    // The first view on a device contains its set-up, which seconds_first_image is about.
    if (n_pixels >= kForecastPixels && flags_.device == "cpu") {
      EvaluationOptions options;
      options.min_transmittance = options_.min_transmittance;
      options.rays_per_pixel = options_.rays_per_pixel;
      NERF_ASSIGN_OR_RETURN(const EvaluationForecast forecast,
                            ForecastOf(model.renderer.get(), views, options, clock_, stop_));
      const std::string slowness = SlowViewsReason(forecast.expected, forecast.occupied_share);
      if (!flags_.json && !slowness.empty()) fmt::print(stderr, "{}\n", slowness);
      expected = forecast.expected;
      if (style == ProgressStyle::kLog && expected < kLongRender) return absl::OkStatus();
    } else if (style == ProgressStyle::kLog && n_pixels < kForecastPixels) {
      return absl::OkStatus();
    }
    progress_.emplace("rendering", &clock_, style, views.size(), ConsoleStream(style), expected);
    return absl::OkStatus();
  }

  // Writes the view after each pass, over the file of the pass before.
  absl::Status WritePasses(const WantedView& wanted, size_t index, SteadyTime begin,
                           PictureRender* work) {
    const auto show = [this] {
      if (progress_.has_value()) progress_->Refresh();
      return false;
    };
    for (int stride = kProgressiveStride; !work->finished(); stride /= 2) {
      if (!work->Advance(show, stop_)) return absl::CancelledError("rendering was interrupted");
      if (work->finished()) break;
      const std::string file = ColorFile(wanted);
      NERF_RETURN_IF_ERROR(WritePng(file, ColorPicture(work->TakePicture())));
      const double seconds = absl::ToDoubleSeconds(clock_.Now() - begin);
      if (flags_.json) {
        fmt::print("{}", JsonLine({{"event", "pass"},
                                   {"view", index},
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

  ImageU8 ColorPicture(const ViewPicture& view) const {
    return channels_.HasAlpha() ? view.rgba : ColorsOf(view);
  }

  absl::Status Take(const WantedView& wanted, const ViewPicture& view, const SceneFrame& frame,
                    PictureWriter* writer) {
    ImageU8 colors = ColorPicture(view);
    if (!capture_.empty() && !style_.panorama.has_value())
      seen_.push_back(ShareSeenTwice(view, wanted.camera, capture_));
    if (!wanted.photograph.empty()) {
      NERF_ASSIGN_OR_RETURN(const ImageU8 photograph,
                            PhotographAs(wanted.photograph, colors.width, colors.height,
                                         options_.background, apply_exif_));
      psnrs_.push_back(comparison_.Add(photograph, CompositedOn(colors, options_.background),
                                       wanted.photograph));
    }
    if (video_ != nullptr && video_status_.ok()) video_status_ = video_->Add(colors, stop_);
    if (channels_.rgbaz) {
      NERF_ASSIGN_OR_RETURN(const std::string bytes,
                            EncodeRgbaz(view, {wanted.camera, frame}, stop_));
      NERF_RETURN_IF_ERROR(WriteFileAtomically(ColorFile(wanted), bytes));
    } else if (channels_.HasColor()) {
      NERF_RETURN_IF_ERROR(writer->Add(ColorFile(wanted), std::move(colors),
                                       XmpOf(style_, view.rgba.width, view.rgba.height)));
    }
    if (channels_.opacity) {
      NERF_RETURN_IF_ERROR(writer->Add(
          fmt::format("{}/opacity_{}.{}", out(), wanted.name, flags_.format), OpacityImage(view)));
    }
    if (!channels_.depth) return absl::OkStatus();
    if (flags_.is_exr()) {
      NERF_ASSIGN_OR_RETURN(
          const std::string bytes,
          EncodeExrDepth(view.rgba.width, view.rgba.height, OwnDepths(view, frame.scale)));
      return WriteFileAtomically(fmt::format("{}/depth_{}.exr", out(), wanted.name), bytes);
    }
    return depths_.Append(wanted.name, view.rgba.width, view.rgba.height,
                          OwnDepths(view, frame.scale));
  }

  bool HasSheet() const {
    return channels_.HasColor() && !flags_.is_exr() && (wanted_.views.size() > 1 || flags_.sheet);
  }

  absl::Status WriteSheets() {
    if (HasSheet()) {
      std::vector<std::string> files;
      for (const WantedView& view : wanted_.views) files.push_back(ColorFile(view));
      NERF_RETURN_IF_ERROR(WriteContactSheet(files, out() + "/sheet.png"));
    }
    if (comparison_.n_views() == 0) return absl::OkStatus();
    return comparison_.Write(out() + "/compare.png");
  }

  // If the video fails, the frames are kept.
  absl::Status FinishVideo() {
    if (video_ == nullptr) return absl::OkStatus();
    if (video_status_.ok()) video_status_ = video_->Finish(stop_);
    if (!video_status_.ok()) {
      return absl::Status(video_status_.code(), absl::string_view(fmt::format(
                                                    "{}; the frames are in {}",
                                                    std::string(video_status_.message()), out())));
    }
    if (flags_.out.empty()) RemoveFrames();
    return absl::OkStatus();
  }

  // The folder goes with them unless it holds something else.
  void RemoveFrames() const {
    std::error_code ignored;
    for (const std::string& name : FilesToWrite()) {
      std::filesystem::remove(out() + "/" + name, ignored);
    }
    std::filesystem::remove(out(), ignored);
  }

  void SayFar() const {
    std::vector<std::string> names;
    for (const WantedView& view : wanted_.views) {
      if (IsFarFrom(view.camera, capture_)) names.push_back(view.name);
    }
    if (names.empty()) return;
    fmt::print(stderr,
               "warning: {} of {} far from all training views, as cameras of another data set "
               "would be: {}\n",
               names.size(), Counted(wanted_.views.size(), "view"), FirstNames(names));
  }

  // Names of the files that this render writes.
  std::set<std::string> FilesToWrite() const {
    std::set<std::string> names;
    for (const WantedView& view : wanted_.views) {
      const auto add = [&](const char* channel) {
        names.insert(fmt::format("{}_{}.{}", channel, view.name, flags_.format));
      };
      if (channels_.HasColor()) add(ColorName());
      if (channels_.opacity) add("opacity");
      if (!view.photograph.empty()) names.insert("compare.png");
      if (!channels_.depth) continue;
      add("depth");
      if (!flags_.is_exr())
        names.insert({fmt::format("depth_color_{}.png", view.name), "depth.json"});
    }
    if (HasSheet()) names.insert("sheet.png");
    return names;
  }

  // The older files that this render writes too, or that it does not.
  std::vector<std::string> OlderFiles(bool overwritten) const {
    const std::set<std::string> own = FilesToWrite();
    std::vector<std::string> files;
    for (const std::string& name : older_) {
      if (own.contains(name) == overwritten) files.push_back(name);
    }
    return files;
  }

  void SayOverwritten() const {
    std::error_code ignored;
    if (!flags_.video.empty() && std::filesystem::exists(flags_.video, ignored)) {
      fmt::print(stderr, "warning: {} is there already and is replaced\n", flags_.video);
    }
    const std::vector<std::string> files = OlderFiles(true);
    if (files.empty()) return;
    fmt::print(stderr, "warning: overwriting {} of an earlier render in {}: {}\n",
               Counted(files.size(), "file"), out(), FirstNames(files));
  }

  void SayOlder() const {
    const std::vector<std::string> files = OlderFiles(false);
    if (flags_.out.empty() || files.empty()) return;
    fmt::print(stderr, "warning: {} also holds {} of an earlier render: {}\n", out(),
               Counted(files.size(), "file"), FirstNames(files));
  }

  void SayUnseen() const {
    std::vector<std::string> names;
    for (size_t i = 0; i < seen_.size(); ++i) {
      if (seen_[i] < kWellSeen) names.push_back(wanted_.views[i].name);
    }
    if (names.empty()) return;
    fmt::print(stderr,
               "warning: {} of {} look where few photographs did (less than {:.0f}% of what they "
               "show lies in two training views): {}\n",
               names.size(), Counted(seen_.size(), "view"), kWellSeen * 100, FirstNames(names));
  }

  void SayIfLow(const TrainState& model) const {
    std::vector<Camera> cameras;
    for (const WantedView& view : wanted_.views) {
      if (!view.photograph.empty()) cameras.push_back(view.camera);
    }
    std::fflush(stdout);  // the figure comes first
    const TrainedQuality quality =
        ComparedQuality(model, cameras, comparison_.mean_psnr(), flags_.camera);
    for (const std::string& line : LowPsnrAdvice(quality)) fmt::print(stderr, "{}\n", line);
  }

  void Report(const TrainState& model) const {
    const double seconds = absl::ToDoubleSeconds(rendering_);
    const size_t n = wanted_.views.size();
    if (flags_.json) {
      JsonObject line;
      line["event"] = "done";
      line["images"] = n;
      line["out"] = flags_.out.empty() ? flags_.video : flags_.out;
      line["width"] = wanted_.views.front().camera.width;
      line["height"] = wanted_.views.front().camera.height;
      if (!wanted_.path.empty()) line["path"] = wanted_.path;
      line["seconds_per_image"] = JsonNumber(seconds / static_cast<double>(n));
      line["seconds_first_image"] = JsonNumber(absl::ToDoubleSeconds(first_rendering_));
      if (!seen_.empty()) line["seen_twice"] = seen_;
      if (!psnrs_.empty()) {
        line["psnr"] = JsonNumber(comparison_.mean_psnr());
        line["psnrs"] = psnrs_;
      }
      if (video_ != nullptr && video_status_.ok()) line["video"] = flags_.video;
      fmt::print("{}", JsonLine(line));
      return;
    }
    SayUnseen();
    if (!psnrs_.empty()) {
      fmt::print(
          "PSNR of {} against their photographs: {:.2f} dB; side by side in {}/compare.png\n",
          Counted(psnrs_.size(), "view"), comparison_.mean_psnr(), out());
      SayIfLow(model);
    }
    const bool has_video = video_ != nullptr && video_status_.ok();
    fmt::print("rendered {} in {:.2f} s to {}\n", Counted(n, "view"), seconds,
               has_video ? flags_.video : out());
  }

  const RenderFlags& flags_;
  const ViewChannels channels_;
  const ViewStyle style_;
  const std::stop_token stop_;
  const RealClock clock_;
  std::vector<CaptureCamera> capture_;  // training views; empty if the file does not store them
  std::set<std::string> older_;         // files of earlier renders
  WantedViews wanted_;
  RenderOptions options_;
  std::optional<ViewProgress> progress_;
  std::vector<double> seen_, psnrs_;
  DepthSpool depths_;
  ViewComparison comparison_;
  bool apply_exif_ = false;  // to the photographs
  std::unique_ptr<VideoWriter> video_;
  absl::Status video_status_;
  absl::Duration rendering_, first_rendering_;
};

int RunRender(const RenderFlags& flags) {
  const absl::StatusOr<ViewChoice> choice = CheckRenderFlags(flags);
  if (!choice.ok()) return ReportError(choice.status(), flags.json, true);
  SignalWatcher signals;
  const absl::Status status = Guarded([&] {
    RenderRun run(flags, ChannelsOf(choice->channels), choice->style, signals.token());
    return run.Run();
  });
  if (status.ok()) return kOk;
  const int code = ReportError(status, flags.json);
  return signals.exit_code() != 0 ? signals.exit_code() : code;
}

}  // namespace

void AddRenderCommand(CLI::App* app, CommandBody* chosen) {
  auto flags = std::make_shared<RenderFlags>();
  CLI::App* command = app->add_subcommand("render", "Render views of a model");
  AddRenderFlags(command, flags.get());
  command->callback([=] { *chosen = [flags] { return RunRender(*flags); }; });
}

}  // namespace nerf
