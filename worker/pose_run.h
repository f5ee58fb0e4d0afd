#pragma once

#include <memory>
#include <string>

#include "worker/part_run.h"
#include "worker/pose_program.h"

namespace nerf {

// A pose job: fetches the photographs, finds their poses, uploads the data set and commits it.
class PoseRun final : public PartRun {
 public:
  PoseRun(PartRunOptions options, PoseProgramOptions program, JobContext context,
          v1::DesiredJob grant, std::string folder);
  ~PoseRun() override;

  void Start() override { Fetch(); }
  bool waits_for_engine() const override { return false; }
  void Begin() override {}
  void OnEngineMessage(const protocol::EngineMessage& /*message*/) override {}
  void OnEngineHopeless(const std::string& /*why*/) override {}  // it needs none
  // Until its program has ended.
  bool in_engine() const override { return busy_; }
  void Tick() override;

 private:
  struct Search;

  // Each goes on with the next, or is tried again.
  void Fetch();
  void Pose();
  void Commit();
  // Runs `work` in the background, then `done` with its result unless the run is ending.
  void Work(std::function<CallResult()> work, std::function<void(const CallResult&)> done);
  // Puts into the report how far the search is.
  void TakeNews();
  void TryAgain(const CallResult& failure, void (PoseRun::*step)());

  const PoseProgramOptions program_;
  const std::shared_ptr<Search> search_;  // also of the background work
  bool busy_ = false;
  void (PoseRun::*next_step_)() = nullptr;  // at next_try_
};

}  // namespace nerf
