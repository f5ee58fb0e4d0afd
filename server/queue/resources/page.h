#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/status_macros.h"
#include "server/queue/resources/resource_key.h"
#include "server/queue/resources/token_sealer.h"

namespace nerf {

inline constexpr int kDefaultPageSize = 100;
inline constexpr int kMaxPageSize = 1000;

struct PageRequest {
  std::string project;
  int page_size = 0;       // 0 means 100; larger than 1000 means 1000; negative is refused
  std::string page_token;  // next_page_token of the page before; empty for the first
};

// Newest first.
template <typename Record>
struct Page {
  std::vector<Record> records;
  std::string next_page_token;  // empty on the last page
};

// InvalidArgument FIELD_INVALID for a negative size.
absl::StatusOr<size_t> EffectivePageSize(int page_size);

// The token of a page of the list `kind` of `project` that starts below sequence `before`. All that
// decides what the list shows, such as a filter, belongs into `kind`.
std::string EncodePageToken(const TokenSealer& sealer, std::string_view kind,
                            std::string_view project, uint64_t before);
// The sequence; the largest number for an empty token. InvalidArgument FIELD_INVALID for a token
// that was not made by EncodePageToken with this sealer or belongs to another list.
absl::StatusOr<uint64_t> ParsePageToken(const TokenSealer& sealer, std::string_view kind,
                                        std::string_view project, std::string_view token);

// Fills a page of the list `kind` with the entries that `matches` accepts. `order` holds the keys
// of all projects by sequence; `entries` has an entry for each key; `record_of` makes an entry's
// record.
template <typename Record, typename Entries, typename RecordOf, typename Matches>
absl::StatusOr<Page<Record>> ListPage(const TokenSealer& sealer, std::string_view kind,
                                      const PageRequest& request,
                                      const std::map<uint64_t, ResourceKey>& order,
                                      const Entries& entries, RecordOf record_of, Matches matches) {
  NERF_ASSIGN_OR_RETURN(const auto size, EffectivePageSize(request.page_size));
  NERF_ASSIGN_OR_RETURN(const auto before,
                        ParsePageToken(sealer, kind, request.project, request.page_token));
  Page<Record> page;
  uint64_t last = 0;
  for (auto it = order.lower_bound(before); it != order.begin();) {
    --it;
    const auto& [sequence, key] = *it;
    if (key.project != request.project) continue;
    const auto& entry = entries.at(key);
    if (!matches(entry)) continue;
    if (page.records.size() == size) {
      page.next_page_token = EncodePageToken(sealer, kind, request.project, last);
      break;
    }
    page.records.push_back(record_of(entry));
    last = sequence;
  }
  return page;
}

template <typename Record, typename Entries, typename RecordOf>
absl::StatusOr<Page<Record>> ListPage(const TokenSealer& sealer, std::string_view kind,
                                      const PageRequest& request,
                                      const std::map<uint64_t, ResourceKey>& order,
                                      const Entries& entries, RecordOf record_of) {
  return ListPage<Record>(sealer, kind, request, order, entries, record_of,
                          [](const auto&) { return true; });
}

}  // namespace nerf
