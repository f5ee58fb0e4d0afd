#include "server/rpc/workers/worker_stream.h"

#include <atomic>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/error_reason.h"
#include "common/ids.h"
#include "common/logging.h"
#include "common/rpc/metadata.h"
#include "common/rpc/status_conversion.h"
#include "common/status_macros.h"

namespace nerf {
namespace {

constexpr char kSynchronizeMethod[] = "nerf.v1.WorkerService/Synchronize";

// True if `older`, still unsent, can be dropped because of `newer`.
bool Supersedes(const v1::SynchronizeResponse& newer, const v1::SynchronizeResponse& older) {
  if (older.has_request() || newer.has_request() || older.has_rank_texts()) return false;
  if (!older.finished_acknowledged().empty() &&
      older.finished_acknowledged() != newer.finished_acknowledged()) {
    return false;
  }
  if (!older.has_desired_job()) return true;
  // A grant is never dropped; a renewal or a repeated order may be.
  return older.desired_job().action() != v1::DesiredJob::TRAIN &&
         older.desired_job().action() != v1::DesiredJob::RENDER && newer.has_desired_job() &&
         older.desired_job().action() == newer.desired_job().action() &&
         older.desired_job().job() == newer.desired_job().job() &&
         older.desired_job().lease_epoch() == newer.desired_job().lease_epoch();
}

absl::Status TakenOver() {
  return absl::AbortedError("a newer stream of this worker has taken over");
}

}  // namespace

bool WorkerStreams::Register(const std::string& worker, uint64_t connection,
                             const std::shared_ptr<WorkerStream>& stream) {
  std::shared_ptr<WorkerStream> older;
  {
    MutexLock lock(mu_);
    Entry& entry = streams_[worker];
    if (entry.connection > connection && !entry.stream.expired()) return false;
    older = entry.stream.lock();
    entry = {connection, stream};
  }
  if (older != nullptr) older->End(TakenOver());
  return true;
}

void WorkerStreams::EndSilent() {
  std::vector<std::shared_ptr<WorkerStream>> streams;
  {
    MutexLock lock(mu_);
    for (auto it = streams_.begin(); it != streams_.end();) {
      if (auto stream = it->second.stream.lock()) {
        streams.push_back(std::move(stream));
        ++it;
      } else {
        it = streams_.erase(it);
      }
    }
  }
  for (const auto& stream : streams) {
    if (stream->silent()) {
      stream->End(absl::UnavailableError("the worker was silent for longer than the lease TTL"));
    }
  }
}

WorkerStream::WorkerStream(const ServiceContext& services, WorkerStreams* streams)
    : services_(services),
      streams_(*streams),
      session_(
          services, [this](v1::SynchronizeResponse response) { Enqueue(std::move(response)); },
          [this](WorkerSession::Task task) {
            services_.executor.Post(
                Lane::kCommit, [stream = shared_from_this(), task = std::move(task)] { task(); });
          }) {}

WorkerStream* WorkerStream::Begin(const ServiceContext& services, WorkerStreams* streams,
                                  grpc::CallbackServerContext* context) {
  std::shared_ptr<WorkerStream> stream(new WorkerStream(services, streams));
  {
    MutexLock lock(stream->mu_);
    stream->self_ = stream;
  }
  const auto principal = services.authorizer.Begin(kSynchronizeMethod, *context);
  if (!principal.ok()) {
    stream->End(principal.status());
    return stream.get();
  }
  stream->key_ = MetadataOf(*context, kWorkerKeyMetadata);
  services.live_calls.AddWorker(stream);
  stream->ReadNext();
  return stream.get();
}

void WorkerStream::OnReadDone(bool ok) {
  if (!ok) return End(absl::OkStatus());
  services_.executor.Post(Lane::kQuick, [stream = shared_from_this()] { stream->HandleMessage(); });
}

absl::Status WorkerStream::CheckKey() {
  // First, so that a key is bound by good messages alone.
  NERF_RETURN_IF_ERROR(WorkerSession::CheckFirst(request_));
  return services_.authorizer.Counted(services_.worker_keys.CheckOrBind(
      request_.hello().worker_id(), key_,
      [this](const std::string& worker) {
        const auto record = services_.workers.Find(worker);
        return record.has_value() && record->connected;
      },
      [this](std::function<void()> task) {
        services_.executor.Post(Lane::kCommit, std::move(task));
      }));
}

absl::Status WorkerStream::Open() {
  NERF_RETURN_IF_ERROR(CheckKey());
  // Each new job wakes every worker: one call for all news that come before it.
  auto on_work = [weak = weak_from_this(), due = std::make_shared<std::atomic<bool>>(false),
                  &executor = services_.executor] {
    if (due->exchange(true)) return;
    executor.Post(Lane::kQuick, [weak, due] {
      due->store(false);
      if (const auto stream = weak.lock()) stream->session_.HandleWork();
    });
  };
  NERF_RETURN_IF_ERROR(session_.Open(request_, std::move(on_work)));
  const std::optional<std::string> worker = session_.worker();
  if (!worker.has_value()) return absl::OkStatus();  // ended in the meantime
  const uint64_t connection = session_.connection();
  if (!streams_.Register(*worker, connection, shared_from_this())) return TakenOver();
  services_.broker.Attach(*worker, connection, shared_from_this());
  // End() may have run before the Attach above. Then it did not detach this stream.
  bool ended = false;
  {
    MutexLock lock(mu_);
    ended = ended_;
  }
  if (ended) services_.broker.Detach(*worker, this);
  return absl::OkStatus();
}

void WorkerStream::HandleMessage() {
  if (!std::exchange(open_, true)) {
    if (absl::Status status = Open(); !status.ok()) return End(status);
  }
  if (absl::Status status = session_.HandleMessage(request_); !status.ok()) return End(status);
  if (request_.has_reply()) services_.broker.HandleReply(this, request_.reply());
  ReadNext();
}

void WorkerStream::ReadNext() {
  // Hold the lock, because once the stream has ended it may be destroyed at any time.
  MutexLock lock(mu_);
  if (!ended_) StartRead(&request_);
}

void WorkerStream::SendRequest(const v1::ServerRequest& request) {
  // Without this the requests of a worker that stands still would pile up.
  if (request.cancel() && DropWaiting(request.request_id())) return;
  v1::SynchronizeResponse response;
  *response.mutable_request() = request;
  Enqueue(std::move(response));
}

bool WorkerStream::DropWaiting(const std::string& request_id) {
  MutexLock lock(mu_);
  return std::erase_if(outbox_, [&](const v1::SynchronizeResponse& response) {
           return response.request().request_id() == request_id;
         }) > 0;
}

void WorkerStream::Enqueue(v1::SynchronizeResponse response) {
  {
    MutexLock lock(mu_);
    if (ended_) return;
    if (!outbox_.empty() && Supersedes(response, outbox_.back())) outbox_.pop_back();
    outbox_.push_back(std::move(response));
  }
  MaybeWrite();
}

void WorkerStream::MaybeWrite() {
  {
    MutexLock lock(mu_);
    if (ended_ || writing_ || outbox_.empty()) return;
    response_ = std::move(outbox_.front());
    outbox_.pop_front();
    writing_ = true;
  }
  StartWrite(&response_);
}

void WorkerStream::OnWriteDone(bool ok) {
  std::optional<absl::Status> end;
  {
    MutexLock lock(mu_);
    writing_ = false;
    if (ended_) end = end_status_;
  }
  if (end.has_value()) return Finish(ToGrpcStatus(*end));
  if (!ok) return End(absl::CancelledError("the worker closed the stream"));
  MaybeWrite();
}

void WorkerStream::End(const absl::Status& status) {
  bool finish_now = false;
  {
    MutexLock lock(mu_);
    if (ended_) return;
    ended_ = true;
    end_status_ = status;
    finish_now = !writing_;  // otherwise OnWriteDone finishes
    outbox_.clear();
  }
  // Detach before the session closes, so that retried calls choose another worker.
  if (const auto worker = session_.worker(); worker.has_value()) {
    services_.broker.Detach(*worker, this);
    // Its key was in use until now, however long ago its hello was.
    services_.worker_keys.Check(*worker, key_).IgnoreError();
    LogInfo("worker disconnected", {{"worker", *worker}, {"status", status.ToString()}});
  }
  session_.Close();
  if (finish_now) Finish(ToGrpcStatus(status));
}

void WorkerStream::OnCancel() { End(absl::CancelledError("the worker closed the stream")); }

void WorkerStream::OnDone() {
  std::shared_ptr<WorkerStream> self;
  {
    MutexLock lock(mu_);
    self.swap(self_);
  }
}

}  // namespace nerf
