#pragma once

#include <map>
#include <vector>

namespace nerf {

// What a stage of a search for poses does.
enum class PoseWork { kRead, kExtract, kMatch, kPlace, kRefine };

// A stage and what it is expected to cost (pose_costs.h). 0: not known.
struct PlannedStage {
  PoseWork work = PoseWork::kRead;
  double cost = 0;
};

// Estimates how much longer a search takes. Stages that are over, and the share of the current one
// that is done, correct the expected costs: each kind of work has a speed of its own, those that
// have not been measured yet that of all others together. Times are seconds of any one clock.
class PoseEta {
 public:
  explicit PoseEta(int n_threads) : n_threads_(n_threads) {}

  // The current stage is over, and the next begins. `later`: those that are expected after it.
  void Begin(const PlannedStage& stage, std::vector<PlannedStage> later, double now);
  // Seconds left with `share`, 0 to 1, of the current stage done; 0 where that is not known.
  double Remaining(double share, double now) const;
  // Seconds that the stages are expected to take.
  double Expected(const std::vector<PlannedStage>& stages) const;

 private:
  struct Speed {
    double seconds = 0, cost = 0;
  };
  // Seconds of a unit of cost.
  double SecondsOf(PoseWork work, const std::map<PoseWork, Speed>& speeds) const;

  const int n_threads_;
  std::map<PoseWork, Speed> speeds_;  // of stages that are over
  PlannedStage stage_;
  double begin_ = 0;
  std::vector<PlannedStage> later_;
};

}  // namespace nerf
