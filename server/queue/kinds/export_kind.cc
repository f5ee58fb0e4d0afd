#include <fmt/format.h>

#include <utility>

#include "common/messages/deterministic_bytes.h"
#include "server/queue/jobs/export_features.h"
#include "server/queue/kinds/kind_policy.h"
#include "server/queue/resources/request_check.h"
#include "server/queue/resources/resource_error.h"

namespace nerf {
namespace {

class ExportPolicy : public KindPolicy {
 public:
  ExportPolicy()
      : KindPolicy(
            {.kind = JobKind::kExport, .name = "EXPORT", .id_prefix = "e", .starts_over = true}) {}

  absl::Status CheckSpec(const JobSpec& spec, bool /*validate_only*/) const override {
    RequestCheck check;
    check.Require(spec.model.source.project == spec.project, "job.export.source",
                  "must be of the same project");
    return check.Result();
  }

  std::string FingerprintOf(const JobSpec& spec) const override {
    return FingerprintOfNames("export", spec).Add(DeterministicBytes(spec.exporting)).Hex();
  }

  const ModelSource* SourceOf(const JobSpec& spec) const override { return &spec.model; }

  void UseModel(const ModelSource& source, const FoundModel& found, Job& job) const override {
    job.model = ModelOfJob(kExportFeature, source, found);
    v1::ExportSpec spec = *job.exporting;
    if (UsesCrop(source, found)) *spec.mutable_box() = found.crop;
    if (source.from_checkpoint) spec.set_checkpoint(CheckpointName(source.source, found.step));
    job.exporting = std::move(spec);
  }

  std::string_view CapabilityOf(const Job& job) const override { return job.model.capability(); }

  std::string WhyNoWorker(const Job& job, const Workers& /*workers*/) const override {
    static constexpr std::pair<std::string_view, std::string_view> kLacks[] = {
        {kMoreExportsFeature, "turned boxes, textures and volumes"},
        {kPathExportsFeature, "camera paths and data sets of views"},
        {kBakedExportsFeature, "baked viewers"},
        {kSplatFilesFeature, "splats as SPZ, SOG or GLB"},
        {kNanoVdbFeature, "NanoVDB, and nor have those built without libnanovdb-dev"}};
    std::string message = "no connected worker exports models of its method";
    for (const auto& [feature, lack] : kLacks) {
      if (job.model.feature() == feature)
        message += fmt::format(" as asked; older versions have no {}", lack);
    }
    return message;
  }

  absl::Status TakeResult(const JobOutcome& outcome, Job& job) const override {
    if (!outcome.exported.has_value() || outcome.exported->files().empty()) {
      return StateConflict(fmt::format("no file of {} was named", JobName(job.key)));
    }
    job.export_result = outcome.exported;
    return absl::OkStatus();
  }

  std::vector<JobInput> InputsOf(const Job& job, const SceneRecord* /*scene*/) const override {
    return {{ToBlobRef(job.model.blob()), "its model"}};
  }

  void AddBlobs(const Job& job, std::vector<BlobRef>* blobs) const override {
    if (!IsFinal(job.state)) blobs->push_back(ToBlobRef(job.model.blob()));
    if (!job.export_result.has_value()) return;
    for (const v1::ExportFile& file : job.export_result->files())
      blobs->push_back(ToBlobRef(file.blob()));
  }
};

}  // namespace

const KindPolicy& KindPolicy::Export() {
  static const ExportPolicy policy;
  return policy;
}

}  // namespace nerf
