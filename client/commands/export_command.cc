#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "client/calls/job_calls.h"
#include "client/calls/job_files.h"
#include "client/calls/job_watch.h"
#include "client/calls/local_engine.h"
#include "client/calls/resource_calls.h"
#include "client/calls/session.h"
#include "client/commands/commands.h"
#include "client/flags/file_flag.h"
#include "client/flags/job_label_flags.h"
#include "client/flags/names.h"
#include "client/flags/render_job_flags.h"
#include "client/flags/text_format.h"
#include "client/kinds/job_words.h"
#include "client/kinds/kind_view.h"
#include "client/show/resource_printers.h"
#include "common/files/atomic_file.h"
#include "common/files/places.h"
#include "common/ids.h"
#include "common/messages/camera_path_text.h"
#include "common/problems.h"
#include "common/process/exit_code.h"
#include "common/status_macros.h"
#include "engine/base/messages/export_flags.h"
#include "engine/base/messages/export_options.h"
#include "fmt/format.h"
#include "nerf/v1/model_service.grpc.pb.h"

namespace nerf {
namespace {

struct ClientExportFlags {
  ExportFlags asked;
  std::string job, model;
  std::string keyframes;  // file
  unsigned frames = 120;
  bool loop = false;
  std::string where = "auto", display_name, priority = "0";
  std::vector<std::string> labels;
  std::string engine = ProgramBesideThis("nerf-engine");
  bool has_engine = false, dry_run = false;

  const std::string& file() const { return asked.out; }
  std::string_view noun() const { return FileKindOf(asked.spec.format()).noun; }
};

// Fills in the format and the path. Errors: InvalidArgument that names every wrong flag.
absl::Status FillAndCheck(ClientExportFlags* flags) {
  Problems wrong;
  v1::ExportSpec& spec = flags->asked.spec;
  if (flags->job.empty() == flags->model.empty()) wrong.Add("", "name one of --model and --job");
  if (!flags->keyframes.empty()) {
    absl::StatusOr<v1::KeyframePath> path = ReadKeyframes(flags->keyframes);
    wrong.Add(path.status());
    v1::KeyframePath& asked = *spec.mutable_path()->mutable_keyframes();
    if (path.ok()) asked = *std::move(path);
    asked.set_frames(flags->frames);
    asked.set_loop(flags->loop);
  }
  wrong.Add(CheckExportFlags("--keyframes", &flags->asked));
  std::error_code ignored;
  std::string& out = flags->asked.out;
  const bool is_folder = out.ends_with('/') || std::filesystem::is_directory(out, ignored);
  if (is_folder && spec.format() != v1::ExportSpec::FORMAT_UNSPECIFIED)
    out = std::filesystem::path(out) / FileKindOf(spec.format()).name;
  if (spec.format() == v1::ExportSpec::VIEWS && !flags->file().ends_with(".zip"))
    wrong.Add("--out", "of views must end in .zip");
  if (!flags->file().empty()) wrong.Add(CheckFolderOfFile("--out", flags->file()));
  return wrong.Result();
}

// Errors: InvalidArgument that names the flag.
absl::StatusOr<v1::CreateJobRequest> RequestOf(Session& session, const ClientExportFlags& flags) {
  v1::CreateJobRequest request;
  NERF_ASSIGN_OR_RETURN(*request.mutable_parent(), ProjectName(session.flags().project));
  request.set_request_id(NewUuid4(*session.io().random));
  v1::Job& job = *request.mutable_job();
  v1::ExportSpec& spec = *job.mutable_export_();
  spec = flags.asked.spec;
  job.set_display_name(flags.display_name);
  NERF_ASSIGN_OR_RETURN(const int priority, ParsePriority(flags.priority));
  job.set_priority(priority);
  for (const std::string& label : flags.labels) {
    NERF_ASSIGN_OR_RETURN(auto parsed, ParseLabel(label));
    (*job.mutable_labels())[parsed.first] = parsed.second;
  }
  if (flags.model.empty()) {
    NERF_ASSIGN_OR_RETURN(
        *spec.mutable_checkpoint(),
        ExpandCheckpointName(flags.job, session.flags().project, /*newest_allowed=*/true));
  } else {
    NERF_ASSIGN_OR_RETURN(*spec.mutable_model(),
                          ExpandName(ResourceKind::kModel, flags.model, session.flags().project));
  }
  return request;
}

// A model's file on the server, and the resource that has it.
struct ModelSource {
  std::string name;
  v1::BlobRef blob;
  std::optional<v1::CropBox> crop;  // that is kept with it
};

template <typename Resource>
std::optional<v1::CropBox> KeptCropOf(const Resource& resource) {
  return resource.has_crop() ? std::optional(resource.crop()) : std::nullopt;
}

// The job's newest checkpoint, or the one that JOB/STEP names. Errors: InvalidArgument for a wrong
// name; NotFound where the job has no such checkpoint; those of the call.
absl::StatusOr<ModelSource> CheckpointSource(Session& session, const std::string& text) {
  NERF_ASSIGN_OR_RETURN(const std::string name, ExpandCheckpointName(text, session.flags().project,
                                                                     /*newest_allowed=*/true));
  const std::string job_name = name.substr(0, name.find("/checkpoints/"));
  NERF_ASSIGN_OR_RETURN(const v1::Job job, GetJob(session, job_name));
  const auto& checkpoints = job.training_status().checkpoints();
  for (auto it = checkpoints.rbegin(); it != checkpoints.rend(); ++it) {
    if (name.ends_with("/-") || it->name() == name)
      return ModelSource{it->name(), it->model_blob(), KeptCropOf(job.training())};
  }
  return absl::NotFoundError(name.ends_with("/-")
                                 ? fmt::format("job {} has no checkpoint yet", ShortName(job_name))
                                 : fmt::format("no checkpoint {}", ShortName(name)));
}

absl::StatusOr<ModelSource> SourceOf(Session& session, const ClientExportFlags& flags) {
  if (flags.model.empty()) return CheckpointSource(session, flags.job);
  NERF_ASSIGN_OR_RETURN(const std::string name,
                        ExpandName(ResourceKind::kModel, flags.model, session.flags().project));
  NERF_ASSIGN_OR_RETURN(
      const v1::Model model,
      CallByName<v1::ModelService>(session, name, &v1::ModelService::Stub::GetModel));
  return ModelSource{model.name(), model.blob(), KeptCropOf(model)};
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

int PrintExported(Session& session, const ClientExportFlags& flags, const std::string& source,
                  const std::string& more) {
  const bool is_page = flags.asked.spec.format() == v1::ExportSpec::VIEWER;
  PrintFiles(session.printer(), source, {flags.file()},
             PlainText(fmt::format("{} of {} in {}; {}", flags.noun(), ShortName(source),
                                   flags.file(), is_page ? "open it in a browser" : more)));
  return kOk;
}

// cameras: file of the path; empty without one.
std::vector<std::string> EngineArguments(const ClientExportFlags& flags, const std::string& model,
                                         const std::string& cameras,
                                         const std::optional<v1::CropBox>& kept_crop) {
  v1::ExportSpec spec = flags.asked.spec;
  if (!spec.has_box() && !spec.whole() && kept_crop.has_value()) *spec.mutable_box() = *kept_crop;
  std::vector<std::string> arguments = {flags.engine, "export", model, "--out", flags.file()};
  const std::vector<std::string> asked = ExportArguments(spec, cameras);
  arguments.insert(arguments.end(), asked.begin(), asked.end());
  if (flags.dry_run) arguments.emplace_back("--dry-run");
  return arguments;
}

// By the nerf-engine on this machine.
int ExportHere(Session& session, const ClientExportFlags& flags) {
  const absl::StatusOr<ModelSource> source = SourceOf(session, flags);
  if (absl::IsInvalidArgument(source.status())) return session.FailUsage(source.status());
  if (!source.ok()) return session.Fail(source.status());
  const RemovedFile model(flags.file() + ".safetensors.part");
  absl::Status status =
      session.Blobs(source->name).DownloadToFile(source->blob, model.path, session.stop());
  if (!status.ok()) return session.Fail(status);
  const v1::ExportSpec& spec = flags.asked.spec;
  const RemovedFile cameras(spec.has_path() ? flags.file() + ".cameras.part" : "");
  if (spec.has_path()) {
    status = WriteFileAtomically(cameras.path, CameraPathText(spec.path()));
    if (!status.ok()) return session.Fail(status);
  }
  const int code = RunLocalEngine(
      session,
      {.arguments = EngineArguments(flags, model.path, cameras.path, source->crop),
       .failure = fmt::format("{} was not exported", ShortName(source->name)),
       .unfinished = fmt::format("before the {} was written", flags.noun()),
       .is_shown = [&](std::string_view line) { return !line.starts_with(flags.file() + ": "); },
       .is_result = flags.dry_run});
  if (code != kOk || flags.dry_run) return code;
  return PrintExported(session, flags, source->name, "made here");
}

// "about 5.6 MB with 200000 triangles"; empty where it is not known.
std::string SizeAndWhat(const v1::Job& job) {
  std::string text = ExpectedSizeText(job.export_status());
  if (!text.empty() && job.export_().triangles() > 0)
    text += fmt::format(" with {} triangles", job.export_().triangles());
  return text;
}

// How large it would be, and why it would wait.
int PrintExpected(Session& session, v1::CreateJobRequest request) {
  request.set_validate_only(true);
  const absl::StatusOr<v1::Job> job = CreateJob(session, request);
  if (!job.ok()) return session.Fail(job.status());
  const Printer& printer = session.printer();
  if (PrintJson(printer, *job)) return kOk;
  const std::string size = SizeAndWhat(*job);
  printer.out << (size.empty() ? "its size is not known before" : size) << '\n';
  if (job->has_wait()) session.Say(PlainText("it would wait: " + job->wait().message()));
  return kOk;
}

// By an export job.
int ExportOnServer(Session& session, const ClientExportFlags& flags,
                   const v1::CreateJobRequest& request) {
  const absl::StatusOr<v1::Job> created = CreateJob(session, request);
  if (!created.ok()) return session.Fail(created.status());
  if (const std::string size = SizeAndWhat(*created); !size.empty()) session.Say(size);
  JobFiles files(session, flags.file(), /*is_file=*/true);
  v1::Job job;
  const int code = AwaitJob(session, created->name(), {.files = &files}, &job);
  if (code != kOk) return code;
  const v1::ExportResult& result = job.export_status().result();
  return PrintExported(session, flags, SourceOfJob(job.export_()),
                       fmt::format("{}; axes: {}", result.words(), result.axes()));
}

// Whether the server makes it; asks it where --where leaves that open.
absl::StatusOr<bool> IsForServer(Session& session, const ClientExportFlags& flags,
                                 v1::CreateJobRequest request) {
  if (flags.where != "auto") return flags.where == "server";
  if (flags.has_engine) return false;
  request.set_validate_only(true);
  const absl::StatusOr<v1::Job> checked = CreateJob(session, request);
  // A viewer, who may read the model.
  if (absl::IsPermissionDenied(checked.status())) return false;
  NERF_RETURN_IF_ERROR(checked.status());
  const std::string& reason = checked->wait().reason();
  std::error_code ignored;
  const bool is_here = std::filesystem::exists(flags.engine, ignored);
  if (!is_here || (reason != "NO_WORKER" && reason != "NO_CAPABLE_WORKER")) return true;
  session.Say(PlainText(checked->wait().message() + ": exporting here"));
  return false;
}

int Export(Session& session, ClientExportFlags flags) {
  if (const absl::Status wrong = FillAndCheck(&flags); !wrong.ok()) return session.FailUsage(wrong);
  const auto request = RequestOf(session, flags);
  if (!request.ok()) return session.FailUsage(request.status());
  const absl::StatusOr<bool> is_for_server = IsForServer(session, flags, *request);
  if (!is_for_server.ok()) return session.Fail(is_for_server.status());
  if (!*is_for_server) return ExportHere(session, flags);
  if (flags.dry_run) return PrintExpected(session, *request);
  return ExportOnServer(session, flags, *request);
}

// The cameras of paths and views.
void AddPathFlags(CLI::App& command, ClientExportFlags* flags) {
  CLI::Option* const keyframes =
      command
          .add_option("--keyframes", flags->keyframes,
                      "Cameras that a path or the views pass through, as of job render\n"
                      "(default: the photographs' cameras)")
          ->type_name("FILE");
  command.add_option("--frames", flags->frames, "Views along --keyframes")
      ->check(CLI::Range(1, 3600))
      ->needs(keyframes)
      ->capture_default_str();
  command.add_flag("--loop", flags->loop, "The path of --keyframes ends where it began")
      ->needs(keyframes);
}

}  // namespace

void AddExportCommand(CLI::App& app, Command* selected) {
  CLI::App* command = app.add_subcommand("export", "Write a model as a file for other programs");
  auto flags = std::make_shared<ClientExportFlags>();
  command->add_option("--model", flags->model, "Name of a model")->type_name("MODEL");
  command->add_option("--job", flags->job, "JOB/STEP, or JOB for its newest checkpoint")
      ->type_name("JOB");
  AddExportFlags(*command, "File to write, or a folder for it", /*capitals=*/true, &flags->asked);
  AddPathFlags(*command, flags.get());
  command->add_flag("--dry-run", flags->dry_run, "Tell how large the file would be; make nothing");
  command
      ->add_option("--where", flags->where,
                   "server: by a worker; local: here; auto: here if no worker can")
      ->check(CLI::IsMember({"auto", "server", "local"}))
      ->capture_default_str();
  command->add_option("--display-name", flags->display_name, "Name of the export job")
      ->type_name("TEXT");
  command->add_option("--label", flags->labels, "Label of the export job; may be repeated")
      ->type_name("KEY=VALUE");
  command->add_option("--priority", flags->priority, "Of the export job, -100 to 100")
      ->type_name("N");
  CLI::Option* engine =
      command->add_option("--engine", flags->engine, "nerf-engine's program, which writes it here")
          ->type_name("PROGRAM");
  command->footer(
      "Examples:\n"
      "  nerfctl export --model mic --out mine.html\n"
      "  nerfctl export --model mic --out mic.glb --frame blender\n"
      "  nerfctl export --model mic --out mic.ply --format splats\n"
      "  nerfctl export --model mic --out mic.spz");
  command->callback([=] {
    flags->has_engine = engine->count() > 0;
    *selected = [flags](Session& s) { return Export(s, *flags); };
  });
}

}  // namespace nerf
