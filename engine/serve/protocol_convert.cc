#include "engine/serve/protocol_convert.h"

#include "common/error_reason.h"
#include "engine/methods/describe/method_descriptions.h"
#include "engine/scene/camera_file.h"
#include "engine/scene/check_report.h"

namespace nerf {
namespace {

std::string ReasonOf(const absl::Status& status) {
  if (const auto found = GetReason(status); found.has_value()) return found->reason;
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return std::string(reason::kFieldInvalid);
    case absl::StatusCode::kNotFound:
      return std::string(reason::kResourceNotFound);
    case absl::StatusCode::kDataLoss:
      return std::string(reason::kCheckpointCorrupt);
    case absl::StatusCode::kResourceExhausted:
      return std::string(reason::kOutOfMemory);
    case absl::StatusCode::kAborted:
      return std::string(reason::kTrainingDiverged);
    default:
      return absl::StatusCodeToString(status.code());
  }
}

}  // namespace

absl::StatusOr<TrainRequest> ToTrainRequest(const protocol::Train& train) {
  std::vector<FieldViolation> violations;
  TrainRequest request;
  request.dataset = train.dataset;
  request.resume = train.resume;
  if (train.resume.empty()) request.init = train.init;
  request.merge = train.merge;
  TrainConfig& config = request.config;
  const protocol::Config& asked = train.config;
  if (!asked.method.empty()) {
    absl::StatusOr<TrainConfig> defaults = DefaultConfig(asked.method);
    if (!defaults.ok()) {
      return InvalidFieldsError({{"method", std::string(defaults.status().message())}});
    }
    config = *std::move(defaults);
  }
  config.seed = asked.seed.value_or(config.seed);
  if (asked.budget.has_value()) {
    config.budget.amount = asked.budget->amount;
    const absl::StatusOr<BudgetKind> kind = ParseBudgetKind(asked.budget->kind);
    if (kind.ok()) {
      config.budget.kind = *kind;
    } else {
      violations.push_back({"budget.kind", "must be steps, samples or seconds"});
    }
  }
  if (!asked.background.empty()) {
    const absl::StatusOr<Background> background = ParseBackground(asked.background);
    if (background.ok()) {
      config.background = *background;
    } else {
      violations.push_back({"background", "must be auto, white, black or random"});
    }
  }
  if (asked.test_every.has_value()) config.test_every = static_cast<int>(*asked.test_every);
  for (const auto& [key, value] : asked.settings) {
    const absl::Status set = SetConfigField(key, value, &config);
    if (!set.ok()) violations.push_back({"settings", std::string(set.message())});
  }
  if (!violations.empty()) return InvalidFieldsError(violations);
  if (train.extend && !train.resume.empty() && asked.budget.has_value())
    request.new_total = config.budget;
  return request;
}

protocol::Config ToProtocol(const TrainConfig& config) {
  protocol::Config result;
  result.method = config.method;
  result.seed = config.seed;
  result.budget = {std::string(BudgetKindName(config.budget.kind)), config.budget.amount};
  result.background = std::string(BackgroundName(config.background));
  result.test_every = static_cast<uint32_t>(config.test_every);
  result.settings = ConfigSettings(config);
  return result;
}

std::vector<protocol::Problem> ToProtocol(const std::vector<SceneProblem>& problems) {
  std::vector<protocol::Problem> result;
  for (const SceneProblem& problem : problems) {
    result.push_back({problem.file, problem.field, problem.message});
  }
  return result;
}

std::vector<protocol::Tensor> TensorsOf(const TensorFile& file) {
  std::vector<protocol::Tensor> result;
  for (const auto& [name, tensor] : file.tensors) {
    result.push_back({name, std::string(DTypeName(tensor.dtype)), tensor.shape});
  }
  return result;
}

protocol::Checked ToChecked(const std::string& id, const SceneDescription& description) {
  const std::string report = CheckReportText(description);
  return {id, description.ok(), report.substr(0, report.find('\n')),
          ToProtocol(description.problems), description.warnings};
}

std::vector<protocol::SceneView> SceneViewsOf(const SceneDescription& description) {
  std::vector<protocol::SceneView> views;
  const auto add = [&](const ViewDescription& description_of_view, bool is_test) {
    const Camera camera = ToOwnFrame(description_of_view.camera, description.geometry.frame);
    protocol::SceneView& view = views.emplace_back();
    view.file = description_of_view.file;
    view.is_test = is_test;
    view.width = static_cast<uint32_t>(camera.width);
    view.height = static_cast<uint32_t>(camera.height);
    view.fl_x = camera.fl_x;
    view.fl_y = camera.fl_y;
    view.cx = camera.cx;
    view.cy = camera.cy;
    view.is_opencv = camera.lens == LensModel::kOpenCv;
    view.k1 = camera.k1;
    view.k2 = camera.k2;
    view.k3 = camera.k3;
    view.p1 = camera.p1;
    view.p2 = camera.p2;
    view.time = camera.time;
    for (const auto& row : camera.camera_to_world.m) {
      for (const float number : row) view.matrix.push_back(number);
    }
  };
  for (const ViewDescription& view : description.test) add(view, true);
  for (const ViewDescription& view : description.train) add(view, false);
  return views;
}

std::vector<protocol::TestViewScore> ToProtocol(const std::vector<ImageScore>& scores) {
  std::vector<protocol::TestViewScore> result;
  for (const ImageScore& score : scores) result.push_back({score.file, score.psnr});
  return result;
}

protocol::Error ToProtocol(const absl::Status& status) {
  return {status.code(), ReasonOf(status), std::string(status.message())};
}

}  // namespace nerf
