#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <utility>

#include "common/counted.h"
#include "common/files/made_folder.h"
#include "common/status_macros.h"
#include "engine/base/protocol/json.h"
#include "engine/base/protocol/progress.h"
#include "engine/program/commands/ablation.h"
#include "engine/program/console/command.h"
#include "engine/program/console/signal_watcher.h"
#include "engine/program/console/train_process.h"
#include "engine/program/device/exception_border.h"
#include "engine/program/session/training_session.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr int kSmallestBudgetPart = 16;

struct AblateFlags {
  std::string dataset, out;
  std::vector<std::string> vary;
  int n_seeds = 1;
  bool cross = false, json = false;
  double samples = 0;              // of every run; 0: not named
  double target_psnr = 0;          // dB; 0: none
  std::vector<std::string> train;  // flags of `train` for every run
};

// CPU time of the child processes that have ended.
double ChildCpuSeconds() {
  struct rusage usage = {};
  getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// samples: the budget; 0: that of the other flags.
absl::StatusOr<TrainSummary> TrainVariant(const AblateFlags& flags, const AblationVariant& variant,
                                          int seed, double samples, const std::stop_token& stop) {
  std::vector<std::string> arguments = {flags.dataset, "--out",
                                        (std::filesystem::path(flags.out) / "run").string()};
  arguments.insert(arguments.end(), flags.train.begin(), flags.train.end());
  arguments.insert(arguments.end(), variant.arguments.begin(), variant.arguments.end());
  if (samples > 0) {
    arguments.insert(arguments.end(), {"--samples", fmt::format("{:.0f}", samples)});
  }
  arguments.insert(arguments.end(), {"--seed", std::to_string(seed)});
  return TrainInProcess(arguments, variant.environment, stop);
}

// Seconds to the wanted PSNR: trainings of a sixteenth of the samples and, doubling, up to half of
// them, until one reaches it; else `whole`, which took all of them.
absl::StatusOr<double> MeasureSecondsToPsnr(const AblateFlags& flags,
                                            const AblationVariant& variant, int seed,
                                            const TrainSummary& whole,
                                            const std::stop_token& stop) {
  std::vector<BudgetResult> results;
  for (int part = kSmallestBudgetPart; part > 1; part /= 2) {
    NERF_ASSIGN_OR_RETURN(const TrainSummary summary,
                          TrainVariant(flags, variant, seed, flags.samples / part, stop));
    results.push_back({summary.seconds, summary.psnr.value_or(kUnknownFigure)});
    if (results.back().psnr >= flags.target_psnr) {
      return SecondsToPsnr(results, flags.target_psnr);
    }
  }
  results.push_back({whole.seconds, whole.psnr.value_or(kUnknownFigure)});
  return SecondsToPsnr(results, flags.target_psnr);
}

absl::StatusOr<AblationRow> RunVariant(const AblateFlags& flags, const AblationVariant& variant,
                                       const std::stop_token& stop) {
  AblationRow row;
  row.name = variant.name;
  for (int seed = 1; seed <= flags.n_seeds; ++seed) {
    const double begin = ChildCpuSeconds();
    const absl::StatusOr<TrainSummary> summary =
        TrainVariant(flags, variant, seed, flags.samples, stop);
    if (absl::IsCancelled(summary.status())) return summary.status();
    if (!summary.ok()) {
      row.failure = std::string(summary.status().message());
      return row;
    }
    AddToRow(*summary, ChildCpuSeconds() - begin, &row);
    if (flags.target_psnr == 0) continue;
    const absl::StatusOr<double> seconds =
        MeasureSecondsToPsnr(flags, variant, seed, *summary, stop);
    if (absl::IsCancelled(seconds.status())) return seconds.status();
    if (!seconds.ok()) {
      row.failure = std::string(seconds.status().message());
      return row;
    }
    row.seconds_to_psnr.push_back(*seconds);
  }
  return row;
}

absl::Status Ablate(const AblateFlags& flags, const std::stop_token& stop) {
  std::vector<AblationSwitch> switches;
  for (const std::string& text : flags.vary) {
    NERF_ASSIGN_OR_RETURN(AblationSwitch parsed, ParseAblationSwitch(text));
    switches.push_back(std::move(parsed));
  }
  NERF_ASSIGN_OR_RETURN(const MadeFolder folder, MadeFolder::Make(flags.out));
  int n_failed = 0;
  double baseline = kUnknownFigure;
  if (!flags.json) fmt::print("{}\n", AblationHead(flags.target_psnr));
  const bool is_watched = isatty(STDERR_FILENO) != 0;
  const std::vector<AblationVariant> variants = AblationVariants(switches, flags.cross);
  for (const AblationVariant& variant : variants) {
    std::fflush(stdout);
    if (is_watched) {
      const auto number = &variant - variants.data() + 1;
      fmt::print(stderr, "training {} of {}: {}\n", number, variants.size(), variant.name);
    }
    NERF_ASSIGN_OR_RETURN(const AblationRow row, RunVariant(flags, variant, stop));
    if (variant.arguments.empty() && variant.environment.empty()) {
      // Nothing that follows would have anything to be compared with.
      if (!row.failure.empty()) return absl::AbortedError(row.failure);
      baseline = row.MeanPsnr();
    }
    n_failed += row.failure.empty() ? 0 : 1;
    if (flags.json) {
      JsonObject line;
      line["event"] = "ablation";
      SetAblationRow(row, &line);
      fmt::print("{}", JsonLine(line));
    } else {
      fmt::print("{}\n", AblationLine(row, baseline));
    }
  }
  if (n_failed > 0) return absl::AbortedError(Counted(n_failed, "variant") + " failed");
  if (flags.json) {
    fmt::print("{}", JsonLine(JsonObject{{"event", "done"}}));
  } else if (flags.n_seeds == 1 && is_watched) {
    fmt::print(stderr, "one seed each: --seeds 3 shows how much seeds alone differ\n");
  }
  return absl::OkStatus();
}

}  // namespace

void AddAblateCommand(CLI::App* app, CommandBody* chosen) {
  auto flags = std::make_shared<AblateFlags>();
  CLI::App* command =
      app->add_subcommand("ablate", "Train variants of a config and compare time, memory and PSNR");
  command->add_option("DIR", flags->dataset, "data set, as of train")->required();
  command->add_option("--out", flags->out, "folder for the files of the run in progress")
      ->required();
  command
      ->add_option("--vary", flags->vary,
                   "KEY=VALUE,VALUE: a setting of train --set, or method, init, init_scope, "
                   "batches_ahead, threads or simd; repeatable")
      ->allow_extra_args(false)
      ->required();
  command->add_flag("--cross", flags->cross,
                    "all combinations of the switches' values (default: one at a time)");
  command->add_option("--seeds", flags->n_seeds, "trainings of each variant, with seeds from 1 on")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  auto* samples = AddAmountOption(command, "--samples",
                                  "trained samples of each run, such as 40M, the default of train",
                                  &flags->samples);
  AddAmountOption(command, "--target-psnr",
                  "also measure the seconds of training to this PSNR (dB), by further runs of a "
                  "sixteenth to half of --samples",
                  &flags->target_psnr)
      ->needs(samples);
  command->add_flag("--json", flags->json, "one JSON object a line on stdout");
  command->allow_extras();
  command->footer(
      "Other flags are those of train, for every run.\n"
      "Example:\n"
      "  nerf-engine ablate examples/mic --vary learning_rate=0.01,0.02 --samples 5M --out runs");
  command->callback([=] {
    flags->train = command->remaining();
    *chosen = [flags]() -> int {
      SignalWatcher signals;
      const absl::Status status = Guarded([&] { return Ablate(*flags, signals.token()); });
      if (status.ok()) return kOk;
      const int code = ReportError(status, flags->json, absl::IsInvalidArgument(status));
      return signals.exit_code() != 0 ? signals.exit_code() : code;
    };
  });
}

}  // namespace nerf
