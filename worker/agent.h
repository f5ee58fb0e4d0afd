#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/clock.h"
#include "common/ids.h"
#include "nerf/v1/worker_service.pb.h"
#include "worker/blob_cache.h"
#include "worker/call_result.h"
#include "worker/engine_supervisor.h"
#include "worker/job_run.h"
#include "worker/mailbox.h"
#include "worker/request_board.h"
#include "worker/server_link.h"
#include "worker/task_runner.h"

namespace nerf {

struct AgentOptions {
  std::string worker_id, session_id, device, version, host;
  std::string cache_dir;  // with the folders jobs and requests in it

  absl::Duration heartbeat_interval = absl::Seconds(5);            // until the server says
  absl::Duration min_progress_interval = absl::Milliseconds(800);  // engines report at 1 Hz
  absl::Duration min_backoff = absl::Milliseconds(200);
  absl::Duration max_backoff = absl::Seconds(5);
  // A job trains on without the server for this long; then it checkpoints and stops.
  absl::Duration orphan_grace = absl::Minutes(30);
  // From Shutdown to the end at the latest. The contract is 25 s.
  absl::Duration shutdown_timeout = absl::Seconds(24);
  // Of the shutdown, for requests in flight.
  absl::Duration shutdown_request_timeout = absl::Seconds(5);
  absl::Duration request_silence = absl::Minutes(10);  // of an engine that owes a render or a check
  // Starts of the engine in a row that came to nothing, before the worker gives up.
  int max_failed_starts = 5;

  EngineSupervisorOptions engine;
  JobRunOptions job;
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

// The worker: keeps the stream to the server and the engine alive, runs the job that the server
// grants and answers its requests.
//
// What the server wants (DesiredJob) meets what is here (JobRun) in HandleDesired. Training goes on
// while the server is away; a stream that opens anew names the job and the lease epoch, so that the
// server takes it up again. A lease that may have run out meanwhile changes nothing here: every
// write carries its epoch, and the server judges.
//
// Everything happens on one thread: the owner calls Tick at least ten times a second and runs the
// mailbox in between; other threads only post. The owner destroys the agent before what the context
// names, and runs the mailbox no more afterwards.
class Agent {
 public:
  Agent(AgentOptions options, AgentContext context);
  ~Agent();

  void Tick();

  // Finish what there is (checkpoint, commit, release) and end.
  void Shutdown();

  // Set once the worker should exit: OK after a clean shutdown, otherwise why it cannot go on.
  const std::optional<CallResult>& result() const { return result_; }

  // True when the server has been silent for longer than the lease lives.
  bool lease_doubtful() const;
  const JobRun* job() const { return job_.get(); }
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
  void StartJob(const v1::DesiredJob& desired);
  void LeaveJob();
  void SendDue();
  v1::SynchronizeRequest NextMessage();

  void OnEngineReady();
  void OnEngineMessage(const EngineMessage& message);
  void OnEngineExit(const EngineExit& exit);
  void CountProgress(const EngineProgress& progress);
  void TickJobs();
  void TickShutdown();
  JobRun* RunOfKey(const std::string& key);

  // Const after construction.
  const AgentOptions options_;
  const AgentContext context_;

  // The stream.
  Stream stream_ = Stream::kClosed;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>();
  int generation_ = 0;  // tells news of an earlier stream from the present one's
  bool write_in_flight_ = false;
  bool said_hello_ = false;
  bool ever_connected_ = false;
  bool report_due_ = false, progress_due_ = false;
  SteadyTime next_connect_, last_write_, last_server_message_;
  absl::Duration backoff_, heartbeat_interval_, checkpoint_interval_, lease_ttl_;

  // The job, and those given up whose engine still has to stop.
  std::shared_ptr<JobRun> job_;
  std::vector<std::shared_ptr<JobRun>> leaving_;
  std::string finished_job_;  // newest whose end the server has stored
  uint64_t finished_epoch_ = 0;
  uint64_t job_serial_ = 0;
  bool told_doubtful_ = false;
  std::optional<SteadyTime> engine_owes_since_;

  // Metrics since the last message, and where the present job's counters stood.
  v1::WorkerMetrics metrics_, metrics_in_flight_;
  v1::WorkerMetrics readings_;  // EngineProgress::readings since the last message
  double step_seconds_sum_ = 0, in_flight_step_seconds_sum_ = 0;
  std::string counted_key_;
  v1::Progress counted_;
  int counted_restarts_ = 0;

  // Shutdown.
  bool draining_ = false;
  SteadyTime drain_begin_;
  std::optional<CallResult> result_;

  std::unique_ptr<RequestBoard> requests_;
  std::unique_ptr<EngineSupervisor> engine_;
};

// Runs the agent until it has a result. `shutdown` is asked between events; a true answer begins
// the shutdown.
CallResult RunAgent(Agent& agent, Mailbox& mailbox, const std::function<bool()>& shutdown);

}  // namespace nerf
