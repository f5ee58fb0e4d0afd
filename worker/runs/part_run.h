#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "worker/base/call_result.h"
#include "worker/base/retry.h"
#include "worker/runs/leased_run.h"

namespace nerf {

struct PartRunOptions {
  RetryOptions retry;  // of a failed fetch or commit
  // An engine that is silent for this long while it renders hangs.
  absl::Duration render_silence = absl::Minutes(10);
  // An engine that has not given up cancelled frames within this time is killed.
  absl::Duration stop_timeout = absl::Seconds(5);
  uint64_t max_data_bytes = 0;  // that ffmpeg may allocate; 0: any
};

// What runs without checkpoints share, the parts of render jobs, pose and export jobs: the report,
// its end, and what follows from a failed call.
//
//   kFetching -> kWaiting -> kWorking -> kStopping -> kFinal -> (forgotten)
//                                                 \-> kGone (the lease belongs to another worker)
//
// kStopping lasts while the engine has work of the run: until it has answered, it may write into
// the run's folder, and its answers must not be taken for those of the next run.
class PartRun : public LeasedRun, public std::enable_shared_from_this<PartRun> {
 public:
  // `folder` belongs to the run and does not exist yet. `grant` is a RENDER, POSE
  // or EXPORT order.
  PartRun(PartRunOptions options, JobContext context, v1::DesiredJob grant, std::string folder);
  ~PartRun() override;

  void Cancel() override;
  void Release(bool in_hurry) override;
  void Abandon() override;
  void OnEngineExit(const EngineExit& /*exit*/, bool /*shared*/) override {}
  void OnEngineHopeless(const std::string& why) override;

  const std::string& name() const override { return grant_.job(); }
  uint64_t lease_epoch() const override { return grant_.lease_epoch(); }
  const std::string& key() const override { return key_; }
  bool is_final() const override { return stage_ == Stage::kFinal; }
  bool in_engine() const override { return false; }
  bool abandoned() const override { return abandoned_; }
  bool ending() const override { return stage_ >= Stage::kStopping; }
  absl::Duration allowed_silence() const override { return absl::InfiniteDuration(); }
  const v1::JobReport& report() const override { return report_; }

 protected:
  enum class Stage { kFetching, kWaiting, kWorking, kStopping, kFinal, kGone };

  // Runs `work` in the background, then `done` with its result unless the run is ending.
  void InBackground(Lane lane, std::function<CallResult()> work,
                    std::function<void(const CallResult&)> done);
  // After a failed call: returns the pause before the next try, or ends the run (abandoned, handed
  // back or failed) and returns nullopt.
  std::optional<absl::Duration> PauseAfter(const CallResult& failure);
  // Ends with `phase`, once the engine has given up what it has of the run.
  void Finish(v1::JobReport::Phase phase);
  void Fail(const absl::Status& error);
  void FinishCrashed(const std::string& how, bool shared_engine);
  // Hands the job back: another worker may have room.
  void ReleaseWithoutRoom(const absl::Status& why);
  // To be called when the engine has answered or ended: ends the run if it waits for that.
  void OnEngineFree();
  // The request of a commit, without frames.
  v1::CommitFramesRequest NewCommit() const;
  // Cancels what the engine was asked for. Called once, in kStopping.
  virtual void StopEngine() {}

  const PartRunOptions options_;
  const JobContext context_;
  const v1::DesiredJob grant_;
  const std::string folder_, key_;
  Stage stage_ = Stage::kFetching;
  v1::JobReport report_;
  std::stop_source stop_;  // of all background work
  SteadyTime next_try_;    // of a failed call

 private:
  void Stop();

  Retry retry_;
  v1::JobReport::Phase final_phase_ = v1::JobReport::CANCELLED;
  bool abandoned_ = false;
};

// Uploads a file of this worker. A missing file is DATA_LOSS: NOT_FOUND would be the server's word
// for a job that it does not know.
absl::StatusOr<v1::BlobRef> UploadOwnFile(BlobTransport& blobs, const std::string& path,
                                          const std::stop_token& stop);

}  // namespace nerf
