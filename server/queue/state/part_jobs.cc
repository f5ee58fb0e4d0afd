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

JobProgress ProgressOfParts(const std::vector<JobEntry*>& parts) {
  constexpr std::string_view kSums[] = {"samples",         "marched", "rays", "samples_per_second",
                                        "rays_per_second", "seconds"};
  JobProgress sum;
  double steps = 0, fraction = 0;
  const auto figure = [](const Job& job, const std::string& name) {
    const auto found = job.progress.figures.find(name);
    return found == job.progress.figures.end() ? 0.0 : found->second;
  };
  for (const JobEntry* part : parts) {
    const Job& job = part->job;
    steps += job.progress.step;
    fraction += job.state == JobState::kSucceeded ? 1 : figure(job, "fraction");
    const bool ended = IsFinal(job.state);
    if (!ended) sum.eta_seconds = std::max(sum.eta_seconds, job.progress.eta_seconds);
    for (const std::string_view name : kSums) {
      const double value = figure(job, std::string(name));
      // What has ended has no rate.
      if (value == 0 || (ended && name.ends_with("_per_second"))) continue;
      sum.figures[std::string(name)] += value;
    }
  }
  if (parts.empty()) return sum;
  const auto n = static_cast<double>(parts.size());
  sum.step = static_cast<uint32_t>(steps / n);
  if (fraction > 0) sum.figures["fraction"] = fraction / n;
  return sum;
}

}  // namespace nerf
