#pragma once

#include <functional>

#include "worker/runs/part_run.h"

namespace nerf {

// What pose and export jobs share: their work is a program of its own, which needs no engine.
class ProgramRun : public PartRun {
 public:
  using PartRun::PartRun;

  bool waits_for_engine() const override { return false; }
  void Begin() override {}
  void OnEngineMessage(const internal::EngineMessage& /*message*/) override {}
  void OnEngineHopeless(const std::string& /*why*/) override {}  // it needs none
  // Until its program has ended.
  bool in_engine() const override { return busy_; }
  void Tick() override;

 protected:
  // Runs `work` in the background, then `done` with its result unless the run is ending.
  void Work(std::function<CallResult()> work, std::function<void(const CallResult&)> done);
  // Ends the run after its program has failed. That it broke down is its input's fault, which other
  // workers are asked about; a full disk is nobody's; the rest is what it says of its input.
  void EndFailed(const CallResult& failure);
  // After a failed call: calls `step` after a pause, or ends the run.
  void TryAgain(const CallResult& failure, std::function<void()> step);
  // Puts into the report how far the work is.
  virtual void TakeNews() = 0;

 private:
  bool busy_ = false;
  std::function<void()> next_step_;  // at next_try_
};

}  // namespace nerf
