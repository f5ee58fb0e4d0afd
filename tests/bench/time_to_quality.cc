// PSNR of the test views over seconds of training, as a table. By default each budget is
// a training of its own, whose schedules end at that budget: the best result possible in that time.
// --along-one-run instead evaluates one training of the longest budget at each of them. Reading the
// scene and evaluating do not count as training time.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <span>

#include "CLI/CLI.hpp"
#include "absl/strings/str_join.h"
#include "common/clock.h"
#include "common/status_macros.h"
#include "engine/commands/command.h"
#include "engine/measure/evaluation.h"
#include "engine/methods/describe/method_descriptions.h"
#include "engine/training/device.h"
#include "engine/training/exception_border.h"
#include "engine/training/machine.h"
#include "engine/training/training_session.h"
#include "fmt/format.h"

namespace nerf {
namespace {

struct Arguments {
  std::string scene, out, background = "auto", device = "cpu";
  std::vector<double> seconds = {5, 10, 30, 60, 120, 300};
  std::vector<std::string> settings;  // key=value
  int threads = 0, test_every = TrainConfig().test_every;
  uint32_t seed = 1;
  bool along_one_run = false;
};

struct Result {
  double budget = 0;  // seconds asked for
  double psnr = 0;    // dB
  double seconds = 0;
  uint32_t step = 0;
  int64_t n_trained = 0;
};

absl::StatusOr<TrainConfig> ConfigOf(const Arguments& arguments, double seconds) {
  TrainConfig config;
  config.seed = arguments.seed;
  config.test_every = arguments.test_every;
  config.budget = {BudgetKind::kSeconds, seconds};
  NERF_ASSIGN_OR_RETURN(config.background, ParseBackground(arguments.background));
  for (const std::string& setting : arguments.settings) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos) {
      return absl::InvalidArgumentError(fmt::format("--set {}: must be key=value", setting));
    }
    const std::string_view text = setting;
    NERF_RETURN_IF_ERROR(SetConfigField(text.substr(0, equals), text.substr(equals + 1), &config));
  }
  NERF_RETURN_IF_ERROR(ValidateConfig(config));
  return config;
}

// Evaluates between two steps as soon as a budget is spent.
class Stopwatch final : public TrainerObserver {
 public:
  Stopwatch(std::span<const View> views, ThreadPool* pool) : views_(views), pool_(pool) {}

  const Trainer* trainer = nullptr;  // set before it runs
  std::vector<double> budgets;       // ascending
  std::vector<Result> results;

  absl::Status BetweenSteps() override {
    while (results.size() < budgets.size() && trainer->state().seconds >= budgets[results.size()]) {
      NERF_RETURN_IF_ERROR(Evaluate());
    }
    return absl::OkStatus();
  }
  void OnWarning(const std::string& text) override { fmt::print(stderr, "warning: {}\n", text); }

 private:
  absl::Status Evaluate() {
    const TrainState& state = trainer->state();
    EvaluationOptions options;
    options.background = state.evaluation_background;
    options.min_transmittance = MinTransmittance(state.config);
    options.with_ssim = false;
    NERF_ASSIGN_OR_RETURN(const auto evaluated, EvaluateViews(trainer->NewRenderer().get(), views_,
                                                              options, pool_, clock_, {}));
    results.push_back(
        {budgets[results.size()], evaluated.psnr, state.seconds, state.step, state.n_trained});
    fmt::print(stderr, "{:g} s: {:.2f} dB\n", results.back().budget, evaluated.psnr);
    return absl::OkStatus();
  }

  const std::span<const View> views_;
  ThreadPool* const pool_;
  const RealClock clock_;
};

// One run of the longest of `budgets`, evaluated at each.
absl::StatusOr<std::vector<Result>> TrainOnce(const Arguments& arguments,
                                              std::vector<double> budgets, ThreadPool* pool,
                                              Background* background) {
  NERF_ASSIGN_OR_RETURN(const TrainConfig config, ConfigOf(arguments, budgets.back()));
  NERF_ASSIGN_OR_RETURN(const auto device, NewRenderDevice(arguments.device, pool));
  std::vector<SceneProblem> problems;
  NERF_ASSIGN_OR_RETURN(const auto session,
                        OpenTrainingSession({arguments.scene, config, "", "", arguments.device},
                                            pool, &problems, {}));
  if (session->scene.test.empty()) {
    return absl::InvalidArgumentError("there are no test views to measure quality on");
  }
  const RealClock clock;
  TrainerOptions options;
  options.preview_interval = absl::InfiniteDuration();
  options.render_device = device.get();
  Stopwatch stopwatch(session->scene.test, pool);
  Trainer trainer(&session->scene, session->state, session->step.get(), pool, &clock, options,
                  &stopwatch);
  stopwatch.trainer = &trainer;
  stopwatch.budgets = std::move(budgets);
  NERF_RETURN_IF_ERROR(trainer.Run({}).status());
  *background = trainer.state().evaluation_background;
  return stopwatch.results;
}

std::string Table(const std::vector<Result>& results) {
  std::string text =
      "| seconds of training | PSNR, dB | steps | trained samples, M | M samples/s |\n"
      "|---:|---:|---:|---:|---:|\n";
  for (const Result& result : results) {
    const double samples = static_cast<double>(result.n_trained) / 1e6;
    text += fmt::format("| {:19g} | {:8.2f} | {:5} | {:18.1f} | {:11.2f} |\n", result.budget,
                        result.psnr, result.step, samples, samples / result.seconds);
  }
  return text;
}

absl::Status Measure(const Arguments& arguments) {
  ThreadPool pool(ThreadsFor(arguments.threads));
  NERF_RETURN_IF_ERROR(CreateFolder(arguments.out));
  std::vector<double> budgets = arguments.seconds;
  std::sort(budgets.begin(), budgets.end());
  std::vector<Result> results;
  Background background = Background::kBlack;
  const auto add_run = [&](std::vector<double> of_run) {
    auto more = TrainOnce(arguments, std::move(of_run), &pool, &background);
    if (more.ok()) results.insert(results.end(), more->begin(), more->end());
    return more.status();
  };
  if (arguments.along_one_run) {
    NERF_RETURN_IF_ERROR(add_run(budgets));
  } else {
    for (const double budget : budgets) {
      NERF_RETURN_IF_ERROR(add_run({budget}));
    }
  }

  const std::string scene =
      std::filesystem::path(arguments.scene).lexically_normal().filename().string();
  const std::string how = fmt::format(
      "{}, {} background, seed {}, {}, {}, {} threads{}{}\n", scene, BackgroundName(background),
      arguments.seed, arguments.device,
      arguments.along_one_run ? "along one run" : "each budget a run of its own", pool.n_threads(),
      arguments.settings.empty() ? "" : ", ", absl::StrJoin(arguments.settings, " "));
  const std::string text = fmt::format("{}{}\n\n{}", how, DeviceDescription(), Table(results));
  fmt::print("{}", text);
  std::ofstream(arguments.out + "/time_to_quality.md") << text;
  return absl::OkStatus();
}

}  // namespace
}  // namespace nerf

int main(int argc, char** argv) {
  nerf::Arguments arguments;
  CLI::App app("Prints PSNR against seconds of training");
  app.add_option("SCENE", arguments.scene, "data set")->required();
  app.add_option("--out", arguments.out, "folder for time_to_quality.md")->required();
  app.add_option("--seconds", arguments.seconds, "budgets, e.g. 5,10,30")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--set", arguments.settings, "key=value, repeatable")->allow_extra_args(false);
  app.add_option("--device", arguments.device, "cpu or cuda:N")->capture_default_str();
  app.add_option("--threads", arguments.threads, "default: one for each core")
      ->check(CLI::Range(0, 1024));
  app.add_option("--background", arguments.background, "auto, white, black or random")
      ->capture_default_str();
  app.add_option("--test-every", arguments.test_every,
                 "hold out every Nth view where the data set has no split")
      ->capture_default_str();
  app.add_option("--seed", arguments.seed, "random seed")->capture_default_str();
  app.add_flag("--along-one-run", arguments.along_one_run,
               "evaluate one run of the longest budget on its way");
  CLI11_PARSE(app, argc, argv);
  absl::Status status = nerf::TakeSimdPathOfEnvironment();
  if (status.ok()) status = nerf::Guarded([&] { return nerf::Measure(arguments); });
  if (status.ok()) return 0;
  fmt::print(stderr, "time_to_quality: {}\n", status.ToString());
  return 1;
}
