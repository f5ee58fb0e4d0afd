#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <deque>
#include <map>
#include <memory>
#include <string>

#include "common/mutex.h"
#include "nerf/v1/worker_service.pb.h"
#include "server/rpc/calls/live_calls.h"
#include "server/rpc/calls/request_broker.h"
#include "server/rpc/calls/service_context.h"
#include "server/rpc/workers/worker_session.h"

namespace nerf {

class WorkerStream;

// The open streams by worker. Thread-safe.
class WorkerStreams {
 public:
  // Adds a stream after its hello; an older one of the same worker ends with ABORTED. Returns
  // false, and does nothing, if a newer one is registered.
  bool Register(const std::string& worker, uint64_t connection,
                const std::shared_ptr<WorkerStream>& stream);
  // Ends the streams of silent workers, which fails their open requests.
  void EndSilent();

 private:
  Mutex mu_;
  struct Entry {
    uint64_t connection = 0;
    std::weak_ptr<WorkerStream> stream;
  };
  std::map<std::string, Entry> streams_ ABSL_GUARDED_BY(mu_);
};

// A Synchronize stream: moves messages between gRPC, the session and the broker. At most one read
// and one write are outstanding; a waiting response is dropped if a newer one supersedes it, and a
// waiting request when it is cancelled. Owns itself until gRPC is done with it.
class WorkerStream final
    : public grpc::ServerBidiReactor<v1::SynchronizeRequest, v1::SynchronizeResponse>,
      public LiveCall,
      public WorkerLink,
      public std::enable_shared_from_this<WorkerStream> {
 public:
  static WorkerStream* Begin(const ServiceContext& services, WorkerStreams* streams,
                             grpc::CallbackServerContext* context);

  void End(const absl::Status& status) override;
  void SendRequest(const v1::ServerRequest& request) override;
  bool silent() const { return session_.silent(); }

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  WorkerStream(const ServiceContext& services, WorkerStreams* streams);
  absl::Status Open();
  // Errors: PermissionDenied WORKER_KEY_MISMATCH.
  absl::Status CheckKey();
  void HandleMessage();
  void ReadNext();
  void Enqueue(v1::SynchronizeResponse response);
  // True if the request was still waiting.
  bool DropWaiting(const std::string& request_id);
  void MaybeWrite();

  const ServiceContext& services_;
  WorkerStreams& streams_;
  WorkerSession session_;
  std::string key_;                 // the worker's; const after Begin
  v1::SynchronizeRequest request_;  // owned by gRPC while a read is outstanding
  bool open_ = false;               // used by the one message handler that runs at a time

  Mutex mu_;
  std::shared_ptr<WorkerStream> self_ ABSL_GUARDED_BY(mu_);
  v1::SynchronizeResponse response_;  // owned by gRPC while a write is outstanding
  std::deque<v1::SynchronizeResponse> outbox_ ABSL_GUARDED_BY(mu_);
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status end_status_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nerf
