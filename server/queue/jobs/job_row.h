#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "server/queue/jobs/job.h"

namespace nerf {

// A row of the lists of jobs: a job as it was at its last change, shared by all readers, and what
// they send of it.
class JobRow {
 public:
  explicit JobRow(Job job) : job_(std::move(job)) {}
  JobRow(const JobRow&) = delete;
  JobRow& operator=(const JobRow&) = delete;

  const Job& job() const { return job_; }
  // What the first call's `encode` has made of the job. Thread-safe.
  const std::string& Encoded(const std::function<std::string(const Job&)>& encode) const {
    std::call_once(is_encoded_, [&] { encoded_ = encode(job_); });
    return encoded_;
  }

 private:
  const Job job_;
  mutable std::once_flag is_encoded_;
  mutable std::string encoded_;
};

// The rows that were read last, so that many readers of a list copy and encode a job once. Not
// thread-safe.
class JobRows {
 public:
  static constexpr size_t kMaxRows = 2'000;  // as large as their jobs: some 10 KB most of them

  // The row of a job, which is copied unless it is here. Requires: Drop was called since a change
  // of the job that readers of lists see.
  std::shared_ptr<const JobRow> Get(const Job& job);
  void Drop(const ResourceKey& job);
  void Clear();
  size_t size() const { return rows_.size(); }

 private:
  struct Entry {
    std::shared_ptr<const JobRow> row;
    uint64_t number = 0;
  };
  std::map<ResourceKey, Entry> rows_;
  std::map<uint64_t, ResourceKey> order_;  // of their making, by number
  uint64_t next_number_ = 1;
};

}  // namespace nerf
