#include "engine/tool/protocol_convert.h"

#include "common/error_reason.h"
#include "engine/methods/describe/method_descriptions.h"
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

protocol::Error ToProtocol(const absl::Status& status) {
  return {status.code(), ReasonOf(status), std::string(status.message())};
}

}  // namespace nerf
