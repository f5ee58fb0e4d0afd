#include "engine/program/session/training_session.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "common/error_reason.h"
#include "common/files/file_io.h"
#include "common/files/sha256.h"
#include "common/status_macros.h"
#include "engine/base/config/step_size.h"
#include "engine/base/config/view_limits.h"
#include "engine/base/method_list/method_descriptions.h"
#include "engine/field/files/tensor_file.h"
#include "engine/field/parameters/memory_estimate.h"
#include "engine/program/device/device.h"
#include "engine/program/session/loaded_model.h"
#include "engine/program/session/merge_models.h"
#include "engine/program/session/new_total.h"
#include "engine/program/session/picture_limits.h"
#include "engine/program/session/training_methods.h"
#include "engine/scene/exposure_spread.h"
#include "engine/scene/files/scene_files.h"
#include "engine/scene/read/scene_reader.h"
#include "engine/scene/view_frustum.h"
#include "engine/train/empty_cells.h"
#include "engine/train/shown_pixels.h"
#include "fmt/format.h"

namespace nerf {
namespace {

// Versions of the scene reader may round the placement differently.
constexpr float kResumedBoxTolerance = 1e-3f;

absl::Status ProblemsToStatus(const std::string& dataset, const Problems& problems) {
  constexpr size_t kMaxInMessage = 5;
  std::string message = fmt::format("{}: ", dataset);
  for (size_t i = 0; i < std::min(problems.size(), kMaxInMessage); ++i) {
    message += (i == 0 ? "" : "; ") + ToString(problems[i]);
  }
  if (problems.size() > kMaxInMessage) {
    message += fmt::format("; and {} more (nerf-engine check lists them)",
                           problems.size() - kMaxInMessage);
  }
  return WithReason(absl::InvalidArgumentError(message), reason::kDatasetInvalid);
}

MemoryEstimate Estimate(const TrainConfig& config, const SceneDescription& description,
                        bool train_in_memory, int n_threads) {
  MemoryEstimate estimate;
  estimate.image_bytes = train_in_memory ? description.image_bytes : DecodedBytes(description.test);
  // The level of half the sides is the largest, and one level is held at a time.
  if (MethodDescriptionOf(config).PictureLevel(config, 0) > 0)
    estimate.image_bytes += DecodedBytes(description.train) / 4;
  estimate.step_bytes = TrainingStepBytes(config, description.geometry, n_threads);
  estimate.snapshot_bytes =
      2 * MethodDescriptionOf(config).StateBytes(config, description.geometry.n_levels);
  uint64_t most_pixels = 0;
  for (const ViewDescription& view : description.test) {
    most_pixels = std::max(most_pixels, static_cast<uint64_t>(view.camera.width) *
                                            static_cast<uint64_t>(view.camera.height));
  }
  estimate.view_bytes = ViewBytes(most_pixels);
  return estimate;
}

bool Close(Vec3 a, Vec3 b, float tolerance) {
  return std::abs(a.x - b.x) <= tolerance && std::abs(a.y - b.y) <= tolerance &&
         std::abs(a.z - b.z) <= tolerance;
}

// Without this check a checkpoint of another data set would continue and learn nonsense.
absl::Status CheckSameScene(const TrainState& stored, const Scene& scene,
                            const std::string& dataset) {
  const SceneGeometry& there = stored.geometry;
  const SceneGeometry& here = scene.geometry;
  const float tolerance = kResumedBoxTolerance * there.box.Diagonal();
  const float scale_ratio = here.frame.scale / there.frame.scale;
  std::string difference;
  if (there.flavor != here.flavor) {
    difference = fmt::format("flavor {}, not {}", SceneFlavorName(here.flavor),
                             SceneFlavorName(there.flavor));
  } else if (stored.n_train_views != scene.train.size() ||
             stored.n_test_views != scene.test.size()) {
    difference = fmt::format("{} + {} views, not {} + {}", scene.train.size(), scene.test.size(),
                             stored.n_train_views, stored.n_test_views);
  } else if (there.n_levels != here.n_levels || !Close(there.box.min, here.box.min, tolerance) ||
             !Close(there.box.max, here.box.max, tolerance) ||
             std::abs(scale_ratio - 1) > kResumedBoxTolerance) {
    difference = "another box or scale";
  } else if (OriginsDiffer(there, here)) {
    difference = fmt::format("the local origin {}, not {}", OriginText(here.frame.origin),
                             OriginText(there.frame.origin));
  }
  if (difference.empty()) return absl::OkStatus();
  return WithReason(
      absl::InvalidArgumentError(
          fmt::format("{} is not the data set of the checkpoint: it has {}", dataset, difference)),
      reason::kDatasetInvalid);
}

struct StartingPoint {
  std::optional<TensorFile> file;
  std::optional<TrainState> resumed;
  TrainConfig config;
};

absl::Status InitInvalid(const std::string& path, absl::string_view message) {
  return WithReason(absl::InvalidArgumentError(fmt::format("{}: {}", path, std::string(message))),
                    reason::kInitInvalid);
}

// `start`: what the file was trained as, if it says so.
absl::Status CheckInit(const TrainConfig& config, const TensorFile& file,
                       const std::optional<TrainConfig>& start, const std::string& path) {
  std::vector<TensorShape> held;
  for (const auto& [name, tensor] : file.tensors) {
    held.push_back({name, std::string(DTypeName(tensor.dtype)), tensor.shape});
  }
  const absl::Status fits = CheckInitFits(config, held);
  if (fits.ok()) return fits;
  if (start.has_value() && start->method != config.method) {
    return InitInvalid(path, fmt::format("was trained by method {}, whose weights method {} cannot "
                                         "start from; --method {} can",
                                         start->method, config.method, start->method));
  }
  return InitInvalid(path, fits.message());
}

// What equal tensor shapes do not guarantee (MethodDescription::CheckStart). Layers and grids alone
// do not depend on it.
absl::Status CheckSameField(const TrainConfig& config, const SceneGeometry& geometry,
                            const TrainState& start, StartScope scope, const std::string& path) {
  if (scope == StartScope::kMlp && start.config.method != config.method) {
    return InitInvalid(
        path, fmt::format("trained by method {}, whose layers are others", start.config.method));
  }
  if (scope == StartScope::kMlp || scope == StartScope::kOccupancy) return absl::OkStatus();
  if (OriginsDiffer(start.geometry, geometry)) {
    return InitInvalid(path, fmt::format("its local origin is {}, that of the data set {}",
                                         OriginText(start.geometry.frame.origin),
                                         OriginText(geometry.frame.origin)));
  }
  const absl::Status same = MethodDescriptionOf(config).CheckStart(
      {start.config, start.geometry.n_levels}, {config, geometry.n_levels});
  return same.ok() ? same : InitInvalid(path, same.message());
}

// What TrainState::made_from says of a start.
absl::StatusOr<std::string> MadeFrom(const TrainState& start, StartScope scope,
                                     const std::string& path) {
  NERF_ASSIGN_OR_RETURN(const std::string digest, Sha256OfFile(path));
  return fmt::format("{} of {}, step {}, {} samples, sha256 {}", StartScopeName(scope),
                     start.config.method, start.step, start.n_trained, digest);
}

absl::Status CheckScene(const TrainConfig& config, const Scene& scene) {
  return MethodDescriptionOf(config).CheckScene(
      {.has_alpha = scene.has_alpha, .has_frustum = !scene.geometry.frustum.empty()}, config);
}

// Reads what a start was trained as, checks that it suits, and notes it in *state.
absl::Status AdoptStart(const TrainRequest& request, const TensorFile& file, TrainState* state) {
  NERF_ASSIGN_OR_RETURN(const StoredTrainState stored, LoadTrainState(file, request.init));
  NERF_RETURN_IF_ERROR(
      CheckSameField(state->config, state->geometry, stored.state, request.scope, request.init));
  NERF_ASSIGN_OR_RETURN(state->made_from, MadeFrom(stored.state, request.scope, request.init));
  if (request.scope == StartScope::kAll || request.scope == StartScope::kField) {
    MethodDescriptionOf(state->config).AdaptToStart(&state->config);
    // What the field knows stays in its place.
    const Frustum& frustum = stored.state.geometry.frustum;
    if (HoldsFrustum(frustum, state->geometry.frustum)) state->geometry.frustum = frustum;
  }
  return absl::OkStatus();
}

// Starts the step from the scope of the file.
absl::Status Initialize(const TrainRequest& request, TensorFile file, const TrainConfig& config,
                        TrainingStep* step) {
  if (request.scope == StartScope::kAll) return step->Initialize(file);
  TensorFile fresh;
  step->Save(&fresh);
  NERF_RETURN_IF_ERROR(CheckScopeFits(request.scope, FieldTensorShapes(config), file, fresh));
  return step->Initialize(TakeScope(request.scope, std::move(file), std::move(fresh)));
}

// The merged model, as the end of a training.
absl::StatusOr<StartingPoint> ReadParts(const TrainRequest& request) {
  if (!request.resume.empty() || !request.init.empty())
    return absl::InvalidArgumentError("merge excludes resume and init");
  StartingPoint start;
  NERF_ASSIGN_OR_RETURN(start.file, MergeModels(request.merge));
  NERF_ASSIGN_OR_RETURN(StoredTrainState stored, LoadTrainState(*start.file, "the merged model"));
  start.config = stored.state.config;
  // Models do not store their training time.
  if (start.config.budget.kind == BudgetKind::kSeconds)
    stored.state.seconds = start.config.budget.amount;
  start.resumed = std::move(stored.state);
  return start;
}

absl::StatusOr<StartingPoint> ReadStartingPoint(const TrainRequest& request) {
  if (!request.merge.empty()) return ReadParts(request);
  StartingPoint start;
  start.config = request.config;
  if (!request.resume.empty() && !request.init.empty()) {
    return absl::InvalidArgumentError("resume and init exclude one another");
  }
  const std::string& path = request.resume.empty() ? request.init : request.resume;
  if (!path.empty()) {
    absl::StatusOr<TensorFile> file = ReadTensorFile(path);
    if (!file.ok()) {
      return WithModelHint(file.status(), path,
                           request.resume.empty() ? "model.safetensors" : "checkpoint.safetensors");
    }
    start.file = *std::move(file);
  }
  if (!request.resume.empty()) {
    NERF_ASSIGN_OR_RETURN(StoredTrainState stored, LoadTrainState(*start.file, path));
    if (stored.kind != TrainFileKind::kCheckpoint) {
      return absl::InvalidArgumentError(
          fmt::format("{} is a model, which cannot be continued; --init starts from it", path));
    }
    if (request.new_total.has_value())
      NERF_RETURN_IF_ERROR(SetNewTotal(*request.new_total, path, &stored.state));
    start.config = stored.state.config;
    start.resumed = std::move(stored.state);
  }
  if (absl::Status status = ValidateConfig(start.config); !status.ok()) {
    return WithReason(status, reason::kFieldInvalid);
  }
  const bool takes_field = request.scope == StartScope::kAll || request.scope == StartScope::kField;
  std::optional<TrainConfig> start_config;
  if (!request.init.empty() && takes_field) {
    // A file that is no model is refused below, for its tensors.
    if (const auto stored = LoadTrainState(*start.file, path); stored.ok()) {
      start_config = stored->state.config;
      MethodDescriptionOf(start.config).TakeFromStart(*start_config, &start.config);
    }
  }
  if (start.file.has_value() && request.scope == StartScope::kOccupancy &&
      start.config.grid_resolution == kAutoSetting) {
    if (const auto stored = LoadTrainState(*start.file, path); stored.ok())
      start.config.grid_resolution = GridResolution(stored->state.config);
  }
  if (!request.init.empty() && request.scope == StartScope::kAll) {
    NERF_RETURN_IF_ERROR(CheckInit(start.config, *start.file, start_config, path));
  }
  return start;
}

// The failure with the size of pictures that fits into n_bytes, if there is one.
absl::Status WithSideThatFits(const absl::Status& failure,
                              const std::vector<ViewDescription>& views, double n_bytes) {
  const int side = SideThatFits(views, n_bytes);
  if (failure.ok() || side == 0) return failure;
  absl::Status said(failure.code(),
                    fmt::format("{}; --max-side {} fits", std::string(failure.message()), side));
  failure.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& payload) { said.SetPayload(url, payload); });
  return said;
}

// Whether the disk has room for the decoded training pictures, unless the file is there.
absl::Status CheckDiskFits(const std::string& picture_file, const SceneDescription& description) {
  std::error_code error;
  if (std::filesystem::exists(picture_file, error)) return absl::OkStatus();
  const std::filesystem::path folder = std::filesystem::path(picture_file).parent_path();
  const std::filesystem::space_info space =
      std::filesystem::space(folder.empty() ? "." : folder, error);
  const uint64_t needed = DecodedBytes(description.train);
  if (error || needed <= space.available) return absl::OkStatus();
  return WithSideThatFits(
      WithReason(absl::ResourceExhaustedError(fmt::format(
                     "the {} decoded training pictures need {} MiB of the disk, and {} MiB are "
                     "free",
                     description.train.size(), needed >> 20, space.available >> 20)),
                 reason::kStoreReadOnly),
      description.train, 0.95 * static_cast<double>(space.available));
}

// Whether the training pictures go to a file, and whether the rest fits into memory.
absl::StatusOr<bool> PicturesGoToFile(const TrainRequest& request, const TrainConfig& config,
                                      const SceneDescription& description, int n_threads,
                                      std::optional<uint64_t> available) {
  const auto fits = [&](bool train_in_memory) {
    return CheckFits(Estimate(config, description, train_in_memory, n_threads), available);
  };
  if (request.pictures != PicturePlace::kFile) {
    const absl::Status in_memory = fits(true);
    if (in_memory.ok()) return false;
    if (request.pictures == PicturePlace::kMemory || request.device != "cpu") {
      const MemoryEstimate needed = Estimate(config, description, true, n_threads);
      std::vector<ViewDescription> views = description.train;
      views.insert(views.end(), description.test.begin(), description.test.end());
      return WithSideThatFits(in_memory, views,
                              static_cast<double>(*available) -
                                  static_cast<double>(needed.Total() - needed.image_bytes));
    }
  }
  NERF_RETURN_IF_ERROR(fits(false));
  NERF_RETURN_IF_ERROR(CheckDiskFits(request.picture_file, description));
  return true;
}

// The settings of `chosen` that differ from those of `asked`: "step 0.005, cone 0.004".
std::string ChangedSettings(const TrainConfig& asked, const TrainConfig& chosen) {
  const std::map<std::string, std::string> before = ConfigSettings(asked);
  std::string text;
  for (const auto& [key, value] : ConfigSettings(chosen)) {
    if (before.at(key) != value)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", key, value);
  }
  return text;
}

// Sets config->max_side and what ChooseSettings chooses for a new training,
// session->chosen, reductions, pictures and scene.
absl::Status LoadSceneThatFits(const TrainRequest& request, ThreadPool* pool, Problems* problems,
                               const std::stop_token& stop, TrainConfig* config,
                               TrainingSession* session) {
  const std::string& dataset = request.dataset;
  NERF_RETURN_IF_ERROR(SceneFolder::Open(dataset, request.follow_links).status());
  SceneOptions options;
  // Unset if it is the default: the reader warns about a test_every that has no effect.
  if (config->test_every != TrainConfig().test_every) options.test_every = config->test_every;
  options.placement = config->placement;
  options.reading = {config->poses, config->apply_exif != 0};
  options.alpha_is_mask = config->alpha_is_mask != 0;
  options.pool = pool;
  options.stop = stop;
  options.on_pictures = request.on_pictures;
  options.decode_images = false;
  options.follow_links = request.follow_links;
  const bool is_new = request.resume.empty() && request.merge.empty();
  options.to_train = is_new;
  SceneDescription description = DescribeScene(dataset, options);
  if (stop.stop_requested()) return absl::CancelledError("reading the data set was stopped");
  if (!description.ok()) {
    *problems = description.problems;
    return ProblemsToStatus(dataset, *problems);
  }
  const DeviceFacts device = FactsOf(request.device);
  config->max_side = options.max_side = MaxSideOf(*config, description, device);
  options.max_test_pixels = kMaxDefaultViewPixels;
  session->reductions = ReduceViews(options, &description);
  const TrainConfig asked = *config;
  if (is_new) {
    ChooseStepSize(ClassOf(device), config);
    SceneFacts& facts = session->facts;
    facts = FactsOfScene(description, SamplesOfBudget(*config, device));
    facts.lowers_steps = asked.target_samples == kAutoSetting && request.init.empty() &&
                         asked.budget.kind == BudgetKind::kSamples;
    facts.device = ClassOf(device);
    facts.are_reduced = session->reductions.train.from.width > 0;
    MethodDescriptionOf(asked).ChooseSettings(facts, config);
  }
  const std::optional<uint64_t> available = AvailableMemoryBytes();
  NERF_ASSIGN_OR_RETURN(const bool to_file, PicturesGoToFile(request, *config, description,
                                                             pool->n_threads(), available));
  PictureFileMaker maker(dataset, request.picture_file);
  maker.set_on_pictures(request.on_pictures);
  if (to_file) options.train_sink = &maker;
  options.decode_images = true;
  options.with_depth = MethodDescriptionOf(*config).LearnsDepth(*config);
  options.memory_limit_bytes = available.value_or(0);
  absl::StatusOr<Scene> scene = LoadScene(dataset, options, problems);
  if (!scene.ok() && !problems->empty()) return ProblemsToStatus(dataset, *problems);
  if (scene.ok() && scene->train.empty()) {
    problems->Add("", "holds no training views");
    return ProblemsToStatus(dataset, *problems);
  }
  NERF_RETURN_IF_ERROR(scene.status());
  session->scene = *std::move(scene);
  if (to_file) {
    NERF_ASSIGN_OR_RETURN(session->pictures, maker.Finish());
  }
  if (!is_new) return absl::OkStatus();
  const auto exposures_differ = [&] {
    // Ranks on CUDA devices do not learn exposures.
    if (request.group != nullptr && request.device != "cpu") return false;
    session->facts.exposures_differ = ExposuresDiffer(SpreadOfExposures(
        session->scene.train, [&](size_t view) { return session->TrainPixels(view); }));
    return session->facts.exposures_differ;
  };
  MethodDescriptionOf(asked).ChooseForPictures(exposures_differ, config);
  session->chosen = ChangedSettings(asked, *config);
  config->grid_resolution = GridResolution(*config);  // files name it
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<TrainingSession>> OpenTrainingSession(const TrainRequest& request,
                                                                     ThreadPool* pool,
                                                                     Problems* problems,
                                                                     const std::stop_token& stop) {
  NERF_ASSIGN_OR_RETURN(StartingPoint start, ReadStartingPoint(request));
  auto session = std::make_unique<TrainingSession>();
  session->device = request.device;
  NERF_RETURN_IF_ERROR(
      LoadSceneThatFits(request, pool, problems, stop, &start.config, session.get()));
  TrainState& state = session->state;
  if (start.resumed.has_value()) {
    NERF_RETURN_IF_ERROR(CheckSameScene(*start.resumed, session->scene, request.dataset));
    state = *std::move(start.resumed);
    // Checkpoints of versions that did not store them.
    if (state.capture.empty()) state.capture = CaptureViewsOf(session->scene.train);
  } else {
    const Scene& s = session->scene;
    state.config = start.config;
    if (absl::Status status = CheckScene(state.config, s); !status.ok()) {
      // A start's own settings may not suit this scene: an encoding in perspective, photographs
      // that look around.
      if (request.init.empty() || !CheckScene(request.config, s).ok())
        return WithReason(status, reason::kFieldInvalid);
      TrainRequest from_scratch = request;
      from_scratch.init.clear();
      const std::string warning =
          fmt::format("{} is not taken over: {}", request.init, std::string(status.message()));
      NERF_ASSIGN_OR_RETURN(session, OpenTrainingSession(from_scratch, pool, problems, stop));
      session->scene.warnings.push_back(warning);
      return session;
    }
    state.geometry = EffectiveGeometry(state.config, s.geometry);
    if (absl::Status status = CheckMarchStep(state.geometry); !status.ok()) {
      return WithReason(status, reason::kFieldInvalid);
    }
    state.evaluation_background = EvaluationBackground(state.config.background, s.has_alpha);
    state.reference_camera =
        s.test.empty() ? s.train[s.train.size() / 2].camera : s.test[s.test.size() / 2].camera;
    state.capture = CaptureViewsOf(s.train);
    state.test_capture = CaptureViewsOf(s.test);
    state.n_train_views = static_cast<uint32_t>(s.train.size());
    state.n_test_views = static_cast<uint32_t>(s.test.size());
  }
  if (!request.init.empty()) {
    NERF_RETURN_IF_ERROR(AdoptStart(request, *start.file, &state));
  }
  NERF_ASSIGN_OR_RETURN(session->step, NewTrainingStep(state.config, state.geometry, session->scene,
                                                       request.device, pool, request.group));
  NERF_ASSIGN_OR_RETURN(session->scene.shown_runs,
                        KeepSeenEmpty(*session, pool, session->step.get(), stop));
  if (!start.file.has_value()) return session;
  if (!request.merge.empty()) {
    NERF_RETURN_IF_ERROR(session->step->Initialize(*start.file));
    return session;
  }
  const bool resume = !request.resume.empty();
  absl::Status loaded =
      resume ? session->step->Load(*start.file)
             : Initialize(request, *std::move(start.file), state.config, session->step.get());
  if (loaded.ok()) return session;
  return absl::Status(
      loaded.code(), absl::string_view(fmt::format("{}: {}", resume ? request.resume : request.init,
                                                   std::string(loaded.message()))));
}

absl::StatusOr<std::vector<uint32_t>> KeepSeenEmpty(const TrainingSession& session,
                                                    ThreadPool* pool, TrainingStep* step,
                                                    const std::stop_token& stop) {
  std::vector<uint32_t> runs;
  if (!session.scene.has_alpha) return runs;
  const std::vector<View>& views = session.scene.train;
  step->KeepEmpty([&](const OccupancyGrid& grid) {
    const auto pixels = [&](size_t view) { return session.TrainPixels(view); };
    const std::vector<uint64_t> empty = FindEmptyCells(views, pixels, grid, pool, stop);
    if (!empty.empty()) runs = FindShownRuns(views, grid, empty, pool, stop);
    return empty;
  });
  if (stop.stop_requested()) return absl::CancelledError("reading the data set was stopped");
  step->DrawFrom(runs);
  return runs;
}

absl::Status WriteTrainingFiles(const Trainer& trainer, const std::string& checkpoint_path,
                                const std::string& model_path) {
  // The model first: a checkpoint never exists without its model.
  NERF_RETURN_IF_ERROR(WriteTensorFile(trainer.Model(), model_path));
  return WriteTensorFile(trainer.Checkpoint(), checkpoint_path);
}

absl::Status CreateFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return ErrnoToStatus(error.value(), "create folder " + path);
  return absl::OkStatus();
}

int64_t PeakRssBytes() {
  struct rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

}  // namespace nerf
