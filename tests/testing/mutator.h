#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/clock.h"

namespace nerf {

// Changes inputs at random, for tests of parsers. The same seed gives the same inputs. Not
// thread-safe.
class Mutator {
 public:
  // `seeds` are valid inputs, `words` what the format is made of. Neither is empty.
  Mutator(uint64_t seed, std::vector<std::string> seeds, std::vector<std::string> words)
      : random_(seed), seeds_(std::move(seeds)), words_(std::move(words)) {}

  // A seed with one to eight changes; at most 64 KiB.
  std::string Next() {
    std::string text = seeds_[Below(seeds_.size())];
    for (size_t n = 1 + Below(8); n > 0; --n) Change(&text);
    text.resize(std::min(text.size(), size_t{64} << 10));
    return text;
  }

 private:
  size_t Below(size_t n) { return n == 0 ? 0 : random_() % n; }

  void Change(std::string* text) {
    const size_t at = Below(text->size() + 1);
    const size_t length = Below(std::min<size_t>(text->size() - at, 16) + 1);
    switch (Below(7)) {
      case 0:
        if (at < text->size()) (*text)[at] = static_cast<char>((*text)[at] ^ (1 << Below(8)));
        return;
      case 1:
        if (at < text->size()) (*text)[at] = static_cast<char>(random_());
        return;
      case 2:
        text->erase(at, length);
        return;
      case 3:
        text->insert(at, text->substr(at, length));
        return;
      case 4:
        text->insert(at, words_[Below(words_.size())]);
        return;
      case 5:
        text->replace(at, length, words_[Below(words_.size())]);
        return;
      default: {
        const std::string& other = seeds_[Below(seeds_.size())];
        text->replace(at, std::string::npos, other.substr(Below(other.size() + 1)));
      }
    }
  }

  std::mt19937_64 random_;
  const std::vector<std::string> seeds_, words_;
};

// Calls `check` with `n_cases` inputs; with NERF_FUZZ_SECONDS in the environment, with inputs of
// NERF_FUZZ_SEED (1) for that long. NERF_FUZZ_INPUT names a file that always has the input at hand,
// for those that end the process. Returns how many it tried.
inline uint64_t Fuzz(const std::vector<std::string>& seeds, const std::vector<std::string>& words,
                     uint64_t n_cases, const std::function<void(const std::string&)>& check) {
  const char* const seconds = std::getenv("NERF_FUZZ_SECONDS");
  const char* const seed = std::getenv("NERF_FUZZ_SEED");
  const char* const kept = std::getenv("NERF_FUZZ_INPUT");
  Mutator mutator(seed != nullptr ? std::strtoull(seed, nullptr, 10) : 1, seeds, words);
  const RealClock clock;
  const SteadyTime end =
      clock.Now() + absl::Seconds(seconds != nullptr ? std::strtod(seconds, nullptr) : 0);
  for (const std::string& input : seeds) check(input);
  uint64_t n = 0;
  while (seconds != nullptr ? clock.Now() < end : n < n_cases) {
    const std::string input = mutator.Next();
    if (kept != nullptr) std::ofstream(kept, std::ios::binary) << input;
    check(input);
    ++n;
  }
  return n;
}

}  // namespace nerf
