#include "engine/tool/serve_messages.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "common/error_reason.h"
#include "common/status_macros.h"
#include "engine/config/view_limits.h"
#include "engine/scene/check_report.h"
#include "engine/tool/view_request.h"
#include "fmt/format.h"

namespace nerf {
namespace {

using Json = nlohmann::json;

// What problems and warnings may take of a line, so that it stays below its limit even when every
// character is escaped.
constexpr size_t kMaxListBytes = size_t{1} << 16;
constexpr double kMaxIntervalSeconds = 1e9;

// Reads keys of one object and collects what is wrong, so that a reader is a plain list of keys.
// null counts as absent.
class KeyReader {
 public:
  explicit KeyReader(const Json& object, std::string prefix = "")
      : object_(object), prefix_(std::move(prefix)) {}

  const Json* Find(const char* key) const {
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }

  std::string Text(const char* key, bool required) {
    const Json* value = Find(key);
    if (value == nullptr) {
      if (required) Fail(key, "is missing");
      return "";
    }
    if (!value->is_string()) {
      Fail(key, "must be a string");
      return "";
    }
    auto text = value->get<std::string>();
    if (required && text.empty()) Fail(key, "must not be empty");
    // Paths end at the first such byte for the system, and only there.
    if (text.find('\0') != std::string::npos) Fail(key, "must not hold NUL");
    return text;
  }

  double Number(const char* key, double min, double max, double absent) {
    const Json* value = Find(key);
    if (value == nullptr) return absent;
    if (!value->is_number()) {
      Fail(key, "must be a number");
      return absent;
    }
    const auto number = value->get<double>();
    if (!(number >= min && number <= max)) {
      Fail(key, fmt::format("{} is not between {} and {}", number, min, max));
      return absent;
    }
    return number;
  }

  int64_t Whole(const char* key, int64_t min, int64_t max, int64_t absent) {
    const Json* value = Find(key);
    const double number = Number(key, static_cast<double>(min), static_cast<double>(max),
                                 static_cast<double>(absent));
    if (value != nullptr && number != std::floor(number)) {
      Fail(key, "must be a whole number");
      return absent;
    }
    return static_cast<int64_t>(number);
  }

  // The object at `key`; nullptr where there is none.
  const Json* Object(const char* key) {
    const Json* value = Find(key);
    if (value != nullptr && !value->is_object()) {
      Fail(key, "must be an object");
      return nullptr;
    }
    return value;
  }

  void Fail(std::string_view key, std::string_view description) {
    violations_.push_back({prefix_ + std::string(key), std::string(description)});
  }
  void Merge(const KeyReader& other) {
    violations_.insert(violations_.end(), other.violations_.begin(), other.violations_.end());
  }
  absl::Status status() const {
    return violations_.empty() ? absl::OkStatus() : InvalidFieldsError(violations_);
  }

 private:
  const Json& object_;
  const std::string prefix_;
  std::vector<FieldViolation> violations_;
};

void ReadBudget(KeyReader* reader, Budget* budget) {
  const Json* object = reader->Object("budget");
  if (object == nullptr) return;
  KeyReader inner(*object, "budget.");
  const std::string kind_name = inner.Text("kind", true);
  absl::StatusOr<BudgetKind> kind = ParseBudgetKind(kind_name);
  if (kind.ok()) {
    budget->kind = *kind;
  } else if (!kind_name.empty()) {
    inner.Fail("kind", "must be steps, samples or seconds");
  }
  if (inner.Find("amount") == nullptr) inner.Fail("amount", "is missing");
  budget->amount = inner.Number("amount", 0, 1e15, budget->amount);
  reader->Merge(inner);
}

void ReadConfig(KeyReader* reader, TrainConfig* config) {
  if (reader->Find("method") != nullptr) config->method = reader->Text("method", true);
  config->seed = static_cast<uint32_t>(reader->Whole("seed", 0, UINT32_MAX, config->seed));
  ReadBudget(reader, &config->budget);
  if (reader->Find("background") != nullptr) {
    absl::StatusOr<Background> background = ParseBackground(reader->Text("background", true));
    if (background.ok()) {
      config->background = *background;
    } else {
      reader->Fail("background", "must be auto, white, black or random");
    }
  }
  config->test_every =
      static_cast<int>(reader->Whole("test_every", 0, 1'000'000, config->test_every));
  const Json* settings = reader->Object("settings");
  if (settings == nullptr) return;
  for (auto it = settings->begin(); it != settings->end(); ++it) {
    if (!it->is_string()) {
      reader->Fail("settings." + it.key().substr(0, 64), "must be a string");
      continue;
    }
    const absl::Status set = SetConfigField(it.key(), it->get<std::string>(), config);
    if (!set.ok()) reader->Fail("settings", std::string(set.message()));
  }
}

JsonObject ProblemList(const std::vector<SceneProblem>& problems) {
  JsonObject list = JsonObject::array();
  size_t bytes = 0;
  for (const SceneProblem& problem : problems) {
    bytes += problem.file.size() + problem.field.size() + problem.message.size() + 40;
    if (bytes > kMaxListBytes) {
      list.push_back(JsonObject{
          {"file", ""},
          {"field", ""},
          {"message", fmt::format("and {} more problems", problems.size() - list.size())}});
      break;
    }
    list.push_back(
        JsonObject{{"file", problem.file}, {"field", problem.field}, {"message", problem.message}});
  }
  return list;
}

std::string Shortened(std::string_view text) { return std::string(text.substr(0, 1 << 14)); }

}  // namespace

absl::StatusOr<TrainMessage> ReadTrainMessage(const Json& message) {
  KeyReader reader(message);
  TrainMessage train;
  train.job = reader.Text("job", true);
  train.out = reader.Text("out", true);
  train.request.dataset = reader.Text("dataset", true);
  train.request.resume = reader.Text("resume", false);
  train.request.init = reader.Text("init", false);
  const std::string scope = reader.Text("init_scope", false);
  if (!scope.empty() && scope != "all") reader.Fail("init_scope", "must be all");
  if (!train.request.init.empty() && !train.request.resume.empty()) {
    train.request.init.clear();  // the checkpoint already began from it
  }
  ReadConfig(&reader, &train.request.config);
  train.checkpoint_interval = absl::Seconds(reader.Number(
      "checkpoint_interval_seconds", 0.001, kMaxIntervalSeconds, kMaxIntervalSeconds));
  train.preview_interval =
      absl::Seconds(reader.Number("preview_interval_seconds", 0.001, kMaxIntervalSeconds, 10));
  NERF_RETURN_IF_ERROR(reader.status());
  return train;
}

absl::StatusOr<StopMessage> ReadStopMessage(const Json& message) {
  KeyReader reader(message);
  StopMessage stop;
  stop.job = reader.Text("job", true);
  const std::string mode = reader.Text("mode", true);
  stop.checkpoint = mode == "checkpoint";
  if (!mode.empty() && mode != "checkpoint" && mode != "discard") {
    reader.Fail("mode", "must be checkpoint or discard");
  }
  NERF_RETURN_IF_ERROR(reader.status());
  return stop;
}

absl::StatusOr<RenderMessage> ReadRenderMessage(const Json& message) {
  KeyReader reader(message);
  RenderMessage render;
  render.id = reader.Text("id", true);
  render.file = reader.Text("file", false);
  render.job = reader.Text("job", false);
  if (render.file.empty() == render.job.empty()) {
    reader.Fail("file", "one of file and job must be given");
  }
  const Json* camera = reader.Object("camera");
  const Json* orbit = reader.Object("orbit");
  if ((camera == nullptr) == (orbit == nullptr)) {
    reader.Fail("camera", "one of camera and orbit must be given");
  } else if (camera != nullptr) {
    render.camera = camera->dump(-1, ' ', false, Json::error_handler_t::replace);
  } else {
    KeyReader inner(*orbit, "orbit.");
    render.orbit_count = static_cast<int>(inner.Whole("count", 1, kMaxOrbitViews, 0));
    if (render.orbit_count == 0) inner.Fail("count", "must be 1 to 100000");
    render.orbit_index =
        static_cast<int>(inner.Whole("index", 0, std::max(render.orbit_count, 1) - 1, 0));
    reader.Merge(inner);
  }
  render.width = static_cast<int>(reader.Whole("width", 0, kMaxViewSide, 0));
  render.height = static_cast<int>(reader.Whole("height", 0, kMaxViewSide, 0));
  std::vector<std::string> words;
  if (const Json* channels = reader.Find("channels"); channels == nullptr) {
    words = {"rgb"};
  } else if (!channels->is_array()) {
    reader.Fail("channels", "must be an array");
  } else {
    for (const Json& word : *channels)
      words.push_back(word.is_string() ? word.get<std::string>() : "?");
  }
  absl::StatusOr<ViewChannels> channels = ParseChannels(words);
  if (channels.ok()) {
    render.channels = *channels;
  } else {
    reader.Fail("channels", "must hold at least one of rgb, depth, opacity and nothing else");
  }
  const std::string format = reader.Text("format", false);
  render.jpeg = format == "jpeg";
  if (!format.empty() && format != "png" && format != "jpeg") {
    reader.Fail("format", "must be png or jpeg");
  }
  render.out = reader.Text("out", true);
  NERF_RETURN_IF_ERROR(reader.status());
  return render;
}

absl::StatusOr<CheckMessage> ReadCheckMessage(const Json& message) {
  KeyReader reader(message);
  CheckMessage check{reader.Text("id", true), reader.Text("dataset", true)};
  NERF_RETURN_IF_ERROR(reader.status());
  return check;
}

std::string TextOf(const Json& message, const char* key) {
  const auto found = message.find(key);
  return found != message.end() && found->is_string() ? found->get<std::string>() : "";
}

JsonObject Reply(const char* type, const char* key, const std::string& value) {
  JsonObject reply;
  reply["type"] = type;
  reply[key] = value;
  return reply;
}

JsonObject ErrorReply(const std::string& id, const std::string& job, const absl::Status& status) {
  JsonObject reply;
  reply["type"] = "error";
  // Echoed in full or not at all, so that an answer always fits a line.
  if (!id.empty() && id.size() <= 1024) reply["id"] = id;
  if (!job.empty() && job.size() <= 1024) reply["job"] = job;
  reply["code"] = CodeName(status.code());
  reply["reason"] = ReasonOf(status);
  reply["message"] = Shortened(std::string(status.message()));
  return reply;
}

JsonObject FailedReply(const std::string& job, const absl::Status& status,
                       const std::vector<SceneProblem>& problems) {
  JsonObject reply = Reply("failed", "job", job);
  reply["code"] = CodeName(status.code());
  reply["reason"] = ReasonOf(status);
  reply["message"] = Shortened(std::string(status.message()));
  reply["problems"] = ProblemList(problems);
  return reply;
}

JsonObject CheckedReply(const std::string& id, const SceneDescription& description) {
  JsonObject reply = Reply("checked", "id", id);
  reply["ok"] = description.ok();
  const std::string report = CheckReportText(description);
  reply["summary"] = Shortened(report.substr(0, report.find('\n')));
  reply["problems"] = ProblemList(description.problems);
  JsonObject warnings = JsonObject::array();
  size_t bytes = 0;
  for (const std::string& warning : description.warnings) {
    bytes += warning.size() + 4;
    if (bytes > kMaxListBytes) break;
    warnings.push_back(warning);
  }
  reply["warnings"] = std::move(warnings);
  return reply;
}

JsonObject ConfigObject(const TrainConfig& config) {
  JsonObject object;
  object["method"] = config.method;
  object["seed"] = config.seed;
  object["budget"] = JsonObject{{"kind", BudgetKindName(config.budget.kind)},
                                {"amount", JsonNumber(config.budget.amount)}};
  object["background"] = BackgroundName(config.background);
  object["test_every"] = config.test_every;
  object["settings"] = ConfigSettings(config);
  return object;
}

}  // namespace nerf
