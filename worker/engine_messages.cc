#include "worker/engine_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/rpc/training_config.h"

namespace nerf {
namespace {

using Json = nlohmann::json;

// Reads keys of one object and remembers the first problem, so that a reader is a plain list of
// keys. Absent optional keys and nulls keep the default.
class KeyReader {
 public:
  explicit KeyReader(const Json& object) : object_(object) {}

  std::string Text(const char* key, bool required = true) {
    const Json* value = Find(key, required);
    if (value == nullptr) return "";
    if (!value->is_string()) return Fail(key, "must be a string"), "";
    return value->get<std::string>();
  }
  uint32_t Count(const char* key, bool required = true) {
    const Json* value = Find(key, required);
    if (value == nullptr) return 0;
    if (!value->is_number_unsigned() ||
        value->get<uint64_t>() > std::numeric_limits<uint32_t>::max()) {
      return Fail(key, "must be a whole number below 2^32"), 0;
    }
    return static_cast<uint32_t>(value->get<uint64_t>());
  }
  double Number(const char* key, bool required = true) {
    const Json* value = Find(key, required);
    if (value == nullptr) return 0;
    if (!value->is_number()) return Fail(key, "must be a number"), 0;
    const double number = value->get<double>();
    if (!std::isfinite(number)) return Fail(key, "must be finite"), 0;
    return number;
  }
  std::optional<double> OptionalNumber(const char* key) {
    if (Find(key, false) == nullptr) return std::nullopt;
    const double number = Number(key);
    return status_.ok() ? std::optional<double>(number) : std::nullopt;
  }
  bool Flag(const char* key) {
    const Json* value = Find(key, true);
    if (value == nullptr) return false;
    if (!value->is_boolean()) return Fail(key, "must be true or false"), false;
    return value->get<bool>();
  }
  std::vector<std::string> Texts(const char* key) {
    std::vector<std::string> texts;
    const Json* value = Find(key, false);
    if (value == nullptr) return texts;
    if (!value->is_array()) return Fail(key, "must be an array"), texts;
    for (const Json& item : *value) {
      if (!item.is_string()) return Fail(key, "must hold strings"), texts;
      texts.push_back(item.get<std::string>());
    }
    return texts;
  }
  std::map<std::string, std::string> TextMap(const char* key, bool required) {
    std::map<std::string, std::string> texts;
    const Json* value = Find(key, required);
    if (value == nullptr) return texts;
    if (!value->is_object()) return Fail(key, "must be an object"), texts;
    for (const auto& [name, item] : value->items()) {
      if (!item.is_string()) return Fail(key, "must hold strings"), texts;
      texts.emplace(name, item.get<std::string>());
    }
    return texts;
  }
  // The object at `key`, or an empty one after a failure.
  const Json& Object(const char* key) {
    static const Json* const kEmpty = new Json(Json::object());
    const Json* value = Find(key, true);
    if (value == nullptr) return *kEmpty;
    if (!value->is_object()) return Fail(key, "must be an object"), *kEmpty;
    return *value;
  }
  const Json& Array(const char* key) {
    static const Json* const kEmpty = new Json(Json::array());
    const Json* value = Find(key, false);
    if (value == nullptr) return *kEmpty;
    if (!value->is_array()) return Fail(key, "must be an array"), *kEmpty;
    return *value;
  }

  void Fail(std::string_view key, std::string_view problem) {
    if (status_.ok()) status_ = absl::InvalidArgumentError(fmt::format("{}: {}", key, problem));
  }
  void Merge(const KeyReader& other) {
    if (status_.ok()) status_ = other.status_;
  }
  const absl::Status& status() const { return status_; }

 private:
  const Json* Find(const char* key, bool required) {
    const auto it = object_.find(key);
    if (it != object_.end() && !it->is_null()) return &*it;
    if (required) Fail(key, "is missing");
    return nullptr;
  }

  const Json& object_;
  absl::Status status_;
};

absl::StatusCode ParseCode(const std::string& name) {
  for (int i = 1; i <= static_cast<int>(absl::StatusCode::kUnauthenticated); ++i) {
    const auto code = static_cast<absl::StatusCode>(i);
    if (absl::StatusCodeToString(code) == name) return code;
  }
  return absl::StatusCode::kUnknown;
}

v1::Progress ReadProgress(KeyReader& reader) {
  v1::Progress progress;
  progress.set_step(reader.Count("step"));
  progress.set_samples(reader.Number("samples"));
  progress.set_marched(reader.Number("marched", false));
  progress.set_rays(reader.Number("rays", false));
  // A loss that is not a number is null in JSON; the watchdog of the engine deals with it.
  progress.set_loss(reader.Number("loss", false));
  progress.set_psnr_train(reader.Number("psnr_train", false));
  progress.set_samples_per_second(reader.Number("samples_per_second", false));
  progress.set_rays_per_second(reader.Number("rays_per_second", false));
  progress.set_seconds(reader.Number("seconds"));
  progress.set_fraction(std::clamp(reader.Number("fraction", false), 0.0, 1.0));
  progress.set_eta_seconds(std::max(reader.Number("eta_seconds", false), 0.0));
  progress.set_evaluated_views(reader.Count("evaluated_views", false));
  progress.set_evaluation_views(reader.Count("evaluation_views", false));
  return progress;
}

v1::WorkerMetrics ReadReadings(KeyReader& reader) {
  v1::WorkerMetrics readings;
  const auto read = [&]<typename Number>(const char* key, void (v1::WorkerMetrics::*set)(Number)) {
    const auto value = reader.OptionalNumber(key);
    if (value.has_value()) (readings.*set)(static_cast<Number>(std::max(*value, 0.0)));
  };
  read("stall_fraction", &v1::WorkerMetrics::set_stall_fraction);
  read("gpu_utilization", &v1::WorkerMetrics::set_gpu_utilization);
  read("gpu_memory_used_bytes", &v1::WorkerMetrics::set_gpu_memory_used_bytes);
  read("gpu_memory_size_bytes", &v1::WorkerMetrics::set_gpu_memory_size_bytes);
  read("gpu_temperature_celsius", &v1::WorkerMetrics::set_gpu_temperature_celsius);
  read("gpu_power_watts", &v1::WorkerMetrics::set_gpu_power_watts);
  return readings;
}

v1::TrainingConfig ReadConfig(const Json& object, KeyReader& outer) {
  KeyReader reader(object);
  v1::TrainingConfig config;
  config.set_method(reader.Text("method"));
  config.set_seed(reader.Count("seed"));
  config.set_test_every(reader.Count("test_every"));
  KeyReader budget(reader.Object("budget"));
  if (!SetBudget({budget.Text("kind"), budget.Number("amount")}, &config)) {
    budget.Fail("kind", "must be steps, samples or seconds");
  }
  if (const auto background = ParseBackgroundWord(reader.Text("background"))) {
    config.set_background(*background);
  } else {
    reader.Fail("background", "must be auto, white, black or random");
  }
  for (auto& [key, value] : reader.TextMap("settings", false)) {
    (*config.mutable_settings())[key] = value;
  }
  outer.Merge(budget);
  outer.Merge(reader);
  return config;
}

std::vector<v1::SceneProblem> ReadProblems(KeyReader& reader) {
  std::vector<v1::SceneProblem> problems;
  for (const Json& item : reader.Array("problems")) {
    if (!item.is_object()) {
      reader.Fail("problems", "must hold objects");
      break;
    }
    KeyReader item_reader(item);
    v1::SceneProblem& problem = problems.emplace_back();
    problem.set_file(item_reader.Text("file", false));
    problem.set_field(item_reader.Text("field", false));
    problem.set_message(item_reader.Text("message"));
    reader.Merge(item_reader);
  }
  return problems;
}

std::vector<v1::TensorSpec> ReadTensors(KeyReader& reader) {
  std::vector<v1::TensorSpec> tensors;
  for (const Json& item : reader.Array("tensors")) {
    if (!item.is_object()) {
      reader.Fail("tensors", "must hold objects");
      break;
    }
    KeyReader item_reader(item);
    v1::TensorSpec& tensor = tensors.emplace_back();
    tensor.set_name(item_reader.Text("name"));
    tensor.set_dtype(item_reader.Text("dtype"));
    for (const Json& size : item_reader.Array("shape")) {
      if (!size.is_number_unsigned() ||
          size.get<uint64_t>() > std::numeric_limits<uint32_t>::max()) {
        item_reader.Fail("shape", "must hold whole numbers below 2^32");
        break;
      }
      tensor.add_shape(static_cast<uint32_t>(size.get<uint64_t>()));
    }
    reader.Merge(item_reader);
  }
  return tensors;
}

absl::StatusOr<EngineMessage> ReadMessage(const std::string& type, KeyReader& reader) {
  if (type == "hello") {
    return EngineHello{reader.Text("version"), reader.Text("device"),
                       reader.Text("description", false), reader.Count("threads", false),
                       reader.Texts("methods")};
  }
  if (type == "started") {
    EngineStarted started;
    started.job = reader.Text("job");
    started.config = ReadConfig(reader.Object("config"), reader);
    KeyReader scene(reader.Object("scene"));
    started.flavor = scene.Text("flavor", false);
    started.train_views = scene.Count("train", false);
    started.test_views = scene.Count("test", false);
    started.warnings = scene.Texts("warnings");
    reader.Merge(scene);
    started.step = reader.Count("step", false);
    return started;
  }
  if (type == "progress")
    return EngineProgress{reader.Text("job"), ReadProgress(reader), ReadReadings(reader)};
  if (type == "preview") {
    return EnginePreview{reader.Text("job"), reader.Count("step"), reader.OptionalNumber("psnr"),
                         reader.Text("image")};
  }
  if (type == "checkpoint") {
    return EngineCheckpoint{reader.Text("job"),        reader.Count("step"),
                            reader.Text("checkpoint"), reader.Text("model"),
                            ReadTensors(reader),       reader.OptionalNumber("psnr")};
  }
  if (type == "stopped") return EngineStopped{reader.Text("job"), reader.Count("step", false)};
  if (type == "done") {
    EngineDone done{reader.Text("job"), ReadProgress(reader), reader.OptionalNumber("psnr")};
    done.progress.set_fraction(1);
    return done;
  }
  if (type == "failed") {
    EngineFailed failed;
    failed.job = reader.Text("job");
    failed.code = ParseCode(reader.Text("code"));
    failed.reason = reader.Text("reason", false);
    failed.message = reader.Text("message", false);
    failed.problems = ReadProblems(reader);
    return failed;
  }
  if (type == "working") return EngineWorking{reader.Text("id")};
  if (type == "rendered") {
    EngineRendered rendered;
    rendered.id = reader.Text("id");
    rendered.files = reader.TextMap("files", true);
    rendered.width = reader.Count("width");
    rendered.height = reader.Count("height");
    rendered.step = reader.Count("step", false);
    rendered.far = reader.Number("far", false);
    rendered.seconds = reader.Number("seconds", false);
    return rendered;
  }
  if (type == "checked") {
    return EngineChecked{reader.Text("id"), reader.Flag("ok"), reader.Text("summary", false),
                         ReadProblems(reader), reader.Texts("warnings")};
  }
  if (type == "error") {
    return EngineError{reader.Text("id", false), reader.Text("job", false),
                       ParseCode(reader.Text("code")), reader.Text("reason", false),
                       reader.Text("message", false)};
  }
  return absl::UnimplementedError(fmt::format("unknown type \"{}\"", type));
}

std::string Line(const Json& message) {
  return message.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// The camera file (one frame) of a posed camera.
Json CameraJson(const v1::Camera& camera) {
  const bool default_center = camera.cx() == 0 && camera.cy() == 0;
  Json json = {{"w", camera.width()},
               {"h", camera.height()},
               {"fl_x", camera.fl_x()},
               {"fl_y", camera.fl_y() == 0 ? camera.fl_x() : camera.fl_y()},
               {"cx", default_center ? camera.width() / 2.0 : camera.cx()},
               {"cy", default_center ? camera.height() / 2.0 : camera.cy()},
               {"camera_model", camera.lens() == v1::LENS_MODEL_OPENCV ? "OPENCV" : "PINHOLE"}};
  if (camera.lens() == v1::LENS_MODEL_OPENCV) {
    json["k1"] = camera.k1();
    json["k2"] = camera.k2();
    json["k3"] = camera.k3();
    json["p1"] = camera.p1();
    json["p2"] = camera.p2();
  }
  Json matrix = Json::array();
  for (int row = 0; row < 4; ++row) {
    Json numbers = Json::array();
    for (int column = 0; column < 4; ++column) {
      const int i = row * 4 + column;
      numbers.push_back(i < camera.transform_matrix_size() ? camera.transform_matrix(i) : 0.0);
    }
    matrix.push_back(std::move(numbers));
  }
  json["frames"] = Json::array({Json{{"transform_matrix", std::move(matrix)}}});
  return json;
}

}  // namespace

absl::StatusOr<EngineMessage> ParseEngineMessage(std::string_view line) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::InvalidArgumentError("not a JSON object");
  KeyReader reader(json);
  const std::string type = reader.Text("type");
  if (!reader.status().ok()) return reader.status();
  absl::StatusOr<EngineMessage> message = ReadMessage(type, reader);
  if (message.ok() && !reader.status().ok()) {
    return absl::InvalidArgumentError(fmt::format("{}.{}", type, reader.status().message().data()));
  }
  return message;
}

std::string TrainLine(const TrainCommand& command) {
  const v1::TrainingConfig& config = command.config;
  Json json = {{"type", "train"},
               {"job", command.job},
               {"dataset", command.dataset},
               {"out", command.out},
               {"method", config.method().empty() ? "ngp" : config.method()},
               {"seed", config.seed()},
               {"background", BackgroundWord(config.background())},
               {"checkpoint_interval_seconds", command.checkpoint_interval_seconds},
               {"preview_interval_seconds", command.preview_interval_seconds}};
  if (const auto budget = GetBudget(config); budget.has_value()) {
    json["budget"] = {{"kind", budget->kind}, {"amount", budget->amount}};
  }  // else the engine takes the method's default
  if (config.has_test_every()) json["test_every"] = config.test_every();
  Json settings = Json::object();
  for (const auto& [key, value] : config.settings()) settings[key] = value;
  json["settings"] = std::move(settings);
  if (!command.resume.empty()) json["resume"] = command.resume;
  if (!command.init.empty()) {
    json["init"] = command.init;
    json["init_scope"] = config.init().scope().empty() ? "all" : config.init().scope();
  }
  return Line(json);
}

std::string StopLine(const std::string& job, bool checkpoint) {
  return Line({{"type", "stop"}, {"job", job}, {"mode", checkpoint ? "checkpoint" : "discard"}});
}

std::string RenderLine(const RenderCommand& command) {
  const v1::RenderImageRequest& view = command.view;
  Json json = {{"type", "render"},
               {"id", command.id},
               {"out", command.out},
               {"format", view.format() == v1::JPEG ? "jpeg" : "png"}};
  if (command.job.empty()) {
    json["file"] = command.file;
  } else {
    json["job"] = command.job;
  }
  uint32_t width = view.width(), height = view.height();
  if (view.has_orbit()) {
    json["orbit"] = {{"index", view.orbit().index()}, {"count", view.orbit().count()}};
  } else {
    const v1::Camera& camera = view.camera();
    json["camera"] = CameraJson(camera);
    // With one of the two given the other follows the aspect.
    if (width != 0 && height == 0 && camera.width() != 0) {
      height = static_cast<uint32_t>(
          std::max(1.0, std::round(double{1} * width * camera.height() / camera.width())));
    } else if (height != 0 && width == 0 && camera.height() != 0) {
      width = static_cast<uint32_t>(
          std::max(1.0, std::round(double{1} * height * camera.width() / camera.height())));
    }
  }
  json["width"] = width;
  json["height"] = height;
  Json channels = Json::array();
  for (const int channel : view.channels()) {
    channels.push_back(ChannelName(static_cast<v1::RenderChannel>(channel)));
  }
  if (channels.empty()) channels.push_back("rgb");
  json["channels"] = std::move(channels);
  return Line(json);
}

std::string CheckLine(const std::string& id, const std::string& dataset) {
  return Line({{"type", "check"}, {"id", id}, {"dataset", dataset}});
}

std::string CancelLine(const std::string& id) { return Line({{"type", "cancel"}, {"id", id}}); }

std::string_view ChannelName(v1::RenderChannel channel) {
  switch (channel) {
    case v1::DEPTH:
      return "depth";
    case v1::OPACITY:
      return "opacity";
    default:
      return "rgb";
  }
}

}  // namespace nerf
