#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace nerf {

// How many cache lines of the hash table the steps of a training change, to forecast what ranks
// will send each other. A batch of twice the samples changes about the lines that two steps in a
// row change together, so unions over some steps tell how the number grows with the batch. The
// number falls slowly as surfaces take shape: about by equal shares each time the steps double. By
// how much the steps so far tell, or else it is taken as on other scenes.
class NgpLineCounts {
 public:
  // n_lines: of a level, a multiple of 64.
  NgpLineCounts(int n_levels, size_t n_lines);

  // The lines of a level that the step under way has changed: a bit each, [n_lines / 64].
  void Add(int level, std::span<const uint64_t> bits);
  // Ends the step, which had so many samples; `step` counts the steps finished before it.
  void EndStep(uint32_t step, int64_t n_trained, int64_t n_marched);

  // Whether enough steps were seen for the next two.
  bool HasCounts() const { return !blocks_.empty(); }
  // Lines of each level that the last step changed.
  const std::vector<double>& last() const { return last_; }
  // Lines of a level that a step of n_trained samples changes when `step` steps are finished.
  double LinesOf(int level, double n_trained, double step) const;
  // Of the last steps.
  double MarchedPerTrained() const;

 private:
  static constexpr int kUnions = 4;                       // of 1, 2, 4 and 8 steps
  static constexpr int kBlockSteps = 1 << (kUnions - 1);  // steps in a row that are looked at

  // Of kBlockSteps steps, or sums of several blocks.
  struct Block {
    double step = 0;  // of its middle
    // Of the first 1, 2, 4 and 8 steps. Lines are [n_levels].
    double samples[kUnions] = {};
    std::vector<double> lines[kUnions];
    double n_trained = 0, n_marched = 0;
  };

  Block MeanAround(double step) const;
  Block Recent() const;
  std::optional<double> Trend(const Block& now, int level) const;

  const size_t words_per_level_;
  std::vector<uint64_t> changed_;    // by the steps of the block under way
  int n_steps_ = 0;                  // of that block
  std::vector<double> step_, last_;  // lines of each level: of the step under way, of the last one
  Block current_;
  std::vector<Block> blocks_;
};

}  // namespace nerf
