#pragma once

#include <cmath>

namespace nerf {

// Which of a ray's samples train, and for how much of its light. Those of weight `limit` or more
// train for their own weight. Of the lighter ones, whose weights sum to w, ceil(w / limit) train,
// each for an equal share of w: those that even steps through the sum hit, from a random offset.
// What a sample trains for has its weight as mean. The color of the ray gets noise, so the loss
// also asks that the lighter samples of a ray have like colors.
// Sources: Arvo and Kirk 1990, "Particle transport and image synthesis" (Russian roulette);
// Kitagawa 1996, "Monte Carlo filter and smoother" (the even steps). For each ray: Count of all
// samples, Start, then Factor of all samples in the same order.
class RayRoulette {
 public:
  void Count(float weight, float limit) {
    if (weight < limit) sum_ += weight;
  }
  // offset in [0, 1). Requires limit > 0.
  void Start(float limit, float offset) {
    step_ = sum_ > 0 ? sum_ / std::ceil(sum_ / limit) : limit;
    next_ = offset * step_;
    sum_ = 0;
  }
  // How many times its own weight a sample trains for; 0: it does not train.
  float Factor(float weight, float limit) {
    if (!(weight < limit)) return 1;
    sum_ += weight;
    float trained = 0;
    for (; next_ < sum_; next_ += step_) trained += step_;
    return trained > 0 ? trained / weight : 0;
  }

 private:
  float sum_ = 0;              // of the lighter samples so far
  float step_ = 0, next_ = 0;  // between two hits; the sum of the next
};

}  // namespace nerf
