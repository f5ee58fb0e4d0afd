#include "worker/runs/training/job_uploads.h"

#include <filesystem>
#include <system_error>

#include "common/messages/blob_ref.h"
#include "common/status_macros.h"

namespace nerf {
namespace {

absl::StatusOr<v1::BlobRef> UploadFile(BlobTransport& blobs, const std::string& path,
                                       const std::stop_token& stop) {
  NERF_ASSIGN_OR_RETURN(v1::BlobRef blob, BlobOfFile(path));
  NERF_RETURN_IF_ERROR(blobs.Upload(path, blob, stop));
  return blob;
}

CallResult ResultOfFile(const absl::Status& status) {
  CallResult result = ToCallResult(status);
  if (result.code == absl::StatusCode::kNotFound) result.code = absl::StatusCode::kDataLoss;
  return result;
}

}  // namespace

void RemoveFile(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
}

PendingCheckpoint::~PendingCheckpoint() {
  RemoveFile(checkpoint_path);
  RemoveFile(model_path);
}

void PendingCheckpoint::Run(BlobTransport& blobs, ServerLink& server, std::stop_token stop) {
  const auto commit = [&]() -> CallResult {
    v1::CommitCheckpointRequest with_blobs = request;
    const auto full = UploadFile(blobs, checkpoint_path, stop);
    if (!full.ok()) return ResultOfFile(full.status());
    const auto model = UploadFile(blobs, model_path, stop);
    if (!model.ok()) return ResultOfFile(model.status());
    *with_blobs.mutable_checkpoint_blob() = *full;
    *with_blobs.mutable_model_blob() = *model;
    return server.Commit(with_blobs, stop);
  };
  result = commit();
}

void PreviewUpload::Run(BlobTransport& blobs, std::stop_token stop) {
  const auto uploaded = UploadFile(blobs, preview.image(), stop);
  result = ToCallResult(uploaded.status());
  if (uploaded.ok()) blob = *uploaded;
  RemoveFile(preview.image());
}

}  // namespace nerf
