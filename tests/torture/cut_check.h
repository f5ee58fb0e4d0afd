#pragma once

#include <map>
#include <set>
#include <string>

#include "tests/torture/story.h"

namespace nerf {

// Opens what a power cut left, as nerfd does, and compares it with what was acknowledged before.
class CutCheck {
 public:
  explicit CutCheck(const StoryRecord* record) : record_(*record) {}

  // To a later cut: after the first `place` operations.
  void Advance(size_t place);

  // What is wrong with `folder`, which is written to; empty: nothing. `goes_on`: with the work
  // there, too: finishes uploads, creates a job, opens everything again.
  std::string Check(const std::string& folder, bool goes_on) const;

 private:
  struct JobTold {
    uint64_t epoch = 0;
    uint32_t step = 0;
    std::optional<JobState> end;
    bool deleting = false, deleted = false;
  };

  const StoryRecord& record_;
  size_t place_ = 0;
  size_t n_states_ = 0, n_claims_ = 0, n_blobs_ = 0, n_tokens_ = 0, n_backups_ = 0;
  size_t last_acknowledged_ = 0;
  std::map<std::string, JobTold> jobs_;
  std::map<std::string, BlobRef> blobs_;
  std::map<std::string, Presence> tokens_, backups_;
};

}  // namespace nerf
