#pragma once

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "common/mutex.h"
#include "worker/mailbox.h"

namespace nerf {

// Blocking work of the agent, by what must not wait for what.
enum class Lane { kFetch, kCheckpoint, kPreview, kRequest };
inline constexpr int kLaneCount = 4;

// Runs blocking work away from the agent's thread.
class TaskRunner {
 public:
  using Action = std::function<void()>;
  virtual ~TaskRunner() = default;

  // Runs `work` after the lane's earlier work, then `done` on the agent's thread. What `work` finds
  // out it leaves in an object that both share.
  virtual void Run(Lane lane, Action work, Action done) = 0;
};

// One thread for each lane. The destructor waits for the work that has begun and drops the rest, so
// stop tokens of running work must be triggered first.
class ThreadTaskRunner final : public TaskRunner {
 public:
  explicit ThreadTaskRunner(Mailbox& mailbox);  // outlives this
  ~ThreadTaskRunner() override;

  void Run(Lane lane, Action work, Action done) override;

 private:
  struct Task {
    Action work, done;
  };
  struct LaneState {
    Mutex mu;
    CondVar changed;
    bool stopping ABSL_GUARDED_BY(mu) = false;
    std::deque<Task> tasks ABSL_GUARDED_BY(mu);
    std::thread thread;  // const after construction
  };
  void RunLane(LaneState& lane);

  Mailbox& mailbox_;
  std::array<LaneState, kLaneCount> lanes_;
};

}  // namespace nerf
