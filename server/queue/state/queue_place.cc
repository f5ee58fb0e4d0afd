#include "server/queue/state/queue_place.h"

#include <algorithm>
#include <string>

#include "server/queue/jobs/job_kind.h"
#include "server/queue/state/quota.h"

namespace nerf {

QueuePlace PlaceOf(const QueueState& state, const Job& job) {
  QueuePlace place;
  const auto found = state.jobs.find(job.key);
  if (found != state.jobs.end() && found->second.job.state == JobState::kQueued) {
    place.aside = std::max(absl::ZeroDuration(), found->second.aside_until - state.clock.Now());
    place.lack = LackText(found->second.lacking);
  }
  const auto ranks = state.ranks.find({job.key.project, std::string(CapabilityOf(job))});
  if (ranks != state.ranks.end()) {
    place.n_ahead = ranks->second.order_of_key({job.priority, job.create_sequence});
  }
  place.quota = WhyNoMoreLeases(state, job.key.project);
  return place;
}

}  // namespace nerf
