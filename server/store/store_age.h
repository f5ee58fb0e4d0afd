#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "common/clock.h"

namespace nerf {

// The time by which files of a blob store age, in the file `age` of its folder: it runs only while
// a server does, goes on where the last one ended and has nothing to do with the wall clock, so no
// jump of that ages a file. Thread-safe. The clock outlives it.
class StoreAge {
 public:
  StoreAge(const std::string& folder, const Clock* clock);

  absl::Time Now() const { return at_open_ + (clock_.Now() - opened_at_); }
  // After a crash time goes back to where it was saved last.
  void Save() const;

 private:
  const std::string path_;
  const Clock& clock_;
  const SteadyTime opened_at_;
  absl::Time at_open_;  // const after construction
};

// Of a regular file: nullopt and InfiniteFuture where there is none.
std::optional<uint64_t> FileSize(const std::string& path);
absl::Time FileTime(const std::string& path);
void SetFileTime(const std::string& path, absl::Time time);

}  // namespace nerf
