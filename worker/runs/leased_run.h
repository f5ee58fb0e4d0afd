#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "common/clock.h"
#include "nerf/internal/engine.pb.h"
#include "nerf/v1/worker_service.pb.h"
#include "worker/base/server_link.h"
#include "worker/base/task_runner.h"
#include "worker/engine/engine.h"
#include "worker/engine/engine_room.h"
#include "worker/files/blob_cache.h"

namespace nerf {

// The parts of the worker that a run uses. They outlive the run; the functions are called on the
// agent's thread.
struct JobContext {
  const std::string& worker_id;
  const Clock& clock;
  TaskRunner& tasks;
  BlobCache& cache;
  std::shared_ptr<EngineRoom> room;  // of the job's project; the run's folder is in it
  BlobTransport& blobs;
  ServerLink& server;
  std::function<void(const internal::WorkerRequest&)> send_to_engine;
  std::function<void(EngineExit::Kind)> kill_engine;
  std::function<std::string()> new_request_id;  // no other request of this worker has it
  std::function<void()> report_changed;         // send the report now
  std::function<void()> progress_changed;       // send it soon
};

// One lease, of a job or a part of one, from the grant to the acknowledged end. Used from the
// agent's thread, in a shared_ptr.
class LeasedRun {
 public:
  virtual ~LeasedRun() = default;

  // Begins to download. Called once.
  virtual void Start() = 0;
  // True if Begin may be called once the engine is free.
  virtual bool waits_for_engine() const = 0;
  virtual void Begin() = 0;

  // Stops without a result, ends CANCELLED.
  virtual void Cancel() = 0;
  // Hands the lease back, ends RELEASED.
  // `in_hurry`: the worker exits.
  virtual void Release(bool in_hurry) = 0;
  // Stops, writes nothing more, reports nothing.
  virtual void Abandon() = 0;

  // A message whose `job` is key(), or whose id the run Owns.
  virtual void OnEngineMessage(const internal::EngineMessage& message) = 0;
  virtual bool Owns(const std::string& /*request_id*/) const { return false; }
  // `shared`: the engine also had a render or a check, which may have crashed it.
  virtual void OnEngineExit(const EngineExit& exit, bool shared) = 0;
  // No engine can be started.
  virtual void OnEngineHopeless(const std::string& why) = 0;
  virtual void Tick() = 0;

  virtual const std::string& name() const = 0;
  virtual uint64_t lease_epoch() const = 0;
  // The engine's name for this run: job name and epoch.
  virtual const std::string& key() const = 0;
  // True if it only repeats its report until the server has stored it.
  virtual bool is_final() const = 0;
  // True while the engine works on this run and has to answer before another one begins.
  virtual bool in_engine() const = 0;
  // True while the engine must do nothing else.
  virtual bool needs_alone() const { return false; }
  virtual bool abandoned() const = 0;
  // True if it has ended or was told to.
  virtual bool ending() const = 0;
  // Silence of the engine after which it hangs; infinite if no message is expected.
  virtual absl::Duration allowed_silence() const = 0;
  // The engine's name of the job while it trains.
  virtual std::optional<std::string> training_key() const { return std::nullopt; }

  // For a training by several workers: whether this is one, and the text that this rank sends to
  // the others (null: none) until it has theirs.
  virtual bool in_gang() const { return false; }
  virtual const v1::RankText* rank_text() const { return nullptr; }
  virtual void OnRankTexts(const v1::RankTexts& /*texts*/) {}

  virtual const v1::JobReport& report() const = 0;
  // The report for the first message of a stream.
  virtual v1::JobReport FirstReport() const { return report(); }
};

}  // namespace nerf
