#include "server/queue/jobs/job_spec.h"

namespace nerf {

void CheckJobNames(const JobSpec& spec, RequestCheck& check) {
  check.RequireId("job_id", spec.id, /*may_be_empty=*/true);
  check.RequireRequestId("request_id", spec.request_id);
  check.RequireDisplayName("job.display_name", spec.display_name);
  check.Add(CheckPriority("job.priority", spec.priority));
  check.Add(CheckLabels("job.labels", spec.labels));
}

Fingerprint FingerprintOfNames(std::string_view kind, const JobSpec& spec) {
  Fingerprint fingerprint;
  fingerprint.Add(kind).Add(spec.id).Add(spec.display_name).Add(std::to_string(spec.priority));
  for (const auto& [key, value] : spec.labels) fingerprint.Add("label").Add(key).Add(value);
  for (const absl::Time deadline : {spec.start_by, spec.end_by}) {
    fingerprint.Add(absl::FormatTime(deadline, absl::UTCTimeZone()));
  }
  return fingerprint;
}

}  // namespace nerf
