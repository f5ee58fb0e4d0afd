#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/testing/queue_harness.h"

namespace nerf {

// Everything that readers can get from a queue, as text.
inline std::string DescribeQueue(QueueHarness& harness) {
  std::string text;
  const auto jobs = harness.queue->List({"default", 1000, ""});
  for (const ListedJob& listed : jobs->records) {
    const Job& job = listed.row->job();
    text +=
        fmt::format("{} {} {} w={} e={} a={} c={} s={} n={} p={} ", job.key.id,
                    JobStateName(job.state), QueueReasonName(job.queue_reason), job.lease.holder(),
                    job.lease.epoch, job.attempt, job.crashes_in_row, job.last_event_sequence,
                    job.checkpoints.size(), job.progress.training().step());
    for (const auto& checkpoint : job.checkpoints) {
      text += fmt::format("{}{},", checkpoint.step, checkpoint.promoted ? "*" : "");
    }
    text += "\n";
  }
  const auto scenes = harness.scenes->List({"default", 1000, ""});
  for (const auto& scene : scenes->records) {
    text += "scene " + scene.key.id + "\n";
  }
  const auto models = harness.models->List({"default", 1000, ""});
  for (const auto& model : models->records) {
    text += "model " + model.key.id + "\n";
  }
  const QueueStats stats = harness.queue->Stats();
  return text + fmt::format("queued={} leases={}\n", stats.n_queued, stats.n_leases);
}

// One call. Calls that do not wait for the store return OK even if the store refuses.
struct StoryStep {
  std::function<absl::Status(QueueHarness&)> call;
  bool waits = true;
};

// All calls for two jobs, from creation to deletion. Each step also works after an earlier one
// failed and was repeated.
inline std::vector<StoryStep> QueueStory() {
  const auto lease = [](const std::string& id, uint64_t epoch) {
    return LeaseRef{{"default", id}, "worker-a", epoch};
  };
  return {
      {[](auto& h) {
        SceneSpec spec{"default", "scene", kRequestA, "", {{"a", QueueHarness::Blob("a")}}};
        return h.scenes->Create(spec).status();
      }},
      {[](auto& h) { return h.queue->Create(h.Spec("one")).status(); }},
      {[](auto& h) { return h.queue->Create(h.Spec("two")).status(); }},
      {[](auto& h) { return h.leases->Acquire({"worker-a"}).status(); }},
      {[=](auto& h) { return h.leases->Renew(lease("one", 1), WorkPhase::kRunning).status(); },
       /*waits=*/false},
      {[=](auto& h) {
        return h.leases->CommitCheckpoint(lease("one", 1), QueueHarness::Checkpoint(1)).status();
      }},
      {[=](auto& h) { return h.leases->ReportEngineCrash(lease("one", 1), "x").status(); }},
      {[](auto& h) { return h.leases->Acquire({"worker-a"}).status(); }},
      {[](auto& h) {
         h.clock.Advance(absl::Seconds(31));
         h.Tick();
         return absl::OkStatus();
       },
       /*waits=*/false},
      {[=](auto& h) { return h.leases->Renew(lease("one", 2), WorkPhase::kRunning).status(); },
       /*waits=*/false},
      {[](auto& h) {
        ModelSpec spec{"default", "model", kRequestB, "", {{"default", "one"}, {}}};
        return h.models->Promote(spec).status();
      }},
      {[=](auto& h) { return h.leases->Finish(lease("one", 2), {}).status(); }},
      {[](auto& h) {
        return h.models->Delete({"default", "model"});
      }},
      {[](auto& h) {
        return h.queue->Cancel({"default", "two"}).status();
      }},
      {[](auto& h) {
        return h.queue->Delete({"default", "two"});
      }},
      {[](auto& h) {
        return h.scenes->Delete({"default", "scene"});
      }},
  };
}

}  // namespace nerf
