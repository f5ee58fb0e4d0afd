#include "client/show/resource_printers.h"

#include <nlohmann/json.hpp>
#include <ostream>

#include "client/flags/names.h"
#include "client/flags/text_format.h"
#include "client/show/text_table.h"
#include "engine/base/messages/crop_box.h"
#include "fmt/format.h"

namespace nerf {

absl::Time ToTime(const google::protobuf::Timestamp& timestamp) {
  return absl::FromUnixSeconds(timestamp.seconds()) + absl::Nanoseconds(timestamp.nanos());
}

std::string TimeText(const google::protobuf::Timestamp& timestamp) {
  if (timestamp.seconds() == 0) return "";
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", ToTime(timestamp), absl::UTCTimeZone());
}

std::string DbText(double psnr) { return fmt::format("{:.2f}", psnr); }

namespace {

std::string BlobText(const v1::BlobRef& blob) {
  if (blob.sha256().empty()) return "";
  return fmt::format("{} ({})", blob.sha256(), FormatBytes(blob.size_bytes()));
}

}  // namespace

std::string ProblemText(const v1::SceneProblem& problem) {
  std::string text;
  for (const std::string* part : {&problem.file(), &problem.field(), &problem.message()}) {
    if (part->empty()) continue;
    if (!text.empty()) text += ": ";
    text += PlainText(*part);
  }
  return text;
}

void PrintScenes(const Printer& printer, const std::vector<v1::Scene>& scenes) {
  if (PrintListForPrograms(printer, scenes, "files")) return;
  TextTable table({"ID", "NAME", "SIZE", "AGE"});
  for (const v1::Scene& scene : scenes) {
    table.AddRow({ShortName(scene.name()), scene.display_name(), FormatBytes(scene.size_bytes()),
                  FormatAge(ToTime(scene.create_time()), printer.now)});
  }
  table.Print(printer.out);
}

void PrintNewScene(const Printer& printer, const v1::Scene& scene) {
  if (PrintForPrograms(printer, scene)) return;
  TextFields fields;
  fields.Add("name", scene.name());
  fields.Add("display name", scene.display_name());
  fields.Add("created", TimeText(scene.create_time()));
  fields.Add("size", FormatBytes(scene.size_bytes()));
  fields.Add("files", fmt::format("{}", scene.files_size()));
  fields.Print(printer.out);
}

void PrintScene(const Printer& printer, const v1::Scene& scene) {
  PrintNewScene(printer, scene);
  if (printer.format != OutputFormat::kTable || scene.files_size() == 0) return;
  printer.out << '\n';
  TextTable table({"PATH", "SIZE", "SHA256"});
  for (const v1::SceneFile& file : scene.files()) {
    table.AddRow(
        {file.path(), FormatBytes(file.blob().size_bytes()), file.blob().sha256().substr(0, 12)});
  }
  table.Print(printer.out);
}

void PrintModels(const Printer& printer, const std::vector<v1::Model>& models) {
  if (PrintListForPrograms(printer, models)) return;
  TextTable table({"ID", "NAME", "JOB", "STEP", "PREVIEW dB", "SIZE", "AGE"});
  for (const v1::Model& model : models) {
    table.AddRow({ShortName(model.name()), model.display_name(), ShortName(model.training_job()),
                  fmt::format("{}", model.step()), model.has_psnr() ? DbText(model.psnr()) : "",
                  FormatBytes(model.blob().size_bytes()),
                  FormatAge(ToTime(model.create_time()), printer.now)});
  }
  table.Print(printer.out);
}

void PrintModel(const Printer& printer, const v1::Model& model) {
  if (PrintForPrograms(printer, model)) return;
  TextFields fields;
  fields.Add("name", model.name());
  fields.Add("display name", model.display_name());
  fields.Add("checkpoint", model.checkpoint());
  fields.Add("job", model.training_job());
  fields.Add("step", fmt::format("{}", model.step()));
  if (model.has_psnr()) fields.Add("preview PSNR", DbText(model.psnr()) + " dB");
  fields.Add("file", BlobText(model.blob()));
  if (model.has_crop()) fields.Add("crop", CropText(model.crop()));
  fields.Add("created", TimeText(model.create_time()));
  fields.Print(printer.out);
  if (model.tensors_size() == 0) return;
  printer.out << '\n';
  TextTable table({"TENSOR", "TYPE", "SHAPE"});
  for (const v1::TensorSpec& tensor : model.tensors()) {
    table.AddRow(
        {tensor.name(), tensor.dtype(), fmt::format("{}", fmt::join(tensor.shape(), "x"))});
  }
  table.Print(printer.out);
}

void PrintWorkers(const Printer& printer, const std::vector<v1::Worker>& workers) {
  if (PrintListForPrograms(printer, workers)) return;
  TextTable table(
      {"ID", "STATE", "DEVICE", "METHODS", "JOB", "SEEN", "HOST", "VERSION", "DESCRIPTION"});
  for (const v1::Worker& worker : workers) {
    // The state says DRAINING until the worker is used again, also when it holds no job.
    const bool is_drained =
        worker.state() == v1::Worker::DRAINING && worker.drained() && worker.job().empty();
    const std::string state =
        is_drained ? std::string("DRAINED") : v1::Worker::State_Name(worker.state());
    table.AddRow({ShortName(worker.name()), state, worker.device(),
                  fmt::format("{}", fmt::join(worker.methods(), ",")), ShortName(worker.job()),
                  FormatAge(ToTime(worker.last_seen_time()), printer.now), worker.host(),
                  worker.version(), worker.device_description()});
  }
  table.Print(printer.out);
  for (const v1::Worker& worker : workers) {
    if (worker.state_message().empty()) continue;
    printer.out << fmt::format("{}: {}\n", ShortName(worker.name()),
                               PlainText(worker.state_message()));
  }
}

void PrintValidation(const Printer& printer, const v1::ValidateSceneResponse& validation) {
  if (PrintJson(printer, validation)) return;
  printer.out << PlainText(validation.summary()) << '\n';
  for (const v1::SceneProblem& problem : validation.problems()) {
    printer.out << "error  " << ProblemText(problem) << '\n';
  }
  for (const std::string& warning : validation.warnings()) {
    printer.out << "warn   " << PlainText(warning) << '\n';
  }
}

void PrintDone(const Printer& printer, const std::string& name, const std::string& words) {
  if (PrintJson(printer, nlohmann::ordered_json{{"name", name}})) return;
  printer.out << PlainText(printer.format == OutputFormat::kName ? name : words) << '\n';
}

void PrintFiles(const Printer& printer, const std::string& name,
                const std::vector<std::string>& files, const std::string& words) {
  if (PrintJson(printer, nlohmann::ordered_json{{"name", name}, {"files", files}})) return;
  if (printer.format == OutputFormat::kTable && !words.empty()) {
    printer.out << PlainText(words) << '\n';
    return;
  }
  for (const std::string& file : files) printer.out << file << '\n';
}

}  // namespace nerf
