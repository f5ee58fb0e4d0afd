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
  grpc::ServerUnaryReactor* SignBlobUrl(grpc::CallbackServerContext* context,
                                        const v1::SignBlobUrlRequest* request,
                                        v1::SignBlobUrlResponse* response) override;
  grpc::ServerUnaryReactor* AdoptBlob(grpc::CallbackServerContext* context,
                                      const v1::AdoptBlobRequest* request,
                                      v1::AdoptBlobResponse* response) override;

 private:
  // NotFound for a blob that the caller's project does not hold, as if it were not there.
  absl::Status CheckHolds(const Principal& caller, const std::string& parent,
                          const BlobRef& blob) const;

  const ServiceContext& services_;
  std::atomic<int> n_checks_ = 0;  // in progress
};

}  // namespace nerf
