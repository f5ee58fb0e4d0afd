#pragma once

#include <atomic>

#include "google/bytestream/bytestream.grpc.pb.h"
#include "server/rpc/calls/service_context.h"

namespace nerf {

// google.bytestream.ByteStream on top of the blob store.
class ByteStreamService final : public google::bytestream::ByteStream::CallbackService {
 public:
  explicit ByteStreamService(const ServiceContext* services) : services_(*services) {}

  grpc::ServerWriteReactor<google::bytestream::ReadResponse>* Read(
      grpc::CallbackServerContext* context,
      const google::bytestream::ReadRequest* request) override;
  grpc::ServerReadReactor<google::bytestream::WriteRequest>* Write(
      grpc::CallbackServerContext* context, google::bytestream::WriteResponse* response) override;
  grpc::ServerUnaryReactor* QueryWriteStatus(
      grpc::CallbackServerContext* context,
      const google::bytestream::QueryWriteStatusRequest* request,
      google::bytestream::QueryWriteStatusResponse* response) override;

 private:
  const ServiceContext& services_;
  std::atomic<int> n_reads_{0}, n_writes_{0};  // open ones, of workers too
};

}  // namespace nerf
