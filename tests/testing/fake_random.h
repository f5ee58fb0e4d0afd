#pragma once

#include <cstdint>
#include <span>

#include "common/ids.h"
#include "common/mutex.h"

namespace nerf {

// Reproducible bytes (splitmix64). Used where ids are drawn. Thread-safe.
class FakeRandom final : public RandomSource {
 public:
  explicit FakeRandom(uint64_t seed = 1) : state_(seed) {}

  void Fill(std::span<uint8_t> bytes) override {
    MutexLock lock(mu_);
    for (uint8_t& byte : bytes) {
      state_ += 0x9E3779B97F4A7C15u;
      uint64_t z = state_;
      z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
      z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
      byte = static_cast<uint8_t>(z >> 56);
    }
  }

 private:
  Mutex mu_;
  uint64_t state_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nerf
