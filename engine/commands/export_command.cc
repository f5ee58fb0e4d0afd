#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "common/atomic_file.h"
#include "common/clock.h"
#include "common/edit_distance.h"
#include "common/made_folder.h"
#include "common/status_macros.h"
#include "engine/commands/command.h"
#include "engine/commands/export_console.h"
#include "engine/commands/export_files.h"
#include "engine/commands/export_size.h"
#include "engine/commands/flag_errors.h"
#include "engine/commands/signal_watcher.h"
#include "engine/commands/view_files.h"
#include "engine/commands/view_set.h"
#include "engine/commands/viewer_command.h"
#include "engine/config/view_style_check.h"
#include "engine/export/nvdb_file.h"
#include "engine/protocol/json.h"
#include "engine/training/exception_border.h"
#include "engine/training/loaded_model.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr int kMinExportResolution = 8, kMaxExportResolution = 1024;

struct ExportFlags {
  std::string model, out, viewer, format, box, camera, dataset, frame = "dataset";
  int resolution = 256, threads = 0, texture = 0;
  double triangles = 200'000, density = 0, time = 0;
  bool has_resolution = false, has_triangles = false, has_density = false, json = false;
  bool baked = false, exported_cameras = false, dry_run = false;
};

// The format that the file's name says, where --format does not.
std::string FormatOf(const ExportFlags& flags) {
  if (!flags.format.empty()) return flags.format;
  const std::string extension = std::filesystem::path(flags.out).extension();
  return extension == ".ply"    ? "ply"
         : extension == ".glb"  ? "glb"
         : extension == ".vdb"  ? "vdb"
         : extension == ".nvdb" ? "nvdb"
         : extension == ".json" ? "cameras"
         : IsArchive(flags.out) ? "views"
                                : "";
}

void CheckFitting(const ExportFlags& flags, const ExportRequest& request, FlagErrors* errors) {
  const ExportFormat format = request.format;
  const bool is_mesh = format == ExportFormat::kPly || format == ExportFormat::kGlb;
  const auto refuse = [&](bool is_given, std::string_view flag) {
    if (!is_given) return;
    errors->Add(absl::InvalidArgumentError(
        fmt::format("{}: has no effect on --format {}", flag, FormatOf(flags))));
  };
  if (!is_mesh) {
    refuse(flags.has_triangles, "--triangles");
    refuse(flags.has_density, "--density");
  }
  if (format != ExportFormat::kGlb) refuse(flags.texture > 0, "--texture");
  const bool is_views = format == ExportFormat::kViews;
  const bool is_path = format == ExportFormat::kNerfstudioPath || format == ExportFormat::kNgpPath;
  refuse(!is_path && !is_views && !flags.camera.empty(), "--camera");
  refuse(!is_path && !is_views && !flags.dataset.empty(), "--dataset");
  refuse(!is_path && flags.exported_cameras, "--exported-cameras");
  refuse(is_path && request.axes != AxesName::kDataset, "--frame");
  if (format != ExportFormat::kCameras && !is_path && !is_views) return;
  refuse(flags.has_resolution, "--resolution");
  refuse(!is_views && !flags.box.empty(), "--crop");
  if (is_path) return;
  if (request.axes == AxesName::kUnity || request.axes == AxesName::kUnreal) {
    errors->Add(absl::InvalidArgumentError(
        fmt::format("--frame: {} is left-handed, cameras are not", flags.frame)));
  }
}

// Errors name every wrong flag.
absl::StatusOr<ExportRequest> RequestOf(const ExportFlags& flags) {
  ExportRequest request;
  FlagErrors errors;
  const std::string format = FormatOf(flags);
  const std::optional<ExportFormat> known = ParseExportFormat(format);
  if (flags.out.empty()) errors.Add(absl::InvalidArgumentError("--out: is empty"));
  if (format.empty()) {
    errors.Add(absl::InvalidArgumentError(
        "--format is required: ply, glb, points, splats, vdb, nvdb, cameras, "
        "nerfstudio-path, ngp-path or views"));
  } else if (!known.has_value()) {
    errors.Add(absl::InvalidArgumentError("--format: " + NotOneOf(format, kExportFormats)));
  }
  const std::optional<AxesName> axes = ParseAxesName(flags.frame);
  if (!axes.has_value()) {
    errors.Add(absl::InvalidArgumentError("--frame: " + NotOneOf(flags.frame, kAxesNames)));
  }
  if (!flags.box.empty()) {
    const absl::StatusOr<OwnBox> box = ParseOwnBox("--crop", flags.box);
    errors.Add(box.status());
    if (box.ok()) request.own_box = *box;
  }
  request.format = known.value_or(request.format);
  request.axes = axes.value_or(request.axes);
  if (known.has_value()) CheckFitting(flags, request, &errors);
  NERF_RETURN_IF_ERROR(errors.ToStatus());
  request.resolution = flags.resolution;
  request.n_triangles = static_cast<size_t>(std::min(flags.triangles, 1e9));
  request.own_density = flags.density;
  request.time = static_cast<float>(flags.time);
  request.texture_size = flags.texture;
  request.camera = flags.camera;
  request.dataset = flags.dataset;
  request.of_exported_cameras = flags.exported_cameras;
  return request;
}

absl::Status RefuseModelItself(const ExportFlags& flags, const std::string& file) {
  std::error_code ignored;
  if (!std::filesystem::equivalent(flags.model, file, ignored)) return absl::OkStatus();
  return absl::InvalidArgumentError("--out: " + file + " is the model itself");
}

using ShowProgress = std::function<void(std::string_view step, double share)>;

// Writes the file. Sets *path to where it is.
absl::StatusOr<ExportedFile> WriteFile(const ExportFlags& flags, const ExportRequest& request,
                                       const ModelFile& model, ThreadPool* pool,
                                       const std::stop_token& stop, const ShowProgress& show,
                                       std::string* path) {
  std::optional<MadeFolder> folder;
  std::error_code ignored;
  if (path->ends_with('/') || std::filesystem::is_directory(*path, ignored)) {
    NERF_ASSIGN_OR_RETURN(MadeFolder made, MadeFolder::Make(*path));
    folder.emplace(std::move(made));
    *path = std::filesystem::path(*path) / ExportFileName(request.format);
  }
  NERF_RETURN_IF_ERROR(RefuseModelItself(flags, *path));
  // Before the work, so that what cannot be written is refused at once.
  NERF_ASSIGN_OR_RETURN(AtomicFile out, AtomicFile::Create(*path));
  NERF_ASSIGN_OR_RETURN(ExportedFile made, MakeExport(model, request, pool, stop, show));
  NERF_RETURN_IF_ERROR(out.Append(made.bytes));
  if (stop.stop_requested()) return absl::CancelledError("the export was interrupted");
  NERF_RETURN_IF_ERROR(out.Commit());
  made.byte_size = made.bytes.size();
  return made;
}

void ReportExported(const ExportFlags& flags, const std::string& path, const ExportedFile& made,
                    double seconds) {
  if (flags.json) {
    fmt::print("{}", JsonLine({{"event", "done"},
                               {"format", FormatOf(flags)},
                               {"file", path},
                               {"vertices", made.n_vertices},
                               {"triangles", made.n_triangles},
                               {"bytes", made.byte_size},
                               {"seconds", JsonNumber(seconds)},
                               {"frame", flags.frame},
                               {"axes", made.axes},
                               {"words", made.words}}));
    return;
  }
  fmt::print("{}: {}\n", path, made.words);
  fmt::print("axes: {}; unit: the data set's own; {} in {:.1f} s\n", made.axes,
             BytesText(static_cast<double>(made.byte_size)), seconds);
}

absl::Status Export(const ExportFlags& flags, const ExportRequest& request,
                    const std::stop_token& stop) {
  const RealClock clock;
  const SteadyTime begin = clock.Now();
  if (request.format == ExportFormat::kNvdb) NERF_RETURN_IF_ERROR(CanWriteNanoVdb());
  NERF_ASSIGN_OR_RETURN(const ModelFile model,
                        WithModelHint(ReadModelFile(flags.model), flags.model));
  ThreadPool pool(ThreadsFor(flags.threads));
  std::string path = flags.out;
  std::optional<ExportConsole> console(flags.json);
  const auto show = [&](std::string_view step, double share) { console->Show(step, share); };
  NERF_ASSIGN_OR_RETURN(const ExportSize size, SizeBefore(model, request, &pool, stop));
  if (flags.dry_run && size.bytes <= 0 && !flags.json) fmt::print("its size is not known before\n");
  console->Tell("", size);
  if (flags.dry_run) return absl::OkStatus();
  if (request.format == ExportFormat::kViews) NERF_RETURN_IF_ERROR(RefuseModelItself(flags, path));
  NERF_ASSIGN_OR_RETURN(const ExportedFile made,
                        request.format == ExportFormat::kViews
                            ? MakeViewSet(model, request, path, &pool, stop, show)
                            : WriteFile(flags, request, model, &pool, stop, show, &path));
  console.reset();
  ReportExported(flags, path, made, absl::ToDoubleSeconds(clock.Now() - begin));
  return absl::OkStatus();
}

int RunExport(const ExportFlags& flags) {
  const absl::StatusOr<ExportRequest> request = RequestOf(flags);
  if (!request.ok()) return ReportError(request.status(), flags.json, true);
  SignalWatcher signals;
  const absl::Status status = Guarded([&] { return Export(flags, *request, signals.token()); });
  if (status.ok()) return kOk;
  const int code = ReportError(status, flags.json);
  return signals.exit_code() != 0 ? signals.exit_code() : code;
}

// Of paths and views.
void AddPathFlags(CLI::App* command, ExportFlags* flags) {
  command->add_option(
      "--camera", flags->camera,
      "of a path or views: file with the cameras, as `render --camera` reads them (default: "
      "the photographs' cameras)");
  command->add_option("--dataset", flags->dataset,
                      "of a path or views: folder of the data set that the other program has open");
  command->add_flag("--exported-cameras", flags->exported_cameras,
                    "of a path: if its frame does not follow from the model, take that of a data "
                    "set with the cameras that --format cameras writes");
}

}  // namespace

void AddExportCommand(CLI::App* app, CommandBody* chosen) {
  auto flags = std::make_shared<ExportFlags>();
  CLI::App* command = app->add_subcommand(
      "export",
      "Write a model as a mesh, points, splats, a volume or cameras for other programs, or a "
      "viewer");
  command->add_option("MODEL", flags->model, "model or checkpoint file")->required();
  CLI::Option* out = command->add_option("--out", flags->out, "file to write, or a folder for it");
  CLI::Option* viewer =
      command
          ->add_option(
              "--viewer", flags->viewer,
              "HTML file to write: the model and a viewer of it, for browsers with WebGL 2")
          ->excludes(out);
  command
      ->add_flag("--baked", flags->baked,
                 "of a viewer: a baked model, too, that phones draw; alone where both would have "
                 "more than 25 MB")
      ->needs(viewer);
  command->add_option("--format", flags->format,
                      "ply or glb (mesh), points or splats (PLY), vdb or nvdb (volume), cameras "
                      "(transforms.json), nerfstudio-path (camera_path.json), ngp-path "
                      "(base_cam.json), views (a folder or .zip: a data set of rendered views with "
                      "depths); default: what the name of --out ends in");
  command->add_option("--crop,--box", flags->box,
                      "x,y,z,sx,sy,sz: export what is in this box, center and sides in the data "
                      "set's frame and unit; with its turn behind them, a quaternion x,y,z,w "
                      "(default: what the inner box holds)");
  CLI::Option* resolution =
      command
          ->add_option("--resolution", flags->resolution,
                       "cells along the box's longest side; points and splats: one a cell")
          ->check(CLI::Range(kMinExportResolution, kMaxExportResolution))
          ->capture_default_str();
  CLI::Option* triangles = AddAmountOption(
      command, "--triangles", "simplify a mesh to about this many, such as 50000 (default: 200000)",
      &flags->triangles);
  CLI::Option* density = AddAmountOption(
      command, "--density",
      "of a mesh's surface, 1 / unit (default: where a 256th of the inner box stops a tenth of the "
      "light)",
      &flags->density);
  command
      ->add_option("--texture", flags->texture,
                   "texels along a side of a GLB's texture (default: colors of vertices)")
      ->check(CLI::Range(kMinTextureSize, kMaxTextureSize));
  command
      ->add_option("--frame", flags->frame,
                   "axes: dataset (its own), blender, unity, unreal or opencv")
      ->capture_default_str();
  AddPathFlags(command, flags.get());
  command->add_option("--time", flags->time, "of a model that moves, 0 to 1")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command->add_flag("--dry-run", flags->dry_run, "tell the file's size and write nothing");
  command->add_option("--threads", flags->threads, "threads (default: one for each core)")
      ->check(CLI::Range(0, 1024));
  command->add_flag("--json", flags->json, "one JSON object a line on stdout");
  command->footer(
      "Examples:\n"
      "  nerf-engine export run/model.safetensors --out mesh.glb --frame blender\n"
      "  nerf-engine export run/model.safetensors --out exports/ --format splats\n"
      "  nerf-engine export run/model.safetensors --out crop.ply --crop 0,0,0.2,1,1,0.6 \\\n"
      "      --resolution 384 --triangles 1M\n"
      "  nerf-engine export run/model.safetensors --viewer mine.html --baked");
  command->callback([=] {
    if (out->count() + viewer->count() == 0) throw CLI::RequiredError("--out or --viewer");
    if (viewer->count() > 0) {
      const ViewerFlags viewed{flags->model, flags->viewer,  flags->box, flags->threads,
                               flags->baked, flags->dry_run, flags->json};
      *chosen = [viewed] { return RunViewerExport(viewed); };
      return;
    }
    flags->has_resolution = resolution->count() > 0;
    flags->has_triangles = triangles->count() > 0;
    flags->has_density = density->count() > 0;
    *chosen = [flags] { return RunExport(*flags); };
  });
}

}  // namespace nerf
