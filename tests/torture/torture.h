#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "tests/torture/cut_check.h"
#include "tests/torture/cut_disk.h"
#include "tests/torture/seeded_random.h"
#include "tests/torture/story.h"

namespace nerf {

// What was tried.
struct Tally {
  uint64_t n_stories = 0, n_jobs = 0, n_ops = 0, n_cuts = 0, n_faults = 0, n_restarts = 0;
};

// Empty folders: in $TMPDIR, else in memory where the system has a file system there.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  std::string Empty(const std::string& name) const;

 private:
  std::string path_;
};

// Runs stories and cuts the power in them.
class Torture {
 public:
  Torture();

  const Tally& tally() const { return tally_; }

  StoryRecord Tell(const StoryOptions& options);
  StoryRecord TellTogether(std::span<const StoreWrite> writes, const StoryOptions& options);

  // Cuts after as many operations as `wants` says, each so often, until it says a negative number.
  // What a cut keeps is drawn from `seed` and the place. Returns the first violation; empty: none.
  using Wants = std::function<int(size_t place)>;
  std::string Cut(const StoryRecord& record, uint64_t seed, const Wants& wants);

 private:
  std::string CutOnce(const CutDisk& disk, const CutCheck& check, Kept kept, SeededRandom random);
  void Count(const StoryRecord& record);

  const Scratch scratch_;
  Tally tally_;
};

// At about `n_cuts` places of the story of a seed, in which by the seed an operation fails.
std::string CutAtRandom(Torture& torture, uint64_t seed, int n_cuts);

// The same for its writes, given to a store several at a time.
std::string CutTogether(Torture& torture, uint64_t seed, int n_cuts);

// Of the story of a seed, with a fault of each kind at its operation `at`. Sets `*is_over` behind
// the last one.
std::string CutAfterFault(Torture& torture, uint64_t seed, size_t at, bool* is_over);

}  // namespace nerf
