#include <fmt/format.h>

#include <set>
#include <utility>

#include "common/messages/deterministic_bytes.h"
#include "server/queue/jobs/any_training.h"
#include "server/queue/kinds/kind_policy.h"
#include "server/queue/resources/request_check.h"

namespace nerf {
namespace {

std::string NoWorkerHas(std::string_view method, const KindPolicy::Workers& workers) {
  std::set<std::string> methods;
  for (const WorkerDescription* worker : workers) {
    if (worker->Has(kPosesOnly)) continue;
    methods.insert(worker->methods.begin(), worker->methods.end());
  }
  if (methods.empty()) return "the connected workers take pose jobs alone";
  return fmt::format("no connected worker has method {} (there is {})", method,
                     fmt::join(methods, ", "));
}

class TrainingPolicy : public KindPolicy {
 public:
  TrainingPolicy()
      : KindPolicy({.kind = JobKind::kTraining,
                    .name = "TRAINING",
                    .id_prefix = "j",
                    .has_checkpoints = true,
                    .has_budget = true,
                    .needs_scene = true,
                    .preempts = true,
                    .waits_for_room = true,
                    .may_blame_worker = true}) {}

  absl::Status CheckSpec(const JobSpec& spec, bool validate_only) const override {
    RequestCheck check;
    check.RequireId("job.training.scene", spec.training.scene,
                    /*may_be_empty=*/validate_only || !spec.EarlierJob().empty() ||
                        !spec.training.pose_job.empty());
    check.RequireId("job.training.pose_job", spec.training.pose_job, /*may_be_empty=*/true);
    const std::optional<InitReference>& init = spec.training.init;
    if (init.has_value() && init->IsNamed()) {
      check.Require(init->source.project == spec.project, "job.training.config.init",
                    "must be of the same project");
    }
    return check.Result();
  }

  std::string FingerprintOf(const JobSpec& spec) const override {
    Fingerprint fingerprint = FingerprintOfNames("training", spec);
    fingerprint.Add(spec.training.scene).Add(spec.training.pose_job);
    if (!spec.retry_of.empty()) fingerprint.Add("retry_of").Add(spec.retry_of);
    if (const Extension& extension = spec.extension; !extension.of.empty()) {
      fingerprint.Add("extension_of").Add(extension.of).Add(extension.total.kind);
      fingerprint.Add(fmt::format("{}", extension.total.amount));
    }
    if (const WorkerCount& workers = spec.training.workers; workers != WorkerCount()) {
      fingerprint.Add("workers").Add(uint64_t{workers.min}).Add(uint64_t{workers.max});
    }
    // The config as requested: defaults may change with the server's version.
    fingerprint.Add(DeterministicBytes(spec.training.requested_config))
        .Add(spec.training.init.has_value() ? "init" : "scratch");
    if (spec.training.init.has_value()) {
      fingerprint.Add(static_cast<uint64_t>(spec.training.init->kind))
          .Add(spec.training.init->source.project);
      fingerprint.Add(spec.training.init->source.id)
          .Add(uint64_t{spec.training.init->step})
          .Add(spec.training.init->scope);
    }
    return fingerprint.Hex();
  }

  std::string_view CapabilityOf(const Job& job) const override {
    if (WantsMerge(job) || !job.part_of.empty()) return job.merge_capability;
    return job.training.extend_capability.empty() ? job.training.config.method()
                                                  : job.training.extend_capability;
  }

  std::string WhyNoWorker(const Job& job, const Workers& workers) const override {
    const std::string_view capability = CapabilityOf(job);
    const std::string& method = job.training.config.method();
    if (capability.starts_with(kMergePrefix)) {
      return fmt::format("no connected worker trains parts of method {}", method);
    }
    if (capability.starts_with(kExtendPrefix)) {
      return fmt::format(
          "no connected worker goes on with trainings of method {} beyond their budget; older "
          "versions do not",
          method);
    }
    return NoWorkerHas(capability, workers);
  }

  std::vector<JobInput> InputsOf(const Job& job, const SceneRecord* scene) const override {
    std::vector<JobInput> inputs = KindPolicy::InputsOf(job, scene);
    if (!job.checkpoints.empty()) return inputs;
    for (const BlobRef& model : job.part_models) inputs.push_back({model, "the model of a part"});
    const auto& init = job.training.init;
    if (job.part_models.empty() && init.has_value()) {
      inputs.push_back({init->blob, "the model that it starts from"});
    }
    return inputs;
  }

  void AddBlobs(const Job& job, std::vector<BlobRef>* blobs) const override {
    if (IsFinal(job.state)) return;
    blobs->insert(blobs->end(), job.part_models.begin(), job.part_models.end());
    if (job.training.init.has_value()) blobs->push_back(job.training.init->blob);
  }
};

}  // namespace

const KindPolicy& KindPolicy::Training() {
  static const TrainingPolicy policy;
  return policy;
}

}  // namespace nerf
