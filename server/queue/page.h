#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace nerf {

inline constexpr int kDefaultPageSize = 100;
inline constexpr int kMaxPageSize = 1000;

struct PageRequest {
  std::string project;
  int page_size = 0;       // 0 means 100; above 1000 is lowered to it; negative is refused
  std::string page_token;  // of the page before; empty for the first
};

// Newest first.
template <typename Record>
struct Page {
  std::vector<Record> records;
  std::string next_page_token;  // empty on the last page
};

// InvalidArgument FIELD_INVALID for a negative size.
absl::StatusOr<size_t> EffectivePageSize(int page_size);

// A token says: continue with sequences below `before`, in the list `kind` of `project`.
std::string EncodePageToken(std::string_view kind, std::string_view project, uint64_t before);
// The sequence; the largest number for an empty token. InvalidArgument FIELD_INVALID for a token
// that is not ours or belongs to another list.
absl::StatusOr<uint64_t> ParsePageToken(std::string_view kind, std::string_view project,
                                        std::string_view token);

}  // namespace nerf
