#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "client/calls/local_engine.h"
#include "client/calls/resource_calls.h"
#include "client/calls/session.h"
#include "client/commands/commands.h"
#include "client/flags/file_flag.h"
#include "client/flags/names.h"
#include "client/flags/text_format.h"
#include "client/show/resource_printers.h"
#include "common/exit_code.h"
#include "common/places.h"
#include "common/status_macros.h"
#include "fmt/format.h"
#include "nerf/v1/model_service.grpc.pb.h"
#include "nerf/v1/training_service.grpc.pb.h"

namespace nerf {
namespace {

struct ExportFlags {
  std::string job, model, viewer;
  std::string engine = ProgramBesideThis("nerf-engine");
};

// A model's file on the server, and the resource that has it.
struct ModelSource {
  std::string name;
  v1::BlobRef blob;
};

// The job's newest checkpoint, or the one that JOB/STEP names. Errors: InvalidArgument for a wrong
// name; NotFound where the job has no such checkpoint; those of the call.
absl::StatusOr<ModelSource> CheckpointSource(Session& session, const std::string& text) {
  NERF_ASSIGN_OR_RETURN(const std::string name, ExpandCheckpointName(text, session.flags().project,
                                                                     /*newest_allowed=*/true));
  const std::string job_name = name.substr(0, name.find("/checkpoints/"));
  NERF_ASSIGN_OR_RETURN(const v1::TrainingJob job,
                        CallByName<v1::TrainingService>(
                            session, job_name, &v1::TrainingService::Stub::GetTrainingJob));
  for (auto it = job.checkpoints().rbegin(); it != job.checkpoints().rend(); ++it) {
    if (name.ends_with("/-") || it->name() == name)
      return ModelSource{it->name(), it->model_blob()};
  }
  return absl::NotFoundError(name.ends_with("/-")
                                 ? fmt::format("job {} has no checkpoint yet", ShortName(job_name))
                                 : fmt::format("no checkpoint {}", ShortName(name)));
}

absl::StatusOr<ModelSource> SourceOf(Session& session, const ExportFlags& flags) {
  if (flags.model.empty()) return CheckpointSource(session, flags.job);
  NERF_ASSIGN_OR_RETURN(const std::string name,
                        ExpandName(ResourceKind::kModel, flags.model, session.flags().project));
  NERF_ASSIGN_OR_RETURN(
      const v1::Model model,
      CallByName<v1::ModelService>(session, name, &v1::ModelService::Stub::GetModel));
  return ModelSource{model.name(), model.blob()};
}

// A file that goes when this does.
struct RemovedFile {
  explicit RemovedFile(std::string path) : path(std::move(path)) {}
  ~RemovedFile() {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }
  RemovedFile(const RemovedFile&) = delete;
  RemovedFile& operator=(const RemovedFile&) = delete;
  const std::string path;
};

int Export(Session& session, const ExportFlags& flags) {
  if (flags.job.empty() == flags.model.empty()) {
    return session.FailUsage(absl::InvalidArgumentError("name one of --model and --job"));
  }
  if (absl::Status status = CheckFolderOfFile("--viewer", flags.viewer); !status.ok())
    return session.FailUsage(status);
  const absl::StatusOr<ModelSource> source = SourceOf(session, flags);
  if (absl::IsInvalidArgument(source.status())) return session.FailUsage(source.status());
  if (!source.ok()) return session.Fail(source.status());
  const RemovedFile model(flags.viewer + ".safetensors.part");
  const absl::Status status =
      session.Blobs(source->name).DownloadToFile(source->blob, model.path, session.stop());
  if (!status.ok()) return session.Fail(status);
  const std::string short_name = ShortName(source->name);
  const int code = RunLocalEngine(
      session,
      {.arguments = {flags.engine, "export", model.path, "--viewer", flags.viewer},
       .failure = fmt::format("{} was not exported", short_name),
       .unfinished = "before the viewer was written",
       .is_shown = [&](std::string_view line) { return !line.starts_with(flags.viewer + ": "); }});
  if (code != kOk) return code;
  PrintFiles(
      session.printer(), source->name, {flags.viewer},
      PlainText(fmt::format("viewer of {} in {}; open it in a browser", short_name, flags.viewer)));
  return kOk;
}

}  // namespace

void AddExportCommand(CLI::App& app, Command* selected) {
  CLI::App* command = app.add_subcommand("export", "Write a model as a file for other programs");
  auto flags = std::make_shared<ExportFlags>();
  command->add_option("--model", flags->model, "Name of a model")->type_name("MODEL");
  command->add_option("--job", flags->job, "JOB/STEP, or JOB for its newest checkpoint")
      ->type_name("JOB");
  command
      ->add_option("--viewer", flags->viewer,
                   "HTML file to write: the model and a viewer of it, for any browser")
      ->type_name("FILE")
      ->required();
  command->add_option("--engine", flags->engine, "nerf-engine's program, which writes it")
      ->type_name("PROGRAM");
  command->footer("Example:\n  nerfctl export --model mic --viewer mine.html");
  command->callback([=] { *selected = [flags](Session& s) { return Export(s, *flags); }; });
}

}  // namespace nerf
