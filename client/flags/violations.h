#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/error_reason.h"

namespace nerf {

// What is wrong with the flags of a command, collected so that one error names all of it.
class Violations {
 public:
  void Add(std::string_view flag, std::string description) {
    violations_.push_back({std::string(flag), std::move(description)});
  }
  void Add(std::string_view flag, const absl::Status& status) {
    Add(flag, std::string(status.message()));
  }
  // The violations of an InvalidFieldsError, or the message of another error, which may begin with
  // "--FLAG: ". Nothing of OK.
  void Add(const absl::Status& status);
  // *value if the flag is right, else what is wrong with it.
  template <typename Value, typename Target>
  void AddOrAssign(absl::StatusOr<Value> value, Target* target) {
    if (value.ok()) *target = *std::move(value);
    Add(value.status());
  }
  bool empty() const { return violations_.empty(); }
  // InvalidFieldsError, or OK.
  absl::Status ToStatus() const;

 private:
  std::vector<FieldViolation> violations_;
};

}  // namespace nerf
