#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace nerf {

// How far a search for poses is.
struct PoseProgress {
  int stage = 0, n_stages = 0;  // from 1; n_stages grows when a harder effort follows
  std::string doing;            // "placing cameras"
  int done = 0, of = 0;         // within the stage, never falling; of 0: not known
  std::string_view unit;        // what they count: "photographs"
};

// "6/7 placing cameras".
std::string PoseProgressTitle(const PoseProgress& progress);
// "6/7 placing cameras: 12 of 50 photographs".
std::string PoseProgressText(const PoseProgress& progress);

// Numbers the stages of one search and reports them. Used from one thread.
class PoseStages {
 public:
  // report: called at each change and by Repeat; may be unset.
  explicit PoseStages(std::function<void(const PoseProgress&)> report);

  // n stages follow the current one.
  void Expect(int n);
  // The next stage. `unit` is a literal.
  void Begin(std::string doing, std::string_view unit, int of = 0);
  // `done` is left as it was where it would fall, as when the mapper begins another model.
  void Advance(int done, int of);
  // Reports again what was reported last.
  void Repeat() const;

 private:
  const std::function<void(const PoseProgress&)> report_;
  PoseProgress current_;
};

}  // namespace nerf
