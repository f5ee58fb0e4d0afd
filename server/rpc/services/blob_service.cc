#include "server/rpc/services/blob_service.h"

#include <fmt/format.h>

#include <set>
#include <string>
#include <vector>

#include "common/status_macros.h"
#include "server/queue/resources/request_check.h"
#include "server/queue/resources/resource_key.h"
#include "server/rpc/calls/unary_call.h"
#include "server/rpc/convert/convert_common.h"

namespace nerf {
namespace {

constexpr int kMaxBlobs = 10'000;

absl::StatusOr<std::vector<BlobRef>> ParseBlobs(const v1::FindMissingBlobsRequest& request) {
  RequestCheck check;
  check.Require(request.blobs_size() <= kMaxBlobs, "blobs",
                fmt::format("must be at most {}, not {}", kMaxBlobs, request.blobs_size()));
  NERF_RETURN_IF_ERROR(check.Result());
  std::vector<BlobRef> blobs;
  for (int i = 0; i < request.blobs_size(); ++i) {
    blobs.push_back(TakeOr(FromProto(fmt::format("blobs[{}]", i), request.blobs(i)), check));
  }
  NERF_RETURN_IF_ERROR(check.Result());
  return blobs;
}

}  // namespace

grpc::ServerUnaryReactor* BlobService::FindMissingBlobs(grpc::CallbackServerContext* context,
                                                        const v1::FindMissingBlobsRequest* request,
                                                        v1::FindMissingBlobsResponse* response) {
  return AnswerUnary(services_, "nerf.v1.BlobService/FindMissingBlobs", context, *request,
                     [=, this]() -> absl::Status {
                       NERF_ASSIGN_OR_RETURN(const auto blobs, ParseBlobs(*request));
                       NERF_ASSIGN_OR_RETURN(const std::string project,
                                             ParseProjectName("parent", request->parent()));
                       // What the project does not own it has to upload, as if nobody had it.
                       std::vector<BlobRef> owned;
                       std::set<BlobRef> missing;
                       for (const BlobRef& blob : blobs) {
                         if (services_.blob_owners.Owns(project, blob.sha256)) {
                           owned.push_back(blob);
                         } else if (missing.insert(blob).second) {
                           *response->add_missing() = ToProto(blob);
                         }
                       }
                       for (const BlobRef& blob : services_.blobs.FindToUpload(owned)) {
                         *response->add_missing() = ToProto(blob);
                       }
                       return absl::OkStatus();
                     });
}

}  // namespace nerf
