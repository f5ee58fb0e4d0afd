#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/queue/jobs/job.h"

namespace nerf {

// Which jobs a list shows: comparisons that must all hold.
//
//   state = RUNNING AND labels.team = "blue" AND priority >= 10
//
// Jobs that train parts of others match only where part_of is compared.
//
// Fields: kind (training, render, pose, export), state, scene (that it trains on or makes),
// display_name, part_of, labels.KEY with = and !=; priority also with < <= > >=. Values are
// [A-Za-z0-9_.-]+ or quoted, with \" and \\ inside. A label that is not set is "".
class JobFilter {
 public:
  // An empty text matches every job. InvalidArgument FIELD_INVALID (`filter`) says what is wrong
  // and where.
  static absl::StatusOr<JobFilter> Parse(std::string_view text);

  bool Matches(const Job& job) const;
  // Whether jobs of the kind may match.
  bool Admits(JobKind kind) const;
  // The text that was parsed.
  const std::string& text() const { return text_; }

 private:
  enum class Field { kKind, kState, kScene, kDisplayName, kPriority, kPartOf, kLabel };
  struct Comparison {
    Field field = Field::kState;
    std::string label;  // key, with kLabel
    std::string op;
    std::string value;
    int number = 0;  // with kPriority; with kKind the JobKind
  };
  class Parser;
  static bool Holds(const Comparison& comparison, const Job& job);

  std::string text_;
  std::vector<Comparison> comparisons_;
};

}  // namespace nerf
