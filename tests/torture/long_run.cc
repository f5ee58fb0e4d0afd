// power_cuts SECONDS SEED TALLY: the long run of power_cut_test.cc. It cuts a story of 300 jobs
// after every operation, lets each operation of a small one fail in each way, and then tries new
// seeds until the time is over. TALLY, a file, sums up runs; the next one goes on where the last
// one stopped. Exit code 1: a violation, which is printed with its seed.
#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/files/atomic_file.h"
#include "common/files/file_io.h"
#include "tests/torture/torture.h"

namespace nerf {
namespace {

using Clock = std::chrono::steady_clock;

// Numbers by name in a file, a line each.
class TallyFile {
 public:
  explicit TallyFile(std::string path) : path_(std::move(path)) {
    const auto text = ReadFile(path_, 1 << 16);
    if (!text.ok()) return;
    const std::vector<std::string> lines = absl::StrSplit(*text, '\n', absl::SkipEmpty());
    for (const std::string& line : lines) {
      const std::vector<std::string> words = absl::StrSplit(line, '=');
      uint64_t number = 0;
      if (words.size() == 2 && absl::SimpleAtoi(words[1], &number)) numbers_[words[0]] = number;
    }
  }
  uint64_t& operator[](const std::string& name) { return numbers_[name]; }
  void Save() const {
    std::string text;
    for (const auto& [name, number] : numbers_) text += fmt::format("{}={}\n", name, number);
    const absl::Status saved = WriteFileAtomically(path_, text);
    if (!saved.ok()) std::cerr << "the tally is not saved: " << saved.ToString() << "\n";
  }

 private:
  const std::string path_;
  std::map<std::string, uint64_t> numbers_;
};

class LongRun {
 public:
  LongRun(std::chrono::seconds time, uint64_t seed, const std::string& tally)
      : seed_(seed), end_(Clock::now() + time), tally_(tally) {
    if (tally_["seed"] != seed) {  // places are those of the stories of one seed
      tally_["seed"] = seed;
      tally_["next_place"] = tally_["next_fault"] = tally_["next_seed"] = 0;
      tally_["places_are_done"] = tally_["faults_are_done"] = 0;
    }
  }

  int Run() {
    const bool held = Places() && Faults() && Seeds();
    Count();
    if (!held) {
      ++tally_["violations"];
      tally_.Save();
    }
    return held ? 0 : 1;
  }

 private:
  bool IsOver() const { return Clock::now() >= end_; }

  bool Held(const std::string& wrong, const std::string& what) {
    if (wrong.empty()) return true;
    std::cout << fmt::format("VIOLATION, {}: {}\n", what, wrong);
    return false;
  }

  // Adds what was tried since the last call.
  void Count() {
    const Tally& now = torture_.tally();
    tally_["stories"] += now.n_stories - counted_.n_stories;
    tally_["jobs"] += now.n_jobs - counted_.n_jobs;
    tally_["operations"] += now.n_ops - counted_.n_ops;
    tally_["cuts"] += now.n_cuts - counted_.n_cuts;
    tally_["faults"] += now.n_faults - counted_.n_faults;
    tally_["restarts"] += now.n_restarts - counted_.n_restarts;
    const auto time = Clock::now();
    tally_["milliseconds"] += static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(time - counted_at_).count());
    counted_ = now;
    counted_at_ = time;
    tally_.Save();
  }

  // Every operation of a story of 300 jobs.
  bool Places() {
    if (tally_["places_are_done"] != 0) return true;
    const StoryRecord record = torture_.Tell({.seed = seed_, .n_jobs = 300});
    tally_["places_of_300_jobs"] = record.ops.size() + 1;
    const size_t first = tally_["next_place"];
    const std::string wrong = torture_.Cut(record, seed_, [&](size_t place) {
      if (place < first) return 0;
      if (IsOver()) return -1;
      tally_["next_place"] = place;  // those before it have been cut
      if (place % 500 == 0) Count();
      return 1;
    });
    if (wrong.empty() && !IsOver()) {
      tally_["next_place"] = record.ops.size() + 1;
      tally_["places_are_done"] = 1;
    }
    Count();
    return Held(wrong, fmt::format("story of 300 jobs, seed {}", seed_));
  }

  bool Faults() {
    if (tally_["faults_are_done"] != 0) return true;
    bool is_over = false;
    for (uint64_t& at = tally_["next_fault"]; !is_over && !IsOver(); ++at) {
      if (!Held(CutAfterFault(torture_, seed_, at, &is_over), fmt::format("seed {}", seed_))) {
        return false;
      }
      if (at % 50 == 0) Count();
    }
    if (is_over) tally_["faults_are_done"] = 1;
    return true;
  }

  bool Seeds() {
    for (uint64_t& next = tally_["next_seed"]; !IsOver(); ++next) {
      const uint64_t seed = seed_ + next;
      const std::string what = fmt::format("NERF_TORTURE_SEED={}", seed);
      if (!Held(CutAtRandom(torture_, seed, 200), what)) return false;
      if (next % 4 == 0 && !Held(CutTogether(torture_, seed, 200), what)) return false;
      if (next % 20 == 0) Count();
    }
    return true;
  }

  const uint64_t seed_;
  const Clock::time_point end_;
  TallyFile tally_;
  Torture torture_;
  Tally counted_;
  Clock::time_point counted_at_ = Clock::now();
};

}  // namespace
}  // namespace nerf

int main(int argc, char** argv) {
  uint64_t seconds = 0, seed = 0;
  if (argc != 4 || !absl::SimpleAtoi(argv[1], &seconds) || !absl::SimpleAtoi(argv[2], &seed)) {
    std::cerr << "usage: power_cuts SECONDS SEED TALLY\n";
    return 2;
  }
  return nerf::LongRun(std::chrono::seconds(seconds), seed, argv[3]).Run();
}
