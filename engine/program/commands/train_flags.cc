#include "engine/program/commands/train_flags.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "common/edit_distance.h"
#include "common/files/atomic_file.h"
#include "common/status_macros.h"
#include "engine/base/config/setting_list.h"
#include "engine/base/config/start_rank.h"
#include "engine/base/method_list/method_descriptions.h"
#include "engine/base/method_list/settings_help.h"
#include "engine/methods/registry.h"
#include "engine/program/console/flag_errors.h"
#include "engine/program/device/device.h"
#include "engine/scene/read/scene_reader.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace nerf {
namespace {

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
  config.budget = flags.BudgetOr(config.budget);
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

absl::Status CheckPictures(const TrainFlags& flags) {
  if (flags.pictures != PicturePlace::kFile) return absl::OkStatus();
  if (flags.device != "cpu") {
    return absl::InvalidArgumentError(
        fmt::format("--pictures file: device {} takes pictures from memory", flags.device));
  }
  if (flags.PictureFile().empty())
    return absl::InvalidArgumentError("--pictures file: name the file with --picture-file");
  return absl::OkStatus();
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

// The folder of a file; where a resumed training writes by default.
std::string FolderOf(const std::string& file) {
  const std::string folder = std::filesystem::path(file).parent_path().string();
  return folder.empty() ? "." : folder;
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
  command->add_flag("--tensorboard", flags->tensorboard,
                    "write the curve of metrics.jsonl for TensorBoard, too");
  command->add_flag("--no-eval", flags->no_eval, "no evaluation on the test views at the end");
  AddScoreOptions(command, &flags->scores);
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

Budget TrainFlags::BudgetOr(const Budget& unset) const {
  if (has_steps) return {BudgetKind::kSteps, steps};
  if (has_samples) return {BudgetKind::kSamples, samples};
  if (has_seconds) return {BudgetKind::kSeconds, seconds};
  return unset;
}

std::string TrainFlags::PictureFile() const {
  return picture_file.empty() && !out.empty() ? out + "/pictures.raw" : picture_file;
}

absl::Status CheckHasProfile(const TrainFlags& flags, const TrainConfig& config) {
  if (flags.torch_trace.empty() || MethodOf(config).HasProfile()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--torch-trace: method {} does not run through LibTorch", config.method));
}

absl::StatusOr<TrainConfig> CheckTrainFlags(const TrainFlags& flags) {
  FlagErrors errors;
  const absl::Status has_device = CheckDevice(flags.device);
  errors.Add(has_device);
  errors.Add(CheckPictures(flags));
  CheckTraces(flags, &errors);
  absl::StatusOr<TrainConfig> config = ConfigOf(flags);
  errors.Add(config.status());
  if (config.ok() && has_device.ok()) errors.Add(CheckRanks(flags.ranks, *config, flags.device));
  if (config.ok() && flags.resume.empty()) errors.Add(CheckHasProfile(flags, *config));
  if (flags.init == kAutoStart && flags.ranks.n_ranks > 1) {
    errors.Add(absl::InvalidArgumentError(
        "--init auto: name the file where several ranks train together"));
  }
  NERF_RETURN_IF_ERROR(errors.ToStatus());
  return config;
}

void AddTrainFlags(CLI::App* command, TrainFlags* flags) {
  command
      ->add_option("DIR", flags->dataset,
                   "data set: transforms*.json, a COLMAP model or poses_bounds.npy")
      ->required();
  command->add_option(
      "--out", flags->out,
      "folder for checkpoint, model, previews, metrics.jsonl and eval.json (default with --resume: "
      "the checkpoint's)");
  const std::vector<CLI::Option*> budget = AddBudgetOptions(command, flags);
  const std::vector<CLI::Option*> config = AddConfigOptions(command, flags);
  auto* stop_after =
      command->add_option("--stop-after", flags->stop_after, "end at this step with a checkpoint");
  auto* resume = command->add_option("--resume", flags->resume,
                                     "continue this checkpoint with its own config; a budget "
                                     "beside it is the new total of what is trained");
  for (CLI::Option* option : config) resume->excludes(option);
  AddRunOptions(command, flags);
  AddRankOptions(command, &flags->ranks);
  command->parse_complete_callback([=] {
    flags->has_steps = budget[0]->count() > 0;
    flags->has_samples = budget[1]->count() > 0;
    flags->has_seconds = budget[2]->count() > 0;
    flags->has_stop_after = stop_after->count() > 0;
    if (flags->out.empty() && resume->count() > 0) flags->out = FolderOf(flags->resume);
  });
}

}  // namespace nerf
