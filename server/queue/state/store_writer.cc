#include "server/queue/state/store_writer.h"

#include <algorithm>
#include <utility>

namespace nerf {
namespace {
// Most writes in one transaction. Limits its duration and the number of writes to repeat after a
// failure.
constexpr size_t kMaxBatch = 256;
}  // namespace

StoreWriter::StoreWriter(JobStore* store, const Clock* clock, Deliver deliver)
    : store_(*store), clock_(*clock), deliver_(std::move(deliver)), thread_([this] { Run(); }) {}

StoreWriter::~StoreWriter() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
  }
  submitted_.NotifyAll();
  thread_.join();
}

void StoreWriter::Submit(StoreWrite write, Done done) {
  {
    MutexLock lock(mu_);
    pending_.push_back({std::move(write), std::move(done)});
  }
  submitted_.NotifyOne();
}

absl::Duration StoreWriter::BusyFor() const {
  MutexLock lock(mu_);
  return busy_ ? clock_.Now() - busy_since_ : absl::ZeroDuration();
}

void StoreWriter::Run() {
  while (true) {
    std::vector<Pending> batch;
    SteadyTime start;
    {
      MutexLock lock(mu_);
      busy_ = false;
      while (pending_.empty() && !stopping_) submitted_.Wait(mu_);
      if (pending_.empty()) return;
      const auto end = pending_.begin() + std::min(pending_.size(), kMaxBatch);
      batch.assign(std::make_move_iterator(pending_.begin()), std::make_move_iterator(end));
      pending_.erase(pending_.begin(), end);
      start = clock_.Now();
      busy_since_ = start;
      busy_ = true;
    }
    std::vector<const StoreWrite*> writes;
    for (const Pending& pending : batch) writes.push_back(&pending.write);
    std::vector<absl::Status> statuses = store_.CommitAll(writes);
    std::vector<Finished> finished;
    for (size_t i = 0; i < batch.size(); ++i) {
      finished.push_back({std::move(statuses[i]), std::move(batch[i].done)});
    }
    deliver_(std::move(finished), clock_.Now() - start);
  }
}

}  // namespace nerf
