#pragma once

#include <string>
#include <string_view>

#include "client/calls/paging.h"
#include "client/calls/session.h"
#include "client/flags/names.h"
#include "common/process/exit_code.h"

namespace nerf {

// What most verbs do: expand a name, make one call, print the reply. Methods are members of the
// generated stubs; each function returns the exit code.

// Calls `method` with a request whose only field is `name`, within `limit`.
template <typename Service, typename Request, typename Response>
absl::StatusOr<Response> CallByName(Session& session, const std::string& name,
                                    grpc::Status (Service::Stub::*method)(grpc::ClientContext*,
                                                                          const Request&,
                                                                          Response*),
                                    absl::Duration limit = kCallTimeout) {
  Request request;
  request.set_name(name);
  const auto stub = session.Stub<Service>();
  return session.Call(*stub, method, request, limit);
}

// show: prints the resource that `text` names.
template <typename Service, typename Request, typename Resource>
int ShowResource(Session& session, ResourceKind kind, const std::string& text,
                 grpc::Status (Service::Stub::*method)(grpc::ClientContext*, const Request&,
                                                       Resource*),
                 void (*print)(const Printer&, const Resource&)) {
  const auto name = ExpandName(kind, text, session.flags().project);
  if (!name.ok()) return session.FailUsage(name.status());
  const auto resource = CallByName<Service>(session, *name, method);
  if (!resource.ok()) return session.Fail(resource.status());
  print(session.printer(), *resource);
  return kOk;
}

// ls: prints up to `limit` resources of the project (0: all). `items` is the accessor of the list
// in a page, `next_if_none` the command that makes a first one.
template <typename Service, typename Request, typename Response, typename Resource>
int ListResources(Session& session, int limit,
                  grpc::Status (Service::Stub::*method)(grpc::ClientContext*, const Request&,
                                                        Response*),
                  google::protobuf::RepeatedPtrField<Resource>* (Response::*items)(),
                  void (*print)(const Printer&, const std::vector<Resource>&),
                  std::string_view next_if_none = "") {
  const auto stub = session.Stub<Service>();
  const auto resources = ListAll<Resource, Request>(
      session, *stub, method, limit, [items](Response& page) { return (page.*items)(); });
  if (!resources.ok()) return session.Fail(resources.status());
  print(session.printer(), *resources);
  if (resources->empty() && !next_if_none.empty()) session.SayNext(next_if_none);
  return kOk;
}

// rm: deletes what `texts` name, as RemoveEach does.
template <typename Service, typename Request, typename Response>
int RemoveResources(Session& session, ResourceKind kind, const std::vector<std::string>& texts,
                    grpc::Status (Service::Stub::*method)(grpc::ClientContext*, const Request&,
                                                          Response*)) {
  return RemoveEach(session, kind, texts, [&](const std::string& name) {
    const int n_repeats = session.n_repeats();
    const absl::Status status = CallByName<Service>(session, name, method).status();
    // A try whose answer was lost may have deleted it.
    if (absl::IsNotFound(status) && session.n_repeats() > n_repeats) return absl::OkStatus();
    return status;
  });
}

}  // namespace nerf
