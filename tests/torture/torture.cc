#include "tests/torture/torture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <system_error>

#include "common/logging.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;

constexpr DiskFault kFaults[] = {DiskFault::kIoError, DiskFault::kNoSpace, DiskFault::kShortWrite};

std::string_view NameOf(Kept kept) {
  return kept == Kept::kNothing ? "nothing" : kept == Kept::kSome ? "some" : "everything";
}

// About `n` places, and the end.
Torture::Wants AtRandom(const StoryRecord& record, SeededRandom* draw, int n) {
  const uint64_t every = record.ops.size() / static_cast<uint64_t>(n) + 1;
  return [&record, draw, every](size_t place) {
    return place == record.ops.size() ? 3 : draw->OneIn(every) ? 1 : 0;
  };
}

}  // namespace

Scratch::Scratch() {
  const bool in_memory = std::getenv("TMPDIR") == nullptr && fs::exists("/dev/shm");
  std::string name = (in_memory ? fs::path("/dev/shm") : fs::temp_directory_path()).string() +
                     "/nerf-torture-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) std::abort();
  path_ = fs::canonical(name).string();
}

Scratch::~Scratch() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string Scratch::Empty(const std::string& name) const {
  const std::string folder = path_ + "/" + name;
  fs::remove_all(folder);
  fs::create_directory(folder);
  return folder;
}

Torture::Torture() {
  (void)InitLogging("torture", "off");  // recovering warns of what it finds
}

void Torture::Count(const StoryRecord& record) {
  ++tally_.n_stories;
  tally_.n_jobs += static_cast<uint64_t>(record.n_jobs);
  tally_.n_ops += record.ops.size();
  tally_.n_restarts += static_cast<uint64_t>(record.n_restarts);
  tally_.n_faults += record.fault_happened ? 1 : 0;
}

StoryRecord Torture::Tell(const StoryOptions& options) {
  StoryRecord record = RunStory(scratch_.Empty("live"), options);
  Count(record);
  return record;
}

StoryRecord Torture::TellTogether(std::span<const StoreWrite> writes, const StoryOptions& options) {
  StoryRecord record = RunWritesTogether(scratch_.Empty("live"), writes, options);
  Count(record);
  return record;
}

std::string Torture::Cut(const StoryRecord& record, uint64_t seed, const Wants& wants) {
  if (!record.violation.empty()) return record.violation;
  CutDisk disk(record.first_nodes);
  CutCheck check(&record);
  for (size_t place = 0; place <= record.ops.size(); ++place) {
    if (place > 0) disk.Apply(record.ops[place - 1]);
    const int n = wants(place);
    if (n < 0) break;
    if (n == 0) continue;
    check.Advance(place);
    SeededRandom random(seed ^ (place * 0x9E3779B97F4A7C15u));
    for (int i = 0; i < n; ++i) {
      const Kept kept = n <= 2 && i == 0 ? Kept(random.Below(3))
                        : n > 2 && i < 2 ? (i == 0 ? Kept::kNothing : Kept::kEverything)
                                         : Kept::kSome;
      const std::string wrong = CutOnce(disk, check, kept, SeededRandom(random.Next()));
      if (wrong.empty()) continue;
      return fmt::format("cut after {} of {} operations, kept {}: {}", place, record.ops.size(),
                         NameOf(kept), wrong);
    }
  }
  return "";
}

std::string Torture::CutOnce(const CutDisk& disk, const CutCheck& check, Kept kept,
                             SeededRandom random) {
  const std::string folder = scratch_.Empty("cut");
  disk.WriteTo(folder, kept, random);
  ++tally_.n_cuts;
  const bool goes_on = random.OneIn(8);
  if (!random.OneIn(12)) return check.Check(folder, goes_on);
  // Another cut while the first is recovered from.
  std::optional<CutDisk> second;
  std::vector<DiskOp> ops;
  {
    RecordedDisk recorded(folder);
    second.emplace(recorded.first_nodes());
    std::string wrong = check.Check(folder, /*goes_on=*/false);
    if (!wrong.empty()) return wrong;
    ops = recorded.TakeOps();
  }
  const size_t place = random.Below(ops.size() + 1);
  for (size_t i = 0; i < place; ++i) second->Apply(ops[i]);
  const std::string again = scratch_.Empty("cut-again");
  second->WriteTo(again, Kept::kSome, random);
  ++tally_.n_cuts;
  const std::string wrong = check.Check(again, goes_on);
  return wrong.empty() ? "" : fmt::format("at a second cut, after {}: {}", place, wrong);
}

std::string CutAtRandom(Torture& torture, uint64_t seed, int n_cuts) {
  SeededRandom draw(seed ^ 0x5eed);
  StoryOptions options{.seed = seed, .n_jobs = 4 + static_cast<int>(draw.Below(16))};
  if (draw.OneIn(2)) {
    options.fault = {.at = draw.Below(static_cast<uint64_t>(options.n_jobs) * 250),
                     .kind = kFaults[draw.Below(3)],
                     .n_ops = 1 + (draw.OneIn(3) ? draw.Below(40) : 0)};
  }
  const StoryRecord record = torture.Tell(options);
  return torture.Cut(record, seed, AtRandom(record, &draw, n_cuts));
}

std::string CutTogether(Torture& torture, uint64_t seed, int n_cuts) {
  SeededRandom draw(seed ^ 0x609e74e5);
  StoryOptions options{.seed = seed, .n_jobs = 10, .restarts = false};
  options.keeps_writes = true;
  const StoryRecord alone = torture.Tell(options);
  if (!alone.violation.empty()) return alone.violation;
  if (draw.OneIn(2)) {
    options.fault = {
        .at = draw.Below(alone.ops.size() / 2 + 1), .kind = kFaults[draw.Below(3)], .n_ops = 1};
  }
  const StoryRecord record = torture.TellTogether(alone.writes, options);
  const std::string wrong = torture.Cut(record, seed, AtRandom(record, &draw, n_cuts));
  return wrong.empty() ? "" : "committed together: " + wrong;
}

std::string CutAfterFault(Torture& torture, uint64_t seed, size_t at, bool* is_over) {
  *is_over = true;
  for (const DiskFault kind : kFaults) {
    StoryOptions options{.seed = seed, .n_jobs = 3, .restarts = false};
    options.fault = {.at = at, .kind = kind, .n_ops = 1};
    const StoryRecord record = torture.Tell(options);
    if (record.fault_happened) *is_over = false;
    SeededRandom draw(seed + at);
    const std::string wrong = torture.Cut(record, seed, [&](size_t place) {
      if (place == record.ops.size()) return 2;
      return place > at && place < at + 60 && draw.OneIn(15) ? 1 : 0;
    });
    if (!wrong.empty()) {
      return fmt::format("fault {} at operation {}: {}", static_cast<int>(kind), at, wrong);
    }
  }
  return "";
}

}  // namespace nerf
