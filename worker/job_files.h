#pragma once

#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "nerf/v1/worker_service.pb.h"
#include "worker/blob_cache.h"

namespace nerf {

// Where the files stand that a job starts from; empty where it has none.
struct JobFiles {
  std::string resume, init;
};

// Lays out everything that a grant names in `folder`, made anew: scene/ with the data set, the
// checkpoint or model to start from, and empty out/ (the engine's) and commit/ (ours). Errors:
// those of the cache and of the file system; InvalidArgument for a scene that cannot be laid out.
absl::StatusOr<JobFiles> FetchJobFiles(const v1::DesiredJob& grant, const std::string& folder,
                                       BlobCache& cache, const std::stop_token& stop);

}  // namespace nerf
