#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nerf/internal/store.pb.h"
#include "nerf/v1/job_service.pb.h"
#include "server/queue/jobs/job.h"
#include "server/queue/resources/resource_key.h"

namespace nerf {

// How a kind of job is written as a message and read from the store; KIND_record.cc has its
// functions. KindPolicy is what the queue knows of the kind.
struct KindRecord {
  v1::Job::SpecCase spec;
  // Sets the kind's spec and status: without `whole` no path, frames and files to pose.
  void (*fill)(const Job& job, bool whole, v1::Job* proto);
  // Sets what the server alone knows.
  void (*store)(const Job& job, internal::JobRecord* record);
  // Reads what both have set. DataLoss STORE_CORRUPT. Requires: job->key is set.
  absl::Status (*load)(const internal::JobRecord& record, Job* job);
};

extern const KindRecord kTrainingRecord, kRenderRecord, kPoseRecord, kExportRecord;

const KindRecord& RecordOf(JobKind kind);
// nullopt without a spec.
std::optional<JobKind> KindOfSpec(const v1::Job& job);

// DataLoss STORE_CORRUPT: "the record of `name` is damaged: `what`".
absl::Status CorruptRecord(std::string_view name, std::string_view what);

// The id in a name, with one of the functions of resource_key.h; "" for no name.
template <typename Parse>
absl::StatusOr<std::string> IdOf(std::string_view field, const std::string& name, Parse parse) {
  if (name.empty()) return "";
  const absl::StatusOr<ResourceKey> key = parse(field, name);
  if (!key.ok()) return CorruptRecord(name, field);
  return key->id;
}

}  // namespace nerf
