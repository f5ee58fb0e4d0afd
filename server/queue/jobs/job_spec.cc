#include "server/queue/jobs/job_spec.h"

#include <fmt/format.h>

namespace nerf {

void CheckJobNames(const JobSpec& spec, std::string_view noun, RequestCheck& check) {
  check.RequireId("parent", spec.project);
  check.RequireId(fmt::format("{}_id", noun), spec.id, /*may_be_empty=*/true);
  check.RequireRequestId("request_id", spec.request_id);
  check.RequireDisplayName(fmt::format("{}.display_name", noun), spec.display_name);
  check.Add(CheckPriority(fmt::format("{}.priority", noun), spec.priority));
  check.Add(CheckLabels(fmt::format("{}.labels", noun), spec.labels));
}

}  // namespace nerf
