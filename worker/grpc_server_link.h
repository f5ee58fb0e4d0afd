#pragma once

#include <memory>
#include <string>

#include "common/mutex.h"
#include "worker/base/server_link.h"
#include "worker/files/blob_cache.h"

namespace grpc {
class Channel;
}

namespace nerf {

class BlobClient;

// ServerLink over gRPC. The token file is read for each call, so a new token needs no restart. With
// an empty path no token is sent.
class GrpcServerLink final : public ServerLink {
 public:
  // `worker_key` of WorkerLock; sent with every call.
  GrpcServerLink(std::shared_ptr<grpc::Channel> channel, std::string token_file,
                 std::string worker_key);
  // Ends the stream and waits until the last callback has returned.
  ~GrpcServerLink() override;

  void Open(Listener listener) override;
  void Write(v1::SynchronizeRequest message) override;
  void Close() override;
  CallResult Commit(const v1::CommitCheckpointRequest& request, std::stop_token stop) override;
  CallResult CommitFrames(const v1::CommitFramesRequest& request, std::stop_token stop) override;
  CallResult CommitPoses(const v1::CommitPosesRequest& request, std::stop_token stop) override;

 private:
  class StreamEnd;
  class StreamReactor;

  // One call of a stub's method, in this worker's name; ends early when `stop` is requested.
  template <typename Method, typename Request, typename Response>
  CallResult Call(Method method, const Request& request, std::stop_token stop, Response* response);

  // Const after construction.
  const std::shared_ptr<grpc::Channel> channel_;
  const std::string token_file_, worker_key_;

  std::shared_ptr<StreamReactor> stream_;  // used from the caller's thread
};

// BlobTransport over gRPC.
class GrpcBlobTransport final : public BlobTransport {
 public:
  // `writer_id` names this worker's uploads; a restarted worker continues them.
  GrpcBlobTransport(std::shared_ptr<grpc::Channel> channel, std::string token_file,
                    std::string writer_id);

  absl::Status Read(const v1::BlobRef& blob, const ReadChunk& sink, std::stop_token stop) override;
  absl::Status Upload(const std::string& path, const v1::BlobRef& blob,
                      std::stop_token stop) override;
  absl::Status Check(const v1::BlobRef& blob, std::stop_token stop) override;

 private:
  absl::StatusOr<BlobClient> Client() const;

  const std::shared_ptr<grpc::Channel> channel_;
  const std::string token_file_, writer_id_;
};

}  // namespace nerf
