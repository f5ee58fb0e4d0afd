#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "common/atomic_file.h"
#include "common/counted.h"
#include "common/edit_distance.h"
#include "common/made_folder.h"
#include "common/shell_word.h"
#include "common/status_macros.h"
#include "engine/base/trace.h"
#include "engine/commands/command.h"
#include "engine/commands/flag_errors.h"
#include "engine/commands/signal_watcher.h"
#include "engine/commands/train_console.h"
#include "engine/commands/view_progress.h"
#include "engine/config/psnr_advice.h"
#include "engine/config/setting_list.h"
#include "engine/config/start_rank.h"
#include "engine/methods/describe/method_descriptions.h"
#include "engine/methods/describe/settings_help.h"
#include "engine/methods/registry.h"
#include "engine/protocol/json.h"
#include "engine/scene/placement_file.h"
#include "engine/scene/scene_problem.h"
#include "engine/training/device.h"
#include "engine/training/device_monitor.h"
#include "engine/training/exception_border.h"
#include "engine/training/older_training.h"
#include "engine/training/picture_limits.h"
#include "engine/training/rank_session.h"
#include "engine/training/rank_training.h"
#include "engine/training/start_choice.h"
#include "engine/training/training_run.h"
#include "engine/training/training_session.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace nerf {
namespace {

constexpr int kProfiledSteps = 20;  // by --torch-trace: a step has thousands of operations

struct TrainFlags {
  std::string dataset, out, method = "ngp", device = "cpu", background = "auto";
  double steps = 0, samples = 0, seconds = 0;
  uint32_t stop_after = 0, seed = 1;
  int threads = 0, test_every = 8;
  std::string resume, init, init_scope = "all", init_from;
  std::vector<std::string> settings;  // key=value
  double checkpoint_interval = 30;    // seconds
  bool json = false, no_eval = false;
  std::string trace, torch_trace;
  int max_side = -1, downscale = 0;
  ReadingFlags reading;
  PicturePlace pictures = PicturePlace::kAuto;
  std::string picture_file;  // empty: in the output folder until the training is over
  RankFlags ranks;
  bool has_steps = false, has_samples = false, has_seconds = false, has_stop_after = false;

  bool HasBudget() const { return has_steps || has_samples || has_seconds; }
};

// The longer side of the largest picture, divided. Nullopt if the data set cannot be read, which
// the training reports.
std::optional<int> DownscaledSide(const std::string& dataset, const SceneReading& reading,
                                  int factor) {
  SceneOptions options;
  options.reading = reading;
  options.decode_images = false;
  options.follow_links = true;
  const SceneDescription scene = DescribeScene(dataset, options);
  if (!scene.ok()) return std::nullopt;
  int side = 1;
  for (const ViewDescription& view : scene.train) {
    side = std::max({side, view.camera.width, view.camera.height});
  }
  return std::max(1, side / factor);
}

absl::Status SetSettings(const TrainFlags& flags, TrainConfig* config) {
  FlagErrors errors;
  for (const std::string& setting : SettingsIn(flags.settings)) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos) {
      errors.Add(absl::InvalidArgumentError(
          fmt::format("--set {}: must be key=value", setting.substr(0, 64))));
      continue;
    }
    const std::string_view text = setting;
    errors.Add(SetConfigField(text.substr(0, equals), text.substr(equals + 1), config));
  }
  if (!flags.reading.poses.empty())
    errors.Add(SetConfigField("poses", flags.reading.poses, config));
  if (flags.reading.apply_exif) errors.Add(SetConfigField("apply_exif", "1", config));
  return errors.ToStatus();
}

Budget BudgetOf(const TrainFlags& flags, const Budget& unset) {
  if (flags.has_steps) return {BudgetKind::kSteps, flags.steps};
  if (flags.has_samples) return {BudgetKind::kSamples, flags.samples};
  if (flags.has_seconds) return {BudgetKind::kSeconds, flags.seconds};
  return unset;
}

// Errors name every wrong flag.
absl::StatusOr<TrainConfig> ConfigOf(const TrainFlags& flags) {
  FlagErrors errors;
  const absl::StatusOr<TrainConfig> defaults = DefaultConfig(flags.method);
  errors.Add(defaults.status());
  TrainConfig config = defaults.value_or(TrainConfig());
  config.seed = flags.seed;
  config.test_every = flags.test_every;
  const absl::StatusOr<Background> background = ParseBackground(flags.background);
  errors.Add(background.status());
  config.background = background.value_or(config.background);
  config.budget = BudgetOf(flags, config.budget);
  config.max_side = flags.max_side;
  // Settings of a method that does not exist cannot be checked.
  if (defaults.ok()) errors.Add(SetSettings(flags, &config));
  if (flags.downscale > 0) {
    const SceneReading reading = {config.poses, config.apply_exif != 0};
    config.max_side =
        DownscaledSide(flags.dataset, reading, flags.downscale).value_or(config.max_side);
  }
  if (absl::Status scope = ParseStartScope(flags.init_scope).status(); !scope.ok()) {
    errors.Add(
        absl::InvalidArgumentError(fmt::format("--init-scope: {}", std::string(scope.message()))));
  }
  NERF_RETURN_IF_ERROR(errors.ToStatus());
  NERF_RETURN_IF_ERROR(ValidateConfig(config));
  return config;
}

std::string OpeningLine(const TrainingSession& session, int n_threads, int n_ranks) {
  const Scene& scene = session.scene;
  const uint32_t step = session.state.step;
  std::string text = fmt::format(
      "{} scene, {} training and {}, {}{}{}", SceneFlavorName(scene.geometry.flavor),
      scene.train.size(), Counted(scene.test.size(), "test view"),
      n_ranks > 1 ? fmt::format("{} ranks of ", n_ranks) : "", Counted(n_threads, "thread"),
      step > 0 ? fmt::format(", from step {}", step) : "");
  if (const std::string reduced = ReductionText(session.reductions.train); !reduced.empty()) {
    text += fmt::format("\npictures of {} (--max-side 0 trains on them as they are)", reduced);
  }
  if (!session.chosen.empty()) text += "\nchosen by pictures, budget and device: " + session.chosen;
  if (session.pictures != nullptr)
    text += fmt::format("\ndecoded pictures in {}", session.pictures->path());
  return text;
}

void SayWhatBegins(const TrainFlags& flags, const TrainingSession& session, int n_threads,
                   TrainConsole* console) {
  for (const std::string& warning : session.scene.warnings) console->OnWarning(warning);
  const std::string overwritten = OverwrittenTraining(flags.out, flags.resume);
  if (!overwritten.empty()) console->OnWarning(overwritten);
  if (!flags.json) console->PrintNote(OpeningLine(session, n_threads, flags.ranks.n_ranks));
}

// `psnr_train`: of the last training rays, in dB; 0 if it is not known.
void PrintSummary(const TrainSummary& summary, const TrainingSession& session,
                  const std::string& dataset, double psnr_train) {
  const TrainState& begin = session.state;
  const auto millions = [](double n) { return n / 1e6; };
  // A resumed checkpoint holds no time, so time and rate are those of this run.
  fmt::print("trained {}, {:.1f} M samples{} in {} ({:.2f} M samples/s)\n",
             Counted(summary.step, "step"), millions(summary.samples),
             begin.step > 0
                 ? fmt::format("; from step {} on {:.1f} M", begin.step,
                               millions(summary.samples - static_cast<double>(begin.n_trained)))
                 : "",
             ClockText(summary.seconds - begin.seconds), summary.samples_per_second / 1e6);
  if (!summary.psnr.has_value()) return;
  if (std::isnan(*summary.psnr)) {
    fmt::print("no test views, no PSNR\n");
  } else {
    const std::string reduced = ReductionText(session.reductions.test);
    fmt::print("PSNR {:.2f} dB ({} background, {}{})\n", *summary.psnr,
               BackgroundName(begin.evaluation_background),
               Counted(session.scene.test.size(), "test view"),
               reduced.empty() ? "" : " of " + reduced);
    const TrainedQuality quality = {.psnr = *summary.psnr,
                                    .psnr_train = psnr_train,
                                    .samples = summary.samples,
                                    .n_train_views = session.scene.train.size(),
                                    .check_command = "nerf-engine check " + ShellWord(dataset)};
    std::fflush(stdout);  // the figure comes first
    for (const std::string& line : LowPsnrAdvice(quality)) fmt::print(stderr, "{}\n", line);
  }
}

// Ranks of one machine share its cores.
int ThreadsOfRank(const TrainFlags& flags) {
  if (flags.threads > 0 || !flags.ranks.rendezvous.empty()) return ThreadsFor(flags.threads);
  return std::max(1, ThreadsFor(0) / flags.ranks.n_ranks);
}

std::string PictureFileOf(const TrainFlags& flags) {
  if (!flags.picture_file.empty() || flags.out.empty()) return flags.picture_file;
  return flags.out + "/pictures.raw";
}

TrainRequest RequestOf(const TrainFlags& flags, const TrainConfig& config) {
  TrainRequest request = {flags.dataset, config,       flags.resume,
                          flags.init,    flags.device, /*follow_links=*/true};
  request.scope = *ParseStartScope(flags.init_scope);
  if (!flags.resume.empty() && flags.HasBudget()) request.new_total = config.budget;
  request.pictures = flags.pictures;
  request.picture_file = PictureFileOf(flags);
  // A rank of another machine may have no folder for the file.
  if (request.picture_file.empty() && request.pictures == PicturePlace::kAuto)
    request.pictures = PicturePlace::kMemory;
  return request;
}

absl::Status CheckPictures(const TrainFlags& flags) {
  if (flags.pictures != PicturePlace::kFile) return absl::OkStatus();
  if (flags.device != "cpu") {
    return absl::InvalidArgumentError(
        fmt::format("--pictures file: device {} takes pictures from memory", flags.device));
  }
  if (PictureFileOf(flags).empty())
    return absl::InvalidArgumentError("--pictures file: name the file with --picture-file");
  return absl::OkStatus();
}

// Shows the forecast of the ranks and, at the end, what came true.
RankReports ReportRanks(const TrainFlags& flags, const TrainConsole& console) {
  const auto print = [&flags, &console](const RankFigures& figures, bool is_forecast,
                                        const std::string& text) {
    if (!flags.json) {
      console.PrintNote(text);
      return;
    }
    JsonObject line;
    line["event"] = "ranks";
    line["forecast"] = is_forecast;
    SetRankFigures(figures, &line);
    fmt::print("{}", JsonLine(line));
  };
  return {[print](const RankFigures& forecast) { print(forecast, true, ForecastText(forecast)); },
          [print](const RankFigures& measured, const RankFigures& forecast) {
            print(measured, false, ComparisonText(measured, forecast));
          }};
}

// Adds the command that goes on from the console's checkpoint, if there is one.
absl::Status WithCommand(const absl::Status& status, const TrainFlags& flags,
                         const TrainConsole& console) {
  std::error_code ignored;
  if (!std::filesystem::exists(console.checkpoint(), ignored)) return status;
  std::string options;
  // The checkpoint may still be the one that was to go on.
  if (!flags.resume.empty() && flags.HasBudget()) {
    const Budget total = BudgetOf(flags, {});
    options += fmt::format(" --{} {}", BudgetKindName(total.kind), total.amount);
  }
  if (flags.device != "cpu") options += " --device " + flags.device;
  if (flags.ranks.n_ranks > 1) options += fmt::format(" --ranks {}", flags.ranks.n_ranks);
  if (flags.ranks.share_devices) options += " --share-devices";
  return absl::Status(status.code(),
                      fmt::format("{}; to go on: nerf-engine train {} --resume {} --out {}{}",
                                  std::string(status.message()), ShellWord(flags.dataset),
                                  ShellWord(console.checkpoint()), ShellWord(flags.out), options));
}

// Whether the data set is one that photographs were added to (scene/placement_file.h).
bool ContinuesScene(const std::string& dataset) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(dataset + "/" + kPlacementFile, ignored);
}

// The file that --init auto stands for. Without --init, the model of what the data set continues,
// or "".
absl::StatusOr<std::string> FindStart(const TrainFlags& flags, const TrainConfig& config) {
  SceneOptions options;
  options.decode_images = false;
  options.follow_links = true;
  options.placement = config.placement;
  options.reading = {config.poses, config.apply_exif != 0};
  options.test_every = config.test_every;
  const SceneDescription scene = DescribeScene(flags.dataset, options);
  if (!scene.ok()) return absl::InvalidArgumentError(SummaryOf(scene.problems));
  std::string folder = flags.init_from;
  if (folder.empty()) {
    folder = std::filesystem::absolute(flags.out).lexically_normal().parent_path().string();
  }
  StartWanted wanted{config, scene.geometry, scene.train.size(),
                     *ParseStartScope(flags.init_scope)};
  for (const ViewDescription& view : scene.train) wanted.views.push_back({view.file, view.camera});
  const absl::StatusOr<StartChoice> found = ChooseStart(folder, wanted);
  if (flags.init.empty() && (!found.ok() || !found->same_capture)) return "";
  NERF_RETURN_IF_ERROR(found.status());
  const StartChoice& choice = *found;
  fmt::print(stderr, "starting from {}: {}\n", choice.path, choice.reason);
  return choice.path;
}

// Whether a file of the flag can be written at the end of the training.
absl::Status CheckFileFlag(const char* flag, const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return absl::InvalidArgumentError(fmt::format("{} {}: is a folder", flag, path));
  const absl::Status status = AtomicFile::Create(path).status();
  if (status.ok()) return status;
  return absl::InvalidArgumentError(fmt::format("{}: {}", flag, std::string(status.message())));
}

void CheckTraces(const TrainFlags& flags, FlagErrors* errors) {
  errors->Add(CheckFileFlag("--trace", flags.trace));
  errors->Add(CheckFileFlag("--torch-trace", flags.torch_trace));
  std::error_code ignored;
  if (!flags.trace.empty() && !flags.torch_trace.empty() &&
      std::filesystem::weakly_canonical(flags.trace, ignored) ==
          std::filesystem::weakly_canonical(flags.torch_trace, ignored)) {
    errors->Add(absl::InvalidArgumentError("--torch-trace: is the file of --trace"));
  }
}

absl::Status CheckHasProfile(const TrainFlags& flags, const TrainConfig& config) {
  if (flags.torch_trace.empty() || MethodOf(config).HasProfile()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--torch-trace: method {} does not run through LibTorch", config.method));
}

absl::Status WriteTrace(const TraceRecording& trace, const std::string& path,
                        const TrainConsole& console) {
  if (trace.n_dropped() > 0) {
    console.PrintNote(fmt::format("--trace: the last {} are not in the file",
                                  Counted(trace.n_dropped(), "phase")));
  }
  return WriteFileAtomically(path, trace.ToJson());
}

absl::Status Train(const TrainFlags& flags, const TrainConfig& config, SignalWatcher* signals) {
  const RealClock clock;
  ThreadPool pool(ThreadsOfRank(flags));
  NERF_ASSIGN_OR_RETURN(const MadeFolder folder, MadeFolder::Make(flags.out));
  std::unique_ptr<RankSession> ranks;  // null: this process alone
  if (flags.ranks.n_ranks > 1) {
    NERF_ASSIGN_OR_RETURN(ranks, RankSession::Open(flags.ranks));
  }
  NERF_ASSIGN_OR_RETURN(std::unique_ptr<RenderDevice> device, NewRenderDevice(flags.device, &pool));
  TrainRequest request = RequestOf(flags, config);
  const bool may_continue = request.init.empty() && request.resume.empty() &&
                            request.merge.empty() && flags.ranks.n_ranks == 1;
  if (request.init == kNoStart) request.init.clear();
  if (request.init == kAutoStart || (may_continue && ContinuesScene(flags.dataset))) {
    NERF_ASSIGN_OR_RETURN(request.init, FindStart(flags, config));
  }
  if (ranks != nullptr) request.group = ranks->group();
  std::vector<SceneProblem> problems;  // the first of them are in the status
  auto session = OpenTrainingSession(request, &pool, &problems, signals->token());
  if (ranks != nullptr) {
    NERF_RETURN_IF_ERROR(ranks->Agree(session.status(), session.ok() ? session->get() : nullptr));
  }
  NERF_RETURN_IF_ERROR(session.status());
  TrainingSession& s = **session;
  NERF_RETURN_IF_ERROR(CheckHasProfile(flags, s.state.config));  // a checkpoint has its own method
  if (!flags.torch_trace.empty()) s.step->StartProfile(kProfiledSteps);
  const std::unique_ptr<DeviceMonitor> monitor = NewDeviceMonitor(flags.device);
  TrainConsole console(flags.out, ConsoleStyle(flags.json), monitor.get(), &clock);
  SayWhatBegins(flags, s, pool.n_threads(), &console);
  TrainingRunOptions options;
  options.evaluate = !flags.no_eval;
  options.trainer.batches_ahead = flags.ranks.BatchesAhead(s.pictures != nullptr);
  options.trainer.central_feed = flags.ranks.central_feed;
  options.trainer.render_device = device.get();
  options.trainer.group = request.group;
  if (flags.has_stop_after) options.trainer.stop_after = flags.stop_after;
  options.trainer.checkpoint_interval = absl::Seconds(flags.checkpoint_interval);
  std::optional<TraceRecording> trace;
  if (!flags.trace.empty()) {
    trace.emplace([&clock] { return absl::ToDoubleSeconds(clock.Now() - SteadyTime()); });
  }
  absl::StatusOr<TrainingRunResult> run =
      LeadTraining(ranks.get(), &s, options, &pool, &clock, &console, ReportRanks(flags, console),
                   signals->token());
  if (trace.has_value()) {
    NERF_RETURN_IF_ERROR(WriteTrace(*trace, flags.trace, console));
  }
  if (!flags.torch_trace.empty()) {
    NERF_RETURN_IF_ERROR(WriteFileAtomically(flags.torch_trace, s.step->Profile()));
  }
  if (absl::IsUnavailable(run.status())) return WithCommand(run.status(), flags, console);
  NERF_RETURN_IF_ERROR(run.status());
  TrainingRunResult& result = *run;
  if (result.outcome == TrainOutcome::kStopped)
    return WithCommand(absl::CancelledError("interrupted"), flags, console);
  // A training that was stopped keeps the file, to use it when it goes on.
  if (result.outcome == TrainOutcome::kFinished && s.pictures != nullptr &&
      flags.picture_file.empty()) {
    std::error_code ignored;
    std::filesystem::remove(s.pictures->path(), ignored);
  }
  if (!flags.json) {
    PrintSummary(result.summary, s, flags.dataset, console.psnr_train());
    std::fflush(stdout);
    fmt::print(stderr, "next: nerf-engine render {} --out {}\n", ShellWord(console.model()),
               ShellWord(flags.out + "/views"));
    return absl::OkStatus();
  }
  result.summary.checkpoint = console.checkpoint();
  result.summary.model = console.model();
  JsonObject line;
  line["event"] = "done";
  SetSummary(result.summary, &line);
  fmt::print("{}", JsonLine(line));
  return absl::OkStatus();
}

// The folder of a file; where a resumed training writes by default.
std::string FolderOf(const std::string& file) {
  const std::string folder = std::filesystem::path(file).parent_path().string();
  return folder.empty() ? "." : folder;
}

// Runs a rank other than 0. One that rank 0 has started prints only what rank 0 cannot know.
int RunFollow(const TrainFlags& flags, const TrainConfig& config) {
  const absl::Status status = Guarded(
      [&] { return FollowRank0(flags.ranks, RequestOf(flags, config), ThreadsOfRank(flags)); });
  if (status.ok()) return kOk;
  if (flags.ranks.IsStarted() && absl::IsUnavailable(status)) return ExitCodeFor(status.code());
  return ReportError(absl::Status(status.code(), fmt::format("rank {}: {}", *flags.ranks.rank,
                                                             std::string(status.message()))),
                     flags.json && !flags.ranks.IsStarted());
}

int RunTrain(TrainFlags flags) {
  const bool follows = flags.ranks.rank.value_or(0) > 0;
  if (flags.out.empty() && !follows) {
    return ReportError(
        absl::InvalidArgumentError("--out: name a folder for checkpoint, model and previews"),
        flags.json, true);
  }
  FlagErrors errors;
  const absl::Status has_device = CheckDevice(flags.device);
  errors.Add(has_device);
  errors.Add(CheckPictures(flags));
  CheckTraces(flags, &errors);
  const absl::StatusOr<TrainConfig> config = ConfigOf(flags);
  errors.Add(config.status());
  if (config.ok() && has_device.ok()) errors.Add(CheckRanks(flags.ranks, *config, flags.device));
  if (config.ok() && flags.resume.empty()) errors.Add(CheckHasProfile(flags, *config));
  if (flags.init == kAutoStart && flags.ranks.n_ranks > 1) {
    errors.Add(absl::InvalidArgumentError(
        "--init auto: name the file where several ranks train together"));
  }
  if (absl::Status status = errors.ToStatus(); !status.ok()) {
    return ReportError(status, flags.json, true);
  }
  flags.device = DeviceOfRank(flags.ranks, flags.device);
  if (follows) return RunFollow(flags, *config);
  SignalWatcher signals;
  std::error_code ignored;
  const bool has_folder = std::filesystem::exists(flags.out, ignored);
  const absl::Status status = Guarded([&] { return Train(flags, *config, &signals); });
  // A training that did not begin leaves no empty folder.
  if (!status.ok() && !has_folder) std::filesystem::remove(flags.out, ignored);
  if (status.ok()) return kOk;
  const int code = ReportError(status, flags.json);
  if (absl::IsInvalidArgument(status) || absl::IsNotFound(status)) SuggestPosing(flags.dataset);
  return signals.exit_code() != 0 ? signals.exit_code() : code;
}

// "ngp, ngp-autograd".
std::string MethodNames() {
  std::vector<std::string_view> names;
  for (const Method* method : Methods()) names.push_back(method->description().name());
  return fmt::format("{}", fmt::join(names, ", "));
}

// --steps, --samples and --seconds, which exclude each other. They read what nerfctl's do.
std::vector<CLI::Option*> AddBudgetOptions(CLI::App* command, TrainFlags* flags) {
  auto* steps =
      AddAmountOption(command, "--steps", "budget: optimizer steps, such as 20k", &flags->steps);
  auto* samples = AddAmountOption(
      command, "--samples", "budget: trained samples, such as 40M, the default", &flags->samples);
  auto* seconds = AddTimeOption(
      command, "--seconds", "budget: time of training, such as 90, 5m or 1h30m", &flags->seconds);
  steps->excludes(samples)->excludes(seconds);
  samples->excludes(seconds);
  return {steps, samples, seconds};
}

// Options that the trained field depends on, besides the budget.
std::vector<CLI::Option*> AddConfigOptions(CLI::App* command, TrainFlags* flags) {
  auto* method =
      command->add_option("--method", flags->method, MethodNames())->capture_default_str();
  auto* seed = command->add_option("--seed", flags->seed, "random seed")->capture_default_str();
  auto* background =
      command->add_option("--background", flags->background, "auto, white, black or random")
          ->capture_default_str();
  auto* test_every = command
                         ->add_option("--test-every", flags->test_every,
                                      "hold out every Nth view if the data set has no split; "
                                      "0: none")
                         ->capture_default_str();
  auto* set =
      command
          ->add_option("--set", flags->settings,
                       "key=value, repeatable or with commas; --help-settings lists the keys")
          ->allow_extra_args(false);
  auto* init = command->add_option("--init", flags->init,
                                   "start from the weights of this model or checkpoint; auto: "
                                   "of the best fitting one of --init-from; none: from scratch, "
                                   "also of a data set that photographs were added to");
  command
      ->add_option("--init-from", flags->init_from,
                   "folder with the models of --init auto (default: the one that --out lies in)")
      ->needs(init);
  command
      ->add_option("--init-scope", flags->init_scope,
                   "what to start from: all, field, mlp (its layers) or occupancy")
      ->capture_default_str()
      ->needs(init);
  auto* max_side = command
                       ->add_option("--max-side", flags->max_side,
                                    "reduce pictures to this longer side in pixels; 0: use them as "
                                    "they are; default: by the budget, never below 1 megapixel")
                       ->check(CLI::Range(0, 16384));
  auto* downscale =
      command->add_option("--downscale", flags->downscale, "divide the pictures' sides by this")
          ->check(CLI::Range(1, 64))
          ->excludes(max_side);
  std::vector<CLI::Option*> options = {method, seed, background, test_every,
                                       set,    init, max_side,   downscale};
  for (CLI::Option* option : AddReadingOptions(command, &flags->reading)) options.push_back(option);
  return options;
}

// An option that takes one of a few words.
template <typename Value>
void AddWordOption(CLI::App* command, const char* flag,
                   const std::vector<std::pair<std::string_view, Value>>& words, const char* help,
                   Value* value) {
  std::vector<std::string_view> names;
  for (const auto& [name, meaning] : words) names.push_back(name);
  command
      ->add_option_function<std::string>(
          flag,
          [=](const std::string& word) {
            const auto found = std::find(names.begin(), names.end(), word);
            if (found == names.end()) throw CLI::ValidationError(flag, NotOneOf(word, names));
            *value = words[static_cast<size_t>(found - names.begin())].second;
          },
          help)
      ->type_name(fmt::format("{}", fmt::join(names, "|")));
}

// Several processes that train one model together (docs/inside/ranks.md).
void AddRankOptions(CLI::App* command, RankFlags* flags) {
  constexpr int kMaxRanks = 32;  // as many as gradient lanes
  command
      ->add_option(
          "--ranks", flags->n_ranks,
          "train with N processes on this machine, or with --rank on several; ngp writes the same "
          "bytes on CPUs, and on GPUs with cuda_deterministic=1")
      ->check(CLI::Range(1, kMaxRanks))
      ->capture_default_str();
  command->add_option("--rank", flags->rank, "number of this process among --ranks N, from 0");
  command->add_option("--rendezvous", flags->rendezvous,
                      "HOST:PORT at which rank 0 listens until all ranks have come");
  command->add_option("--interface", flags->interface,
                      "network interface of the ranks' traffic, which is not encrypted (default: "
                      "loopback)");
  AddWordOption<bool>(command, "--feed", {{"rank", false}, {"central", true}},
                      "rank: each rank draws its own rays; central: rank 0 draws and sends them",
                      &flags->central_feed);
  command->add_flag("--share-devices", flags->share_devices,
                    "CUDA: where there are fewer devices than ranks, ranks share them");
}

// Where the decoded pictures are while a field is trained.
void AddPictureOptions(CLI::App* command, TrainFlags* flags) {
  AddWordOption<PicturePlace>(
      command, "--pictures",
      {{"memory", PicturePlace::kMemory},
       {"file", PicturePlace::kFile},
       {"auto", PicturePlace::kAuto}},
      "decoded pictures are kept in memory, in a file, or (auto) in a file if memory is too small",
      &flags->pictures);
  command->add_option("--picture-file", flags->picture_file,
                      "that file, kept for later trainings (default: in the output folder, removed "
                      "at the end)");
}

// Options that do not change the trained bytes.
void AddRunOptions(CLI::App* command, TrainFlags* flags) {
  AddTimeOption(command, "--checkpoint-interval",
                "time between two checkpoints; each replaces the one before",
                &flags->checkpoint_interval)
      ->default_str("30");
  command->add_option("--threads", flags->threads, "threads (default: one for each core)")
      ->check(CLI::Range(0, 1024));
  command
      ->add_option(
          "--batches-ahead", flags->ranks.batches_ahead,
          "batches that a separate thread draws ahead of the step (default: 4 with pictures "
          "in a file, else 0)")
      ->check(CLI::Range(0, 64));
  AddPictureOptions(command, flags);
  command->add_option("--device", flags->device, "cpu or cuda:N")->capture_default_str();
  const CLI::Validator named(
      [](const std::string& path) { return path.empty() ? "name a file" : std::string(); }, "");
  command
      ->add_option("--trace", flags->trace,
                   "write the phases of the steps to this file, for chrome://tracing")
      ->check(named);
  command
      ->add_option("--torch-trace", flags->torch_trace,
                   fmt::format("methods through LibTorch: write its operations in the first {} "
                               "steps to this file, for chrome://tracing",
                               kProfiledSteps))
      ->check(named);
  command->add_flag("--no-eval", flags->no_eval, "no evaluation on the test views at the end");
  command->add_flag("--json", flags->json, "one JSON object a line on stdout");
  command->add_flag_callback(
      "--help-settings",
      [flags] {
        const MethodDescription* method = FindMethodDescription(flags->method);
        if (method == nullptr) throw CLI::ValidationError("--method", "there is no such method");
        fmt::print("{}", SettingsTable(*method));
        throw CLI::Success();  // ends the program as --help does
      },
      "list the settings of --set for --method and exit");
}

}  // namespace

void AddTrainCommand(CLI::App* app, CommandBody* chosen) {
  auto flags = std::make_shared<TrainFlags>();
  CLI::App* command = app->add_subcommand("train", "Train a field on a folder of posed images");
  command
      ->add_option("DIR", flags->dataset,
                   "data set: transforms*.json, a COLMAP model or poses_bounds.npy")
      ->required();
  command->add_option(
      "--out", flags->out,
      "folder for checkpoint, model and previews (default with --resume: the checkpoint's)");
  const std::vector<CLI::Option*> budget = AddBudgetOptions(command, flags.get());
  const std::vector<CLI::Option*> config = AddConfigOptions(command, flags.get());
  auto* stop_after =
      command->add_option("--stop-after", flags->stop_after, "end at this step with a checkpoint");
  auto* resume = command->add_option("--resume", flags->resume,
                                     "continue this checkpoint with its own config; a budget "
                                     "beside it is the new total of what is trained");
  for (CLI::Option* option : config) resume->excludes(option);
  AddRunOptions(command, flags.get());
  AddRankOptions(command, &flags->ranks);
  command->footer(
      "Examples:\n"
      "  nerf-engine train examples/mic --seconds 1m --background white --out run\n"
      "  nerf-engine train photos-posed --samples 300M --downscale 2 --out photos-model\n"
      "  nerf-engine train examples/mic --resume run/checkpoint.safetensors\n"
      "  nerf-engine train examples/mic --resume run/checkpoint.safetensors --samples 80M");
  command->callback([=] {
    flags->has_steps = budget[0]->count() > 0;
    flags->has_samples = budget[1]->count() > 0;
    flags->has_seconds = budget[2]->count() > 0;
    flags->has_stop_after = stop_after->count() > 0;
    if (flags->out.empty() && resume->count() > 0) flags->out = FolderOf(flags->resume);
    *chosen = [flags] { return RunTrain(*flags); };
  });
}

}  // namespace nerf
