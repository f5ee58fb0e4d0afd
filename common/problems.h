#pragma once

#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/error_reason.h"

namespace nerf {

// Collects what is wrong, so that all of it is said at once. Has no problem twice, and at most a
// thousand.
class Problems {
 public:
  void Add(std::string_view file, std::string_view field, std::string_view message);
  void Add(std::string_view field, std::string_view message) { Add("", field, message); }
  void Add(std::string_view field, const absl::Status& status);
  // The problems of an InvalidFieldsError, or the message of another error, which may begin with
  // "--FLAG: ". Nothing of OK.
  void Add(const absl::Status& status);
  // Those of a part: field "size" of one in "style" is "style.size".
  void Add(const Problems& others, std::string_view field = "");
  void Require(bool ok, std::string_view field, std::string_view message) {
    if (!ok) Add(field, message);
  }
  // *value if there is one, else what is wrong with it.
  template <typename Value, typename Target>
  void AddOrAssign(absl::StatusOr<Value> value, Target* target) {
    if (value.ok()) *target = *std::move(value);
    Add(value.status());
  }

  const std::vector<Problem>& list() const { return list_; }
  bool empty() const { return list_.empty(); }
  size_t size() const { return list_.size(); }
  auto begin() const { return list_.begin(); }
  auto end() const { return list_.end(); }
  const Problem& operator[](size_t i) const { return list_[i]; }
  // OK, or InvalidFieldsError. Requires: no problem of a file.
  absl::Status Result() const;

 private:
  std::vector<Problem> list_;
};

}  // namespace nerf
