#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "common/counted.h"
#include "common/files/atomic_file.h"
#include "common/files/made_folder.h"
#include "common/shell_word.h"
#include "common/status_macros.h"
#include "engine/base/config/psnr_advice.h"
#include "engine/base/config/start_rank.h"
#include "engine/base/protocol/json.h"
#include "engine/base/trace.h"
#include "engine/program/commands/evaluation_report.h"
#include "engine/program/commands/train_console.h"
#include "engine/program/commands/train_flags.h"
#include "engine/program/commands/training_record.h"
#include "engine/program/console/command.h"
#include "engine/program/console/reading_progress.h"
#include "engine/program/console/signal_watcher.h"
#include "engine/program/console/view_progress.h"
#include "engine/program/device/device.h"
#include "engine/program/device/device_monitor.h"
#include "engine/program/device/exception_border.h"
#include "engine/program/session/older_training.h"
#include "engine/program/session/picture_limits.h"
#include "engine/program/session/rank_session.h"
#include "engine/program/session/rank_training.h"
#include "engine/program/session/start_choice.h"
#include "engine/program/session/training_run.h"
#include "engine/program/session/training_session.h"
#include "engine/scene/files/problem_text.h"
#include "engine/scene/read/placement_file.h"
#include "engine/scene/read/scene_reader.h"
#include "engine/scene/read/source.h"
#include "fmt/format.h"

namespace nerf {
namespace {

std::string OpeningLine(const TrainingSession& session, int n_threads, int n_ranks) {
  const Scene& scene = session.scene;
  const uint32_t step = session.state.step;
  std::string text = fmt::format(
      "{} scene, {} training and {}, {}{}{}", SceneFlavorName(scene.geometry.flavor),
      scene.train.size(), Counted(scene.test.size(), "test view"),
      n_ranks > 1 ? fmt::format("{} ranks of ", n_ranks) : "", Counted(n_threads, "thread"),
      step > 0 ? fmt::format(", from step {}", step) : "");
  if (const Vec3d& origin = session.state.geometry.frame.origin; origin != Vec3d{0, 0, 0})
    text += ", about the origin " + OriginText(origin);
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
    if (summary.lpips.has_value()) fmt::print("LPIPS {:.4f}\n", *summary.lpips);
    fmt::print("SSIM {:.4f}\n", summary.ssim.value_or(kUnknownFigure));
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

TrainRequest RequestOf(const TrainFlags& flags, const TrainConfig& config) {
  TrainRequest request = {flags.dataset, config,       flags.resume,
                          flags.init,    flags.device, /*follow_links=*/true};
  request.scope = *ParseStartScope(flags.init_scope);
  if (!flags.resume.empty() && flags.HasBudget()) request.new_total = config.budget;
  request.pictures = flags.pictures;
  request.picture_file = flags.PictureFile();
  // A rank of another machine may have no folder for the file.
  if (request.picture_file.empty() && request.pictures == PicturePlace::kAuto)
    request.pictures = PicturePlace::kMemory;
  return request;
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
    const Budget total = flags.BudgetOr({});
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
  NERF_ASSIGN_OR_RETURN(ScoreOutput scores, ScoreOutput::Open(flags.scores));
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
  ReadingProgress progress(&clock);
  if (!flags.json) request.on_pictures = std::ref(progress);
  Problems problems;  // the first of them are in the status
  auto session = OpenTrainingSession(request, &pool, &problems, signals->token());
  if (ranks != nullptr) {
    NERF_RETURN_IF_ERROR(ranks->Agree(session.status(), session.ok() ? session->get() : nullptr));
  }
  NERF_RETURN_IF_ERROR(session.status());
  TrainingSession& s = **session;
  NERF_RETURN_IF_ERROR(CheckHasProfile(flags, s.state.config));  // a checkpoint has its own method
  if (!flags.torch_trace.empty()) s.step->StartProfile(kProfiledSteps);
  const std::unique_ptr<DeviceMonitor> monitor = NewDeviceMonitor(flags.device);
  TrainingRecord record(flags.out, s.state.step, flags.tensorboard, &clock);
  TrainConsole console(flags.out, ConsoleStyle(flags.json), monitor.get(), &clock, &record);
  SayWhatBegins(flags, s, pool.n_threads(), &console);
  TrainingRunOptions options;
  options.evaluate = !flags.no_eval;
  options.with_all_scores = true;
  options.lpips = scores.lpips();
  options.on_image = [&](const View& view, const ImageU8& image) {
    return scores.WriteView(view, image, s.state.evaluation_background, s.scene.alpha_is_mask);
  };
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
  if (result.evaluation.has_value()) {
    SortWorstFirst(&result.evaluation->images);
    JsonObject report;
    SetEvaluation(*result.evaluation, s.state.evaluation_background, scores.lpips() != nullptr,
                  &report);
    NERF_RETURN_IF_ERROR(WriteEvaluation(report, flags.out));
  }
  result.summary.checkpoint = console.checkpoint();
  result.summary.model = console.model();
  JsonObject line;
  line["event"] = "done";
  SetSummary(result.summary, &line);
  console.PrintDone(line);
  if (!flags.json) {
    PrintSummary(result.summary, s, flags.dataset, console.psnr_train());
    std::fflush(stdout);
    fmt::print(stderr, "next: nerf-engine render {} --out {}\n", ShellWord(console.model()),
               ShellWord(flags.out + "/views"));
  }
  return absl::OkStatus();
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
  const absl::StatusOr<TrainConfig> config = CheckTrainFlags(flags);
  if (!config.ok()) return ReportError(config.status(), flags.json, true);
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
  if (absl::IsInvalidArgument(status) || absl::IsNotFound(status))
    SuggestPosing(SourceAt(flags.dataset));
  return signals.exit_code() != 0 ? signals.exit_code() : code;
}

}  // namespace

void AddTrainCommand(CLI::App* app, CommandBody* chosen) {
  auto flags = std::make_shared<TrainFlags>();
  CLI::App* command = app->add_subcommand("train", "Train a field on a folder of posed images");
  AddTrainFlags(command, flags.get());
  command->footer(
      "Examples:\n"
      "  nerf-engine train examples/mic --seconds 1m --background white --out run\n"
      "  nerf-engine train photos-posed --samples 300M --downscale 2 --out photos-model\n"
      "  nerf-engine train examples/mic --resume run/checkpoint.safetensors\n"
      "  nerf-engine train examples/mic --resume run/checkpoint.safetensors --samples 80M");
  command->callback([=] { *chosen = [flags] { return RunTrain(*flags); }; });
}

}  // namespace nerf
