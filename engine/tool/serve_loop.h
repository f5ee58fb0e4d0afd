#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "common/clock.h"
#include "engine/base/parallel_for.h"
#include "engine/render/render_device.h"
#include "engine/tool/device_monitor.h"
#include "engine/tool/line_socket.h"
#include "engine/tool/mailbox.h"
#include "engine/tool/model_cache.h"
#include "engine/tool/serve_messages.h"
#include "engine/train/trainer.h"

namespace nerf {

struct ServeOptions {
  int fd = 3;  // one end of a stream socket pair
  std::string device = "cpu", device_description;
  const DeviceMonitor* monitor = nullptr;  // of the device, where there is one; outlives the loop
  uint64_t model_cache_bytes = uint64_t{1} << 30;
  // After the connection's end what is still at work may go on for this long, then the process
  // exits. Infinite in tests, where the process is theirs.
  absl::Duration exit_grace = absl::Seconds(10);
};

// The engine's side of the message protocol (docs/engine.md). One thread reads requests into a
// mailbox, the caller's thread works: it trains one job at a time and serves renders and checks, in
// training between two steps; a render that takes long goes on beside the steps (TimeShare).
// Nothing that comes over the connection ends the process but its end.
class ServeLoop {
 public:
  // What is pointed to outlives the loop. render_device is options.device's.
  ServeLoop(ServeOptions options, RenderDevice* render_device, ThreadPool* pool,
            const Clock* clock);
  ~ServeLoop();

  // Returns when the connection has ended; or before, with Internal GPU_FAILED, when the device
  // broke: whoever started this process finds that it ended in an error, and starts another one,
  // since the driver refuses this one every further call. Called once.
  absl::Status Run();

 private:
  class Job;
  struct RenderInWork;

  void ReadUntilEnd();
  void Send(const JsonObject& message);
  // Whether the error is that the device broke; nobody is told but who awaits the end of Run.
  bool IsOfBrokenDevice(const absl::Status& status);
  // Answers one message. While a job is in work, `job` is it.
  void Handle(Mail mail, Job* job);
  void HandleTrain(const nlohmann::json& message, Job* job);
  void HandleStop(const nlohmann::json& message, Job* job);
  // Sets render_, or answers why not.
  void HandleRender(const Mail& mail);
  // Renders until `pause` returns true, or to the end, and then answers. Requires: render_.
  void GoOnWithRender(Job* job, const std::function<bool()>& pause);
  absl::Status BeginRender(Job* job, RenderInWork* work);
  absl::StatusOr<JsonObject> FinishRender(RenderInWork* work);
  // Where a stop of the job stopped the check, it waits again for its turn.
  void HandleCheck(Mail mail, Job* job);
  void EndRequest(const std::string& id, const absl::Status& status, const JsonObject& reply);
  // Once a second while a request is at work: its caller may wait for as long as it goes on.
  void SayAtWork(const std::string& id, Job* job);
  absl::Status Train(const TrainMessage& message, Job* job, std::vector<SceneProblem>* problems);

  const ServeOptions options_;
  RenderDevice* const render_device_;
  ThreadPool* const pool_;
  const Clock* const clock_;
  LineSocket socket_;
  Mailbox mailbox_;
  ModelCache models_;
  std::unique_ptr<RenderInWork> render_;  // at work; others wait behind it
  absl::Status broken_;                   // what broke the device; OK before
  SteadyTime said_at_work_;
  Mutex mu_;
  CondVar done_changed_;
  bool done_ ABSL_GUARDED_BY(mu_) = false;  // Run is about to return
};

}  // namespace nerf
