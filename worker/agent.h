#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/clock.h"
#include "common/ids.h"
#include "nerf/internal/engine.pb.h"
#include "nerf/v1/worker_service.pb.h"
#include "worker/base/call_result.h"
#include "worker/base/mailbox.h"
#include "worker/base/server_link.h"
#include "worker/base/task_runner.h"
#include "worker/engine/engine_pool.h"
#include "worker/files/blob_cache.h"
#include "worker/request_board.h"
#include "worker/runs/leased_run.h"
#include "worker/runs/part_run.h"
#include "worker/runs/pose/pose_program.h"
#include "worker/runs/training/job_run.h"
#include "worker/worker_meter.h"

namespace nerf {

struct AgentOptions {
  std::string worker_id, session_id, device, version, host;
  std::string cache_dir;  // holds the folder rooms

  absl::Duration heartbeat_interval = absl::Seconds(5);  // until the server sends another one
  absl::Duration min_progress_interval = absl::Milliseconds(800);  // engines report at 1 Hz
  absl::Duration min_backoff = absl::Milliseconds(200);
  absl::Duration max_backoff = absl::Seconds(5);
  // Without the server, a job continues for this long; then it writes a checkpoint and stops.
  absl::Duration orphan_grace = absl::Minutes(30);
  // Longest time from Shutdown to the end of the process. docs/run/operations.md promises 25 s.
  absl::Duration shutdown_timeout = absl::Seconds(24);
  // The longest wait for running requests, part of shutdown_timeout.
  absl::Duration shutdown_request_timeout = absl::Seconds(5);
  absl::Duration request_silence = absl::Minutes(10);  // of an engine that renders or checks

  // After engines.max_failed_starts failed starts in a row the worker hands its job back and goes
  // on with its other engine; without one it ends.
  EnginePoolOptions engines;  // the folder is set by the agent
  JobRunOptions job;
  PartRunOptions part;
  PoseProgramOptions pose;
  EngineProgramOptions exporting;
  // What it can do besides training (WorkerHello.features).
  std::vector<std::string> features;
  // Of what finds poses (WorkerHello); empty: it takes no pose jobs, or none with films.
  std::string colmap_version, ffmpeg_version;
  // Called when no engine has ever started: what keeps it from that, if a person has to change it.
  // The worker then stays connected, says so, and takes no work. Empty: the worker ends.
  std::function<std::string()> explain_no_engine = {};
};

struct AgentContext {
  const Clock& clock;
  RandomSource& random;
  Mailbox& mailbox;
  TaskRunner& tasks;
  BlobCache& cache;
  BlobTransport& blobs;
  ServerLink& server;
  EngineLauncher& engines;
};

// The worker: keeps the stream to the server and the engines alive, runs the job that the server
// grants and answers its requests, each in an engine of its project.
//
// HandleDesired compares the server's order (DesiredJob) with the running job (JobRun). Training
// continues while the server is unreachable. A new stream names the job and its lease epoch, and
// the server decides whether the lease still holds; the worker never judges that itself, since
// every write carries the epoch.
//
// Single-threaded: the owner calls Tick at least ten times a second and runs the mailbox in
// between; other threads only post. The owner destroys the agent before the members of the context,
// and does not run the mailbox afterwards.
class Agent {
 public:
  Agent(AgentOptions options, AgentContext context);
  ~Agent();

  void Tick();

  // Begins the shutdown: the job writes and commits a checkpoint and is released.
  void Shutdown();

  // Set when the worker should exit: OK after a shutdown, else the reason.
  const std::optional<CallResult>& result() const { return result_; }

  // True if the server has been silent for longer than the lease lasts.
  bool lease_doubtful() const;
  // The training job; null while there is none.
  const JobRun* job() const { return dynamic_cast<const JobRun*>(job_.get()); }
  bool connected() const { return stream_ == Stream::kOpen; }
  // True while there is neither a job nor a request. A worker without a server is idle, too.
  bool idle() const { return job_ == nullptr && leaving_.empty() && requests_->empty(); }

 private:
  enum class Stream { kClosed, kOpen };

  void Connect();
  void OnMessage(int generation, const v1::SynchronizeResponse& message);
  void OnWritten(int generation);
  void OnClosed(int generation, const CallResult& result);
  void HandleDesired(const v1::DesiredJob& desired);
  // True for a job that is not running here and whose end the server does not know. Without a
  // report the server would wait for it to stop.
  bool IsUnknown(const v1::DesiredJob& desired) const;
  void StartJob(const v1::DesiredJob& desired);
  void LeaveJob();
  void SendDue();
  v1::SynchronizeRequest NextMessage();

  RequestContext ContextOfRequests();
  EnginePool::Listener EngineListener();
  void OnEngineMessage(int engine, const internal::EngineMessage& message);
  void OnEngineExit(int engine, const EngineExit& exit);
  void TickJobs();
  // Begins the job, once there is an engine for it.
  void PlaceJob();
  // Kills the engine if it has been silent for too long.
  void CheckSilence(int engine);
  // No engine has started. False if the worker ends for it.
  bool StaysWithoutEngine();
  bool takes_work() const { return !draining_ && problem_.empty(); }
  void TickShutdown();
  LeasedRun* RunOfKey(const std::string& key);
  LeasedRun* RunOfRequest(const std::string& request_id);
  // No two requests to engines have the same id, whatever they are for: an answer may come after
  // its request was given up.
  std::string NewRequestId();
  // True if the engine for jobs works on one, or has to stop one.
  bool EngineHasJob() const;
  // The run that the order is about.
  std::shared_ptr<LeasedRun> NewRun(const v1::DesiredJob& desired);

  // Const after construction.
  const AgentOptions options_;
  const AgentContext context_;

  // The stream.
  Stream stream_ = Stream::kClosed;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>();
  int generation_ = 0;  // of the stream; callbacks of earlier streams are ignored
  bool write_in_flight_ = false;
  bool said_hello_ = false;
  bool ever_connected_ = false;
  bool report_due_ = false, progress_due_ = false;
  SteadyTime next_connect_, last_write_, last_server_message_;
  absl::Duration backoff_, heartbeat_interval_, checkpoint_interval_, lease_ttl_;

  // The job, and abandoned ones that the engine has not stopped yet.
  std::shared_ptr<LeasedRun> job_;
  std::shared_ptr<EngineRoom> job_room_;  // of job_
  bool job_begun_ = false;                // its engine has got work of job_
  std::vector<std::shared_ptr<LeasedRun>> leaving_;
  std::string finished_job_;  // the last one whose end the server has stored
  uint64_t finished_epoch_ = 0;
  uint64_t job_serial_ = 0, request_serial_ = 0;
  bool told_doubtful_ = false;
  std::array<std::optional<SteadyTime>, EnginePool::kEngines> engine_owes_since_;

  WorkerMeter meter_;
  std::string problem_;  // why no engine starts; then the worker takes no work

  // Shutdown.
  bool draining_ = false;
  SteadyTime drain_begin_;
  std::optional<CallResult> result_;

  std::unique_ptr<RequestBoard> requests_;
  std::unique_ptr<EnginePool> engines_;
};

// Runs the agent until it has a result. Calls agent.Shutdown when `shutdown` returns true.
CallResult RunAgent(Agent& agent, Mailbox& mailbox, const std::function<bool()>& shutdown);

}  // namespace nerf
