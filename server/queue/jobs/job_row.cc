#include "server/queue/jobs/job_row.h"

namespace nerf {

std::shared_ptr<const JobRow> JobRows::Get(const Job& job) {
  const auto found = rows_.find(job.key);
  if (found != rows_.end()) return found->second.row;
  if (rows_.size() == kMaxRows) Drop(ResourceKey(order_.begin()->second));
  Entry& entry = rows_[job.key];
  entry = {std::make_shared<const JobRow>(job), next_number_++};
  order_.emplace(entry.number, job.key);
  return entry.row;
}

void JobRows::Drop(const ResourceKey& job) {
  const auto found = rows_.find(job);
  if (found == rows_.end()) return;
  order_.erase(found->second.number);
  rows_.erase(found);
}

void JobRows::Clear() {
  rows_.clear();
  order_.clear();
}

}  // namespace nerf
