#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "worker/engine/open_blob.h"
#include "worker/runs/part_run.h"

namespace nerf {

// Renders a range of frames. The engine works on the next frames while earlier ones are uploaded
// and committed, so that a kill costs the frames in progress alone.
class FrameRun final : public PartRun {
 public:
  using PartRun::PartRun;

  void Start() override { Fetch(); }
  bool waits_for_engine() const override { return stage_ == Stage::kWaiting; }
  void Begin() override;
  void OnEngineMessage(const internal::EngineMessage& message) override;
  bool Owns(const std::string& request_id) const override;
  bool in_engine() const override { return !asked_.empty(); }
  void OnEngineExit(const EngineExit& exit, bool shared) override;
  void Tick() override;
  absl::Duration allowed_silence() const override;

 private:
  struct Rendered {
    uint32_t index = 0;
    std::vector<std::string> images;  // files, by channel
    double far = 0;
  };

  void Fetch();
  // Gives the engine its next frames.
  void AskEngine();
  void TakeFrame(int task, const internal::Rendered& rendered);
  // Uploads and commits what is rendered, one batch at a time.
  void CommitNext();
  void StopEngine() override;

  std::shared_ptr<OpenBlob> file_;    // the model
  bool in_background_ = false;        // a fetch or a commit
  std::deque<int> waiting_;           // tasks of the grant that the engine has not been asked for
  std::map<std::string, int> asked_;  // tasks that the engine has, by request id
  SteadyTime stop_deadline_;          // in kStopping: the engine is killed then
  bool killing_ = false;              // the engine, in kStopping
  std::vector<Rendered> rendered_;    // not committed yet
  int n_left_ = 0;                    // frames that are not committed
};

}  // namespace nerf
