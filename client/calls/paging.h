#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/calls/session.h"
#include "client/flags/names.h"
#include "common/status_macros.h"

namespace CLI {
class App;
}

namespace nerf {

inline constexpr int kMaxPageSize = 1000;

// Adds --limit to a listing; 0 means all.
std::shared_ptr<int> AddLimitFlag(CLI::App& app);

// Prints that --limit has cut a listing.
void SayMoreExists(const Session& session, int limit);

// Collects the pages of a listing, up to `limit` items (0: all). `take` returns the mutable list of
// items of a page.
template <typename Item, typename Request, typename StubType, typename Response, typename Take>
absl::StatusOr<std::vector<Item>> ListPages(Session& session, StubType& stub,
                                            grpc::Status (StubType::*method)(grpc::ClientContext*,
                                                                             const Request&,
                                                                             Response*),
                                            Request request, int limit, const Take& take) {
  std::vector<Item> items;
  const auto wanted = static_cast<size_t>(limit);
  while (true) {
    const size_t room = limit == 0 ? kMaxPageSize : wanted - items.size();
    request.set_page_size(static_cast<int>(std::min<size_t>(room, kMaxPageSize)));
    NERF_ASSIGN_OR_RETURN(Response page, session.Call(stub, method, request));
    for (Item& item : *take(page)) items.push_back(std::move(item));
    const bool more = !page.next_page_token().empty();
    // A server that repeats its token would cause an endless loop.
    if (!more || page.next_page_token() == request.page_token()) return items;
    if (limit != 0 && items.size() >= wanted) {
      SayMoreExists(session, limit);
      return items;
    }
    request.set_page_token(page.next_page_token());
  }
}

// ListPages for resources of a project.
template <typename Item, typename Request, typename StubType, typename Response, typename Take>
absl::StatusOr<std::vector<Item>> ListAll(Session& session, StubType& stub,
                                          grpc::Status (StubType::*method)(grpc::ClientContext*,
                                                                           const Request&,
                                                                           Response*),
                                          int limit, const Take& take) {
  Request request;
  NERF_ASSIGN_OR_RETURN(std::string parent, ProjectName(session.flags().project));
  request.set_parent(std::move(parent));
  return ListPages<Item>(session, stub, method, std::move(request), limit, take);
}

// Deletes the named resources and prints the result of each. A malformed name stops before the
// first call. A call that fails does not stop the others. Returns the exit code of the first
// failure.
int RemoveEach(Session& session, ResourceKind kind, const std::vector<std::string>& texts,
               const std::function<absl::Status(const std::string& name)>& remove);

}  // namespace nerf
