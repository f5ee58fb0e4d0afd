#pragma once

#include <string>

#include "worker/runs/part_run.h"

namespace nerf {

// Makes a movie of the stored frames of a render job with ffmpeg.
class MovieRun final : public PartRun {
 public:
  using PartRun::PartRun;

  void Start() override { Make(); }
  bool waits_for_engine() const override { return false; }
  void Begin() override {}
  void OnEngineMessage(const internal::EngineMessage& /*message*/) override {}
  void OnEngineHopeless(const std::string& /*why*/) override {}  // it needs none
  void Tick() override;

 private:
  void Make();
  bool in_background_ = false;
};

}  // namespace nerf
