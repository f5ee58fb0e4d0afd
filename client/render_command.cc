#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>

#include "absl/strings/str_split.h"
#include "client/commands.h"
#include "client/contact_sheet.h"
#include "client/depth_spool.h"
#include "client/names.h"
#include "client/progress_display.h"
#include "client/resource_printers.h"
#include "client/session.h"
#include "client/text_format.h"
#include "common/atomic_file.h"
#include "common/counted.h"
#include "common/error_reason.h"
#include "common/exit_code.h"
#include "engine/config/view_limits.h"
#include "engine/scene/camera_file.h"
#include "fmt/format.h"
#include "nerf/v1/render_service.grpc.pb.h"

namespace nerf {
namespace {

// Tries of a view in all, where the worker was lost on the way or the server away. The channel does
// not repeat renders by itself: a view that ends its engine must not do so over and over.
constexpr int kMaxAttempts = 4;

struct RenderFlags {
  std::string model, checkpoint, job;
  std::string camera;
  uint32_t orbit = 0;
  uint32_t width = 0, height = 0;
  std::string channels = "rgb";
  std::string format = "png";
  std::string out;
  bool sheet = false;
};

struct Channel {
  const char* name;
  v1::RenderChannel value;
};
constexpr Channel kChannels[] = {{"rgb", v1::RGB}, {"depth", v1::DEPTH}, {"opacity", v1::OPACITY}};

absl::StatusOr<std::vector<Channel>> ParseChannels(const std::string& text) {
  std::vector<Channel> channels;
  for (const std::string& name : std::vector<std::string>(absl::StrSplit(text, ','))) {
    const auto known = std::find_if(std::begin(kChannels), std::end(kChannels),
                                    [&](const Channel& channel) { return channel.name == name; });
    if (known == std::end(kChannels)) {
      return absl::InvalidArgumentError(
          fmt::format("--channels: '{}' is not one of rgb, depth, opacity", name.substr(0, 64)));
    }
    for (const Channel& channel : channels) {
      if (channel.value == known->value) {
        return absl::InvalidArgumentError(fmt::format("--channels: {} is given twice", name));
      }
    }
    channels.push_back(*known);
  }
  return channels;
}

v1::Camera ToProto(const Camera& camera) {
  v1::Camera proto;
  proto.set_width(static_cast<uint32_t>(std::max(0, camera.width)));
  proto.set_height(static_cast<uint32_t>(std::max(0, camera.height)));
  proto.set_fl_x(camera.fl_x);
  proto.set_fl_y(camera.fl_y);
  proto.set_cx(camera.cx);
  proto.set_cy(camera.cy);
  proto.set_lens(camera.lens == LensModel::kOpenCv ? v1::LENS_MODEL_OPENCV
                                                   : v1::LENS_MODEL_PINHOLE);
  proto.set_k1(camera.k1);
  proto.set_k2(camera.k2);
  proto.set_k3(camera.k3);
  proto.set_p1(camera.p1);
  proto.set_p2(camera.p2);
  for (int row = 0; row < 3; ++row) {
    for (int column = 0; column < 4; ++column) {
      proto.add_transform_matrix(camera.camera_to_world.m[row][column]);
    }
  }
  for (const double value : {0.0, 0.0, 0.0, 1.0}) proto.add_transform_matrix(value);
  return proto;
}

// What is rendered from. Exactly one of the three flags is set.
absl::Status SetSource(const RenderFlags& flags, const std::string& project,
                       v1::RenderImageRequest* request) {
  absl::StatusOr<std::string> name;
  if (!flags.model.empty()) {
    name = ExpandName(ResourceKind::kModel, flags.model, project);
    if (name.ok()) request->set_model(*name);
  } else if (!flags.checkpoint.empty()) {
    name = ExpandCheckpointName(flags.checkpoint, project, /*newest_allowed=*/false);
    if (name.ok()) request->set_checkpoint(*name);
  } else if (!flags.job.empty()) {
    name = ExpandName(ResourceKind::kJob, flags.job, project);
    if (name.ok()) request->set_training_job(*name);
  } else {
    return absl::InvalidArgumentError("render needs one of --model, --checkpoint and --job");
  }
  return name.status();
}

// Renders one view; takes it up again as kMaxAttempts says.
absl::StatusOr<v1::RenderImageResponse> RenderView(Session& session, v1::RenderService::Stub& stub,
                                                   const v1::RenderImageRequest& request) {
  absl::Duration delay = session.io().first_retry_delay;
  for (int attempt = 1;; ++attempt) {
    absl::StatusOr<v1::RenderImageResponse> response =
        session.Call(stub, &v1::RenderService::Stub::RenderImage, request, session.WorkLimit());
    if (!absl::IsUnavailable(response.status()) || attempt == kMaxAttempts) return response;
    if (!session.Sleep(delay)) return response;
    delay *= 2;
  }
}

// Writes the images of one view under the names that nerf-engine gives them; depth waits in *depths
// for the other views.
absl::Status WriteView(const std::string& out, size_t index, const std::vector<Channel>& channels,
                       const char* ending, const v1::RenderImageResponse& response,
                       DepthSpool* depths, std::vector<std::string>* written) {
  for (const Channel& channel : channels) {
    const auto image =
        std::find_if(response.images().begin(), response.images().end(),
                     [&](const auto& candidate) { return candidate.channel() == channel.value; });
    if (image == response.images().end() || image->content().empty()) {
      return absl::InternalError(fmt::format("the server sent no {} image", channel.name));
    }
    const std::string path = fmt::format("{}/{}_{:04}.{}", out, channel.name, index, ending);
    const absl::Status status = channel.value == v1::DEPTH
                                    ? depths->Append(image->content(), response.far())
                                    : WriteFileAtomically(path, image->content());
    if (!status.ok()) return status;
    if (channel.value != v1::DEPTH) written->push_back(path);
  }
  return absl::OkStatus();
}

void PrintWritten(const Printer& printer, const std::vector<std::string>& written,
                  const std::string& out, size_t n_views, double far) {
  nlohmann::ordered_json report;
  switch (printer.format) {
    case OutputFormat::kTable:
      printer.out << fmt::format("{}, {} in {}\n", Counted(n_views, "view"),
                                 Counted(written.size(), "file"), PlainText(out));
      return;
    case OutputFormat::kName:
      for (const std::string& path : written) printer.out << path << '\n';
      return;
    case OutputFormat::kJson:
    case OutputFormat::kJsonLines:
      report["views"] = n_views;
      report["far"] = far;
      report["files"] = written;
      printer.out << report.dump(printer.format == OutputFormat::kJson ? 2 : -1, ' ', false,
                                 nlohmann::json::error_handler_t::replace)
                  << '\n';
      return;
  }
}

int Render(Session& session, const RenderFlags& flags) {
  v1::RenderImageRequest request;
  if (absl::Status status = SetSource(flags, session.flags().project, &request); !status.ok()) {
    return session.FailUsage(status);
  }
  const absl::StatusOr<std::vector<Channel>> channels = ParseChannels(flags.channels);
  if (!channels.ok()) return session.FailUsage(channels.status());
  const bool depth = std::any_of(channels->begin(), channels->end(),
                                 [](const Channel& c) { return c.value == v1::DEPTH; });
  const bool jpeg = flags.format == "jpeg" || flags.format == "jpg";
  if (!jpeg && flags.format != "png") {
    return session.FailUsage(absl::InvalidArgumentError(
        fmt::format("--format: '{}' is not one of png, jpeg", flags.format.substr(0, 64))));
  }
  if (jpeg && depth) {
    return session.FailUsage(
        absl::InvalidArgumentError("--format: depth has 16 bits and needs png, not jpeg"));
  }
  const bool color = std::any_of(channels->begin(), channels->end(),
                                 [](const Channel& c) { return c.value == v1::RGB; });
  if (flags.sheet && !color) {
    return session.FailUsage(absl::InvalidArgumentError("--sheet: needs rgb among --channels"));
  }
  if (flags.camera.empty() == (flags.orbit == 0)) {
    return session.FailUsage(absl::InvalidArgumentError("render needs --camera or --orbit"));
  }
  std::vector<Camera> cameras;
  if (!flags.camera.empty()) {
    // Frames that state no size, as Blender's, are seen at the one that is asked for.
    absl::StatusOr<std::vector<Camera>> read = ReadCameraFile(
        flags.camera, {static_cast<int>(flags.width), static_cast<int>(flags.height)});
    if (!read.ok()) return session.Fail(read.status());
    cameras = *std::move(read);
    if (cameras.empty()) {
      return session.Fail(absl::InvalidArgumentError(flags.camera + ": holds no frames"));
    }
  }

  for (const Channel& channel : *channels) request.add_channels(channel.value);
  request.set_format(jpeg ? v1::JPEG : v1::PNG);
  request.set_width(flags.width);
  request.set_height(flags.height);

  std::string out = flags.out;
  while (out.size() > 1 && out.back() == '/') out.pop_back();
  std::error_code error;
  const bool made = std::filesystem::create_directories(out, error);
  if (error || !std::filesystem::is_directory(out, error)) {
    return session.FailUsage(absl::InvalidArgumentError(
        fmt::format("--out: {} is no folder and cannot be made one", flags.out)));
  }

  const size_t n_views = cameras.empty() ? flags.orbit : cameras.size();
  const auto stub = session.Stub<v1::RenderService>();
  ProgressDisplay display(session.io(), session.flags().progress);
  DepthSpool depths;
  std::vector<std::string> written;
  absl::Status status;
  // The first view may take long.
  if (session.flags().progress == ProgressMode::kBar) {
    display.Update(
        {.label = fmt::format("render  0/{} views", n_views), .details = "", .json = ""});
  }
  for (size_t i = 0; i < n_views && status.ok(); ++i) {
    if (cameras.empty()) {
      request.mutable_orbit()->set_index(static_cast<uint32_t>(i));
      request.mutable_orbit()->set_count(flags.orbit);
    } else {
      *request.mutable_camera() = ToProto(cameras[i]);
    }
    const absl::StatusOr<v1::RenderImageResponse> response = RenderView(session, *stub, request);
    status = response.ok()
                 ? WriteView(out, i, *channels, jpeg ? "jpg" : "png", *response, &depths, &written)
                 : response.status();
    if (!status.ok()) {
      display.Clear();
      if (i > 0) session.Say(fmt::format("{} of {} views were rendered", i, n_views));
      break;
    }
    display.Update(
        {.fraction = static_cast<double>(i + 1) / static_cast<double>(n_views),
         .label = fmt::format("render  {}/{} views", i + 1, n_views),
         .details = fmt::format("{}x{}  {:.2f} s", response->width(), response->height(),
                                response->seconds()),
         .json = fmt::format(R"({{"event":"render","view":{},"views":{}}})", i + 1, n_views)});
  }
  if (status.ok() && depth) status = depths.WriteImages(out, &written);
  if (!status.ok()) {
    if (made && written.empty()) std::filesystem::remove(out, error);  // only where it is empty
    return session.Fail(status);
  }
  display.Finish();
  if (flags.sheet) {
    std::vector<std::string> views;
    std::copy_if(written.begin(), written.end(), std::back_inserter(views),
                 [](const std::string& path) {
                   return std::filesystem::path(path).filename().string().starts_with("rgb_");
                 });
    const std::string sheet = (std::filesystem::path(out) / "sheet.png").string();
    if (status = WriteContactSheet(views, sheet); !status.ok()) return session.Fail(status);
    written.push_back(sheet);
  }
  PrintWritten(session.printer(), written, flags.out, n_views, depths.far());
  return kOk;
}

}  // namespace

void AddRenderCommand(CLI::App& app, Command* selected) {
  CLI::App* render = app.add_subcommand("render", "Render views of a model, checkpoint or job");
  auto flags = std::make_shared<RenderFlags>();
  CLI::Option* model =
      render->add_option("--model", flags->model, "Render this model")->type_name("NAME");
  CLI::Option* checkpoint =
      render->add_option("--checkpoint", flags->checkpoint, "Render this checkpoint, JOB/STEP")
          ->type_name("NAME");
  CLI::Option* job =
      render->add_option("--job", flags->job, "Render a job as it is now")->type_name("NAME");
  model->excludes(checkpoint)->excludes(job);
  checkpoint->excludes(model)->excludes(job);
  job->excludes(model)->excludes(checkpoint);
  CLI::Option* camera = render
                            ->add_option("--camera", flags->camera,
                                         "All frames of a transforms.json-like file, or the test "
                                         "views\nof a data set's folder")
                            ->type_name("FILE");
  CLI::Option* orbit = render->add_option("--orbit", flags->orbit, "N views around the scene")
                           ->type_name("N")
                           ->check(CLI::Range(1, kMaxOrbitViews));
  camera->excludes(orbit);
  orbit->excludes(camera);
  render->add_option("--width", flags->width, "Width in pixels (default: the camera's)")
      ->type_name("PIXELS")
      ->check(CLI::Range(1, kMaxViewSide));
  render->add_option("--height", flags->height, "Height in pixels (default: the camera's)")
      ->type_name("PIXELS")
      ->check(CLI::Range(1, kMaxViewSide));
  render->add_option("--channels", flags->channels, "Any of rgb, depth, opacity, with commas")
      ->type_name("LIST")
      ->capture_default_str();
  render->add_option("--format", flags->format, "png or jpeg")
      ->type_name("NAME")
      ->capture_default_str();
  render->add_option("--out", flags->out, "Folder for the images; made where it is missing")
      ->type_name("DIR")
      ->required();
  render->add_flag("--sheet", flags->sheet,
                   "Also write all color views into one picture, sheet.png");
  render->footer(
      "The images of one view together may have 3 MiB (a PNG of 1920x1080 comes near); JPEG, "
      "fewer\n"
      "channels or a smaller view fit more. Larger views: nerfctl model download, then\n"
      "nerf-engine render.\n"
      "Examples:\n"
      "  nerfctl render --model mic --orbit 8 --out views --sheet\n"
      "  nerfctl render --job j-7f3k2c81 --camera examples/mic/transforms_test.json \\\n"
      "      --width 400 --height 400 --channels rgb,depth --out views\n"
      "  nerfctl render --job j-7f3k2c81 --camera photos --out views");
  render->callback([=] { *selected = [flags](Session& s) { return Render(s, *flags); }; });
}

}  // namespace nerf
