#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "absl/time/time.h"
#include "common/clock.h"
#include "nerf/v1/worker_service.pb.h"
#include "worker/blob_cache.h"
#include "worker/call_result.h"
#include "worker/engine.h"
#include "worker/engine_messages.h"
#include "worker/job_files.h"
#include "worker/retry.h"
#include "worker/server_link.h"
#include "worker/task_runner.h"

namespace nerf {

struct JobRunOptions {
  // An engine that ignores a stop for this long is killed. With a checkpoint it gets longer.
  absl::Duration discard_timeout = absl::Seconds(5);
  absl::Duration checkpoint_timeout = absl::Seconds(10);
  // Silence that counts as a hang: while training, and while a data set is read or evaluated.
  absl::Duration training_silence = absl::Seconds(300);
  absl::Duration reading_silence = absl::Minutes(30);
  RetryOptions retry;  // of a failed fetch or commit
  // A job that did not succeed waits this long for its last checkpoint to be committed.
  absl::Duration last_commit_timeout = absl::Seconds(15);
  absl::Duration checkpoint_interval = absl::Seconds(30);
  absl::Duration preview_interval = absl::Seconds(10);
  // Bytes that did not match their digest are fetched again this often.
  int max_corrupt_fetches = 3;
};

// What a job uses of the worker. All of it outlives the job; the functions run on the agent's
// thread.
struct JobContext {
  const std::string& worker_id;
  const Clock& clock;
  TaskRunner& tasks;
  BlobCache& cache;
  BlobTransport& blobs;
  ServerLink& server;
  std::function<void(std::string)> send_to_engine;
  std::function<void(EngineExit::Kind)> kill_engine;
  std::function<void()> report_changed;    // the report should go out now
  std::function<void()> progress_changed;  // ... with the next one, soon
};

// One lease of one job, from the grant to the acknowledged end:
//
//   kFetching -> kWaiting -> kStarting -> kTraining -> kCommitting -> kFinal -> (forgotten)
//                               \            \-> kStopping -> kCommitting -> kFinal
//                                \-> kStopping                   (kGone when abandoned)
//
// kFetching gets the blobs; kWaiting waits until the engine is free; kStarting until the engine has
// read the data set; kStopping until it has stopped; kCommitting until the last checkpoint is the
// server's. In kFinal the report repeats until the server has stored it. Every write carries the
// lease epoch; when the server says that it is stale the run is abandoned.
// Lives on the agent's thread, in a shared_ptr (background work holds weak ones).
class JobRun : public std::enable_shared_from_this<JobRun> {
 public:
  enum class Stage {
    kFetching,
    kWaiting,
    kStarting,
    kTraining,
    kStopping,
    kCommitting,
    kFinal,
    kGone
  };

  // `folder` is the job's own, not there yet. `grant` is a TRAIN order.
  JobRun(JobRunOptions options, JobContext context, v1::DesiredJob grant, std::string folder);
  ~JobRun();

  // Begins to fetch. Call once.
  void Start();
  // Sends `train`. Requires: kWaiting, and an engine that is up and trains nothing.
  void Train();

  // Stops without a checkpoint, ends CANCELLED.
  void Cancel();
  // Stops with a checkpoint, commits it, ends RELEASED.
  void Release();
  // Stops, writes nothing more, reports nothing.
  void Abandon();

  // Messages whose `job` is key().
  void OnEngineMessage(const EngineMessage& message);
  // `shared`: a render or a check may have been in the engine, too.
  void OnEngineExit(const EngineExit& exit, bool shared);
  // No engine will come up for this run.
  void OnEngineHopeless(const std::string& why);
  void Tick();

  const std::string& name() const { return grant_.training_job(); }
  uint64_t lease_epoch() const { return grant_.lease_epoch(); }
  // What the engine knows this run by: name and epoch.
  const std::string& key() const { return key_; }
  Stage stage() const { return stage_; }
  // True while the engine works on this run.
  bool in_engine() const;
  // True while nothing else may be in the engine: the last attempt's died.
  bool needs_alone() const;
  bool abandoned() const { return stop_ == Stop::kAbandon; }
  // True once it was told to end early, or has ended.
  bool ending() const { return stop_ != Stop::kNone || stage_ >= Stage::kCommitting; }
  // Longest silence of the engine that is still healthy; infinite when it owes nothing.
  absl::Duration allowed_silence() const;
  const v1::JobReport& report() const { return report_; }

 private:
  enum class Stop { kNone, kCancel, kRelease, kAbandon };
  struct PendingCheckpoint;
  struct FetchResult;

  void Fetch();
  void OnFetched(const FetchResult& result);
  // Of training, in earlier attempts, that led to the checkpoint this one goes on from and that the
  // engine does not count.
  double SecondsBefore() const;
  void OnStarted(const EngineStarted& started);
  void OnProgress(const EngineProgress& progress);
  void OnPreview(const EnginePreview& preview);
  void OnCheckpoint(const EngineCheckpoint& checkpoint);
  void OnStopped();
  void OnDone(const EngineDone& done);
  void OnFailed(const EngineFailed& failed);
  void OnError(const EngineError& error);

  void StopEngine(Stop stop);
  void StopNow(Stop stop);
  void CommitNext();
  void OnCommitted(std::shared_ptr<PendingCheckpoint> checkpoint, const CallResult& result);
  void UploadNextPreview();
  // The engine is through with the run: waits for the last commit, then reports `phase`.
  void Finish(v1::JobReport::Phase phase);
  void FinishCrashed(const std::string& how, bool shared);
  // The job's result is its newest checkpoint; where that was refused there is no success.
  void FinishWithoutResult(const CallResult& refusal);
  void FinishFailed(absl::StatusCode code, const std::string& reason, const std::string& message);
  void EnterFinal();
  absl::StatusOr<std::string> TakeFile(const std::string& path, const std::string& name);

  // Const after construction.
  const JobRunOptions options_;
  const JobContext context_;
  const v1::DesiredJob grant_;
  const std::string folder_, key_;

  Stage stage_ = Stage::kFetching;
  Stop stop_ = Stop::kNone;
  SteadyTime stop_deadline_;
  bool killing_ = false;
  v1::JobReport report_;

  std::stop_source transfers_;  // of everything that moves bytes for this run
  bool fetch_in_flight_ = false;
  int corrupt_fetches_ = 0;
  Retry fetch_retry_;
  SteadyTime next_fetch_;
  JobFiles files_;

  std::shared_ptr<PendingCheckpoint> pending_;  // newest that is not committed and not in flight
  bool commit_in_flight_ = false;
  bool any_checkpoint_ = false;
  bool any_commit_ = false;
  std::optional<CallResult> newest_refused_;  // by the server, for good
  int n_taken_files_ = 0;
  SteadyTime next_commit_;
  v1::JobReport::Phase final_phase_ = v1::JobReport::PHASE_UNSPECIFIED;
  SteadyTime commit_deadline_;

  std::optional<EnginePreview> pending_preview_;  // its image is a path of ours
  bool preview_in_flight_ = false;
};

}  // namespace nerf
