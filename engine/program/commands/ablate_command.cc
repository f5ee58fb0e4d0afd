#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "common/clock.h"
#include "common/counted.h"
#include "common/files/atomic_file.h"
#include "common/files/made_folder.h"
#include "common/status_macros.h"
#include "engine/base/protocol/json.h"
#include "engine/base/protocol/key_reader.h"
#include "engine/base/protocol/progress.h"
#include "engine/program/commands/ablation.h"
#include "engine/program/console/command.h"
#include "engine/program/console/signal_watcher.h"
#include "engine/program/console/train_process.h"
#include "engine/program/console/view_progress.h"
#include "engine/program/device/exception_border.h"
#include "engine/program/session/training_session.h"
#include "engine/views/contact_sheet.h"
#include "fmt/format.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;

constexpr int kSmallestBudgetPart = 16;
constexpr size_t kSheetColumns = 4;
constexpr absl::Duration kLogInterval = absl::Seconds(5);
// Names in --out and in the folder of a variant.
constexpr char kShortTraining[] = ".short_training", kViews[] = "views";

struct AblateFlags {
  std::string dataset, out;
  std::vector<std::string> vary, lpips;
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

// Which of the trainings runs, and how far it is. Thread-compatible.
class AblationConsole {
 public:
  // clock outlives it.
  AblationConsole(bool json, size_t n_trainings, const Clock* clock)
      : style_(ConsoleStyle(json)), n_trainings_(n_trainings), clock_(clock) {}
  ~AblationConsole() { Clear(); }
  AblationConsole(const AblationConsole&) = delete;
  AblationConsole& operator=(const AblationConsole&) = delete;

  // The next training, "near=1, seed 2".
  void Begin(const std::string& name) {
    ++number_;
    name_ = name;
    next_ = clock_->Now();
  }
  // A line that it prints with --json.
  void Show(const nlohmann::json& line) {
    KeyReader reader(line);
    const std::string event = reader.Text("event", Need::kOptional);
    std::string words;
    if (event == "progress") {
      words = TrainingText(ReadProgress(&reader));
    } else if (event == "evaluating") {
      words = fmt::format("evaluating view {} of {}", reader.Count("view", Need::kOptional),
                          reader.Count("views", Need::kOptional));
    } else {
      return;
    }
    if (style_ == ProgressStyle::kJson) {
      JsonObject forwarded = {{"event", event}, {"training", number_}, {"name", name_}};
      for (const auto& [key, value] : line.items()) forwarded[key] = value;
      fmt::print("{}", JsonLine(forwarded));
      std::fflush(stdout);
      return;
    }
    if (clock_->Now() < next_) return;
    next_ = clock_->Now() + (style_ == ProgressStyle::kLog ? kLogInterval : absl::Seconds(1));
    const bool is_terminal = style_ == ProgressStyle::kTerminal;
    fmt::print(stderr, "{}[{} of {}] {}: {}{}", is_terminal ? "\r" : "", number_, n_trainings_,
               name_, words, is_terminal ? "\x1b[K" : "\n");
  }
  // Before other output.
  void Clear() const {
    if (style_ == ProgressStyle::kTerminal) fmt::print(stderr, "\r\x1b[K");
    std::fflush(stderr);
  }

 private:
  const ProgressStyle style_;
  const size_t n_trainings_;
  const Clock* const clock_;
  size_t number_ = 0;
  std::string name_;
  SteadyTime next_;
};

class Ablation {
 public:
  // All outlive it.
  Ablation(const AblateFlags& flags, const Clock* clock, const std::stop_token& stop)
      : flags_(flags), stop_(stop), clock_(clock) {}

  absl::Status Run();

 private:
  // samples: the budget; 0: that of the other flags. images: folder for the test views, or "".
  absl::StatusOr<TrainSummary> Train(const AblationVariant& variant, int seed, double samples,
                                     const fs::path& out, const fs::path& images);
  // Seconds to the wanted PSNR: trainings of a sixteenth of the samples and, doubling, up to half
  // of them, until one reaches it; else `whole`, which took all of them.
  absl::StatusOr<double> SecondsToTarget(const AblationVariant& variant, int seed,
                                         const TrainSummary& whole);
  absl::StatusOr<AblationRun> TrainSeed(const AblationVariant& variant, const std::string& folder,
                                        int seed);
  // Errors: Cancelled; others are the row's failure.
  absl::StatusOr<AblationRow> TrainVariant(const AblationVariant& variant,
                                           const std::string& folder);
  void Print(const AblationRow& row, double baseline);
  // Test views, evenly spaced: a row of the photographs, then one of each variant that has them.
  absl::Status WriteSheet(const std::vector<std::string>& folders) const;

  const AblateFlags& flags_;
  const std::stop_token stop_;
  const Clock* const clock_;
  AblationColumns columns_;
  std::optional<AblationConsole> console_;
  std::vector<AblationRow> rows_;
};

absl::StatusOr<TrainSummary> Ablation::Train(const AblationVariant& variant, int seed,
                                             double samples, const fs::path& out,
                                             const fs::path& images) {
  std::vector<std::string> arguments = {flags_.dataset, "--out", out.string()};
  arguments.insert(arguments.end(), flags_.train.begin(), flags_.train.end());
  arguments.insert(arguments.end(), variant.arguments.begin(), variant.arguments.end());
  if (samples > 0) {
    arguments.insert(arguments.end(), {"--samples", fmt::format("{:.0f}", samples)});
  }
  for (const std::string& file : flags_.lpips) arguments.insert(arguments.end(), {"--lpips", file});
  if (!images.empty()) arguments.insert(arguments.end(), {"--images", images.string()});
  arguments.insert(arguments.end(), {"--seed", std::to_string(seed)});
  return TrainInProcess(
      arguments, variant.environment, [&](const nlohmann::json& line) { console_->Show(line); },
      stop_);
}

absl::StatusOr<double> Ablation::SecondsToTarget(const AblationVariant& variant, int seed,
                                                 const TrainSummary& whole) {
  const fs::path folder = fs::path(flags_.out) / kShortTraining;
  std::vector<BudgetResult> results;
  for (int part = kSmallestBudgetPart; part > 1; part /= 2) {
    const absl::StatusOr<TrainSummary> summary =
        Train(variant, seed, flags_.samples / part, folder, "");
    std::error_code ignored;
    fs::remove_all(folder, ignored);
    NERF_RETURN_IF_ERROR(summary.status());
    results.push_back({summary->seconds, summary->psnr.value_or(kUnknownFigure)});
    if (results.back().psnr >= flags_.target_psnr) break;
  }
  if (!(results.back().psnr >= flags_.target_psnr))
    results.push_back({whole.seconds, whole.psnr.value_or(kUnknownFigure)});
  return SecondsToPsnr(results, flags_.target_psnr);
}

absl::StatusOr<AblationRun> Ablation::TrainSeed(const AblationVariant& variant,
                                                const std::string& folder, int seed) {
  const fs::path out = fs::path(flags_.out) / folder;
  const fs::path images = seed == 1 ? out / kViews : fs::path();
  std::error_code ignored;
  if (!images.empty()) fs::remove_all(images, ignored);  // of an earlier ablation
  AblationRun run;
  run.seed = seed;
  run.folder = flags_.n_seeds == 1 ? folder : fmt::format("{}/seed{}", folder, seed);
  console_->Begin(fmt::format("{}, seed {}", variant.name, seed));
  const double begin = ChildCpuSeconds();
  NERF_ASSIGN_OR_RETURN(
      run.summary, Train(variant, seed, flags_.samples, fs::path(flags_.out) / run.folder, images));
  run.cpu_seconds = ChildCpuSeconds() - begin;
  // The optimizer's moments have twice the bytes of the model.
  fs::remove(run.summary.checkpoint, ignored);
  if (flags_.target_psnr > 0) {
    NERF_ASSIGN_OR_RETURN(run.seconds_to_psnr, SecondsToTarget(variant, seed, run.summary));
  }
  return run;
}

absl::StatusOr<AblationRow> Ablation::TrainVariant(const AblationVariant& variant,
                                                   const std::string& folder) {
  AblationRow row;
  row.name = variant.name;
  for (int seed = 1; seed <= flags_.n_seeds; ++seed) {
    absl::StatusOr<AblationRun> run = TrainSeed(variant, folder, seed);
    if (absl::IsCancelled(run.status())) return run.status();
    if (!run.ok()) {
      row.failure = std::string(run.status().message());
      return row;
    }
    row.runs.push_back(*std::move(run));
  }
  return row;
}

void Ablation::Print(const AblationRow& row, double baseline) {
  console_->Clear();
  if (flags_.json) {
    JsonObject line;
    line["event"] = "ablation";
    SetAblationRow(row, columns_, &line);
    fmt::print("{}", JsonLine(line));
  } else {
    fmt::print("{}\n", AblationLine(row, baseline, columns_));
  }
  std::fflush(stdout);
}

absl::Status Ablation::WriteSheet(const std::vector<std::string>& folders) const {
  const fs::path out = flags_.out;
  std::vector<fs::path> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(out / folders[0] / kViews, ignored))
    if (entry.is_regular_file(ignored)) names.push_back(entry.path().filename());
  if (names.empty()) return absl::OkStatus();
  std::ranges::sort(names);
  const size_t n_columns = std::min(
      {names.size(), kSheetColumns, std::max<size_t>(1, kMaxSheetPictures / (1 + rows_.size()))});
  std::vector<std::string> files;
  int n_rows = 0;
  const auto add_row = [&](const fs::path& folder) {
    std::vector<std::string> row;
    for (size_t i = 0; i < n_columns; ++i)
      row.push_back(folder / names[i * names.size() / n_columns]);
    for (const std::string& file : row)
      if (!fs::exists(file, ignored)) return;
    files.insert(files.end(), row.begin(), row.end());
    ++n_rows;
  };
  add_row(out / folders[0] / kViews / "photographs");
  for (size_t i = 0; i < rows_.size(); ++i) add_row(out / folders[i] / kViews);
  return WriteContactSheet(files, out / "sheet.png", n_rows);
}

absl::Status Ablation::Run() {
  std::vector<AblationSwitch> switches;
  for (const std::string& text : flags_.vary) {
    NERF_ASSIGN_OR_RETURN(AblationSwitch parsed, ParseAblationSwitch(text));
    switches.push_back(std::move(parsed));
  }
  NERF_ASSIGN_OR_RETURN(const MadeFolder made, MadeFolder::Make(flags_.out));
  const std::vector<AblationVariant> variants = AblationVariants(switches, flags_.cross);
  const std::vector<std::string> folders = FolderNames(variants);
  const auto n_seeds = static_cast<size_t>(flags_.n_seeds);
  console_.emplace(flags_.json, variants.size() * n_seeds, clock_);
  columns_ = {flags_.target_psnr, !flags_.lpips.empty()};
  if (!flags_.json) fmt::print("{}\n", AblationHead(columns_));
  std::fflush(stdout);
  int n_failed = 0;
  double baseline = kUnknownFigure;
  const std::string table = flags_.out + "/table.csv";
  for (size_t i = 0; i < variants.size(); ++i) {
    NERF_ASSIGN_OR_RETURN(AblationRow row, TrainVariant(variants[i], folders[i]));
    // Nothing that follows would have anything to be compared with.
    if (i == 0 && !row.failure.empty()) return absl::AbortedError(row.failure);
    if (i == 0) baseline = row.MeanPsnr();
    n_failed += row.failure.empty() ? 0 : 1;
    Print(row, baseline);
    rows_.push_back(std::move(row));
    NERF_RETURN_IF_ERROR(WriteFileAtomically(table, AblationCsv(rows_)));
  }
  NERF_RETURN_IF_ERROR(WriteSheet(folders));
  if (!flags_.json) {
    fmt::print(stderr,
               "kept in {}: table.csv, sheet.png (the photographs, then a row of each line "
               "above that did not fail), models and curves\n",
               flags_.out);
    if (flags_.n_seeds == 1)
      fmt::print(stderr, "one seed each: --seeds 3 shows how much seeds alone differ\n");
  }
  if (n_failed > 0) return absl::AbortedError(Counted(n_failed, "variant") + " failed");
  if (flags_.json) {
    fmt::print("{}", JsonLine(JsonObject{{"event", "done"}, {"table", table}}));
  }
  return absl::OkStatus();
}

}  // namespace

void AddAblateCommand(CLI::App* app, CommandBody* chosen) {
  auto flags = std::make_shared<AblateFlags>();
  CLI::App* command =
      app->add_subcommand("ablate", "Train variants of a config and compare time, memory and PSNR");
  command->add_option("DIR", flags->dataset, "data set, as of train")->required();
  command
      ->add_option("--out", flags->out,
                   "folder for table.csv, sheet.png and a folder of each variant: model, curve, "
                   "scores and test views")
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
  command->add_option("--lpips", flags->lpips, "weights for a column LPIPS, as of eval; repeatable")
      ->type_name("FILE")
      ->allow_extra_args(false);
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
      const absl::Status status = Guarded([&] {
        const RealClock clock;
        return Ablation(*flags, &clock, signals.token()).Run();
      });
      if (status.ok()) return kOk;
      const int code = ReportError(status, flags->json, absl::IsInvalidArgument(status));
      return signals.exit_code() != 0 ? signals.exit_code() : code;
    };
  });
}

}  // namespace nerf
