#pragma once

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "common/mutex.h"
#include "worker/base/mailbox.h"

namespace nerf {

// Kinds of blocking work; work of one lane does not wait for that of another.
enum class Lane { kFetch, kCheckpoint, kPreview, kRequest };
inline constexpr int kLaneCount = 4;

// Runs blocking work away from the agent's thread.
class TaskRunner {
 public:
  using Action = std::function<void()>;
  virtual ~TaskRunner() = default;

  // Runs `work` after the lane's earlier work, then `done` on the agent's thread. Results pass from
  // one to the other in an object that both hold.
  virtual void Run(Lane lane, Action work, Action done) = 0;
};

// One thread for each lane. The destructor waits for running work and drops the rest; request the
// stop of running work first.
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
