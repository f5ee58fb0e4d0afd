#include "engine/protocol/worker_request.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/escaping.h"
#include "common/status_macros.h"
#include "engine/protocol/config_json.h"
#include "fmt/format.h"

namespace nerf::protocol {
namespace {

using nlohmann::json;

constexpr int64_t kMaxInt = INT32_MAX;
constexpr int64_t kMaxRanks = 32;
// Shortest interval between two checkpoints or previews.
constexpr double kMinIntervalSeconds = 0.001;

JsonObject ToJson(const Train& train) {
  JsonObject object = {
      {"type", "train"}, {"job", train.job}, {"dataset", train.dataset}, {"out", train.out}};
  SetConfig(train.config, &object);
  object["checkpoint_interval_seconds"] = JsonNumber(train.checkpoint_interval_seconds);
  object["preview_interval_seconds"] = JsonNumber(train.preview_interval_seconds);
  if (train.ranks.has_value()) {
    object["ranks"] = {{"rank", train.ranks->rank},
                       {"count", train.ranks->n_ranks},
                       {"interface", train.ranks->interface}};
  }
  if (!train.request_id.empty()) object["request_id"] = train.request_id;
  if (!train.traceparent.empty()) object["traceparent"] = train.traceparent;
  if (!train.resume.empty()) object["resume"] = train.resume;
  if (train.extend) object["extend"] = true;
  if (!train.merge.empty()) object["merge"] = train.merge;
  if (!train.init.empty()) {
    object["init"] = train.init;
    object["init_scope"] = "all";
  }
  return object;
}

Train ReadTrain(KeyReader* reader) {
  Train train;
  train.job = reader->Text("job", Need::kRequired);
  train.dataset = reader->Text("dataset", Need::kRequired);
  train.out = reader->Text("out", Need::kRequired);
  train.request_id = reader->Text("request_id", Need::kOptional);
  train.traceparent = reader->Text("traceparent", Need::kOptional);
  train.config = ReadConfig(reader);
  train.resume = reader->Text("resume", Need::kOptional);
  train.extend = reader->Flag("extend", Need::kOptional).value_or(false);
  train.init = reader->Text("init", Need::kOptional);
  train.merge = reader->Texts("merge");
  for (const std::string& path : train.merge) {
    if (path.empty() || path.find('\0') != std::string::npos)
      reader->Fail("merge", "must hold paths");
  }
  const std::string scope = reader->Text("init_scope", Need::kOptional);
  if (!scope.empty() && scope != "all") reader->Fail("init_scope", "must be all");
  const auto interval = [&](const char* key, double absent) {
    return reader->Number(key, Need::kOptional, kMinIntervalSeconds, kMaxIntervalSeconds)
        .value_or(absent);
  };
  train.checkpoint_interval_seconds =
      interval("checkpoint_interval_seconds", train.checkpoint_interval_seconds);
  train.preview_interval_seconds =
      interval("preview_interval_seconds", train.preview_interval_seconds);
  if (const json* ranks = reader->Object("ranks", Need::kOptional)) {
    KeyReader inner(*ranks, "ranks.");
    RankPlace& place = train.ranks.emplace();
    place.n_ranks =
        static_cast<uint32_t>(inner.Whole("count", Need::kRequired, 2, kMaxRanks).value_or(2));
    place.rank = static_cast<uint32_t>(
        inner.Whole("rank", Need::kRequired, 0, place.n_ranks - 1).value_or(0));
    place.interface = inner.Text("interface", Need::kOptional);
    reader->Merge(inner);
  }
  return train;
}

JsonObject ToJson(const RankTexts& texts) {
  JsonObject list = JsonObject::array();
  for (const std::string& text : texts.texts) list.push_back(absl::BytesToHexString(text));
  return {{"type", "rank_texts"},
          {"job", texts.job},
          {"sequence", texts.sequence},
          {"texts", std::move(list)}};
}

RankTexts ReadRankTexts(KeyReader* reader) {
  RankTexts texts;
  texts.job = reader->Text("job", Need::kRequired);
  texts.sequence = reader->Count("sequence", Need::kRequired);
  for (const std::string& hex : reader->Texts("texts")) {
    texts.texts.push_back(absl::HexStringToBytes(hex));
  }
  return texts;
}

JsonObject ToJson(const Stop& stop) {
  return {
      {"type", "stop"}, {"job", stop.job}, {"mode", stop.checkpoint ? "checkpoint" : "discard"}};
}

Stop ReadStop(KeyReader* reader) {
  Stop stop;
  stop.job = reader->Text("job", Need::kRequired);
  stop.checkpoint = reader->OneOf("mode", "checkpoint", "discard", Need::kRequired);
  return stop;
}

constexpr std::string_view kStereoWords[] = {"none", "top-bottom", "left-right"};

void SetStyle(const ViewStyle& style, JsonObject* object) {
  if (style.background.has_value()) {
    const Vec3 color = *style.background;
    (*object)["background"] = {color.x, color.y, color.z};
  }
  if (style.crop.has_value()) {
    const OwnBox& box = *style.crop;
    (*object)["crop"] = {{"center", box.center}, {"size", box.size}, {"turn", box.turn}};
  }
  if (style.panorama.has_value()) {
    (*object)["panorama"] = {{"stereo", kStereoWords[static_cast<int>(style.panorama->stereo)]},
                             {"eye_distance", JsonNumber(style.panorama->eye_distance)}};
  }
}

// Leaves `numbers` as they are where the key is absent.
template <size_t n>
void ReadNumbers(const char* key, KeyReader* reader, double (&numbers)[n]) {
  const json* array = reader->Array(key);
  if (array == nullptr) return;
  bool is_valid = array->size() == n;
  for (size_t i = 0; is_valid && i < n; ++i) {
    is_valid = (*array)[i].is_number();
    if (is_valid) numbers[i] = (*array)[i].get<double>();
  }
  if (!is_valid) reader->Fail(key, fmt::format("must be {} numbers", n));
}

ViewStyle ReadStyle(KeyReader* reader) {
  ViewStyle style;
  if (reader->Array("background") != nullptr) {
    double color[3] = {0, 0, 0};
    ReadNumbers("background", reader, color);
    style.background = {static_cast<float>(color[0]), static_cast<float>(color[1]),
                        static_cast<float>(color[2])};
  }
  if (const json* crop = reader->Object("crop", Need::kOptional)) {
    KeyReader inner(*crop, "crop.");
    OwnBox& box = style.crop.emplace();
    ReadNumbers("center", &inner, box.center);
    ReadNumbers("size", &inner, box.size);
    ReadNumbers("turn", &inner, box.turn);
    reader->Merge(inner);
  }
  if (const json* panorama = reader->Object("panorama", Need::kOptional)) {
    KeyReader inner(*panorama, "panorama.");
    Panorama& read = style.panorama.emplace();
    const std::string stereo = inner.Text("stereo", Need::kOptional);
    const auto known = std::find(std::begin(kStereoWords), std::end(kStereoWords), stereo);
    if (known != std::end(kStereoWords)) {
      read.stereo = static_cast<StereoLayout>(known - std::begin(kStereoWords));
    } else if (!stereo.empty()) {
      inner.Fail("stereo", "must be none, top-bottom or left-right");
    }
    read.eye_distance = inner.Number("eye_distance", Need::kOptional).value_or(0);
    reader->Merge(inner);
  }
  return style;
}

JsonObject ToJson(const Render& render) {
  JsonObject object = {{"type", "render"}, {"id", render.id}};
  if (!render.file.empty()) object["file"] = render.file;
  if (!render.job.empty()) object["job"] = render.job;
  if (render.camera.empty()) {
    object["orbit"] = {{"index", render.orbit_index},
                       {"count", render.orbit_count},
                       {"path", render.path},
                       {"full_size", render.full_size}};
  } else {
    object["camera"] = JsonObject::parse(render.camera, nullptr, /*allow_exceptions=*/false);
  }
  object["width"] = render.width;
  object["height"] = render.height;
  object["channels"] = render.channels;
  SetStyle(render.style, &object);
  object["format"] = render.jpeg ? "jpeg" : render.exr ? "exr" : "png";
  if (render.jpeg) object["jpeg_quality"] = render.jpeg_quality;
  if (render.live) object["live"] = true;
  if (render.moving) object["moving"] = true;
  object["out"] = render.out;
  return object;
}

void ReadView(KeyReader* reader, Render* render) {
  const json* camera = reader->Object("camera", Need::kOptional);
  const json* orbit = reader->Object("orbit", Need::kOptional);
  if ((camera == nullptr) == (orbit == nullptr)) {
    reader->Fail("camera", "one of camera and orbit must be given");
    return;
  }
  if (camera != nullptr) {
    render->camera = camera->dump(-1, ' ', false, json::error_handler_t::replace);
    return;
  }
  KeyReader inner(*orbit, "orbit.");
  render->orbit_count =
      static_cast<int>(inner.Whole("count", Need::kRequired, 1, kMaxInt).value_or(1));
  render->orbit_index = static_cast<int>(
      inner.Whole("index", Need::kOptional, 0, render->orbit_count - 1).value_or(0));
  if (std::string path = inner.Text("path", Need::kOptional); !path.empty()) {
    render->path = std::move(path);
  }
  render->full_size = inner.Flag("full_size", Need::kOptional).value_or(false);
  reader->Merge(inner);
}

Render ReadRender(KeyReader* reader) {
  Render render;
  render.id = reader->Text("id", Need::kRequired);
  render.file = reader->Text("file", Need::kOptional);
  render.job = reader->Text("job", Need::kOptional);
  if (render.file.empty() == render.job.empty()) {
    reader->Fail("file", "one of file and job must be given");
  }
  ReadView(reader, &render);
  const auto side = [&](const char* key) {
    return static_cast<int>(reader->Whole(key, Need::kOptional, 0, kMaxInt).value_or(0));
  };
  render.width = side("width");
  render.height = side("height");
  if (std::vector<std::string> channels = reader->Texts("channels"); !channels.empty()) {
    render.channels = std::move(channels);
  }
  render.style = ReadStyle(reader);
  const std::string format = reader->Text("format", Need::kOptional);
  render.jpeg = format == "jpeg";
  render.exr = format == "exr";
  if (!format.empty() && format != "png" && !render.jpeg && !render.exr) {
    reader->Fail("format", "must be png, jpeg or exr");
  }
  render.jpeg_quality = static_cast<int>(
      reader->Whole("jpeg_quality", Need::kOptional, 1, 100).value_or(render.jpeg_quality));
  render.live = reader->Flag("live", Need::kOptional).value_or(false);
  render.moving = reader->Flag("moving", Need::kOptional).value_or(false);
  render.out = reader->Text("out", Need::kRequired);
  return render;
}

JsonObject ToJson(const Check& check) {
  JsonObject object = {{"type", "check"}, {"id", check.id}, {"dataset", check.dataset}};
  if (!check.out.empty()) object["out"] = check.out;
  if (check.test_every.has_value()) object["test_every"] = *check.test_every;
  return object;
}

Check ReadCheck(KeyReader* reader) {
  Check check;
  check.id = reader->Text("id", Need::kRequired);
  check.dataset = reader->Text("dataset", Need::kRequired);
  check.out = reader->Text("out", Need::kOptional);
  if (const auto every = reader->Whole("test_every", Need::kOptional, 0, kMaxInt)) {
    check.test_every = static_cast<uint32_t>(*every);
  }
  return check;
}

JsonObject ToJson(const Cancel& cancel) { return {{"type", "cancel"}, {"id", cancel.id}}; }

// An id of another type than text names no request, so nothing is cancelled.
Cancel ReadCancel(KeyReader* reader) { return {reader->Text("id", Need::kRequired)}; }

absl::StatusOr<WorkerRequest> ReadRequest(const std::string& type, const json& message) {
  KeyReader reader(message);
  WorkerRequest request;
  if (type == "train") {
    request = ReadTrain(&reader);
  } else if (type == "rank_texts") {
    request = ReadRankTexts(&reader);
  } else if (type == "stop") {
    request = ReadStop(&reader);
  } else if (type == "render") {
    request = ReadRender(&reader);
  } else if (type == "check") {
    request = ReadCheck(&reader);
  } else if (type == "cancel") {
    request = ReadCancel(&reader);
  } else {
    return absl::InvalidArgumentError(fmt::format("type: '{}' is not known", type.substr(0, 64)));
  }
  NERF_RETURN_IF_ERROR(reader.status());
  return request;
}

std::string TextOf(const json& message, const char* key) {
  const auto found = message.find(key);
  return found != message.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

std::string ToLine(const WorkerRequest& request) {
  return JsonLine(std::visit([](const auto& r) { return ToJson(r); }, request));
}

ReceivedRequest ParseWorkerRequest(std::string_view line) {
  const absl::StatusOr<json> message = ParseJsonObject(line);
  if (!message.ok()) return {message.status(), "", "", ""};
  ReceivedRequest received{absl::InvalidArgumentError("type: must be a string"),
                           TextOf(*message, "type"), TextOf(*message, "job"),
                           TextOf(*message, "id")};
  if (!received.type.empty()) received.request = ReadRequest(received.type, *message);
  return received;
}

}  // namespace nerf::protocol
