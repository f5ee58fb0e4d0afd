#include "worker/engine/engine_convert.h"

#include <algorithm>
#include <cmath>

#include "common/error_reason.h"
#include "common/rpc/camera_path_text.h"
#include "common/rpc/path_kind.h"
#include "common/rpc/proto_figures.h"
#include "common/rpc/rpc_status.h"
#include "common/rpc/training_config.h"

namespace nerf {
namespace {

// The text of a camera file with one frame.
std::string CameraFile(const v1::Camera& camera) {
  v1::CameraPath path;
  *path.mutable_cameras()->add_cameras() = camera;
  return CameraPathText(path);
}

// Sets the fields of `message` that are named like figures of `owner`. Calls otherwise(name, value)
// for figures without a field.
template <typename Otherwise>
void SetFigures(const TrainProgress& progress, ProgressFigure::Owner owner,
                google::protobuf::Message* message, Otherwise otherwise) {
  for (const ProgressFigure& figure : ProgressFigures()) {
    const double value = progress.*figure.value;
    if (figure.owner != owner || !std::isfinite(value)) continue;
    if (!SetFigure(figure.name, value, message)) otherwise(figure.name, value);
  }
}

}  // namespace

namespace {

// The server has checked how many numbers there are.
template <size_t n>
void CopyNumbers(const google::protobuf::RepeatedField<double>& from, double (&to)[n]) {
  if (from.size() == n) std::copy(from.begin(), from.end(), to);
}

ViewStyle ToStyle(const v1::ViewStyle& proto) {
  ViewStyle style;
  if (!proto.background().empty()) {
    double color[3] = {0, 0, 0};
    CopyNumbers(proto.background(), color);
    style.background = {static_cast<float>(color[0]), static_cast<float>(color[1]),
                        static_cast<float>(color[2])};
  }
  if (proto.has_crop()) {
    OwnBox& box = style.crop.emplace();
    CopyNumbers(proto.crop().center(), box.center);
    CopyNumbers(proto.crop().size(), box.size);
    CopyNumbers(proto.crop().turn(), box.turn);
  }
  if (proto.has_panorama() && v1::Panorama::Stereo_IsValid(proto.panorama().stereo())) {
    style.panorama = {static_cast<StereoLayout>(proto.panorama().stereo()),
                      proto.panorama().eye_distance()};
  }
  return style;
}

}  // namespace

protocol::Config ToProtocol(const v1::TrainingConfig& config) {
  protocol::Config result;
  result.method = config.method();
  result.seed = config.seed();
  if (const auto budget = GetBudget(config); budget.has_value()) {
    result.budget = {budget->kind, budget->amount};
  }
  result.background = std::string(BackgroundWord(config.background()));
  if (config.has_test_every()) result.test_every = config.test_every();
  result.settings = {config.settings().begin(), config.settings().end()};
  return result;
}

protocol::Render ToProtocol(const v1::RenderImageRequest& view) {
  protocol::Render render;
  if (view.has_orbit()) {
    render.orbit_index = static_cast<int>(view.orbit().index());
    render.orbit_count = static_cast<int>(view.orbit().count());
    render.path = std::string(PathKindWord(view.orbit().path()));
    render.full_size = view.orbit().full_size();
  } else {
    render.camera = CameraFile(view.camera());
  }
  render.width = static_cast<int>(view.width());
  render.height = static_cast<int>(view.height());
  if (!view.channels().empty()) render.channels.clear();
  for (const int channel : view.channels()) {
    render.channels.emplace_back(ChannelName(static_cast<v1::RenderChannel>(channel)));
  }
  render.jpeg = view.format() == v1::JPEG;
  render.exr = view.format() == v1::EXR;
  render.style = ToStyle(view.style());
  return render;
}

v1::TrainingConfig ToProto(const protocol::Config& config) {
  v1::TrainingConfig proto;
  proto.set_method(config.method);
  proto.set_seed(config.seed.value_or(0));
  if (config.test_every.has_value()) proto.set_test_every(*config.test_every);
  if (config.budget.has_value()) SetBudget({config.budget->kind, config.budget->amount}, &proto);
  if (const auto background = ParseBackgroundWord(config.background)) {
    proto.set_background(*background);
  }
  for (const auto& [key, value] : config.settings) (*proto.mutable_settings())[key] = value;
  return proto;
}

v1::Progress ToProto(const TrainProgress& progress) {
  v1::Progress proto;
  proto.set_step(progress.step);
  SetFigures(progress, ProgressFigure::Owner::kJob, &proto,
             [&](const char* name, double value) { (*proto.mutable_figures())[name] = value; });
  return proto;
}

v1::WorkerMetrics WorkerFigures(const TrainProgress& progress) {
  v1::WorkerMetrics metrics;
  SetFigures(progress, ProgressFigure::Owner::kWorker, &metrics, [](const char*, double) {});
  return metrics;
}

TrainProgress FinalProgress(const TrainSummary& summary) {
  TrainProgress progress;
  progress.step = summary.step;
  progress.samples = summary.samples;
  progress.marched = summary.marched;
  progress.rays = summary.rays;
  progress.samples_per_second = summary.samples_per_second;
  progress.seconds = summary.seconds;
  progress.fraction = 1;
  return progress;
}

v1::SceneProblem ToProto(const protocol::Problem& problem) {
  v1::SceneProblem proto;
  proto.set_file(ToUtf8(problem.file));
  proto.set_field(ToUtf8(problem.field));
  proto.set_message(ToUtf8(problem.message));
  return proto;
}

v1::TensorSpec ToProto(const protocol::Tensor& tensor) {
  v1::TensorSpec proto;
  proto.set_name(tensor.name);
  proto.set_dtype(tensor.dtype);
  for (const uint32_t size : tensor.shape) proto.add_shape(size);
  return proto;
}

absl::Status ToStatus(const protocol::Error& error) {
  const absl::Status status(
      error.code == absl::StatusCode::kOk ? absl::StatusCode::kUnknown : error.code, error.message);
  return error.reason.empty() ? status : WithReason(status, error.reason);
}

absl::Duration FromProto(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

std::string_view ChannelName(v1::RenderChannel channel) {
  switch (channel) {
    case v1::DEPTH:
      return "depth";
    case v1::OPACITY:
      return "opacity";
    case v1::RGBA:
      return "rgba";
    default:
      return "rgb";
  }
}

}  // namespace nerf
