#include "server/queue/state/part_jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "common/ids.h"
#include "server/queue/resources/resource_error.h"

namespace nerf {

std::vector<JobEntry*> PartsOfJob(QueueState& state, const Job& job) {
  std::vector<JobEntry*> parts;
  for (const std::string& id : job.parts) {
    JobEntry* const found = state.FindEntry({job.key.project, id});
    if (found != nullptr) parts.push_back(found);
  }
  return parts;
}

bool PartMayStart(const QueueState& state, const Job& job) {
  if (job.part_of.empty()) return true;
  const JobEntry* const whole = state.FindEntry({job.key.project, job.part_of});
  if (whole == nullptr) return true;
  if (whole->job.state != JobState::kQueued) return false;
  size_t n_at_work = 0;
  for (const std::string& id : whole->job.parts) {
    const ResourceKey key = {job.key.project, id};
    const JobEntry* const part = state.FindEntry(key);
    if (part == nullptr || key == job.key) continue;
    // One that is being changed may be on its way to a worker.
    const bool may_begin =
        part->job.state == JobState::kQueued && state.IsClaimed({ClaimKey::Kind::kJob, key});
    n_at_work += HoldsLease(part->job.state) || may_begin ? 1 : 0;
  }
  return n_at_work < whole->job.training.workers.max;
}

absl::Status CheckNoPart(const QueueState& state, const Job& job) {
  const ResourceKey whole = {job.key.project, job.part_of};
  if (job.part_of.empty() || state.FindEntry(whole) == nullptr) return absl::OkStatus();
  return StateConflict(
      fmt::format("{} trains a part of {}; change that job", JobName(job.key), JobName(whole)),
      {{"part_of", JobName(whole)}});
}

std::string NewPartId(const Job& job, size_t index, QueueState& state) {
  constexpr size_t kMaxIdLength = 63;
  const std::string suffix = fmt::format("-part{}", index);
  std::string id = job.key.id.substr(0, kMaxIdLength - suffix.size()) + suffix;
  const auto is_taken = [&] {
    state.mu.AssertHeld();
    const ResourceKey key = {job.key.project, id};
    return key == job.key || state.IsJobTaken(key) ||
           std::find(job.parts.begin(), job.parts.end(), id) != job.parts.end();
  };
  while (is_taken()) id = NewShortId("j", state.random);
  return id;
}

v1::Progress ProgressOfParts(const std::vector<JobEntry*>& parts) {
  v1::Progress sum;
  double steps = 0, fraction = 0;
  for (const JobEntry* part : parts) {
    const v1::Progress& progress = part->job.progress.training();
    steps += progress.step();
    fraction += part->job.state == JobState::kSucceeded ? 1 : progress.fraction();
    sum.set_samples(sum.samples() + progress.samples());
    sum.set_marched(sum.marched() + progress.marched());
    sum.set_rays(sum.rays() + progress.rays());
    sum.set_seconds(sum.seconds() + progress.seconds());
    if (IsFinal(part->job.state)) continue;  // what has ended has no rate
    sum.set_eta_seconds(std::max(sum.eta_seconds(), progress.eta_seconds()));
    sum.set_samples_per_second(sum.samples_per_second() + progress.samples_per_second());
    sum.set_rays_per_second(sum.rays_per_second() + progress.rays_per_second());
  }
  if (parts.empty()) return sum;
  const auto n = static_cast<double>(parts.size());
  sum.set_step(static_cast<uint32_t>(steps / n));
  sum.set_fraction(fraction / n);
  return sum;
}

}  // namespace nerf
