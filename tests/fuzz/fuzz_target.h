#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace nerf {

// A reader of bytes from outside the process, and what has to hold whatever they are. Ordinary
// builds try it with mutations of its seeds (fuzz_targets_test); builds of the preset `fuzz` make a
// libFuzzer program of each (tests/bench/README.md).
struct FuzzTarget {
  std::string_view name;
  std::vector<std::string> (*seeds)();  // valid inputs
  // Returns what is wrong; empty: nothing. May take any bytes.
  std::string (*check)(std::string_view input);
};

// Requests of clients and reports of workers, as far as their conversion: no crash; what is
// accepted of a job is stored and read back as it was.
extern const FuzzTarget kRequestsTarget;
// Rows of the store: no crash; what is read is written and read again without a change.
extern const FuzzTarget kRecordsTarget;
// What worker and engine write to each other: no crash; however the stream is cut, the same
// messages come out of it.
extern const FuzzTarget kEngineTarget;

}  // namespace nerf
