// Random schedules of single jobs and gangs on a fake clock, with and without priorities by which
// they preempt each other. In each of them no part of a gang is ever granted, every job ends, and
// none waits longer than all the others take together.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "server/queue/leases/gang_policy.h"
#include "server/queue/leases/worker_table.h"
#include "server/queue/upkeep/job_upkeep.h"
#include "tests/testing/queue_harness.h"

namespace nerf {
namespace {

// NERF_GANG_SCHEDULES=10000 runs more of them.
int NumberOfSchedules() {
  constexpr int kSchedules = 1000;  // take two seconds
  const char* const wanted = getenv("NERF_GANG_SCHEDULES");
  return wanted != nullptr ? atoi(wanted) : kSchedules;
}

// One schedule: workers that run what they are granted for the time that the job takes, and break
// now and then.
class Schedule {
 public:
  explicit Schedule(uint64_t seed, bool has_priorities = false)
      : random_(seed), has_priorities_(has_priorities), harness_(nullptr, Options()) {
    harness_.AddScene();
    const int n_workers = Draw(2, 5), n_hosts = Draw(1, 2);
    for (int i = 0; i < n_workers; ++i) {
      const std::string id = "worker-" + std::to_string(i);
      workers_[id] = {
          id, {"ngp"}, "host-" + std::to_string(i % n_hosts), DrawDevice(), Draw(0, 1) == 0};
      subscriptions_.push_back(harness_.leases->SubscribeWork(id, [] {}));
      Connect(workers_[id]);
    }
    const int n_jobs = Draw(3, 7);
    for (int i = 0; i < n_jobs; ++i) {
      JobPlan plan{"job-" + std::to_string(i), 1, 1};
      if (Draw(0, 1) == 0) {
        plan.device = DrawDevice();
        if (LargestGang(plan.device) == 0) plan.device = Other(plan.device);
        plan.min = static_cast<uint32_t>(Draw(1, LargestGang(plan.device)));
        plan.max = plan.min + static_cast<uint32_t>(Draw(0, 2));
      }
      if (has_priorities_) plan.priority = Draw(0, 2);
      plan.takes = absl::Seconds(Draw(5, 300));
      // What the job says beforehand may be wrong; some say nothing.
      plan.says = Draw(0, 3) == 0 ? absl::ZeroDuration() : plan.takes * (Draw(1, 30) / 10.0);
      plan.arrives = harness_.clock.Now() + absl::Seconds(Draw(0, 200));
      total_ += plan.takes;
      plans_[plan.id] = plan;
    }
  }

  int n_preempted = 0;

  void Run() {
    const SteadyTime begin = harness_.clock.Now();
    int n_breaks = Draw(0, 2);
    while (n_ended_ < plans_.size()) {
      // A broken or preempted attempt costs at most the longest job.
      const absl::Duration bound =
          total_ + absl::Seconds(300) * (n_breaks + n_broken_) + absl::Seconds(400);
      Submit();
      if (has_priorities_) Preempt();
      // Until nobody is granted anything: members get their grants by their next call.
      while (AskAll() && !testing::Test::HasFailure()) {
      }
      CheckLeases();
      if (testing::Test::HasFailure()) return;
      ASSERT_LT(harness_.clock.Now() - begin, bound) << "a job waits too long";
      if (n_breaks > 0 && !held_.empty() && Draw(0, 3) == 0) {
        --n_breaks;
        ++n_broken_;
        BreakOne();
      } else {
        Advance();
      }
    }
  }

 private:
  struct JobPlan {
    std::string id;
    uint32_t min = 1, max = 1;
    int priority = 0;
    GangDevice device = GangDevice::kCpu;
    absl::Duration takes = {}, says = {};
    SteadyTime arrives = {};
    bool submitted = false;
    SteadyTime ends = {};  // while it runs
  };

  static QueueOptions Options() {
    QueueOptions options;
    options.lease_ttl = absl::Seconds(40);  // Advance renews all
    return options;
  }

  void Connect(const GrantRequest& worker) {
    WorkerDescription description;
    description.id = worker.worker;
    description.session = "process";
    description.device = worker.gang_device == GangDevice::kCuda ? "cuda:0" : "cpu";
    description.host = worker.host;
    description.methods = worker.capabilities;
    description.features = {"ranks", "ranks-cuda"};
    if (worker.ranks_network) description.features.emplace_back("ranks-network");
    connections_[worker.worker] = *table_.Connect(description);
  }

  // Jobs that are asked to stop hand their workers back, now or later.
  void Preempt() {
    for (const auto& [id, worker] : workers_) {
      const auto held = held_.find(id);
      table_.Heard(id, connections_.at(id), /*draining=*/false,
                   held == held_.end() ? std::nullopt : std::optional(held->second.job));
    }
    upkeep_.Tick();
    std::vector<LeaseRef> stopping;
    for (const auto& [worker, lease] : held_) {
      const bool stops = OrderFor(harness_.Get(lease.job.id)) == LeaseOrder::kCheckpointAndStop;
      if (lease.part == 0 && stops && Draw(0, 2) > 0) stopping.push_back(lease);
    }
    for (const LeaseRef& lease : stopping) {
      ASSERT_THAT(harness_.leases->Release(lease), IsOk());
      EXPECT_EQ(harness_.Get(lease.job.id).queue_reason, QueueReason::kPreempted);
      Drop(lease.job.id);
      ++n_broken_;
      ++n_preempted;
    }
  }

  int Draw(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }

  GangDevice DrawDevice() { return Draw(0, 2) == 0 ? GangDevice::kCuda : GangDevice::kCpu; }
  static GangDevice Other(GangDevice device) {
    return device == GangDevice::kCuda ? GangDevice::kCpu : GangDevice::kCuda;
  }

  // The most workers that can train together: larger gangs would rightly wait for ever.
  int LargestGang(GangDevice device) const {
    std::map<std::string, int> pools;
    for (const auto& [id, worker] : workers_) {
      if (worker.gang_device != device) continue;
      ++pools[worker.host];
      if (worker.ranks_network) ++pools["network"];
    }
    int most = 0;
    for (const auto& [pool, n] : pools) most = std::max(most, n);
    return most;
  }

  void Submit() {
    for (auto& [id, plan] : plans_) {
      if (plan.submitted || harness_.clock.Now() < plan.arrives) continue;
      JobSpec spec = harness_.Spec(id);
      spec.training.workers = {plan.min, plan.max};
      spec.training.gang_device = plan.device;
      spec.priority = plan.priority;
      if (plan.says > absl::ZeroDuration()) {
        spec.training.config.set_seconds(absl::ToDoubleSeconds(plan.says));
      }
      ASSERT_THAT(harness_.queue->Create(spec), IsOk());
      plan.submitted = true;
    }
  }

  // Returns whether anybody was granted something.
  bool AskAll() {
    std::vector<std::string> order;
    for (const auto& [id, worker] : workers_) {
      if (!held_.contains(id)) order.push_back(id);
    }
    std::shuffle(order.begin(), order.end(), random_);
    const size_t n_held = held_.size();
    for (const std::string& id : order) {
      const auto grant = harness_.leases->Acquire(workers_[id]);
      EXPECT_THAT(grant, IsOk());
      if (!grant.ok() || !grant->has_value()) continue;
      const LeaseRef& lease = (*grant)->lease;
      held_[id] = lease;
      JobPlan& plan = plans_.at(lease.job.id);
      if (lease.part == 0) plan.ends = harness_.clock.Now() + plan.takes;
    }
    return held_.size() > n_held;
  }

  // Every lease is that of a whole gang, and no worker is in two.
  void CheckLeases() {
    std::set<std::string> busy;
    for (const auto& [id, plan] : plans_) {
      if (!plan.submitted) continue;
      const Job job = harness_.Get(id);
      if (!HoldsLease(job.state)) continue;
      const std::vector<std::string>& members = job.lease.members;
      EXPECT_GE(members.size(), plan.min);
      EXPECT_LE(members.size(), plan.max);
      for (uint32_t rank = 0; rank < members.size(); ++rank) {
        EXPECT_TRUE(busy.insert(members[rank]).second) << members[rank] << " is in two gangs";
        if (plan.max > 1) {
          EXPECT_EQ(workers_[members[rank]].gang_device, plan.device);
        }
        ASSERT_TRUE(held_.contains(members[rank])) << "a member was not told";
        EXPECT_EQ(held_[members[rank]].part, rank);
        EXPECT_EQ(held_[members[rank]].epoch, job.lease.epoch);
      }
    }
    EXPECT_EQ(busy.size(), held_.size()) << "a worker holds what is not its";
  }

  void Drop(const std::string& job) {
    std::erase_if(held_, [&](const auto& entry) { return entry.second.job.id == job; });
  }

  // A member's process starts anew, which ends the attempt for all.
  void BreakOne() {
    auto victim = held_.begin();
    std::advance(victim, Draw(0, static_cast<int>(held_.size()) - 1));
    const std::string worker = victim->first, job = victim->second.job.id;
    ASSERT_THAT(harness_.leases->Attach(worker, std::vector<LeaseRef>{}), IsOk());
    EXPECT_EQ(harness_.StateOf(job), JobState::kQueued);
    Drop(job);
  }

  // To the next end or arrival, or half a minute on; workers ask in between, as heartbeats do.
  void Advance() {
    const SteadyTime now = harness_.clock.Now();
    SteadyTime next = now + absl::Seconds(30);
    for (const auto& [id, plan] : plans_) {
      if (!plan.submitted) next = std::min(next, plan.arrives);
    }
    for (const auto& [worker, lease] : held_) {
      next = std::min(next, plans_.at(lease.job.id).ends);
    }
    harness_.clock.Advance(next - now);
    for (const auto& [worker, lease] : held_) {
      ASSERT_THAT(harness_.leases->Renew(lease, WorkPhase::kRunning), IsOk());
    }
    std::vector<LeaseRef> ending;
    for (const auto& [worker, lease] : held_) {
      if (lease.part == 0 && plans_.at(lease.job.id).ends <= next) ending.push_back(lease);
    }
    for (const LeaseRef& lease : ending) {
      ASSERT_THAT(harness_.leases->Finish(lease, {}), IsOk());
      Drop(lease.job.id);
      ++n_ended_;
    }
    harness_.leases->ExpireLeases();
  }

  std::mt19937_64 random_;
  const bool has_priorities_;
  QueueHarness harness_;
  WorkerTable table_{&harness_.clock, absl::Hours(10)};
  JobUpkeep upkeep_{harness_.state.get(), &table_};
  std::map<std::string, uint64_t> connections_;
  std::map<std::string, GrantRequest> workers_;
  std::vector<std::unique_ptr<WorkSubscription>> subscriptions_;
  std::map<std::string, JobPlan> plans_;
  std::map<std::string, LeaseRef> held_;  // by worker
  absl::Duration total_ = absl::ZeroDuration();
  size_t n_ended_ = 0;
  int n_broken_ = 0;  // attempts, also preempted ones
};

TEST(GangSchedulesTest, RandomSchedulesEndWithoutPartsOfGangsDeadlocksOrEndlessWaits) {
  const int n_schedules = NumberOfSchedules();
  for (int seed = 0; seed < n_schedules; ++seed) {
    SCOPED_TRACE(seed);
    Schedule(static_cast<uint64_t>(seed)).Run();
    if (HasFailure()) return;
  }
}

TEST(GangSchedulesTest, SoDoSchedulesInWhichJobsPreemptEachOther) {
  const int n_schedules = NumberOfSchedules();
  int n_preempted = 0;
  for (int seed = 0; seed < n_schedules; ++seed) {
    SCOPED_TRACE(seed);
    Schedule schedule(static_cast<uint64_t>(seed), /*has_priorities=*/true);
    schedule.Run();
    if (HasFailure()) return;
    n_preempted += schedule.n_preempted;
  }
  EXPECT_GT(n_preempted, n_schedules / 10);
}

// Jobs of one worker come without end and take ten times as long as they say.
TEST(GangSchedulesTest, GangStartsThoughOthersComeWithoutEnd) {
  QueueHarness harness;
  harness.AddScene();
  std::vector<std::unique_ptr<WorkSubscription>> subscriptions;
  for (const char* worker : {"worker-a", "worker-b"}) {
    subscriptions.push_back(harness.leases->SubscribeWork(worker, [] {}));
  }
  const auto ask = [&](const std::string& worker) {
    auto grant = harness.leases->Acquire({worker, {"ngp"}, "host", GangDevice::kCpu});
    EXPECT_THAT(grant, IsOk());
    return grant->has_value() ? std::optional((*grant)->lease) : std::nullopt;
  };
  int n_jobs = 0;
  const auto add = [&] {
    JobSpec spec = harness.Spec("job-" + std::to_string(n_jobs++));
    spec.training.config.set_seconds(10);
    ASSERT_THAT(harness.queue->Create(spec), IsOk());
  };
  add();
  add();
  std::map<std::string, std::pair<LeaseRef, int>> running;  // and the rounds that are left
  for (const char* worker : {"worker-a", "worker-b"}) running[worker] = {*ask(worker), 10};
  running["worker-b"].second = 5;
  JobSpec gang = harness.Spec("gang");
  gang.training.workers = {2, 2};
  ASSERT_THAT(harness.queue->Create(gang), IsOk());
  int n_rounds = 0;  // of 10 s
  for (; n_rounds < 40 && harness.StateOf("gang") == JobState::kQueued; ++n_rounds) {
    add();
    harness.clock.Advance(absl::Seconds(10));
    for (const char* worker : {"worker-a", "worker-b"}) {
      const auto found = running.find(worker);
      if (found != running.end() && --found->second.second > 0) {
        ASSERT_THAT(harness.leases->Renew(found->second.first, WorkPhase::kRunning), IsOk());
        continue;
      }
      if (found != running.end()) {
        ASSERT_THAT(harness.leases->Finish(found->second.first, {}), IsOk());
        running.erase(found);
      }
      if (const auto lease = ask(worker); lease.has_value() && lease->job.id != "gang") {
        running[worker] = {*lease, 10};
      }
    }
  }
  EXPECT_EQ(harness.StateOf("gang"), JobState::kPreparing);
  EXPECT_LE(n_rounds, 20);  // the first jobs' ends, and at most one more that filled in
}

}  // namespace
}  // namespace nerf
