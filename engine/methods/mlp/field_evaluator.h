#pragma once

#include <memory>
#include <vector>

#include "engine/methods/mlp/network.h"

namespace nerf {

// The networks of a field that marches through the grid. Borrows everything.
struct MlpFieldNetworks {
  MlpNetwork field;
  const MlpNetwork* warp = nullptr;  // moves points before they reach the field; null: none
};

// One thread's forward passes of a field that may depend on time.
class MlpFieldEvaluator {
 public:
  // For at most max_rows points at a time. What warp points to may go afterwards.
  MlpFieldEvaluator(const MlpFieldNetworks& networks, int max_rows);

  // Densities of n points at times [n], 0 to 1, from row 0 on.
  void Density(int n, const Vec3* positions, const float* times, float* sigmas);
  // Has the rows of the last call of Density.
  MlpEvaluator& field() { return field_; }

 private:
  MlpEvaluator field_;
  std::unique_ptr<MlpEvaluator> warp_;  // null: none
  std::vector<Vec3> moved_;
};

}  // namespace nerf
