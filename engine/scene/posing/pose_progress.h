#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "engine/scene/posing/pose_eta.h"

namespace nerf {

// Points and cameras from above, in a square, as bytes: 0 to 255 from left and from above.
struct PoseSketch {
  std::string points;   // x and y of each
  std::string cameras;  // x, y and viewing direction of each: 256 is a whole turn, 64 looks down
};

// How far a search for poses is.
struct PoseProgress {
  int stage = 0, n_stages = 0;  // from 1; n_stages grows when a harder effort follows
  std::string doing;            // "placing cameras"
  int done = 0, of = 0;         // within the stage, never falling; of 0: not known
  std::string_view unit;        // what they count: "photographs"
  bool is_over = false;         // the stage has ended; `done` is final
  double eta_seconds = 0;       // until the search ends, if no harder effort follows; 0: not known
  // Of the last stage that matched pairs of photographs, as far as it is: features of one
  // photograph that were looked up in another; 0 before.
  double matches_per_second = 0;
  PoseSketch sketch;  // of what was placed last; empty before
};

// "6/7 placing cameras".
std::string PoseProgressTitle(const PoseProgress& progress);
// "6/7 placing cameras: 12 of 50 photographs, about 3 min left".
std::string PoseProgressText(const PoseProgress& progress);

// Numbers the stages of one search and reports them. Used from one thread.
class PoseStages {
 public:
  // report: called at each change and by Repeat; may be unset. The clock outlives it.
  PoseStages(std::function<void(const PoseProgress&)> report, const Clock* clock, int n_threads);

  // n stages follow the current one.
  void Expect(int n);
  // The next stage. `unit` is a literal. What it costs, and the stages that are expected after it,
  // are for the time left.
  void Begin(std::string doing, std::string_view unit, int of = 0, const PlannedStage& stage = {},
             std::vector<PlannedStage> later = {});
  // The current stage looks up so many features, in all.
  void CountMatches(double n_matches) { n_matches_ = n_matches; }
  // `done` is left as it was where it would fall, as when the mapper begins another model.
  void Advance(int done, int of);
  // The same for a stage that is counted in other parts than its `of`: that share of it is done.
  void AdvanceTo(double share);
  // The current stage has ended with so many done; Begin ends the one before with all of them.
  void End(int done);
  // Shows what is placed, from now on.
  void Show(PoseSketch sketch) { current_.sketch = std::move(sketch); }
  // Seconds that stages are expected to take, by those before.
  double Expected(const std::vector<PlannedStage>& stages) const { return eta_.Expected(stages); }
  // Reports again what was reported last.
  void Repeat();

 private:
  double Seconds() const { return absl::ToDoubleSeconds(clock_.Now() - start_); }

  const std::function<void(const PoseProgress&)> report_;
  const Clock& clock_;
  const SteadyTime start_ = clock_.Now();
  PoseEta eta_;
  PoseProgress current_;
  double begin_ = 0;      // of the current stage, seconds since start_
  double share_ = 0;      // of the current stage that is done
  double n_matches_ = 0;  // of the current stage; 0: it matches nothing
};

}  // namespace nerf
