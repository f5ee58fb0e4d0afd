#pragma once

#include <set>
#include <string>
#include <string_view>

#include "common/mutex.h"

namespace nerf {

// Keeps a label from growing without bound: `max_values` different values pass at a time, every
// other one becomes "other". Thread-safe.
class LabelCap {
 public:
  explicit LabelCap(size_t max_values = 100) : max_values_(max_values) {}

  std::string Cap(std::string_view value) {
    MutexLock lock(mu_);
    std::string text(value);
    if (values_.contains(text)) return text;
    if (values_.size() >= max_values_) return "other";
    values_.insert(text);
    return text;
  }

  // The value has no series any more: frees its place.
  void Release(std::string_view value) {
    MutexLock lock(mu_);
    values_.erase(std::string(value));
  }

 private:
  const size_t max_values_;
  Mutex mu_;
  std::set<std::string> values_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nerf
