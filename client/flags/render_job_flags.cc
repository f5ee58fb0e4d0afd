#include "client/flags/render_job_flags.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "client/flags/names.h"
#include "common/edit_distance.h"
#include "common/files/file_io.h"
#include "common/files/flag_file.h"
#include "common/messages/path_kind.h"
#include "common/problems.h"
#include "common/status_macros.h"
#include "engine/base/config/view_style_check.h"
#include "engine/base/messages/render_check.h"
#include "engine/base/messages/view_flags.h"
#include "engine/base/messages/view_style.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr size_t kMaxKeyframeFileBytes = size_t{16} << 20;
constexpr double kDefaultFov = 50;
constexpr int kDefaultFilmWidth = 640, kDefaultFilmHeight = 480;

absl::StatusOr<v1::PathKind> ParsePath(const std::string& word) {
  const v1::PathKind kind = ParsePathKindWord(word);
  if (kind != v1::PATH_KIND_UNSPECIFIED) return kind;
  return absl::InvalidArgumentError("--path: " + NotOneOf(word, kPathKindWords));
}

absl::Status SetSize(const RenderJobFlags& flags, const ViewStyle& style, v1::RenderSpec* spec) {
  ViewSize size{flags.width, flags.height};
  if (style.panorama.has_value()) {
    NERF_ASSIGN_OR_RETURN(size, PanoramaSize(style.panorama->stereo, size));
  } else {
    if (size.width == 0) size.width = kDefaultFilmWidth;
    if (size.height == 0) size.height = kDefaultFilmHeight;
  }
  spec->set_width(static_cast<uint32_t>(size.width));
  spec->set_height(static_cast<uint32_t>(size.height));
  return absl::OkStatus();
}

absl::Status AddKeyframe(size_t i, const nlohmann::json& json, v1::KeyframePath* path) {
  const auto bad = [i](std::string_view what) {
    return absl::InvalidArgumentError(fmt::format("keyframes[{}].{}", i, what));
  };
  if (!json.is_object() || !json.contains("transform_matrix")) {
    return bad("transform_matrix is missing");
  }
  v1::Keyframe* keyframe = path->add_keyframes();
  keyframe->set_fov_degrees(kDefaultFov);
  if (json.contains("fov")) {
    if (!json["fov"].is_number()) return bad("fov must be a number of degrees");
    keyframe->set_fov_degrees(json["fov"].get<double>());
  }
  const nlohmann::json& rows = json["transform_matrix"];
  if (!rows.is_array() || rows.size() != 4) return bad("transform_matrix must have 4 rows");
  for (const nlohmann::json& row : rows) {
    if (!row.is_array() || row.size() != 4) return bad("transform_matrix must have 4 columns");
    for (const nlohmann::json& number : row) {
      if (!number.is_number()) return bad("transform_matrix must hold numbers");
      keyframe->add_transform_matrix(number.get<double>());
    }
  }
  return absl::OkStatus();
}

absl::Status SetScenePath(const RenderJobFlags& flags, v1::RenderSpec* spec) {
  if (!flags.keyframes.empty()) return absl::OkStatus();
  NERF_ASSIGN_OR_RETURN(const v1::PathKind kind, ParsePath(flags.path));
  spec->mutable_path()->mutable_scene()->set_path(kind);
  spec->mutable_path()->mutable_scene()->set_frames(flags.frames);
  return absl::OkStatus();
}

absl::Status SetKeyframePath(const RenderJobFlags& flags, v1::RenderSpec* spec) {
  if (flags.keyframes.empty()) return absl::OkStatus();
  NERF_ASSIGN_OR_RETURN(v1::KeyframePath path, ReadKeyframes(flags.keyframes));
  path.set_frames(flags.frames);
  path.set_loop(flags.loop);
  *spec->mutable_path()->mutable_keyframes() = std::move(path);
  return absl::OkStatus();
}

// What the server would refuse, by flag.
Problems ProblemsOfFlags(const v1::RenderSpec& spec) {
  constexpr std::string_view kPath = "path.";
  Problems problems;
  for (const Problem& problem : ProblemsOf(spec)) {
    const std::string& field = problem.field;
    const std::string& message = problem.message;
    if (field.ends_with(".frames")) {
      problems.Add("--frames", message);
    } else if (field.starts_with(kPath)) {
      problems.Add("--keyframes", fmt::format("{} {}", field.substr(kPath.size()), message));
    } else if (field == "movie") {
      problems.Add("--channels", fmt::format("a movie {}", message));
    } else {
      problems.Add("--" + field.substr(0, field.find_first_of("[.")), message);
    }
  }
  return problems;
}

}  // namespace

void AddRenderJobFlags(CLI::App& command, RenderJobFlags* flags) {
  command.add_option("model,--model", flags->model, "Name of the model");
  command.add_option("--job", flags->job, "Render a training job's checkpoint: JOB or JOB/STEP");
  command.add_option("--path", flags->path, "auto, orbit, spiral, flyby or cameras")
      ->capture_default_str();
  command
      .add_option("--keyframes", flags->keyframes,
                  "JSON file of cameras that the path passes through")
      ->type_name("FILE");
  command.add_flag("--loop", flags->loop, "The path of --keyframes ends where it began");
  command.add_option("--frames", flags->frames, "Number of frames, at most 3600")
      ->capture_default_str();
  command.add_option("--width", flags->width,
                     "Pixels (default: 640, of a panorama 2048 for each eye)");
  command.add_option("--height", flags->height, "Pixels (default: 480, of a panorama as it fits)");
  command.add_option("--fps", flags->fps, "Frames per second of the movie")->capture_default_str();
  command
      .add_option("--channels", flags->channels,
                  "rgb, rgba (with alpha), rgbaz (of exr: rgba and depth in one file), depth, "
                  "opacity, with commas between")
      ->capture_default_str();
  AddStyleFlags(command, /*capitals=*/true, &flags->style);
  command
      .add_option("--format", flags->format,
                  "png, or exr (linear light; depth in the data set's unit), with --no-movie")
      ->check(CLI::IsMember({"png", "exr"}))
      ->type_name("NAME")
      ->capture_default_str();
  command.add_flag("--images", flags->images, "Keep the frames as files too");
  command.add_flag("--no-movie", flags->no_movie, "Make no movie; implies --images");
  command.add_option("--name", flags->name, "Name shown to people");
  command.add_option("--id", flags->id, "Id of the new job");
}

absl::StatusOr<v1::KeyframePath> ParseKeyframes(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("keyframes") || !json["keyframes"].is_array() ||
      json["keyframes"].empty()) {
    return absl::InvalidArgumentError("it must be a JSON object with a list `keyframes`");
  }
  v1::KeyframePath path;
  for (size_t i = 0; i < json["keyframes"].size(); ++i) {
    NERF_RETURN_IF_ERROR(AddKeyframe(i, json["keyframes"][i], &path));
  }
  return path;
}

absl::StatusOr<v1::KeyframePath> ReadKeyframes(const std::string& file) {
  const auto text = ReadFile(file, kMaxKeyframeFileBytes);
  if (!text.ok()) return FlagFileError("--keyframes", text.status());
  auto path = ParseKeyframes(*text);
  if (path.ok()) return path;
  return absl::InvalidArgumentError(
      fmt::format("--keyframes: {}: {}", file, std::string(path.status().message())));
}

absl::StatusOr<v1::CreateJobRequest> BuildRenderJobRequest(const RenderJobFlags& flags,
                                                           const std::string& project,
                                                           RandomSource& random) {
  v1::CreateJobRequest request;
  Problems problems;
  problems.AddOrAssign(ProjectName(project), request.mutable_parent());
  request.set_request_id(NewUuid4(random));
  request.set_job_id(flags.id);
  v1::RenderSpec& spec = *request.mutable_job()->mutable_render();
  problems.Add(CheckDisplayName("--name", flags.name));
  request.mutable_job()->set_display_name(flags.name);
  if (flags.model.empty() == flags.job.empty()) {
    problems.Add("", "job render needs the name of a model, or --job");
  } else if (!flags.model.empty()) {
    problems.AddOrAssign(ExpandName(ResourceKind::kModel, flags.model, project),
                         spec.mutable_model());
  } else {
    problems.AddOrAssign(ExpandCheckpointName(flags.job, project, /*newest_allowed=*/true),
                         spec.mutable_checkpoint());
  }
  problems.Add(SetScenePath(flags, &spec));
  spec.set_fps(flags.fps);
  spec.set_movie(!flags.no_movie);
  spec.set_images(flags.images || flags.no_movie);
  std::vector<v1::RenderChannel> channels;
  problems.AddOrAssign(ParseChannels(flags.channels), &channels);
  *spec.mutable_channels() = {channels.begin(), channels.end()};
  const bool is_exr = flags.format == "exr";
  spec.set_format(is_exr ? v1::EXR : v1::PNG);
  if (is_exr && !flags.no_movie) {
    problems.Add("--format", "exr: a movie is made of PNG frames; name --no-movie, too");
  }
  ViewStyle style;
  problems.AddOrAssign(ParseStyle(flags.style), &style);
  if (style != ViewStyle()) *spec.mutable_style() = ToMessage(style);
  if (flags.style.crop == kNoCrop) spec.mutable_style()->set_whole(true);
  if (absl::Status size = SetSize(flags, style, &spec); !size.ok()) problems.Add("--width", size);
  NERF_RETURN_IF_ERROR(problems.Result());
  NERF_RETURN_IF_ERROR(SetKeyframePath(flags, &spec));
  NERF_RETURN_IF_ERROR(ProblemsOfFlags(spec).Result());
  return request;
}

}  // namespace nerf
