#pragma once

#include <memory>
#include <string>

#include "worker/runs/pose/pose_program.h"
#include "worker/runs/program_run.h"

namespace nerf {

// A pose job: fetches the photographs, finds their poses, uploads the data set and commits it.
class PoseRun final : public ProgramRun {
 public:
  PoseRun(PartRunOptions options, PoseProgramOptions program, JobContext context,
          v1::DesiredJob grant, std::string folder);
  ~PoseRun() override;

  void Start() override { Fetch(); }

 private:
  struct Search;

  // Each goes on with the next, or is tried again.
  void Fetch();
  void Pose();
  void Commit();
  void TakeNews() override;

  const PoseProgramOptions program_;
  const std::shared_ptr<Search> search_;  // also of the background work
};

}  // namespace nerf
