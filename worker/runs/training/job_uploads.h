#pragma once

#include <stop_token>
#include <string>

#include "nerf/internal/engine.pb.h"
#include "nerf/v1/worker_service.pb.h"
#include "worker/base/call_result.h"
#include "worker/base/retry.h"
#include "worker/base/server_link.h"
#include "worker/files/blob_cache.h"

namespace nerf {

// Files that a job's engine wrote, on their way to the server. Run and the destructors block, so
// they belong into a lane of the TaskRunner; the results are read afterwards.

// Deletes a file; ignores errors.
void RemoveFile(const std::string& path);

// A checkpoint that waits for its commit. Its files are removed with it.
struct PendingCheckpoint {
  v1::CommitCheckpointRequest request;  // without the blobs
  std::string checkpoint_path, model_path;
  CallResult result;  // of Run
  Retry retry;

  explicit PendingCheckpoint(RetryOptions retry_options) : retry(retry_options) {}
  ~PendingCheckpoint();
  PendingCheckpoint(const PendingCheckpoint&) = delete;
  PendingCheckpoint& operator=(const PendingCheckpoint&) = delete;

  // Uploads both files and commits. A missing file is DATA_LOSS: NOT_FOUND would mean that the
  // server has no such job.
  void Run(BlobTransport& blobs, ServerLink& server, std::stop_token stop);
};

// A preview whose image is uploaded and then removed.
struct PreviewUpload {
  internal::Preview preview;
  v1::BlobRef blob;   // of Run
  CallResult result;  // of Run

  void Run(BlobTransport& blobs, std::stop_token stop);
};

}  // namespace nerf
