#pragma once

#include <map>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace nerf {

// What a client notes about a job, by key.
using JobLabels = std::map<std::string, std::string>;

inline constexpr int kMinPriority = -100;
inline constexpr int kMaxPriority = 100;
inline constexpr size_t kMaxLabels = 32;

// 1 to 63 of [a-z0-9_.-], beginning with a letter.
bool IsLabelKey(std::string_view key);

// OK, or InvalidArgument FIELD_INVALID that names `field`.key: too many labels, a bad key, or a
// value that is longer than 63 bytes or no plain text.
absl::Status CheckLabels(std::string_view field, const JobLabels& labels);
// OK, or InvalidArgument FIELD_INVALID.
absl::Status CheckPriority(std::string_view field, int priority);

}  // namespace nerf
