#include "server/queue/state/queue_place.h"

#include <algorithm>
#include <string>

#include "server/queue/kinds/kind_policy.h"
#include "server/queue/state/pose_jobs.h"
#include "server/queue/state/quota.h"

namespace nerf {

QueuePlace PlaceOf(const QueueState& state, const Job& job) {
  QueuePlace place;
  const JobEntry* const found = state.FindEntry(job.key);
  if (found != nullptr && found->job.state == JobState::kQueued) {
    place.aside = std::max(absl::ZeroDuration(), found->aside.until - state.clock.Now());
    place.lack = LackText(found->lacking);
  }
  if (job.awaits_poses) {
    if (const Job* const poses = PosesOf(state, job)) {
      place.poses.emplace();
      place.poses->key = poses->key;
      place.poses->kind = poses->kind;
      place.poses->state = poses->state;
      place.poses->pose.has_films = poses->pose.has_films;
      place.poses->pose.n_masks = poses->pose.n_masks;
      place.poses->pose.into = poses->pose.into;
      place.poses->pose.camera = poses->pose.camera;
      place.poses->pose.mask_below = poses->pose.mask_below;
      place.poses->crashed_on = poses->crashed_on;
      place.poses->progress = poses->progress;
    }
  }
  place.n_ahead = state.index().CountAhead(job);
  place.quota = WhyNoMoreLeases(state, job.key.project);
  return place;
}

}  // namespace nerf
