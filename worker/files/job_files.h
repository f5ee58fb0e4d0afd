#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nerf/v1/worker_service.pb.h"
#include "worker/files/blob_cache.h"

namespace nerf {

// Paths of the files that a job starts from; empty if it has none.
struct JobFiles {
  std::string resume, init;
  std::vector<std::string> merge;  // models of its parts
};

// Creates `folder` with everything that a grant names: scene/ with the data set, the checkpoint or
// model to start from, and empty out/ (written by the engine) and commit/ (written by the worker).
// Errors: those of the cache and of the file system; InvalidArgument for a scene with bad paths;
// DataLoss CHECKPOINT_CORRUPT for a checkpoint that is damaged or missing on the server.
absl::StatusOr<JobFiles> FetchJobFiles(const v1::DesiredJob& grant, const std::string& folder,
                                       BlobCache& cache, const std::stop_token& stop);

}  // namespace nerf
