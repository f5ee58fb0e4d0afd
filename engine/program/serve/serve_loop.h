#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/clock.h"
#include "common/problems.h"
#include "engine/base/parallel_for.h"
#include "engine/program/device/device_monitor.h"
#include "engine/program/serve/message_socket.h"
#include "engine/program/serve/request_queue.h"
#include "engine/program/serve/task_thread.h"
#include "engine/program/session/model_cache.h"
#include "engine/program/session/rank_session.h"
#include "engine/scene/read/scene_reader.h"
#include "engine/views/render/render_device.h"

namespace nerf {

struct ServeOptions {
  int fd = 3;  // one end of a stream socket pair
  MessageForm form = MessageForm::kBinary;
  std::string device = "cpu", device_description;
  const DeviceMonitor* monitor = nullptr;  // of the device; may be null; outlives the loop
  bool writes_nanovdb = false;             // this program's exports
  uint64_t model_cache_bytes = uint64_t{1} << 30;
  // After the end of the connection, running work may continue for this long; then the process
  // exits. Infinite in tests, which must not exit.
  absl::Duration exit_grace = absl::Seconds(10);
};

// The engine's side of the message protocol (docs/inside/protocol.md). One thread reads requests
// into a queue; the caller's thread handles them. It trains one job at a time. Renders and checks
// are handled when no job runs or between two of its steps; a long render alternates with the steps
// (TimeShare). What answers a request may come after the answer to a later one. Wrong messages are
// answered with an error and change nothing.
class ServeLoop {
 public:
  // What is pointed to outlives the loop. render_device belongs to options.device.
  ServeLoop(ServeOptions options, RenderDevice* render_device, ThreadPool* pool,
            const Clock* clock);
  ~ServeLoop();

  // Returns OK at the end of the connection. Returns Internal GPU_FAILED when the device failed:
  // its driver refuses all further calls of this process, so the process must end and be started
  // again. Called once.
  absl::Status Run();

 private:
  class Job;
  struct RunningRender;

  void ReadUntilEnd();
  internal::EngineMessage HelloMessage() const;
  void Send(const internal::EngineMessage& message);  // thread-safe
  // Whether the error is GPU_FAILED. Sets broken_, which ends Run; no message is sent.
  bool IsOfBrokenDevice(const absl::Status& status);

  // Handles one request. `job` is the running job, or null.
  void Handle(QueuedRequest queued, Job* job);
  void Refuse(const QueuedRequest& wrong, bool in_job);
  void HandleTrain(const internal::WorkerRequest& request, Job* job);
  void HandleStop(const internal::WorkerRequest& request, Job* job);
  // Sets render_, or answers with an error.
  void HandleRender(const QueuedRequest& queued);
  // Checks the data set. If a stop of the job interrupts it, the request is put back.
  void HandleCheck(QueuedRequest queued, Job* job);

  absl::Status Train(const internal::Train& train, Job* job, Problems* problems);
  // For a training by several engines (serve_gang.cc). Meets the others; null for one engine.
  // Errors: Cancelled; Unavailable RANK_LOST; those of CheckRanksShare.
  absl::StatusOr<std::unique_ptr<RankSession>> MeetRanks(const std::string& job,
                                                         const internal::Train& train,
                                                         const TrainConfig& config);
  // Trains as rank 0 says, to the end, which is answered.
  absl::Status FollowRanks(Job* job, RankSession* ranks, TrainingSession* session);
  // Suspends the running render if a live frame waits, and resumes it when none does. Answers a
  // suspended one that was cancelled.
  void ChooseRender();
  // Whether a render should pause for ChooseRender.
  bool MustChoose();
  // Whether a live frame waits while a render that is not live runs.
  bool IsOutranked();
  bool IsSuspendedCancelled();
  // Renders until `pause` returns true, or to the end and then answers. Requires: render_.
  void ContinueRender(Job* job, const std::function<bool()>& pause);
  absl::Status BeginRender(Job* job, RunningRender* render);
  // The camera of the render; also sets what `rendered` says about it.
  absl::StatusOr<Camera> CameraOfRequest(const TrainState& state, SceneRenderer* renderer,
                                         RunningRender* render);
  // Answers a finished render. Files other than a live frame's are written by writer_, while the
  // next render begins.
  void FinishRender(std::unique_ptr<RunningRender> render);
  absl::StatusOr<internal::EngineMessage> WriteRendered(const RunningRender& render);
  // Ends the running render or check and sends `answer` or its error.
  void EndRequest(const std::string& id, const absl::StatusOr<internal::EngineMessage>& answer);
  // Tells the worker once a second that a render or check is running.
  void ReportWorking(const std::string& id, Job* job);

  const ServeOptions options_;
  RenderDevice* const render_device_;
  ThreadPool* const pool_;
  const Clock* const clock_;
  MessageSocket socket_;
  RequestQueue requests_;
  ModelCache models_;
  std::unique_ptr<RunningRender> suspended_;  // while a live frame is rendered
  std::unique_ptr<RunningRender> render_;     // later ones wait in requests_
  absl::Status broken_;                       // GPU_FAILED once the device failed
  SteadyTime reported_working_;
  Mutex send_mu_;  // held while a message is written
  Mutex mu_;
  CondVar done_changed_;
  bool done_ ABSL_GUARDED_BY(mu_) = false;  // Run is about to return
  TaskThread writer_{"picture_writer"};     // last member: it uses those above
};

}  // namespace nerf
