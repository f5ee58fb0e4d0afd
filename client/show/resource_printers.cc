#include "client/show/resource_printers.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>

#include "client/flags/crop_flag.h"
#include "client/flags/names.h"
#include "client/flags/text_format.h"
#include "client/show/job_progress.h"
#include "client/show/job_words.h"
#include "client/show/text_table.h"
#include "common/counted.h"
#include "common/rpc/training_config.h"
#include "fmt/format.h"

namespace nerf {
namespace {

absl::Time ToTime(const google::protobuf::Timestamp& timestamp) {
  return absl::FromUnixSeconds(timestamp.seconds()) + absl::Nanoseconds(timestamp.nanos());
}

std::string TimeText(const google::protobuf::Timestamp& timestamp) {
  if (timestamp.seconds() == 0) return "";
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", ToTime(timestamp), absl::UTCTimeZone());
}

std::string BlobText(const v1::BlobRef& blob) {
  if (blob.sha256().empty()) return "";
  return fmt::format("{} ({})", blob.sha256(), FormatBytes(blob.size_bytes()));
}

std::string DbText(double psnr) { return fmt::format("{:.2f}", psnr); }

std::string Colored(const Printer& printer, v1::TrainingJob::State state) {
  const std::string text = StateText(state);
  if (!printer.color) return text;
  const int color = state == v1::TrainingJob::SUCCEEDED ? 32
                    : state == v1::TrainingJob::FAILED  ? 31
                    : state == v1::TrainingJob::RUNNING ? 36
                    : state == v1::TrainingJob::CANCELLED || v1::TrainingJob::CANCELLING == state
                        ? 33
                        : 0;
  return color == 0 ? text : fmt::format("\x1b[{}m{}\x1b[0m", color, text);
}

std::string BudgetText(const v1::TrainingConfig& config) {
  switch (config.budget_case()) {
    case v1::TrainingConfig::kSteps:
      return Counted(config.steps(), "step");
    case v1::TrainingConfig::kSamples:
      return fmt::format("{} samples", FormatCount(config.samples()));
    case v1::TrainingConfig::kSeconds:
      return fmt::format("{:g} s of training", config.seconds());
    case v1::TrainingConfig::BUDGET_NOT_SET:
      break;
  }
  return "";
}

// The PSNR of a job in a list: "33.12" over all test views; until then "30.20 (preview)".
std::string ListedPsnr(const v1::TrainingJob& job) {
  if (job.has_final_psnr()) return DbText(job.final_psnr());
  if (!job.progress().has_psnr_preview()) return "";
  return DbText(job.progress().psnr_preview()) + " (preview)";
}

// "30.20 dB at step 1200"; the step where it is known. Requires a PSNR.
std::string PreviewText(const v1::Progress& progress) {
  std::string text = DbText(progress.psnr_preview()) + " dB";
  if (progress.has_preview_step()) text += fmt::format(" at step {}", progress.preview_step());
  return text;
}

// Figures that are 0 are not known.
void AddProgress(const v1::Progress& progress, bool has_ended, TextFields* fields) {
  if (progress.samples() > 0) fields->Add("samples", FormatCount(progress.samples()));
  if (progress.loss() > 0) fields->Add("loss", fmt::format("{:.5f}", progress.loss()));
  if (progress.psnr_train() > 0) fields->Add("train PSNR", DbText(progress.psnr_train()) + " dB");
  if (progress.has_psnr_preview()) fields->Add("preview PSNR", PreviewText(progress));
  if (!has_ended && progress.samples_per_second() > 0)
    fields->Add("speed", FormatCount(progress.samples_per_second()) + " samples/s");
  if (!has_ended && progress.eta_seconds() > 0)
    fields->Add("eta", FormatClock(progress.eta_seconds()));
  if (progress.seconds() > 0) fields->Add("trained for", FormatClock(progress.seconds()));
}

}  // namespace

bool IsFinal(v1::TrainingJob::State state) {
  return state == v1::TrainingJob::SUCCEEDED || state == v1::TrainingJob::FAILED ||
         state == v1::TrainingJob::CANCELLED;
}

std::string StateText(v1::TrainingJob::State state) {
  const std::string& name = v1::TrainingJob::State_Name(state);
  return name.empty() ? fmt::format("STATE_{}", static_cast<int>(state)) : name;
}

std::string StepText(const v1::TrainingJob& job) {
  if (!job.has_progress()) return "";
  const v1::TrainingConfig& config =
      job.has_effective_config() ? job.effective_config() : job.config();
  if (config.budget_case() == v1::TrainingConfig::kSteps) {
    return fmt::format("{}/{}", job.progress().step(), config.steps());
  }
  return fmt::format("{} ({}%)", job.progress().step(), WholePercent(job.progress().fraction()));
}

std::string PsnrText(const v1::TrainingJob& job) {
  if (job.has_final_psnr()) return fmt::format("test PSNR {} dB", DbText(job.final_psnr()));
  const v1::Progress& progress = job.progress();
  if (!progress.has_psnr_preview()) return "";
  return "preview PSNR " + PreviewText(progress);
}

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

void PrintJobs(const Printer& printer, const std::vector<v1::TrainingJob>& jobs) {
  if (PrintListForPrograms(printer, jobs)) return;
  TextTable table({"ID", "NAME", "STATE", "STEP", "PSNR dB", "WORKER", "AGE", "ETA", "NOTE"});
  for (const v1::TrainingJob& job : jobs) {
    table.AddRow({ShortName(job.name()), job.display_name(), StateText(job.state()), StepText(job),
                  ListedPsnr(job), ShortName(job.worker()),
                  FormatAge(ToTime(job.create_time()), printer.now),
                  IsFinal(job.state()) ? "" : FormatClock(job.progress().eta_seconds()),
                  NoteText(job)});
  }
  table.Print(printer.out);
}

// "run=7, team=blue".
std::string LabelsText(const v1::TrainingJob& job) {
  std::vector<std::string> labels;
  for (const auto& [key, value] : job.labels()) labels.push_back(fmt::format("{}={}", key, value));
  std::sort(labels.begin(), labels.end());
  return fmt::format("{}", fmt::join(labels, ", "));
}

// "2", "2 to 4".
std::string WorkerCountText(const v1::WorkerCount& workers) {
  return workers.min() == workers.max() ? fmt::format("{}", workers.min())
                                        : fmt::format("{} to {}", workers.min(), workers.max());
}

void PrintJob(const Printer& printer, const v1::TrainingJob& job) {
  if (PrintForPrograms(printer, job)) return;
  printer.out << Colored(printer, job.state()) << "  " << PlainText(job.name()) << '\n';
  TextFields fields;
  const v1::TrainingConfig& config =
      job.has_effective_config() ? job.effective_config() : job.config();
  fields.Add("display name", job.display_name());
  fields.Add("scene", job.scene());
  fields.Add("pose job", job.pose_job());
  if (job.priority() != 0) fields.Add("priority", fmt::format("{}", job.priority()));
  fields.Add("labels", LabelsText(job));
  if (job.has_crop()) fields.Add("crop", CropText(job.crop()));
  fields.Add("retry of", job.retry_of());
  fields.Add("extends", job.extension_of());
  fields.Add("part of", job.part_of());
  for (int part = 0; part < job.parts_size(); ++part)
    fields.Add(fmt::format("part {}", part), job.parts(part));
  fields.Add("must start by", TimeText(job.start_by_time()));
  fields.Add("must end by", TimeText(job.end_by_time()));
  fields.Add("queued because", QueueReasonText(job));
  fields.Add("waits because", job.wait().message());
  fields.Add("error", FailureText(job));
  if (job.has_workers()) fields.Add("asks for workers", WorkerCountText(job.workers()));
  if (job.members().empty()) fields.Add("worker", job.worker());
  for (const v1::Member& member : job.members()) {
    fields.Add(fmt::format("rank {}", member.rank()),
               member.host().empty() ? member.worker()
                                     : fmt::format("{} on {}", member.worker(), member.host()));
  }
  if (job.attempt() > 0) fields.Add("attempt", fmt::format("{}", job.attempt()));
  fields.Add("step", StepText(job));
  fields.Add("now", EvaluationText(job));
  fields.Add("pictures", PicturesText(job));
  if (job.has_progress()) AddProgress(job.progress(), IsFinal(job.state()), &fields);
  if (job.has_final_psnr()) fields.Add("test PSNR", DbText(job.final_psnr()) + " dB");
  fields.Add("method", config.method());
  fields.Add("budget", BudgetText(config));
  fields.Add("seed", fmt::format("{}", config.seed()));
  fields.Add("background", std::string(BackgroundWord(config.background())));
  if (config.has_init()) {
    fields.Add("init", config.init().model() + config.init().checkpoint());
  }
  fields.Add("init reason", job.init_reason());
  fields.Add("created", TimeText(job.create_time()));
  fields.Add("started", TimeText(job.start_time()));
  fields.Add("ended", TimeText(job.end_time()));
  // Sorted, because the map's order differs from run to run.
  const std::map<std::string, std::string> settings(job.config().settings().begin(),
                                                    job.config().settings().end());
  for (const auto& [key, value] : settings) fields.Add("set", fmt::format("{}={}", key, value));
  fields.Print(printer.out);

  for (const v1::SceneProblem& problem : job.problems()) {
    printer.out << "problem  " << ProblemText(problem) << '\n';
  }
  if (job.checkpoints_size() == 0) return;
  printer.out << '\n';
  TextTable table({"CHECKPOINT", "STEP", "PREVIEW dB", "SIZE", "AGE"});
  for (const v1::Checkpoint& checkpoint : job.checkpoints()) {
    table.AddRow({ShortName(checkpoint.name()), fmt::format("{}", checkpoint.step()),
                  checkpoint.has_psnr() ? DbText(checkpoint.psnr()) : "",
                  FormatBytes(checkpoint.checkpoint_blob().size_bytes()),
                  FormatAge(ToTime(checkpoint.create_time()), printer.now)});
  }
  table.Print(printer.out);
}

void PrintMetrics(const Printer& printer, const v1::ListTrainingMetricsResponse& metrics) {
  if (PrintJson(printer, metrics)) return;
  TextTable table({"STEP", "SECONDS", "LOSS", "PSNR", "PREVIEW PSNR", "RAYS/S"});
  for (const v1::TrainingMetrics& point : metrics.points()) {
    table.AddRow({fmt::format("{}", point.step()), fmt::format("{:.1f}", point.seconds()),
                  fmt::format("{:.6f}", point.loss()), DbText(point.psnr_train()),
                  point.has_psnr_preview() ? DbText(point.psnr_preview()) : "",
                  FormatCount(point.rays_per_second())});
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
        worker.state() == v1::Worker::DRAINING && worker.drained() && worker.training_job().empty();
    const std::string state =
        is_drained ? std::string("DRAINED") : v1::Worker::State_Name(worker.state());
    table.AddRow({ShortName(worker.name()), state, worker.device(),
                  fmt::format("{}", fmt::join(worker.methods(), ",")),
                  ShortName(worker.training_job()),
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
