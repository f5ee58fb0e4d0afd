#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "common/counted.h"
#include "common/shell_word.h"
#include "common/status_macros.h"
#include "engine/config/settings_help.h"
#include "engine/scene/image_io.h"
#include "engine/tool/command.h"
#include "engine/tool/device.h"
#include "engine/tool/device_monitor.h"
#include "engine/tool/exception_border.h"
#include "engine/tool/json_lines.h"
#include "engine/tool/signal_watcher.h"
#include "engine/tool/training_session.h"
#include "engine/tool/view_progress.h"
#include "engine/train/evaluation.h"
#include "engine/train/trainer.h"
#include "fmt/format.h"

namespace nerf {
namespace {

// On a terminal the line is redrawn each second; a log gets one less often.
constexpr double kLogIntervalSeconds = 5;

struct TrainFlags {
  std::string dataset, out, method = "ngp", device = "cpu", background = "auto";
  double steps = 0, samples = 0, seconds = 0;
  uint32_t stop_after = 0, seed = 1;
  int threads = 0, batches_ahead = 0, test_every = 8;
  std::string resume, init, init_scope = "all";
  std::vector<std::string> settings;  // key=value
  double checkpoint_interval = 30;    // seconds
  bool json = false, no_eval = false;
  bool has_steps = false, has_samples = false, has_seconds = false, has_stop_after = false;
};

absl::StatusOr<TrainConfig> ConfigOf(const TrainFlags& flags) {
  TrainConfig config;
  config.method = flags.method;
  config.seed = flags.seed;
  config.test_every = flags.test_every;
  NERF_ASSIGN_OR_RETURN(Background background, ParseBackground(flags.background));
  config.background = background;
  if (flags.has_steps) config.budget = {BudgetKind::kSteps, flags.steps};
  if (flags.has_samples) config.budget = {BudgetKind::kSamples, flags.samples};
  if (flags.has_seconds) config.budget = {BudgetKind::kSeconds, flags.seconds};
  for (const std::string& setting : flags.settings) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos) {
      return absl::InvalidArgumentError(
          fmt::format("--set {}: must be key=value", setting.substr(0, 64)));
    }
    const std::string_view text = setting;
    absl::Status set = SetConfigField(text.substr(0, equals), text.substr(equals + 1), &config);
    if (!set.ok()) return set;
  }
  NERF_RETURN_IF_ERROR(ValidateConfig(config));
  if (flags.init_scope != "all") {
    return absl::InvalidArgumentError(
        fmt::format("--init-scope {}: only all is known", flags.init_scope.substr(0, 32)));
  }
  return config;
}

std::string Clock(double seconds) {
  const auto whole = static_cast<int64_t>(std::lround(std::min(seconds, 1e9)));
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

// Prints progress for people on stderr, or as JSON lines on stdout; previews and checkpoints become
// files.
class Console final : public TrainerObserver {
 public:
  // monitor: of the device that trains, or null; outlives the console.
  Console(std::string out, ProgressStyle style, const DeviceMonitor* monitor)
      : out_(std::move(out)),
        monitor_(monitor),
        checkpoint_(out_ + "/checkpoint.safetensors"),
        model_(out_ + "/model.safetensors"),
        json_(style == ProgressStyle::kJson),
        terminal_(style == ProgressStyle::kTerminal) {}

  // Before the first step; the trainer outlives the training.
  void Begin(const Trainer* trainer) { trainer_ = trainer; }

  void OnProgress(const TrainProgress& progress) override {
    if (json_) {
      JsonObject line;
      line["event"] = "progress";
      SetProgress(progress, &line);
      if (monitor_ != nullptr) SetReadings(monitor_->Read(), &line);
      Print(line);
      return;
    }
    if (!terminal_ && progress.seconds - last_line_seconds_ < kLogIntervalSeconds) return;
    last_line_seconds_ = progress.seconds;
    fmt::print(stderr, "{}step {}  {}%  loss {:.5f}  train {:.1f} dB  {:.2f} M samples/s  eta {}{}",
               terminal_ ? "\r" : "", progress.step, static_cast<int>(progress.fraction * 100),
               progress.loss, progress.psnr_train, progress.samples_per_second / 1e6,
               Clock(progress.eta_seconds), terminal_ ? "\x1b[K" : "\n");
  }

  absl::Status OnPreview(const TrainPreview& preview) override {
    const std::string path = fmt::format("{}/preview_{:06}.png", out_, preview.step);
    NERF_RETURN_IF_ERROR(WritePng(path, preview.image));
    if (json_) {
      JsonObject line;
      line["event"] = "preview";
      line["step"] = preview.step;
      line["psnr"] = JsonNumber(preview.psnr);
      line["image"] = path;
      Print(line);
    } else {
      Note(fmt::format("preview {:.2f} dB  {}", preview.psnr, path));
    }
    return absl::OkStatus();
  }

  absl::Status OnCheckpointDue() override { return WriteFiles(); }

  // Writes checkpoint and model as they stand over those written before. Once a step: the bytes
  // would be the same.
  absl::Status WriteFiles() {
    const uint32_t step = trainer_->state().step;
    if (written_step_ == step) return absl::OkStatus();
    NERF_RETURN_IF_ERROR(WriteTrainingFiles(*trainer_, checkpoint_, model_));
    written_step_ = step;
    if (json_) {
      JsonObject line;
      line["event"] = "checkpoint";
      line["step"] = step;
      line["checkpoint"] = checkpoint_;
      line["model"] = model_;
      Print(line);
    } else {
      Note(fmt::format("wrote {} and {} at step {}", checkpoint_, model_, step));
    }
    return absl::OkStatus();
  }
  const std::string& checkpoint() const { return checkpoint_; }
  const std::string& model() const { return model_; }

  void OnWarning(const std::string& text) override { Note("warning: " + text); }

  // A line of its own, whatever stands on the terminal.
  void Note(const std::string& text) const {
    fmt::print(stderr, "{}{}\n", terminal_ ? "\r\x1b[K" : "", text);
  }
  void Print(const JsonObject& line) const {
    fmt::print("{}", JsonLine(line));
    std::fflush(stdout);
  }

 private:
  const std::string out_;
  const DeviceMonitor* const monitor_;
  const std::string checkpoint_, model_;
  const bool json_, terminal_;
  const Trainer* trainer_ = nullptr;
  std::optional<uint32_t> written_step_;
  double last_line_seconds_ = -kLogIntervalSeconds;
};

absl::StatusOr<double> FinalPsnr(std::span<const View> views, const Trainer& trainer,
                                 ThreadPool* pool, const RealClock& clock, ProgressStyle style,
                                 std::stop_token stop) {
  if (views.empty()) return std::numeric_limits<double>::quiet_NaN();
  ViewProgress progress("evaluating", &clock, style, views.size(), ConsoleStream(style));
  EvaluationOptions options;
  options.background = trainer.state().evaluation_background;
  options.min_transmittance = trainer.state().config.min_transmittance;
  options.with_ssim = false;
  options.on_image = [&](const View&, const ImageU8&) {
    progress.Add();
    return absl::OkStatus();
  };
  NERF_ASSIGN_OR_RETURN(EvaluationResult result, EvaluateViews(trainer.NewRenderer().get(), views,
                                                               options, pool, clock, stop));
  return result.psnr;
}

absl::Status Train(const TrainFlags& flags, const TrainConfig& config, SignalWatcher* signals) {
  const RealClock clock;
  ThreadPool pool(ThreadsFor(flags.threads));
  NERF_RETURN_IF_ERROR(CreateFolder(flags.out));
  NERF_ASSIGN_OR_RETURN(std::unique_ptr<RenderDevice> device, NewRenderDevice(flags.device, &pool));
  TrainRequest request{flags.dataset, config, flags.resume, flags.init, flags.device};
  std::vector<SceneProblem> problems;
  auto session = OpenTrainingSession(request, &pool, &problems, signals->token());
  if (!session.ok()) {
    for (const SceneProblem& problem : problems) {
      fmt::print(stderr, "error  {}\n", ToString(problem));
    }
    return session.status();
  }
  TrainingSession& s = **session;
  const ProgressStyle style = ConsoleStyle(flags.json);
  const std::unique_ptr<DeviceMonitor> monitor = NewDeviceMonitor(flags.device);
  Console console(flags.out, style, monitor.get());
  for (const std::string& warning : s.scene.warnings) console.Note("warning: " + warning);
  if (!flags.json) {
    console.Note(fmt::format("{} scene, {} training and {}, {}{}",
                             SceneFlavorName(s.scene.geometry.flavor), s.scene.train.size(),
                             Counted(s.scene.test.size(), "test view"),
                             Counted(pool.n_threads(), "thread"),
                             s.state.step > 0 ? fmt::format(", from step {}", s.state.step) : ""));
  }
  const uint32_t first_step = s.state.step;
  const int64_t first_trained = s.state.n_trained;
  const double first_seconds = s.state.seconds;
  TrainerOptions options;
  options.batches_ahead = flags.batches_ahead;
  options.render_device = device.get();
  if (flags.has_stop_after) options.stop_after = flags.stop_after;
  options.checkpoint_interval = absl::Seconds(flags.checkpoint_interval);
  Trainer trainer(&s.scene, s.state, s.step.get(), &pool, &clock, options, &console);
  console.Begin(&trainer);
  NERF_ASSIGN_OR_RETURN(TrainOutcome outcome, trainer.Run(signals->token()));

  NERF_RETURN_IF_ERROR(console.WriteFiles());
  if (outcome == TrainOutcome::kStopped) {
    return absl::CancelledError(fmt::format(
        "interrupted; to go on: nerf-engine train {} --resume {} --out {}",
        ShellWord(flags.dataset), ShellWord(console.checkpoint()), ShellWord(flags.out)));
  }
  std::optional<double> psnr;
  if (!flags.no_eval) {
    NERF_ASSIGN_OR_RETURN(const double found,
                          FinalPsnr(s.scene.test, trainer, &pool, clock, style, signals->token()));
    psnr = found;
  }

  TrainSummary summary{&trainer.state(), 0, psnr, console.checkpoint(), console.model()};
  const double seconds = trainer.state().seconds - first_seconds;
  if (seconds > 0) {
    summary.samples_per_second =
        static_cast<double>(trainer.state().n_trained - first_trained) / seconds;
  }
  if (flags.json) {
    JsonObject line;
    line["event"] = "done";
    SetSummary(summary, &line);
    console.Print(line);
    return absl::OkStatus();
  }
  // Checkpoints hold no time, so that of a training that was resumed only this part is known.
  const auto millions = [](int64_t n) { return static_cast<double>(n) / 1e6; };
  const int64_t n_trained = trainer.state().n_trained;
  fmt::print("trained {}, {:.1f} M samples{} in {} ({:.2f} M samples/s)\n",
             Counted(trainer.state().step, "step"), millions(n_trained),
             first_step > 0 ? fmt::format("; from step {} on {:.1f} M", first_step,
                                          millions(n_trained - first_trained))
                            : "",
             Clock(seconds), summary.samples_per_second / 1e6);
  if (!psnr.has_value()) return absl::OkStatus();
  if (std::isnan(*psnr)) {
    fmt::print("no test views, no PSNR\n");
  } else {
    fmt::print("PSNR {:.2f} dB ({} background, {})\n", *psnr,
               BackgroundName(trainer.state().evaluation_background),
               Counted(s.scene.test.size(), "test view"));
  }
  return absl::OkStatus();
}

// Where what is resumed from `file` goes on, where nothing else is said.
std::string FolderOf(const std::string& file) {
  const std::string folder = std::filesystem::path(file).parent_path().string();
  return folder.empty() ? "." : folder;
}

int RunTrain(const TrainFlags& flags) {
  if (flags.out.empty()) {
    return ReportError(
        absl::InvalidArgumentError("--out: name a folder for checkpoint, model and previews"),
        flags.json, true);
  }
  if (absl::Status status = CheckDevice(flags.device); !status.ok()) {
    return ReportError(status, flags.json, true);
  }
  absl::StatusOr<TrainConfig> config = ConfigOf(flags);
  if (!config.ok()) return ReportError(config.status(), flags.json, true);
  SignalWatcher signals;
  const absl::Status status = Guarded([&] { return Train(flags, *config, &signals); });
  if (status.ok()) return kOk;
  const int code = ReportError(status, flags.json);
  return signals.exit_code() != 0 ? signals.exit_code() : code;
}

}  // namespace

void AddTrainCommand(CLI::App* app, CommandBody* chosen) {
  auto flags = std::make_shared<TrainFlags>();
  CLI::App* command = app->add_subcommand("train", "Train a field on a folder of posed images");
  command->add_option("DIR", flags->dataset, "data set: transforms*.json or a COLMAP model")
      ->required();
  command->add_option(
      "--out", flags->out,
      "folder for checkpoint, model and previews (default with --resume: the checkpoint's)");
  auto* method =
      command->add_option("--method", flags->method, "ngp or ngp-autograd")->capture_default_str();
  auto* steps = command->add_option("--steps", flags->steps, "budget: optimizer steps");
  auto* samples = command->add_option("--samples", flags->samples,
                                      "budget: trained samples, such as 40M, the default");
  auto* seconds = command->add_option("--seconds", flags->seconds, "budget: seconds of training");
  // As nerfctl reads them: 40M, 4e7.
  const std::map<std::string, double> units = {{"k", 1e3}, {"M", 1e6}, {"G", 1e9}};
  for (CLI::Option* amount : {steps, samples}) {
    amount
        ->transform(
            CLI::AsNumberWithUnit(units, CLI::AsNumberWithUnit::CASE_SENSITIVE).description(""))
        ->type_name("NUMBER");
  }
  steps->excludes(samples)->excludes(seconds);
  samples->excludes(seconds);
  auto* stop_after = command->add_option("--stop-after", flags->stop_after,
                                         "end early at this step with a checkpoint");
  command
      ->add_option("--checkpoint-interval", flags->checkpoint_interval,
                   "seconds between checkpoints on the way, each over the one before")
      ->check(CLI::Range(0.001, 1e9))
      ->capture_default_str();
  auto* seed = command->add_option("--seed", flags->seed, "random seed")->capture_default_str();
  command->add_option("--threads", flags->threads, "threads (default: one for each core)")
      ->check(CLI::Range(0, 1024));
  command
      ->add_option("--batches-ahead", flags->batches_ahead,
                   "batches drawn ahead of the step by a thread of their own; changes no result")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  command->add_option("--device", flags->device, "cpu or cuda:N")->capture_default_str();
  auto* resume = command->add_option("--resume", flags->resume,
                                     "continue this checkpoint with its own config and budget");
  auto* init = command->add_option("--init", flags->init,
                                   "start from the weights of this model or checkpoint");
  command->add_option("--init-scope", flags->init_scope, "what to take from it: all")
      ->capture_default_str()
      ->needs(init);
  auto* background =
      command->add_option("--background", flags->background, "auto, white, black or random")
          ->capture_default_str();
  auto* test_every = command
                         ->add_option("--test-every", flags->test_every,
                                      "hold out every Nth view where the data set has no split; "
                                      "0: none")
                         ->capture_default_str();
  auto* set = command
                  ->add_option("--set", flags->settings,
                               "key=value, repeatable; --help-settings lists the keys")
                  ->allow_extra_args(false);
  command->add_flag_callback(
      "--help-settings",
      [] {
        fmt::print("{}", SettingsTable());
        throw CLI::Success();  // as --help: nothing else is asked for
      },
      "list the settings of --set and exit");
  command->add_flag("--no-eval", flags->no_eval, "no evaluation on the test views at the end");
  for (CLI::Option* option :
       {method, steps, samples, seconds, seed, init, background, test_every, set}) {
    resume->excludes(option);
  }
  command->add_flag("--json", flags->json, "one JSON object a line on stdout");
  command->callback([=] {
    flags->has_steps = steps->count() > 0;
    flags->has_samples = samples->count() > 0;
    flags->has_seconds = seconds->count() > 0;
    flags->has_stop_after = stop_after->count() > 0;
    if (flags->out.empty() && resume->count() > 0) flags->out = FolderOf(flags->resume);
    *chosen = [flags] { return RunTrain(*flags); };
  });
}

}  // namespace nerf
