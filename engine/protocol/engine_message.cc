#include "engine/protocol/engine_message.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "common/status_macros.h"
#include "engine/protocol/config_json.h"
#include "engine/protocol/failed_line.h"
#include "fmt/format.h"

namespace nerf::protocol {
namespace {

using nlohmann::json;

// Bytes of problems, and of warnings, in a message. Escaping makes a byte six at most, so that both
// lists fit a line.
constexpr size_t kMaxListBytes = size_t{1} << 16;
constexpr size_t kMaxTextBytes = size_t{1} << 14;
// Braces, quotes and keys of a problem.
constexpr size_t kProblemOverhead = 40;

JsonObject Typed(const char* type, const char* key, const std::string& value) {
  return {{"type", type}, {key, value}};
}

JsonObject OptionalNumber(const std::optional<double>& number) {
  return number.has_value() ? JsonNumber(*number) : JsonObject(nullptr);
}

std::string Shortened(const std::string& text) { return text.substr(0, kMaxTextBytes); }

void SetError(const Error& error, JsonObject* object) {
  (*object)["code"] = absl::StatusCodeToString(error.code);
  (*object)["reason"] = error.reason;
  (*object)["message"] = Shortened(error.message);
}

JsonObject ProblemList(const std::vector<Problem>& problems) {
  JsonObject list = JsonObject::array();
  size_t bytes = 0;
  for (const Problem& problem : problems) {
    bytes += problem.file.size() + problem.field.size() + problem.message.size() + kProblemOverhead;
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

std::vector<Problem> ReadProblems(KeyReader* reader) {
  std::vector<Problem> problems;
  reader->Objects("problems", [&](KeyReader& item) {
    problems.push_back({item.Text("file", Need::kOptional), item.Text("field", Need::kOptional),
                        item.Text("message", Need::kRequired)});
  });
  return problems;
}

JsonObject TextList(const std::vector<std::string>& texts) {
  JsonObject list = JsonObject::array();
  size_t bytes = 0;
  for (const std::string& text : texts) {
    bytes += text.size() + 4;
    if (bytes > kMaxListBytes) break;
    list.push_back(text);
  }
  return list;
}

JsonObject ToJson(const Hello& hello) {
  return {{"type", "hello"},          {"version", hello.version},
          {"device", hello.device},   {"description", hello.description},
          {"threads", hello.threads}, {"methods", hello.methods},
          {"merges", hello.merges},   {"nanovdb", hello.writes_nanovdb}};
}

Hello ReadHello(KeyReader* reader) {
  return {reader->Text("version", Need::kRequired),
          reader->Text("device", Need::kRequired),
          reader->Text("description", Need::kOptional),
          reader->Count("threads", Need::kOptional),
          reader->Texts("methods"),
          reader->Texts("merges"),
          reader->Flag("nanovdb", Need::kOptional).value_or(false)};
}

JsonObject ToJson(const Started& started) {
  JsonObject object = Typed("started", "job", started.job);
  JsonObject config;
  SetConfig(started.config, &config);
  object["config"] = std::move(config);
  object["scene"] = JsonObject{{"flavor", started.flavor},
                               {"train", started.train_views},
                               {"test", started.test_views},
                               {"warnings", TextList(started.warnings)}};
  object["step"] = started.step;
  return object;
}

Started ReadStarted(KeyReader* reader) {
  Started started;
  started.job = reader->Text("job", Need::kRequired);
  if (const json* object = reader->Object("config", Need::kRequired)) {
    KeyReader inner(*object, "config.");
    started.config = ReadConfig(&inner);
    reader->Merge(inner);
  }
  if (const json* object = reader->Object("scene", Need::kRequired)) {
    KeyReader inner(*object, "scene.");
    started.flavor = inner.Text("flavor", Need::kOptional);
    started.train_views = inner.Count("train", Need::kOptional);
    started.test_views = inner.Count("test", Need::kOptional);
    started.warnings = inner.Texts("warnings");
    reader->Merge(inner);
  }
  started.step = reader->Count("step", Need::kOptional);
  return started;
}

JsonObject ToJson(const Progress& progress) {
  JsonObject object = Typed("progress", "job", progress.job);
  SetProgress(progress.progress, &object);
  return object;
}

Progress ReadProgressMessage(KeyReader* reader) {
  return {reader->Text("job", Need::kRequired), ReadProgress(reader)};
}

JsonObject ToJson(const Preview& preview) {
  JsonObject object = Typed("preview", "job", preview.job);
  object["step"] = preview.step;
  object["psnr"] = OptionalNumber(preview.psnr);
  object["image"] = preview.image;
  return object;
}

Preview ReadPreview(KeyReader* reader) {
  return {reader->Text("job", Need::kRequired), reader->Count("step", Need::kRequired),
          reader->Number("psnr", Need::kOptional), reader->Text("image", Need::kRequired)};
}

JsonObject ToJson(const Checkpoint& checkpoint) {
  JsonObject object = Typed("checkpoint", "job", checkpoint.job);
  object["step"] = checkpoint.step;
  object["checkpoint"] = checkpoint.checkpoint;
  object["model"] = checkpoint.model;
  object["tensors"] = TensorList(checkpoint.tensors);
  object["psnr"] = OptionalNumber(checkpoint.psnr);
  return object;
}

std::vector<uint32_t> ReadShape(KeyReader* reader) {
  std::vector<uint32_t> shape;
  const json* sizes = reader->Array("shape");
  if (sizes == nullptr) return shape;
  for (const json& size : *sizes) {
    if (!size.is_number_unsigned() || size.get<uint64_t>() > UINT32_MAX) {
      reader->Fail("shape", "must hold whole numbers below 2^32");
      return shape;
    }
    shape.push_back(size.get<uint32_t>());
  }
  return shape;
}

Checkpoint ReadCheckpoint(KeyReader* reader) {
  Checkpoint checkpoint;
  checkpoint.job = reader->Text("job", Need::kRequired);
  checkpoint.step = reader->Count("step", Need::kRequired);
  checkpoint.checkpoint = reader->Text("checkpoint", Need::kRequired);
  checkpoint.model = reader->Text("model", Need::kRequired);
  reader->Objects("tensors", [&](KeyReader& item) {
    checkpoint.tensors.push_back({item.Text("name", Need::kRequired),
                                  item.Text("dtype", Need::kRequired), ReadShape(&item)});
  });
  checkpoint.psnr = reader->Number("psnr", Need::kOptional);
  return checkpoint;
}

JsonObject ToJson(const Stopped& stopped) {
  JsonObject object = Typed("stopped", "job", stopped.job);
  object["step"] = stopped.step;
  return object;
}

Stopped ReadStopped(KeyReader* reader) {
  return {reader->Text("job", Need::kRequired), reader->Count("step", Need::kOptional)};
}

JsonObject ToJson(const Done& done) {
  JsonObject object = Typed("done", "job", done.job);
  SetSummary(done.summary, &object);
  if (done.test_views.empty()) return object;
  JsonObject list = JsonObject::array();
  size_t bytes = 0;
  for (const TestViewScore& view : done.test_views) {
    bytes += view.file.size();
    if (list.size() == kMaxTestViewScores || bytes > kMaxListBytes) break;
    list.push_back(JsonObject{{"file", view.file}, {"psnr", JsonNumber(view.psnr)}});
  }
  object["test_views"] = std::move(list);
  return object;
}

Done ReadDone(KeyReader* reader) {
  Done done{reader->Text("job", Need::kRequired), ReadSummary(reader)};
  reader->Objects("test_views", [&](KeyReader& item) {
    const std::string file = item.Text("file", Need::kRequired);
    const std::optional<double> psnr = item.Number("psnr", Need::kOptional);
    if (psnr.has_value()) done.test_views.push_back({file, *psnr});
  });
  return done;
}

JsonObject ToJson(const Failed& failed) {
  JsonObject object = Typed("failed", "job", failed.job);
  SetError(failed.error, &object);
  object["problems"] = ProblemList(failed.problems);
  if (failed.lost_rank.has_value()) object["lost_rank"] = *failed.lost_rank;
  return object;
}

Failed ReadFailed(KeyReader* reader) {
  Failed failed{reader->Text("job", Need::kRequired), protocol::ReadFailed(*reader),
                ReadProblems(reader)};
  const auto lost = reader->Whole("lost_rank", Need::kOptional, 0, UINT32_MAX);
  if (lost.has_value()) failed.lost_rank = static_cast<uint32_t>(*lost);
  return failed;
}

JsonObject ToJson(const RankText& text) {
  JsonObject object = Typed("rank_text", "job", text.job);
  object["sequence"] = text.sequence;
  object["text"] = absl::BytesToHexString(text.text);
  return object;
}

RankText ReadRankText(KeyReader* reader) {
  return {reader->Text("job", Need::kRequired), reader->Count("sequence", Need::kRequired),
          absl::HexStringToBytes(reader->Text("text", Need::kOptional))};
}

JsonObject ToJson(const Working& working) { return Typed("working", "id", working.id); }

Working ReadWorking(KeyReader* reader) { return {reader->Text("id", Need::kRequired)}; }

JsonObject ToJson(const Rendered& rendered) {
  JsonObject object = Typed("rendered", "id", rendered.id);
  object["files"] = rendered.files;
  object["width"] = rendered.width;
  object["height"] = rendered.height;
  object["far"] = JsonNumber(rendered.far);
  object["step"] = rendered.step;
  object["seconds"] = JsonNumber(rendered.seconds);
  if (!rendered.path.empty()) object["path"] = rendered.path;
  if (rendered.full_width > 0) {
    object["full_width"] = rendered.full_width;
    object["full_height"] = rendered.full_height;
  }
  if (rendered.seen_twice.has_value()) object["seen_twice"] = JsonNumber(*rendered.seen_twice);
  if (rendered.far_from_cameras) object["far_from_cameras"] = true;
  return object;
}

Rendered ReadRendered(KeyReader* reader) {
  Rendered rendered;
  rendered.id = reader->Text("id", Need::kRequired);
  rendered.files = reader->TextMap("files", Need::kRequired);
  rendered.width = reader->Count("width", Need::kRequired);
  rendered.height = reader->Count("height", Need::kRequired);
  rendered.far = reader->Number("far", Need::kOptional).value_or(0);
  rendered.step = reader->Count("step", Need::kOptional);
  rendered.seconds = reader->Number("seconds", Need::kOptional).value_or(0);
  rendered.path = reader->Text("path", Need::kOptional);
  rendered.full_width = reader->Count("full_width", Need::kOptional);
  rendered.full_height = reader->Count("full_height", Need::kOptional);
  rendered.seen_twice = reader->Number("seen_twice", Need::kOptional, 0, 1);
  rendered.far_from_cameras = reader->Flag("far_from_cameras", Need::kOptional).value_or(false);
  return rendered;
}

JsonObject ToJson(const Checked& checked) {
  JsonObject object = Typed("checked", "id", checked.id);
  object["ok"] = checked.ok;
  object["summary"] = Shortened(checked.summary);
  object["problems"] = ProblemList(checked.problems);
  object["warnings"] = TextList(checked.warnings);
  if (!checked.views.empty()) object["views"] = checked.views;
  return object;
}

Checked ReadChecked(KeyReader* reader) {
  return {reader->Text("id", Need::kRequired),
          reader->Flag("ok", Need::kRequired).value_or(false),
          reader->Text("summary", Need::kOptional),
          ReadProblems(reader),
          reader->Texts("warnings"),
          reader->Text("views", Need::kOptional)};
}

JsonObject ToJson(const Refused& refused) {
  JsonObject object = {{"type", "error"}};
  if (!refused.id.empty() && refused.id.size() <= kMaxNameBytes) object["id"] = refused.id;
  if (!refused.job.empty() && refused.job.size() <= kMaxNameBytes) object["job"] = refused.job;
  SetError(refused.error, &object);
  return object;
}

Refused ReadRefused(KeyReader* reader) {
  return {reader->Text("id", Need::kOptional), reader->Text("job", Need::kOptional),
          protocol::ReadFailed(*reader)};
}

struct MessageReader {
  std::string_view type;
  EngineMessage (*read)(KeyReader* reader);
};

// Makes `read` return the variant.
template <auto read>
EngineMessage AsMessage(KeyReader* reader) {
  return read(reader);
}

constexpr MessageReader kReaders[] = {
    {"hello", AsMessage<ReadHello>},
    {"started", AsMessage<ReadStarted>},
    {"progress", AsMessage<ReadProgressMessage>},
    {"preview", AsMessage<ReadPreview>},
    {"checkpoint", AsMessage<ReadCheckpoint>},
    {"stopped", AsMessage<ReadStopped>},
    {"done", AsMessage<ReadDone>},
    {"failed", AsMessage<ReadFailed>},
    {"rank_text", AsMessage<ReadRankText>},
    {"working", AsMessage<ReadWorking>},
    {"rendered", AsMessage<ReadRendered>},
    {"checked", AsMessage<ReadChecked>},
    {"error", AsMessage<ReadRefused>},
};

}  // namespace

JsonObject TensorList(const std::vector<Tensor>& tensors) {
  JsonObject list = JsonObject::array();
  for (const Tensor& tensor : tensors) {
    list.push_back(
        JsonObject{{"name", tensor.name}, {"dtype", tensor.dtype}, {"shape", tensor.shape}});
  }
  return list;
}

std::string ToLine(const EngineMessage& message) {
  return JsonLine(std::visit([](const auto& m) { return ToJson(m); }, message));
}

absl::StatusOr<EngineMessage> ParseEngineMessage(std::string_view line) {
  NERF_ASSIGN_OR_RETURN(const json object, ParseJsonObject(line));
  KeyReader type_reader(object);
  const std::string type = type_reader.Text("type", Need::kRequired);
  NERF_RETURN_IF_ERROR(type_reader.status());
  for (const MessageReader& candidate : kReaders) {
    if (candidate.type != type) continue;
    KeyReader reader(object, type + ".");
    EngineMessage message = candidate.read(&reader);
    NERF_RETURN_IF_ERROR(reader.status());
    return message;
  }
  return absl::UnimplementedError(fmt::format("unknown type \"{}\"", type.substr(0, 64)));
}

}  // namespace nerf::protocol
