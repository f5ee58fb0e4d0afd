#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/status_macros.h"
#include "server/queue/resources/page.h"
#include "server/queue/resources/request_check.h"
#include "server/queue/resources/resource_key.h"
#include "server/rpc/convert/convert_common.h"

namespace nerf {

// Answers a List request of a project. `list` returns the Page of a PageRequest; `add` adds one
// record to the response. A page larger than kMaxListBytes is rebuilt with half as many records.
template <typename Request, typename Response, typename List, typename Add>
absl::Status AnswerList(const Request& request, Response* response, List list, Add add) {
  RequestCheck check;
  PageRequest page_request;
  page_request.project = TakeOr(ParseProjectName("parent", request.parent()), check);
  page_request.page_size = request.page_size();
  page_request.page_token = request.page_token();
  const size_t size = TakeOr(EffectivePageSize(request.page_size()), check);
  NERF_RETURN_IF_ERROR(check.Result());
  for (size_t wanted = size;; wanted /= 2) {
    page_request.page_size = static_cast<int>(std::max<size_t>(wanted, 1));
    NERF_ASSIGN_OR_RETURN(const auto page, list(page_request));
    response->Clear();
    for (const auto& record : page.records) add(record, response);
    response->set_next_page_token(page.next_page_token);
    if (response->ByteSizeLong() <= kMaxListBytes || wanted <= 1) return absl::OkStatus();
  }
}

// Adds a page of a list that is at hand, whose page token is the number of items on earlier pages:
// such lists are short and change rarely. `list` names the method and all that decides what it
// lists.
template <typename Records, typename Request, typename Response, typename Add>
absl::Status AddPage(const TokenSealer& sealer, std::string_view list, const Records& records,
                     const Request& request, Response* response, Add add) {
  RequestCheck check;
  const size_t size = TakeOr(EffectivePageSize(request.page_size()), check);
  const uint64_t token = TakeOr(ParsePageToken(sealer, list, "", request.page_token()), check);
  NERF_RETURN_IF_ERROR(check.Result());
  const auto n_records = static_cast<size_t>(records.size());
  const size_t begin = request.page_token().empty() ? 0 : std::min<size_t>(token, n_records);
  const size_t end = std::min(begin + size, n_records);
  for (auto i = begin; i < end; ++i) add(*(records.begin() + static_cast<std::ptrdiff_t>(i)));
  if (end < n_records) response->set_next_page_token(EncodePageToken(sealer, list, "", end));
  return absl::OkStatus();
}

}  // namespace nerf
