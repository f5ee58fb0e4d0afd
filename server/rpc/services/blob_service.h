#pragma once

#include <atomic>

#include "nerf/v1/blob_service.grpc.pb.h"
#include "server/rpc/calls/service_context.h"

namespace nerf {

// nerf.v1.BlobService on top of the blob store.
class BlobService final : public v1::BlobService::CallbackService {
 public:
  explicit BlobService(const ServiceContext* services) : services_(*services) {}

  grpc::ServerUnaryReactor* FindMissingBlobs(grpc::CallbackServerContext* context,
                                             const v1::FindMissingBlobsRequest* request,
                                             v1::FindMissingBlobsResponse* response) override;
  grpc::ServerUnaryReactor* CheckBlob(grpc::CallbackServerContext* context,
                                      const v1::CheckBlobRequest* request,
                                      v1::CheckBlobResponse* response) override;

 private:
  const ServiceContext& services_;
  std::atomic<int> n_checks_ = 0;  // in progress
};

}  // namespace nerf
