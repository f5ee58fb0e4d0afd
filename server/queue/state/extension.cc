#include "server/queue/state/extension.h"

#include <fmt/format.h>

#include <optional>

#include "common/error_reason.h"
#include "common/messages/training_config.h"
#include "server/queue/jobs/any_training.h"
#include "server/queue/resources/resource_error.h"

namespace nerf {
namespace {

// What the job had trained at its last checkpoint, in the unit of `kind`; nullopt if that is not
// known: samples are counted in the progress, which may be of a later step.
std::optional<double> SpentAt(const Job& job, const CheckpointRecord& last,
                              const std::string& kind) {
  if (kind == "steps") return last.step;
  if (kind == "seconds") return last.seconds;
  const v1::Progress& progress = job.progress.training();
  if (progress.step() != last.step || progress.samples() == 0) return std::nullopt;
  return progress.samples();
}

}  // namespace

absl::Status CheckExtension(const Job& job, const Extension& extension) {
  const std::string name = JobName(job.key);
  const ErrorMetadata state = {{"state", std::string(JobStateName(job.state))}};
  if (job.state == JobState::kFailed)
    return StateConflict(fmt::format("{} is FAILED; retry it first", name), state);
  if (job.state != JobState::kSucceeded && job.state != JobState::kCancelled) {
    return StateConflict(
        fmt::format("{} is {}; only jobs that succeeded or were cancelled are extended", name,
                    JobStateName(job.state)),
        state);
  }
  if (!job.parts.empty()) {
    return StateConflict(
        fmt::format("{} was trained in parts, whose optimizers are not kept; train it anew", name));
  }
  if (job.checkpoints.empty()) return NoCheckpoint(name);
  const auto& [kind, amount] = extension.total;
  const v1::TrainingConfig& config = job.training.config;
  if (kind == "seconds" && !config.has_seconds()) {
    return InvalidFieldsError(
        {{kind, fmt::format("{} has a budget in {}, and its checkpoint stores no training time; "
                            "the new total must be in samples or steps",
                            name, GetBudget(config).value_or(BudgetWords()).kind)}});
  }
  const std::optional<double> spent = SpentAt(job, job.checkpoints.back(), kind);
  if (spent.has_value() && amount <= *spent) {
    return InvalidFieldsError({{kind, fmt::format("must be above the {:.0f} {} that {} has trained",
                                                  *spent, kind, name)}});
  }
  return absl::OkStatus();
}

void Extend(const Extension& extension, TrainingSpec* training) {
  SetBudget(extension.total, &training->config);
  SetBudget(extension.total, &training->requested_config);
  training->extend_capability = fmt::format("{}{}", kExtendPrefix, training->config.method());
}

}  // namespace nerf
