#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/files/atomic_file.h"
#include "common/files/made_folder.h"
#include "common/status_macros.h"
#include "engine/base/messages/crop_box.h"
#include "engine/base/messages/export_flags.h"
#include "engine/base/messages/export_options.h"
#include "engine/base/protocol/json.h"
#include "engine/export/files/nvdb_file.h"
#include "engine/program/console/command.h"
#include "engine/program/console/flag_errors.h"
#include "engine/program/console/signal_watcher.h"
#include "engine/program/device/exception_border.h"
#include "engine/program/exports/export_console.h"
#include "engine/program/exports/export_files.h"
#include "engine/program/exports/export_size.h"
#include "engine/program/exports/view_set.h"
#include "engine/program/exports/viewer_export.h"
#include "engine/program/session/loaded_model.h"
#include "fmt/format.h"

namespace nerf {
namespace {

struct EngineExportFlags {
  ExportFlags asked;
  std::string model, camera, dataset;
  int threads = 0;
  double density = 0, time = 0;  // density 0: not given
  bool has_time = false, json = false, exported_cameras = false, dry_run = false;
};

// Errors name every wrong flag.
absl::StatusOr<ExportRequest> RequestOf(EngineExportFlags flags) {
  v1::ExportSpec& spec = flags.asked.spec;
  if (!flags.camera.empty()) spec.mutable_path();
  FlagErrors errors;
  const auto add = [&](std::string_view flag, std::string_view words) {
    errors.Add(absl::InvalidArgumentError(fmt::format("{}: {}", flag, words)));
  };
  errors.Add(CheckExportFlags("--camera", &flags.asked));
  const ExportFormat format = spec.format();
  const auto refuse = [&](bool is_given, std::string_view flag) {
    if (is_given) add(flag, "has no effect on " + v1::ExportSpec::Format_Name(format));
  };
  if (format != v1::ExportSpec::FORMAT_UNSPECIFIED) {
    refuse(!IsMesh(format) && flags.density > 0, "--density");
    refuse(!Honors(format, "path") && !IsSplats(format) && !flags.dataset.empty(), "--dataset");
    if (IsSplats(format) && !flags.dataset.empty() && spec.has_box())
      add("--dataset", "not with --crop: photographs show more than the box");
    refuse(!IsPath(format) && flags.exported_cameras, "--exported-cameras");
    const bool is_still = format == v1::ExportSpec::VIEWER || format == v1::ExportSpec::CAMERAS;
    refuse(is_still && flags.has_time, "--time");
  }
  NERF_RETURN_IF_ERROR(errors.ToStatus());
  ExportRequest request;
  request.spec = WithDefaults(spec);
  static_assert(v1::ExportSpec::OPENCV - v1::ExportSpec::DATASET ==
                static_cast<int>(AxesName::kOpenCv));
  request.axes = static_cast<AxesName>(request.spec.frame() - v1::ExportSpec::DATASET);
  Problems checked;
  if (spec.has_box()) request.own_box = ReadCropBox("box", spec.box(), &checked);
  request.own_density = flags.density;
  request.time = static_cast<float>(flags.time);
  request.camera = flags.camera;
  request.dataset = flags.dataset;
  request.of_exported_cameras = flags.exported_cameras;
  return request;
}

absl::Status RefuseModelItself(const EngineExportFlags& flags, const std::string& file) {
  std::error_code ignored;
  if (!std::filesystem::equivalent(flags.model, file, ignored)) return absl::OkStatus();
  return absl::InvalidArgumentError("--out: " + file + " is the model itself");
}

// That which the file or folder `path` is to appear in.
absl::StatusOr<MadeFolder> MakeFolderOf(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  const std::filesystem::path above = std::filesystem::path(path).parent_path();
  return MadeFolder::Make(above.empty() ? "." : above.string());
}

// Writes the file that `make` makes. Sets *path to where it is.
absl::StatusOr<ExportedFile> WriteFile(const EngineExportFlags& flags, ExportFormat format,
                                       const std::function<absl::StatusOr<ExportedFile>()>& make,
                                       const std::stop_token& stop, std::string* path) {
  std::optional<MadeFolder> folder;
  std::error_code ignored;
  if (path->ends_with('/') || std::filesystem::is_directory(*path, ignored)) {
    NERF_ASSIGN_OR_RETURN(MadeFolder made, MadeFolder::Make(*path));
    folder.emplace(std::move(made));
    *path = std::filesystem::path(*path) / FileKindOf(format).name;
  }
  NERF_RETURN_IF_ERROR(RefuseModelItself(flags, *path));
  // Before the work, so that what cannot be written is refused at once.
  NERF_ASSIGN_OR_RETURN(AtomicFile out, AtomicFile::Create(*path));
  NERF_ASSIGN_OR_RETURN(ExportedFile made, make());
  NERF_RETURN_IF_ERROR(out.Append(made.bytes));
  if (stop.stop_requested()) return absl::CancelledError("the export was interrupted");
  NERF_RETURN_IF_ERROR(out.Commit());
  made.byte_size = made.bytes.size();
  return made;
}

void ReportExported(const v1::ExportSpec& spec, bool json, const std::string& path,
                    const ExportedFile& made, double seconds) {
  if (json) {
    fmt::print("{}", JsonLine({{"event", "done"},
                               {"format", ExportWord(spec.format())},
                               {"file", path},
                               {"vertices", made.n_vertices},
                               {"triangles", made.n_triangles},
                               {"bytes", made.byte_size},
                               {"seconds", JsonNumber(seconds)},
                               {"frame", ExportWord(spec.frame())},
                               {"axes", made.axes},
                               {"words", made.words}}));
    return;
  }
  const std::string size = BytesText(static_cast<double>(made.byte_size));
  if (spec.format() == v1::ExportSpec::VIEWER) {
    fmt::print("{}: {}, {} in {:.1f} s; open it in a browser, also without a network\n", path,
               made.words, size, seconds);
    return;
  }
  fmt::print("{}: {}\n", path, made.words);
  fmt::print("axes: {}; unit: the data set's own; {} in {:.1f} s\n", made.axes, size, seconds);
}

absl::Status Export(const EngineExportFlags& flags, const ExportRequest& request,
                    const std::stop_token& stop) {
  const RealClock clock;
  const SteadyTime begin = clock.Now();
  const ExportFormat format = request.spec.format();
  if (format == v1::ExportSpec::NVDB) NERF_RETURN_IF_ERROR(CanWriteNanoVdb());
  NERF_ASSIGN_OR_RETURN(const ModelFile model,
                        WithModelHint(ReadModelFile(flags.model), flags.model));
  ThreadPool pool(ThreadsFor(flags.threads));
  std::string path = flags.asked.out;
  std::optional<ExportConsole> console(flags.json);
  const auto show = [&](std::string_view step, double share) { console->Show(step, share); };
  std::optional<ViewerExport> viewer;
  ExportSize size;
  if (format == v1::ExportSpec::VIEWER) {
    NERF_ASSIGN_OR_RETURN(ViewerExport prepared,
                          ViewerExport::Prepare(flags.model, model, request, &pool, stop, show));
    viewer.emplace(std::move(prepared));
    size = viewer->Size();
  } else {
    NERF_ASSIGN_OR_RETURN(size, SizeBefore(model, request, &pool, stop));
  }
  if (flags.dry_run && size.bytes <= 0 && !flags.json) fmt::print("its size is not known before\n");
  console->Tell(viewer.has_value() ? viewer->PlanWords() : "", size);
  if (flags.dry_run) return absl::OkStatus();
  NERF_ASSIGN_OR_RETURN(const MadeFolder folder, MakeFolderOf(path));
  ExportedFile made;
  if (format == v1::ExportSpec::VIEWS) {
    NERF_RETURN_IF_ERROR(RefuseModelItself(flags, path));
    NERF_ASSIGN_OR_RETURN(made, MakeViewSet(model, request, path, &pool, stop, show));
  } else {
    const auto make = [&] {
      return viewer.has_value() ? viewer->Make(&pool, stop, show)
                                : MakeExport(model, request, &pool, stop, show);
    };
    NERF_ASSIGN_OR_RETURN(made, WriteFile(flags, format, make, stop, &path));
  }
  console.reset();
  ReportExported(request.spec, flags.json, path, made, absl::ToDoubleSeconds(clock.Now() - begin));
  return absl::OkStatus();
}

int RunExport(const EngineExportFlags& flags) {
  const absl::StatusOr<ExportRequest> request = RequestOf(flags);
  if (!request.ok()) return ReportError(request.status(), flags.json, true);
  SignalWatcher signals;
  const absl::Status status = Guarded([&] { return Export(flags, *request, signals.token()); });
  if (status.ok()) return kOk;
  const int code = ReportError(status, flags.json);
  return signals.exit_code() != 0 ? signals.exit_code() : code;
}

// Of paths and views.
void AddPathFlags(CLI::App* command, EngineExportFlags* flags) {
  command->add_option(
      "--camera", flags->camera,
      "of a path or views: file with the cameras, as `render --camera` reads them (default: "
      "the photographs' cameras)");
  command->add_option("--dataset", flags->dataset,
                      "of a path or views: folder of the data set that the other program has open; "
                      "of splats: the one that the model was trained on, to be fitted to its "
                      "photographs, too");
  command->add_flag("--exported-cameras", flags->exported_cameras,
                    "of a path: if its frame does not follow from the model, take that of a data "
                    "set with the cameras that --format cameras writes");
}

}  // namespace

void AddExportCommand(CLI::App* app, CommandBody* chosen) {
  auto flags = std::make_shared<EngineExportFlags>();
  CLI::App* command = app->add_subcommand(
      "export",
      "Write a model as a mesh, points, splats, a volume or cameras for other programs, or a "
      "viewer");
  command->add_option("MODEL", flags->model, "model or checkpoint file")->required();
  AddExportFlags(*command, "file to write, or a folder for it", /*capitals=*/false, &flags->asked);
  AddAmountOption(command, "--density",
                  "of a mesh's surface, 1 / unit (default: where a 256th of the inner box stops a "
                  "tenth of the light)",
                  &flags->density);
  AddPathFlags(command, flags.get());
  CLI::Option* time = command->add_option("--time", flags->time, "of a model that moves, 0 to 1")
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
      "  nerf-engine export run/model.safetensors --out mine.spz\n"
      "  nerf-engine export run/model.safetensors --out crop.ply --crop 0,0,0.2,1,1,0.6 \\\n"
      "      --resolution 384 --triangles 1M\n"
      "  nerf-engine export run/model.safetensors --out mine.html --baked");
  command->callback([=] {
    flags->has_time = time->count() > 0;
    *chosen = [flags] { return RunExport(*flags); };
  });
}

}  // namespace nerf
