#include "server/rpc/services/services.h"

#include <fmt/format.h>

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/status_macros.h"
#include "nerf/v1/blob_service.grpc.pb.h"
#include "server/queue/resources/request_check.h"
#include "server/queue/resources/resource_key.h"
#include "server/rpc/calls/service_context.h"
#include "server/rpc/calls/unary_call.h"
#include "server/rpc/convert/convert_common.h"

namespace nerf {
namespace {

constexpr int kMaxBlobs = 10'000;
// Each keeps a thread and the disk busy.
constexpr int kMaxChecks = 2;

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

// Reads all of a blob. DataLoss BLOB_DAMAGED, NotFound.
absl::Status ReadWhole(BlobStore& blobs, const BlobRef& blob) {
  constexpr uint64_t kPieceBytes = uint64_t{1} << 18;
  NERF_ASSIGN_OR_RETURN(const auto reader, blobs.OpenRead(blob, 0, blob.byte_size));
  reader->ForgetCached();
  while (!reader->at_end()) NERF_RETURN_IF_ERROR(reader->Read(kPieceBytes).status());
  return absl::OkStatus();
}

// nerf.v1.BlobService on top of the blob store.
class BlobService final : public v1::BlobService::CallbackService {
 public:
  explicit BlobService(const ServiceContext* services) : services_(*services) {}

  UnaryReactor* FindMissingBlobs(CallContext* context, const v1::FindMissingBlobsRequest* request,
                                 v1::FindMissingBlobsResponse* response) override {
    return AnswerUnary(services_, "nerf.v1.BlobService/FindMissingBlobs", context, *request,
                       [=, this] {
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

  UnaryReactor* CheckBlob(CallContext* context, const v1::CheckBlobRequest* request,
                          v1::CheckBlobResponse* /*response*/) override {
    return AnswerUnary(
        services_, "nerf.v1.BlobService/CheckBlob", context, *request,
        [=, this](const Principal& caller) {
          NERF_ASSIGN_OR_RETURN(const BlobRef blob, FromProto("blob", request->blob()));
          NERF_RETURN_IF_ERROR(CheckHolds(caller, request->parent(), blob));
          const bool may_check = ++n_checks_ <= kMaxChecks;
          const absl::Status status = may_check ? ReadWhole(services_.blobs, blob) : TooManyCalls();
          --n_checks_;
          return status;
        });
  }

  UnaryReactor* SignBlobUrl(CallContext* context, const v1::SignBlobUrlRequest* request,
                            v1::SignBlobUrlResponse* response) override {
    return AnswerUnary(services_, "nerf.v1.BlobService/SignBlobUrl", context, *request,
                       [=, this](const Principal& caller) {
                         NERF_ASSIGN_OR_RETURN(const BlobRef blob,
                                               FromProto("blob", request->blob()));
                         absl::StatusOr<SignedUrl> url = SignedUrl();
                         if (!request->write()) {
                           NERF_RETURN_IF_ERROR(CheckHolds(caller, request->parent(), blob));
                           url = services_.blobs.SignRead(blob);
                         } else if (IsWorker(caller)) {
                           url = services_.blobs.SignWrite(blob);
                         }
                         NERF_RETURN_IF_ERROR(url.status());
                         response->set_url(url->url);
                         response->mutable_headers()->Add(url->headers.begin(), url->headers.end());
                         return absl::OkStatus();
                       });
  }

  UnaryReactor* AdoptBlob(CallContext* context, const v1::AdoptBlobRequest* request,
                          v1::AdoptBlobResponse* /*response*/) override {
    return AnswerUnary(services_, "nerf.v1.BlobService/AdoptBlob", context, *request, [=, this] {
      NERF_ASSIGN_OR_RETURN(const BlobRef blob, FromProto("blob", request->blob()));
      return services_.blobs.Adopt(blob).status();
    });
  }

 private:
  // NotFound for a blob that the caller's project does not hold, as if it were not there.
  absl::Status CheckHolds(const Principal& caller, const std::string& parent,
                          const BlobRef& blob) const {
    NERF_ASSIGN_OR_RETURN(const std::string project, ParseProjectName("parent", parent));
    if (IsWorker(caller) || services_.blob_owners.Owns(project, blob.sha256))
      return absl::OkStatus();
    return BlobNotFoundError(blob);
  }

  const ServiceContext& services_;
  std::atomic<int> n_checks_ = 0;  // in progress
};

}  // namespace

std::unique_ptr<grpc::Service> MakeBlobService(const ServiceContext* services) {
  return std::make_unique<BlobService>(services);
}

}  // namespace nerf
