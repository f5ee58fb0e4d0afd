#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/names.h"
#include "client/session.h"
#include "common/status_macros.h"

namespace CLI {
class App;
}

namespace nerf {

inline constexpr int kMaxPageSize = 1000;

// Adds --limit to a listing; 0 means all.
std::shared_ptr<int> AddLimitFlag(CLI::App& app);

// Says that a listing was cut by --limit.
void SayMoreExists(const Session& session, int limit);

// Collects pages of a listing until `limit` (0: all). `take` returns the mutable field of a page
// that holds its items. `parent` where the request has one.
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
    // The same token again would lead round for ever.
    if (!more || page.next_page_token() == request.page_token()) return items;
    if (limit != 0 && items.size() >= wanted) {
      SayMoreExists(session, limit);
      return items;
    }
    request.set_page_token(page.next_page_token());
  }
}

// ListPages for what belongs to a project.
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

// Deletes every named thing and prints what became of each. A name that cannot be one stops before
// the first call; a call that fails does not keep the rest from being deleted. Returns the exit
// code of the first failure.
int RemoveEach(Session& session, ResourceKind kind, const std::vector<std::string>& texts,
               const std::function<absl::Status(const std::string& name)>& remove);

}  // namespace nerf
