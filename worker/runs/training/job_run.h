#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "absl/time/time.h"
#include "common/clock.h"
#include "nerf/internal/engine.pb.h"
#include "nerf/v1/worker_service.pb.h"
#include "worker/base/call_result.h"
#include "worker/base/retry.h"
#include "worker/base/server_link.h"
#include "worker/base/task_runner.h"
#include "worker/engine/engine.h"
#include "worker/files/blob_cache.h"
#include "worker/files/job_files.h"
#include "worker/runs/leased_run.h"

namespace nerf {

struct JobRunOptions {
  // An engine that does not stop within this time is killed: when it discards the work, and when it
  // writes a checkpoint.
  absl::Duration discard_timeout = absl::Seconds(5);
  absl::Duration checkpoint_timeout = absl::Seconds(10);
  // An engine that is silent for longer counts as hanging: while training, and while reading a data
  // set or evaluating.
  absl::Duration training_silence = absl::Seconds(300);
  absl::Duration reading_silence = absl::Minutes(30);
  RetryOptions retry;  // of a failed fetch or commit
  // Longest wait for the last commit of a job that did not succeed.
  absl::Duration last_commit_timeout = absl::Seconds(15);
  absl::Duration checkpoint_interval = absl::Seconds(30);
  absl::Duration preview_interval = absl::Seconds(10);
  // Of a gang: network interface of its traffic where the workers are on several hosts, and how
  // long a rank that lost another waits before it reports this, so that the lost rank's worker can
  // report the cause first.
  std::string gang_interface;
  absl::Duration gang_grace = absl::Seconds(2);
  // A file whose digest differs is fetched at most this often.
  int max_corrupt_fetches = 3;
  int max_fetches_without_room = 3;  // then the job is handed back
};

struct PendingCheckpoint;

// One lease of one job, from the grant to the acknowledged end:
//
//   kFetching -> kWaiting -> kStarting -> kTraining -> kCommitting -> kFinal -> (forgotten)
//                               \            \-> kStopping -> kCommitting -> kFinal
//                                \-> kStopping                   (kGone when abandoned)
//
//   kFetching    downloads the blobs
//   kWaiting     until the engine is free
//   kStarting    until the engine has read the data set
//   kTraining    until the engine is done, fails or is to stop
//   kStopping    until the engine has stopped
//   kFollowed    of a rank other than 0 that is done: keeps its place until rank 0 has finished
//   kCommitting  until the server has the last checkpoint
//   kFinal       repeats the report until the server has stored it
//   kGone        reports nothing: the lease belongs to another worker
//
// Every write carries the lease epoch; if the server answers that it is stale, the run is
// abandoned. Used from the agent's thread, in a shared_ptr (background work holds weak ones).
class JobRun final : public LeasedRun, public std::enable_shared_from_this<JobRun> {
 public:
  enum class Stage {
    kFetching,
    kWaiting,
    kStarting,
    kTraining,
    kStopping,
    kFollowed,
    kCommitting,
    kFinal,
    kGone
  };

  // `folder` belongs to the job and does not exist yet. `grant` is a TRAIN order, or one to
  // end the job.
  JobRun(JobRunOptions options, JobContext context, v1::DesiredJob grant, std::string folder);
  ~JobRun() override;

  // Begins to download. Call once.
  void Start() override;
  // Sends `train`. Requires: kWaiting, and an engine that is ready and trains nothing.
  void Train();
  void Begin() override { Train(); }
  bool waits_for_engine() const override { return stage_ == Stage::kWaiting; }
  bool is_final() const override { return stage_ == Stage::kFinal; }
  std::optional<std::string> training_key() const override;

  // Stops without a checkpoint, ends CANCELLED.
  void Cancel() override;
  // Stops with a checkpoint, commits it, ends RELEASED. `in_hurry`: the worker exits, so the commit
  // has a time limit.
  void Release(bool in_hurry) override;
  // Stops, writes nothing more, reports nothing.
  void Abandon() override;

  // A message whose `job` is key().
  void OnEngineMessage(const internal::EngineMessage& message) override;
  // `shared`: the engine also had a render or a check, which may have crashed it.
  void OnEngineExit(const EngineExit& exit, bool shared) override;
  // No engine can be started.
  void OnEngineHopeless(const std::string& why) override;
  void Tick() override;

  const std::string& name() const override { return grant_.job(); }
  uint64_t lease_epoch() const override { return grant_.lease_epoch(); }
  // The engine's name for this run: job name and epoch.
  const std::string& key() const override { return key_; }
  Stage stage() const { return stage_; }
  // True while the engine works on this run.
  bool in_engine() const override;
  // True while the engine must do nothing else, because the engine of the last attempt crashed.
  bool needs_alone() const override;
  bool abandoned() const override { return stop_ == Stop::kAbandon; }
  // True if it has ended or was asked to end.
  bool ending() const override { return stop_ != Stop::kNone || stage_ >= Stage::kCommitting; }
  // Silence of the engine after which it hangs; infinite if no message is expected.
  absl::Duration allowed_silence() const override;
  bool in_gang() const override { return grant_.has_gang(); }
  const v1::RankText* rank_text() const override {
    return rank_text_.has_value() ? &*rank_text_ : nullptr;
  }
  void OnRankTexts(const v1::RankTexts& texts) override;
  const v1::JobReport& report() const override { return report_; }
  // The report with the progress of the last ten minutes, for the first message of a stream.
  v1::JobReport FirstReport() const override;

 private:
  enum class Stop { kNone, kCancel, kRelease, kAbandon };
  struct FetchResult;

  void Fetch();
  void OnFetched(const FetchResult& result);
  // Training time of earlier attempts up to the checkpoint this one continues, or of the parts that
  // are merged, unless the engine counts it itself.
  double SecondsBefore() const;
  void OnStarted(const internal::Started& started);
  void OnRankText(const v1::RankText& text);
  void OnPreview(const internal::Preview& preview);
  void OnCheckpoint(const internal::SavedState& saved);
  void OnStopped();
  void OnDone(const internal::Done& done);
  void OnFailed(const internal::Failed& failed);
  void OnRefused(const google::rpc::Status& error);
  // A message after Cancel or Abandon: all are ignored but those that end the engine's work.
  void OnUnwanted(const internal::EngineMessage& message);
  void ReportProgress(const v1::Progress& said);

  void StopEngine(Stop stop);
  void StopNow(Stop stop);
  void CommitNext();
  void OnCommitted(std::shared_ptr<PendingCheckpoint> checkpoint, const CallResult& result);
  void UploadNextPreview();
  // The engine has ended its work. Waits for the last commit, then reports `phase`.
  void Finish(v1::JobReport::Phase phase);
  void FinishCrashed(const std::string& how, bool shared);
  // Hands the job back: another rank of the gang does not answer.
  void FinishBroken(const internal::Failed& failed);
  // Hands the job back: the disk of this machine is full.
  void FinishWithoutRoom(const std::string& why);
  // The server refused the newest checkpoint, which would be the job's result.
  void FinishWithoutResult(const CallResult& refusal);
  void FinishFailed(const absl::Status& error);
  // Changes the stage, and does what its beginning requires.
  void Enter(Stage stage);
  absl::StatusOr<std::string> TakeFile(const std::string& path, const std::string& name);

  // Const after construction.
  const JobRunOptions options_;
  const JobContext context_;
  const v1::DesiredJob grant_;
  const std::string folder_, key_;

  Stage stage_ = Stage::kFetching;
  Stop stop_ = Stop::kNone;
  bool in_hurry_ = false;  // with kRelease
  SteadyTime stop_deadline_;
  bool killing_ = false;
  v1::JobReport report_;
  std::optional<v1::RankText> rank_text_;
  // Set for a rank other than 0 that is to hand the job back: the time until which it waits for
  // rank 0 to write the checkpoint.
  std::optional<SteadyTime> leave_by_;
  std::optional<SteadyTime> broken_until_;  // in kCommitting: then it says that its gang is broken
  std::deque<v1::Progress> recent_;         // oldest first

  std::stop_source transfers_;  // stops all downloads and uploads of this run
  bool fetch_in_flight_ = false;
  int corrupt_fetches_ = 0;
  int fetches_without_room_ = 0;
  Retry fetch_retry_;
  SteadyTime next_fetch_;
  JobFiles files_;

  std::shared_ptr<PendingCheckpoint> pending_;  // the newest one that waits for its commit
  bool commit_in_flight_ = false;
  bool any_checkpoint_ = false;
  bool any_commit_ = false;
  std::optional<CallResult> newest_refused_;  // if the server refused the newest checkpoint
  int n_taken_files_ = 0;
  SteadyTime next_commit_;
  v1::JobReport::Phase final_phase_ = v1::JobReport::PHASE_UNSPECIFIED;
  SteadyTime commit_deadline_;

  std::optional<internal::Preview> pending_preview_;  // its image is in commit/
  bool preview_in_flight_ = false;
};

}  // namespace nerf
