#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "common/counted.h"
#include "common/files/made_folder.h"
#include "common/files/nearest_path.h"
#include "common/status_macros.h"
#include "engine/base/method_list/method_descriptions.h"
#include "engine/base/protocol/json.h"
#include "engine/field/files/checkpoint.h"
#include "engine/field/files/tensor_file.h"
#include "engine/field/parameters/reptile.h"
#include "engine/program/console/command.h"
#include "engine/program/console/signal_watcher.h"
#include "engine/program/console/train_process.h"
#include "engine/program/device/exception_border.h"
#include "engine/scene/read/scene_reader.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBitsName = "occupancy.bits";
// Of the inner trainings, in --out. No name that a user may have given to a folder of results.
constexpr const char* kInnerFolder = ".inner_training";

struct MetaFlags {
  std::string folder, out;
  int outer_steps = 20, inner_steps = 500;
  double rate = 0.5;
  uint32_t seed = 1;
  bool json = false;
  std::vector<std::string> train;  // flags of `train` for every inner training
};

// The data sets among the folders in `folder`, by name.
absl::StatusOr<std::vector<fs::path>> ScenesIn(const std::string& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return NoSuchFolder(folder);
  std::vector<fs::path> scenes;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_directory(ignored) && HasSceneFiles(entry->path().string()))
      scenes.push_back(entry->path());
  }
  if (scenes.empty()) {
    return absl::InvalidArgumentError(fmt::format(
        "{} has no folder with a data set (transforms*.json or a COLMAP model)", folder));
  }
  std::sort(scenes.begin(), scenes.end());
  return scenes;
}

std::string MadeFrom(const MetaFlags& flags, const std::vector<fs::path>& scenes) {
  std::vector<std::string> names;
  for (const fs::path& scene : scenes) names.push_back(scene.filename().string());
  return fmt::format("reptile over {} ({}), {} of {} inner steps, rate {}, seed {}",
                     Counted(scenes.size(), "scene"), fmt::join(names, ", "),
                     Counted(flags.outer_steps, "outer step"), flags.inner_steps, flags.rate,
                     flags.seed);
}

// A model of theta, whose cells are all open: they are of no scene. state: of the last inner
// training, with totals over all of them.
absl::Status WriteTheta(const TensorFile& theta, const TensorFile& trained, const TrainState& state,
                        const std::string& path) {
  TensorFile model = theta;
  const auto bits = trained.tensors.find(kBitsName);
  if (bits != trained.tensors.end()) {
    Tensor open = bits->second;
    std::fill(open.bytes.begin(), open.bytes.end(), uint8_t{0xff});
    model.tensors[kBitsName] = std::move(open);
  }
  StoreTrainState(state, TrainFileKind::kModel, &model);
  return WriteTensorFile(model, path);
}

class MetaTraining {
 public:
  MetaTraining(const MetaFlags& flags, std::vector<fs::path> scenes)
      : flags_(flags),
        scenes_(std::move(scenes)),
        model_((fs::path(flags.out) / "model.safetensors").string()),
        inner_((fs::path(flags.out) / kInnerFolder).string()) {}
  ~MetaTraining() {
    std::error_code ignored;
    fs::remove_all(inner_, ignored);
  }
  MetaTraining(const MetaTraining&) = delete;
  MetaTraining& operator=(const MetaTraining&) = delete;

  // Outer step i, from 0.
  absl::Status Step(int i, const std::stop_token& stop) {
    const fs::path& scene = scenes_[ReptileScene(flags_.seed, i, static_cast<int>(scenes_.size()))];
    const double rate = ReptileRate(flags_.rate, i, flags_.outer_steps);
    NERF_ASSIGN_OR_RETURN(const TrainSummary summary, TrainOn(scene, i, stop));
    NERF_ASSIGN_OR_RETURN(const TensorFile trained, ReadTensorFile(summary.checkpoint));
    NERF_ASSIGN_OR_RETURN(StoredTrainState stored, LoadTrainState(trained, summary.checkpoint));
    if (absl::Status moved =
            MoveTowards(trained, FieldTensorShapes(stored.state.config), rate, &theta_);
        !moved.ok()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: {}", scene.string(), std::string(moved.message())));
    }
    TrainState& state = stored.state;
    n_steps_ += state.step;
    state.step = n_steps_;
    state.n_trained = n_trained_ += state.n_trained;
    state.n_marched = n_marched_ += state.n_marched;
    state.n_rays = n_rays_ += state.n_rays;
    state.made_from = MadeFrom(flags_, scenes_);
    NERF_RETURN_IF_ERROR(WriteTheta(theta_, trained, state, model_));
    Report(i, scene, rate, summary);
    return absl::OkStatus();
  }

  const std::string& model() const { return model_; }

 private:
  absl::StatusOr<TrainSummary> TrainOn(const fs::path& scene, int i,
                                       const std::stop_token& stop) const {
    std::vector<std::string> arguments = flags_.train;
    const std::string seed = std::to_string(flags_.seed + static_cast<uint32_t>(i));
    arguments.insert(arguments.begin(), scene.string());
    arguments.insert(arguments.end(),
                     {"--out", inner_, "--steps", std::to_string(flags_.inner_steps), "--seed",
                      seed, "--no-eval"});
    if (i > 0) arguments.insert(arguments.end(), {"--init", model_, "--init-scope", "field"});
    return TrainInProcess(arguments, {}, {}, stop);
  }

  void Report(int i, const fs::path& scene, double rate, const TrainSummary& summary) const {
    if (!flags_.json) {
      fmt::print(stderr, "outer step {} of {}: {}, rate {:.3f}, {:.1f} M samples, {:.1f} s\n",
                 i + 1, flags_.outer_steps, scene.filename().string(), rate, summary.samples / 1e6,
                 summary.seconds);
      return;
    }
    JsonObject line;
    line["event"] = "outer_step";
    line["outer_step"] = i + 1;
    line["scene"] = scene.filename().string();
    line["rate"] = JsonNumber(rate);
    line["samples"] = JsonNumber(summary.samples);
    line["seconds"] = JsonNumber(summary.seconds);
    fmt::print("{}", JsonLine(line));
  }

  const MetaFlags& flags_;
  const std::vector<fs::path> scenes_;
  const std::string model_, inner_;
  TensorFile theta_;
  uint32_t n_steps_ = 0;
  int64_t n_trained_ = 0, n_marched_ = 0, n_rays_ = 0;
};

absl::Status Meta(const MetaFlags& flags, const std::stop_token& stop) {
  NERF_ASSIGN_OR_RETURN(std::vector<fs::path> scenes, ScenesIn(flags.folder));
  NERF_ASSIGN_OR_RETURN(const MadeFolder folder, MadeFolder::Make(flags.out));
  MetaTraining training(flags, std::move(scenes));
  for (int i = 0; i < flags.outer_steps; ++i) NERF_RETURN_IF_ERROR(training.Step(i, stop));
  if (flags.json) {
    fmt::print("{}", JsonLine(JsonObject{{"event", "done"}, {"model", training.model()}}));
  } else {
    fmt::print("{0}: start from its layers with nerf-engine train --init {0} --init-scope mlp\n",
               training.model());
  }
  return absl::OkStatus();
}

}  // namespace

void AddMetaCommand(CLI::App* app, CommandBody* chosen) {
  auto flags = std::make_shared<MetaFlags>();
  CLI::App* command = app->add_subcommand(
      "meta", "Learn a start for trainings of new scenes from a folder of scenes (Reptile)");
  command->add_option("FOLDER", flags->folder, "folder of data sets, each in a folder of its own")
      ->required();
  command->add_option("--out", flags->out, "folder for the model")->required();
  command->add_option("--outer-steps", flags->outer_steps, "trainings, each on one scene")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--inner-steps", flags->inner_steps, "steps of each training")
      ->check(CLI::Range(1, 10'000'000))
      ->capture_default_str();
  command
      ->add_option("--rate", flags->rate,
                   "share of the way to each result that the start moves; falls to 0")
      ->check(CLI::Range(0.001, 1.0))
      ->capture_default_str();
  command->add_option("--seed", flags->seed, "random seed")->capture_default_str();
  command->add_flag("--json", flags->json, "one JSON object a line on stdout");
  command->allow_extras();
  command->footer(
      "Other flags are those of train, for every training.\n"
      "Example:\n"
      "  nerf-engine meta scenes --outer-steps 30 --set near=0.2 --out start");
  command->callback([=] {
    flags->train = command->remaining();
    *chosen = [flags]() -> int {
      SignalWatcher signals;
      const absl::Status status = Guarded([&] { return Meta(*flags, signals.token()); });
      if (status.ok()) return kOk;
      const int code = ReportError(status, flags->json);
      return signals.exit_code() != 0 ? signals.exit_code() : code;
    };
  });
}

}  // namespace nerf
