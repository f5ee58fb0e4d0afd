#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/clock.h"
#include "nerf/internal/engine.pb.h"
#include "worker/base/mailbox.h"
#include "worker/base/task_runner.h"
#include "worker/engine/engine.h"
#include "worker/engine/engine_room.h"
#include "worker/engine/engine_supervisor.h"

namespace nerf {

struct EnginePoolOptions {
  EngineSupervisorOptions engine;
  std::string folder;  // for the rooms; exists, and is empty
  // An engine that no request was sent to for this long may be given to another project at once; a
  // live view leaves shorter pauses between its frames.
  absl::Duration quiet_time = absl::Seconds(1);
  // Requests of a project keep their engine for this long while others wait for it.
  absl::Duration turn = absl::Seconds(5);
  // The second engine ends when nobody has asked it for this long.
  absl::Duration spare_idle_time = absl::Minutes(1);
  int max_failed_starts = 5;  // in a row; then the engine is given up
};

// The engine processes of a worker: one, and a second one while two projects are at work. An engine
// works for one project in its life, in the room of that project, so that what it keeps in memory
// or leaves in files never reaches another project:
//   - work of a project goes to the engine that has its room, which stays warm;
//   - an engine that has had no work yet takes that of any project;
//   - a request of another project gets the second engine, so that it disturbs neither a job nor a
//     live view; a job gets an engine that has nothing to do, else the second one;
//   - if both are busy, a request waits for a turn of the one without a job, whose process is then
//     replaced by a new one.
// Engines are numbers from 0. Used from the agent's thread.
class EnginePool {
 public:
  static constexpr int kEngines = 2;
  struct Listener {
    std::function<void(int engine)> on_ready;  // after hello
    std::function<void(int engine, const internal::EngineMessage&)> on_message;
    // The process has ended; it will not answer earlier requests.
    std::function<void(int engine, const EngineExit&)> on_exit;
    // The engine of this room does not start; requests of the room have to be refused.
    std::function<void(const EngineRoom&, const std::string& why)> on_hopeless;
    // Whether the engine has requests that it has not answered.
    std::function<bool(int engine)> has_requests;
    // Whether job_engine() has a job, or has to stop one.
    std::function<bool()> has_job;
  };

  // All outlive this. The mailbox is not run after this is destroyed.
  EnginePool(EnginePoolOptions options, const Clock& clock, EngineLauncher& launcher,
             Mailbox& mailbox, TaskRunner& tasks, Listener listener);

  // Starts engines that are due, ends an idle second one, removes rooms that nobody uses.
  void Tick();

  // The room of a project: that of its engine or of its other work, else a new one.
  std::shared_ptr<EngineRoom> RoomOf(const std::string& project);

  // Makes an engine of this room the one for jobs. True when it may begin one; else call it again.
  // Requires: has_job() is false.
  bool PrepareForJob(const std::shared_ptr<EngineRoom>& room, bool in_gang);
  // No job waits for an engine, unless PrepareForJob or LeaveGang is called again.
  void ClearJobWish() { job_wish_ = -1; }
  // Replaces the engine for jobs if it was started for a gang, once it has no requests. Requires:
  // has_job() is false.
  void LeaveGang();
  // Ends the engine for jobs, which does not start, and makes the other one the engine for jobs.
  // False, and nothing changes, if there is no other one. Requires: has_job() is false.
  bool GiveUpMain();
  int job_engine() const { return job_engine_; }

  // The engine to send a request of this room to now; nullopt if it has to wait. Call
  // BeginRequests, then this for every waiting request in their order.
  void BeginRequests();
  std::optional<int> ForRequest(const std::shared_ptr<EngineRoom>& room);

  // Of the engine for jobs.
  const EngineSupervisor& main() const { return *slots_[job_engine_].supervisor; }
  EngineSupervisor& supervisor(int engine) { return *slots_[engine].supervisor; }
  // The newest hello of either.
  const internal::Hello& last_hello() const { return slots_[last_ready_].supervisor->last_hello(); }
  int restarts() const;

 private:
  struct Slot {
    std::unique_ptr<EngineSupervisor> supervisor;
    std::shared_ptr<EngineRoom> room;  // null: no engine
    bool in_gang = false;              // it may connect to engines of other workers
    bool promised = false;             // to a request of another project
    SteadyTime last_asked, turn_began;
  };

  std::shared_ptr<EngineRoom> NewRoom();
  int EngineOf(const EngineRoom& room) const;  // -1: none
  int Stopped() const;                         // -1: none
  // The engine without a job that was asked least recently, of those that `may` be taken; -1: none.
  int LeastAsked(const std::function<bool(int)>& may) const;
  bool IsQuiet(int engine) const;
  // A new process for this room.
  void Assign(int engine, const std::shared_ptr<EngineRoom>& room, bool in_gang);
  void Stop(int engine);
  // Ends an engine that does not start.
  void GiveUp(int engine);
  void RemoveUnusedRooms();

  // Const after construction.
  const EnginePoolOptions options_;
  const Clock& clock_;
  TaskRunner& tasks_;
  const Listener listener_;

  std::array<Slot, kEngines> slots_;
  int job_engine_ = 0, last_ready_ = 0;
  int job_wish_ = -1;  // takes no more requests, since a job waits for it; -1: none
  int n_rooms_made_ = 0;
  std::vector<std::shared_ptr<EngineRoom>> rooms_;
};

}  // namespace nerf
