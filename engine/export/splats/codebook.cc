#include "engine/export/splats/codebook.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace nerf {
namespace {

constexpr int kCodebookRounds = 200, kPaletteRounds = 8;
constexpr size_t kBins = 64;     // many numbers in most, so that rare ones get their share
constexpr size_t kBlock = 1024;  // rows that a thread labels at a time

// Where numbers are n times as dense, the best codebooks are n^(1/3) times as dense.
// Source: Panter and Dite 1951, "Quantization Distortion in Pulse-Count Modulation with Nonuniform
// Spacing of Levels".
Codebook FirstCodebook(const std::vector<float>& sorted) {
  const double low = sorted.front(), width = (sorted.back() - low) / kBins;
  std::vector<double> sums(kBins + 1);
  for (const float number : sorted)
    ++sums[1 + std::min(kBins - 1, static_cast<size_t>(width > 0 ? (number - low) / width : 0))];
  for (size_t i = 1; i <= kBins; ++i) sums[i] = sums[i - 1] + std::cbrt(sums[i]);
  Codebook codebook;
  for (size_t i = 0; i < codebook.size(); ++i) {
    const double sum = (static_cast<double>(i) + 0.5) * sums.back() / codebook.size();
    const auto above = std::upper_bound(sums.begin(), sums.end() - 1, sum);
    const double bin =
        static_cast<double>(above - sums.begin()) - (*above - sum) / (*above - *(above - 1));
    codebook[i] = static_cast<float>(low + bin * width);
  }
  return codebook;
}

// The middles of k groups of some of the rows, and which group each of these is in.
class Groups {
 public:
  // members: numbers of rows, all of `rows`' size or fewer. 1 <= k <= members.
  Groups(const std::vector<float>& rows, size_t n_columns, const std::vector<uint32_t>& members,
         size_t k)
      : rows_(rows), n_columns_(n_columns), members_(members), k_(k), labels_(members.size()) {
    middles_.resize(k * n_columns);
    for (size_t i = 0; i < k; ++i) {
      const float* const row = RowOf(i * members.size() / k);
      for (size_t j = 0; j < n_columns; ++j) middles_[j * k + i] = row[j];
    }
  }

  // for_each calls a function for each number below its first argument, in any order.
  void Run(const std::function<void(int64_t, const std::function<void(int64_t)>&)>& for_each) {
    const auto n_blocks = static_cast<int64_t>((members_.size() + kBlock - 1) / kBlock);
    for (int round = 0; round <= kPaletteRounds; ++round) {
      for_each(n_blocks, [&](int64_t block) { Label(static_cast<size_t>(block) * kBlock); });
      if (round < kPaletteRounds) Move();
    }
  }

  const std::vector<uint32_t>& labels() const { return labels_; }
  float middle(size_t group, size_t column) const { return middles_[column * k_ + group]; }

 private:
  const float* RowOf(size_t member) const { return rows_.data() + members_[member] * n_columns_; }

  // The nearest groups of a block of members.
  void Label(size_t begin) {
    std::vector<float> distances(k_);
    for (size_t i = begin; i < std::min(begin + kBlock, members_.size()); ++i) {
      std::fill(distances.begin(), distances.end(), 0.0f);
      const float* const row = RowOf(i);
      for (size_t j = 0; j < n_columns_; ++j) {
        const float* const middle = middles_.data() + j * k_;
        for (size_t group = 0; group < k_; ++group) {
          const float off = row[j] - middle[group];
          distances[group] += off * off;
        }
      }
      labels_[i] = static_cast<uint32_t>(std::min_element(distances.begin(), distances.end()) -
                                         distances.begin());
    }
  }

  // Each middle to the mean of its group; without members it stays.
  void Move() {
    std::vector<double> sums(middles_.size());
    std::vector<double> counts(k_);
    for (size_t i = 0; i < members_.size(); ++i) {
      ++counts[labels_[i]];
      for (size_t j = 0; j < n_columns_; ++j) sums[j * k_ + labels_[i]] += RowOf(i)[j];
    }
    for (size_t i = 0; i < sums.size(); ++i) {
      if (counts[i % k_] > 0) middles_[i] = static_cast<float>(sums[i] / counts[i % k_]);
    }
  }

  const std::vector<float>& rows_;
  const size_t n_columns_;
  const std::vector<uint32_t>& members_;
  const size_t k_;
  std::vector<float> middles_;  // [n_columns, k]
  std::vector<uint32_t> labels_;
};

}  // namespace

Codebook MakeCodebook(std::vector<float> numbers) {
  std::sort(numbers.begin(), numbers.end());
  std::vector<double> sums = {0};
  for (const float number : numbers) sums.push_back(sums.back() + number);
  Codebook codebook = FirstCodebook(numbers);
  for (int round = 0; round < kCodebookRounds; ++round) {
    size_t begin = 0;
    for (size_t i = 0; i < codebook.size(); ++i) {
      size_t end = numbers.size();
      if (i + 1 < codebook.size()) {
        const float border = 0.5f * (codebook[i] + codebook[i + 1]);
        const auto from = numbers.begin() + static_cast<std::ptrdiff_t>(begin);
        end = static_cast<size_t>(std::lower_bound(from, numbers.end(), border) - numbers.begin());
      }
      if (end > begin)
        codebook[i] =
            static_cast<float>((sums[end] - sums[begin]) / static_cast<double>(end - begin));
      begin = end;
    }
  }
  return codebook;
}

uint8_t NearestIn(const Codebook& codebook, float number) {
  const auto above = std::lower_bound(codebook.begin() + 1, codebook.end() - 1, number);
  const bool is_below = number - *(above - 1) <= *above - number;
  return static_cast<uint8_t>(above - codebook.begin() - (is_below ? 1 : 0));
}

Palette MakePalette(const std::vector<float>& rows, size_t n_columns, size_t n_colors,
                    ThreadPool* pool) {
  const size_t n = rows.size() / n_columns;
  std::vector<uint32_t> all(n);
  std::iota(all.begin(), all.end(), 0u);
  const auto n_groups = static_cast<size_t>(std::sqrt(static_cast<double>(n_colors)));
  Groups coarse(rows, n_columns, all, n_groups);
  coarse.Run([&](int64_t n_calls, const std::function<void(int64_t)>& call) {
    pool->ParallelFor(n_calls, [&](int64_t i, int /*thread*/) { call(i); });
  });
  std::vector<std::vector<uint32_t>> members(n_groups);
  for (size_t i = 0; i < n; ++i) members[coarse.labels()[i]].push_back(all[i]);
  // Each group has one color, and of the others as its share of the rows.
  std::vector<size_t> first = {0};
  size_t n_before = 0;
  for (const std::vector<uint32_t>& group : members) {
    const auto share = [&](size_t n_rows) { return n_rows * (n_colors - n_groups) / n; };
    const size_t more = share(n_before + group.size()) - share(n_before);
    n_before += group.size();
    first.push_back(first.back() + std::min(1 + more, group.size()));
  }
  Palette palette;
  palette.rows.resize(first.back() * n_columns);
  palette.labels.resize(n);
  pool->ParallelFor(static_cast<int64_t>(n_groups), [&](int64_t at, int /*thread*/) {
    const auto group = static_cast<size_t>(at);
    const size_t k = first[group + 1] - first[group];
    if (k == 0) return;
    Groups fine(rows, n_columns, members[group], k);
    fine.Run([](int64_t n_calls, const std::function<void(int64_t)>& call) {
      for (int64_t i = 0; i < n_calls; ++i) call(i);
    });
    for (size_t i = 0; i < k; ++i) {
      for (size_t j = 0; j < n_columns; ++j)
        palette.rows[(first[group] + i) * n_columns + j] = fine.middle(i, j);
    }
    for (size_t i = 0; i < members[group].size(); ++i)
      palette.labels[members[group][i]] = static_cast<uint16_t>(first[group] + fine.labels()[i]);
  });
  return palette;
}

}  // namespace nerf
