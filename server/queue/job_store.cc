#include "server/queue/job_store.h"

namespace nerf {

std::vector<absl::Status> JobStore::CommitAll(std::span<const StoreWrite* const> writes) {
  std::vector<absl::Status> statuses;
  for (const StoreWrite* write : writes) statuses.push_back(Commit(*write));
  return statuses;
}

}  // namespace nerf
