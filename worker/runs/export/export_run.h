#pragma once

#include <memory>
#include <string>

#include "worker/engine/engine_program.h"
#include "worker/engine/open_blob.h"
#include "worker/runs/program_run.h"

namespace nerf {

// An export job: fetches the model, has a file made of it and uploads that. Its report names the
// file, which the server then stores with the job.
class ExportRun final : public ProgramRun {
 public:
  ExportRun(PartRunOptions options, EngineProgramOptions program, JobContext context,
            v1::DesiredJob grant, std::string folder);
  ~ExportRun() override;

  void Start() override { Fetch(); }

 private:
  struct Export;

  // Each goes on with the next, or is tried again.
  void Fetch();
  void Make();
  void Upload();
  void TakeNews() override;

  const EngineProgramOptions program_;
  const std::shared_ptr<Export> export_;  // also of the background work
};

}  // namespace nerf
