#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"
#include "client/calls/job_calls.h"
#include "client/calls/job_files.h"
#include "client/calls/job_watch.h"
#include "client/calls/local_engine.h"
#include "client/calls/resource_calls.h"
#include "client/calls/session.h"
#include "client/commands/commands.h"
#include "client/flags/crop_flag.h"
#include "client/flags/file_flag.h"
#include "client/flags/job_label_flags.h"
#include "client/flags/names.h"
#include "client/flags/render_job_flags.h"
#include "client/flags/render_plan.h"
#include "client/flags/text_format.h"
#include "client/kinds/job_words.h"
#include "client/kinds/kind_view.h"
#include "client/show/resource_printers.h"
#include "common/atomic_file.h"
#include "common/exit_code.h"
#include "common/ids.h"
#include "common/messages/camera_path_text.h"
#include "common/places.h"
#include "common/status_macros.h"
#include "fmt/format.h"
#include "nerf/v1/model_service.grpc.pb.h"

namespace nerf {
namespace {

struct ExportFlags {
  std::string job, model;
  // Files to write, of which one is given.
  std::string viewer, mesh, points, splats, volume, cameras, nerfstudio_path, ngp_path, views;
  std::string keyframes;  // file
  unsigned frames = 120;
  bool loop = false;
  std::string box, frame = "dataset", where = "auto", display_name, priority = "0";
  std::vector<std::string> labels;
  uint32_t resolution = 0, triangles = 0, texture = 0;  // 0: not given
  std::string engine = ProgramBesideThis("nerf-engine");
  bool has_engine = false, baked = false, dry_run = false;
};

// The file to write and what it is.
struct Product {
  std::string_view flag, noun;
  std::string file, format;

  bool is_path() const { return noun == "path"; }
  bool has_path() const { return is_path() || noun == "views"; }
  bool has_box() const { return !is_path() && noun != "cameras"; }
};

// Errors: InvalidArgument that names the flag.
absl::StatusOr<Product> ProductOf(const ExportFlags& flags) {
  std::vector<Product> given;
  for (const Product& product :
       {Product{"--viewer", "viewer", flags.viewer, "viewer"},
        {"--mesh", "mesh", flags.mesh, ""},
        {"--points", "points", flags.points, "points"},
        {"--splats", "splats", flags.splats, "splats"},
        {"--volume", "volume", flags.volume, "vdb"},
        {"--cameras", "cameras", flags.cameras, "cameras"},
        {"--nerfstudio-path", "path", flags.nerfstudio_path, "nerfstudio-path"},
        {"--ngp-path", "path", flags.ngp_path, "ngp-path"},
        {"--views", "views", flags.views, "views"}}) {
    if (!product.file.empty()) given.push_back(product);
  }
  if (given.size() != 1) {
    return absl::InvalidArgumentError(
        "name one of --viewer, --mesh, --points, --splats, --volume, --cameras, "
        "--nerfstudio-path, --ngp-path and --views");
  }
  Product product = given[0];
  const std::string ending = std::filesystem::path(product.file).extension();
  if (product.flag == "--volume" && ending == ".nvdb") product.format = "nvdb";
  if (product.flag == "--views" && ending != ".zip")
    return absl::InvalidArgumentError("--views: the file must end in .zip");
  if (!flags.keyframes.empty() && !product.has_path())
    return absl::InvalidArgumentError("--keyframes: only paths and --views go through them");
  if (product.format.empty()) {
    if (ending != ".glb" && ending != ".ply") {
      return absl::InvalidArgumentError("--mesh: the file must end in .glb or .ply");
    }
    product.format = ending.substr(1);
  }
  if (flags.texture > 0 && product.format != "glb") {
    return absl::InvalidArgumentError("--texture: only a --mesh that ends in .glb has one");
  }
  if (flags.baked && product.flag != "--viewer") {
    return absl::InvalidArgumentError("--baked: only a --viewer has one");
  }
  NERF_RETURN_IF_ERROR(CheckFolderOfFile(product.flag, product.file));
  return product;
}

// "ngp-path" -> "NGP_PATH".
std::string EnumWord(const std::string& word) {
  return absl::StrReplaceAll(absl::AsciiStrToUpper(word), {{"-", "_"}});
}

// Errors: InvalidArgument that names the flag.
absl::StatusOr<v1::CreateJobRequest> RequestOf(Session& session, const ExportFlags& flags,
                                               const Product& product) {
  v1::CreateJobRequest request;
  NERF_ASSIGN_OR_RETURN(*request.mutable_parent(), ProjectName(session.flags().project));
  request.set_request_id(NewUuid4(*session.io().random));
  v1::Job& job = *request.mutable_job();
  v1::ExportSpec& spec = *job.mutable_export_();
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
  v1::ExportSpec::Format format;
  if (v1::ExportSpec::Format_Parse(EnumWord(product.format), &format)) spec.set_format(format);
  v1::ExportSpec::Frame frame;
  if (v1::ExportSpec::Frame_Parse(EnumWord(flags.frame), &frame)) spec.set_frame(frame);
  if (!flags.keyframes.empty()) {
    NERF_ASSIGN_OR_RETURN(v1::KeyframePath path, ReadKeyframes(flags.keyframes));
    path.set_frames(flags.frames);
    path.set_loop(flags.loop);
    *spec.mutable_path()->mutable_keyframes() = std::move(path);
  }
  spec.set_whole(flags.box == kNoCrop && product.has_box());
  if (!flags.box.empty() && flags.box != kNoCrop) {
    NERF_ASSIGN_OR_RETURN(const OwnBox box, ParseOwnBox("--crop", flags.box));
    *spec.mutable_box() = ToProto(box);
  }
  spec.set_resolution(flags.resolution);
  spec.set_triangles(flags.triangles);
  spec.set_texture(flags.texture);
  spec.set_baked(flags.baked);
  return request;
}

// A model's file on the server, and the resource that has it.
struct ModelSource {
  std::string name;
  v1::BlobRef blob;
  std::string crop;  // that is kept with it, as --crop takes it
};

template <typename Resource>
std::string KeptCropOf(const Resource& resource) {
  return resource.has_crop() ? CropText(resource.crop()) : "";
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

absl::StatusOr<ModelSource> SourceOf(Session& session, const ExportFlags& flags) {
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

int PrintExported(Session& session, const Product& product, const std::string& source,
                  const std::string& more) {
  PrintFiles(session.printer(), source, {product.file},
             PlainText(fmt::format("{} of {} in {}; {}", product.noun, ShortName(source),
                                   product.file, more)));
  return kOk;
}

// cameras: file of the path; empty without one.
std::vector<std::string> EngineArguments(const ExportFlags& flags, const Product& product,
                                         const std::string& model, const std::string& cameras,
                                         const std::string& kept_crop) {
  std::vector<std::string> arguments = {flags.engine, "export", model};
  if (flags.dry_run) arguments.emplace_back("--dry-run");
  const std::string& box = flags.box.empty() && product.has_box() ? kept_crop : flags.box;
  if (!box.empty() && box != kNoCrop) arguments.push_back("--crop=" + box);
  if (product.flag == "--viewer") {
    arguments.insert(arguments.end(), {"--viewer", product.file});
    if (flags.baked) arguments.push_back("--baked");
    return arguments;
  }
  arguments.insert(arguments.end(),
                   {"--out", product.file, "--format", product.format, "--frame", flags.frame});
  const auto add = [&](const char* flag, uint32_t number) {
    if (number > 0) arguments.insert(arguments.end(), {flag, std::to_string(number)});
  };
  add("--resolution", flags.resolution);
  add("--triangles", flags.triangles);
  add("--texture", flags.texture);
  if (!cameras.empty()) arguments.insert(arguments.end(), {"--camera", cameras});
  if (product.is_path()) arguments.emplace_back("--exported-cameras");
  return arguments;
}

// By the nerf-engine on this machine.
int ExportHere(Session& session, const ExportFlags& flags, const Product& product,
               const v1::CameraPath& path) {
  const absl::StatusOr<ModelSource> source = SourceOf(session, flags);
  if (absl::IsInvalidArgument(source.status())) return session.FailUsage(source.status());
  if (!source.ok()) return session.Fail(source.status());
  const RemovedFile model(product.file + ".safetensors.part");
  absl::Status status =
      session.Blobs(source->name).DownloadToFile(source->blob, model.path, session.stop());
  if (!status.ok()) return session.Fail(status);
  const bool has_path = path.kind_case() != v1::CameraPath::KIND_NOT_SET;
  const RemovedFile cameras(has_path ? product.file + ".cameras.part" : "");
  if (has_path) {
    status = WriteFileAtomically(cameras.path, CameraPathText(path));
    if (!status.ok()) return session.Fail(status);
  }
  const int code = RunLocalEngine(
      session,
      {.arguments = EngineArguments(flags, product, model.path, cameras.path, source->crop),
       .failure = fmt::format("{} was not exported", ShortName(source->name)),
       .unfinished = fmt::format("before the {} was written", product.noun),
       .is_shown = [&](std::string_view line) { return !line.starts_with(product.file + ": "); },
       .is_result = flags.dry_run});
  if (code != kOk || flags.dry_run) return code;
  return PrintExported(session, product, source->name,
                       product.flag == "--viewer" ? "open it in a browser" : "made here");
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
int ExportOnServer(Session& session, const Product& product, const v1::CreateJobRequest& request) {
  const absl::StatusOr<v1::Job> created = CreateJob(session, request);
  if (!created.ok()) return session.Fail(created.status());
  if (const std::string size = SizeAndWhat(*created); !size.empty()) session.Say(size);
  JobFiles files(session, product.file, /*is_file=*/true);
  v1::Job job;
  const int code = AwaitJob(session, created->name(), {.files = &files}, &job);
  if (code != kOk) return code;
  const v1::ExportResult& result = job.export_status().result();
  return PrintExported(session, product, SourceOfJob(job.export_()),
                       product.flag == "--viewer"
                           ? "open it in a browser"
                           : fmt::format("{}; axes: {}", result.words(), result.axes()));
}

// Whether the server makes it; asks it where --where leaves that open.
absl::StatusOr<bool> IsForServer(Session& session, const ExportFlags& flags,
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

int Export(Session& session, const ExportFlags& flags) {
  if (flags.job.empty() == flags.model.empty()) {
    return session.FailUsage(absl::InvalidArgumentError("name one of --model and --job"));
  }
  const absl::StatusOr<Product> product = ProductOf(flags);
  if (!product.ok()) return session.FailUsage(product.status());
  const auto request = RequestOf(session, flags, *product);
  if (!request.ok()) return session.FailUsage(request.status());
  const absl::StatusOr<bool> is_for_server = IsForServer(session, flags, *request);
  if (!is_for_server.ok()) return session.Fail(is_for_server.status());
  if (!*is_for_server) return ExportHere(session, flags, *product, request->job().export_().path());
  if (flags.dry_run) return PrintExpected(session, *request);
  return ExportOnServer(session, *product, *request);
}

// What is written, and the cameras of paths and views.
void AddProductFlags(CLI::App& command, ExportFlags* flags) {
  const auto add_file = [&](const char* flag, std::string* file, const char* text) {
    command.add_option(flag, *file, text)->type_name("FILE");
  };
  add_file("--viewer", &flags->viewer,
           "HTML file to write: the model and a viewer of it, for any browser");
  add_file("--mesh", &flags->mesh, "Mesh to write, .glb or .ply");
  add_file("--points", &flags->points, "Points with normals and colors to write (PLY)");
  add_file("--splats", &flags->splats, "Gaussian splats to write (PLY)");
  add_file("--volume", &flags->volume, "Density and color to write, .vdb or .nvdb");
  add_file("--cameras", &flags->cameras, "Cameras of the photographs to write (transforms.json)");
  add_file("--nerfstudio-path", &flags->nerfstudio_path,
           "Camera path to write for nerfstudio (camera_path.json)");
  add_file("--ngp-path", &flags->ngp_path, "Camera path to write for instant-ngp (base_cam.json)");
  add_file("--views", &flags->views, "Data set of rendered views with depths to write (.zip)");
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
  auto flags = std::make_shared<ExportFlags>();
  command->add_option("--model", flags->model, "Name of a model")->type_name("MODEL");
  command->add_option("--job", flags->job, "JOB/STEP, or JOB for its newest checkpoint")
      ->type_name("JOB");
  AddProductFlags(*command, flags.get());
  command->add_flag("--baked", flags->baked, "Of a viewer: a baked model, too, which phones draw");
  command
      ->add_option(
          "--crop,--box", flags->box,
          "Export what is in this box: center and sides in the data set's frame;\nwith its "
          "turn behind them, a quaternion x,y,z,w; none: all, also where a\nbox is kept with the "
          "model")
      ->type_name("X,Y,Z,SX,SY,SZ|none");
  command
      ->add_option("--frame", flags->frame,
                   "Axes: dataset (its own), blender, unity, unreal, opencv")
      ->check(CLI::IsMember({"dataset", "blender", "unity", "unreal", "opencv"}))
      ->capture_default_str();
  command
      ->add_option("--resolution", flags->resolution,
                   "Cells along the box's longest side (default: 256)")
      ->check(CLI::Range(8, 1024));
  command
      ->add_option("--triangles", flags->triangles,
                   "Simplify a mesh to about this many (default: 200000)")
      ->check(CLI::Range(1, 1'000'000'000));
  command
      ->add_option("--texture", flags->texture,
                   "Texels along a side of a .glb's texture (default: colors of vertices)")
      ->check(CLI::Range(64, 8192));
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
      "  nerfctl export --model mic --viewer mine.html\n"
      "  nerfctl export --model mic --mesh mic.glb --frame blender");
  command->callback([=] {
    flags->has_engine = engine->count() > 0;
    *selected = [flags](Session& s) { return Export(s, *flags); };
  });
}

}  // namespace nerf
