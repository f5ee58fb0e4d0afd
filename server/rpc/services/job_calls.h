#pragma once

#include <string_view>

#include "common/status_macros.h"
#include "server/queue/jobs/job_kind.h"
#include "server/rpc/calls/unary_call.h"
#include "server/rpc/convert/job_converter.h"
#include "server/rpc/convert/paging.h"

namespace nerf {

// The calls that render, pose and export jobs answer alike. `method` is the full name of the call;
// `convert(converter, job, whole)` makes the message of a job, `whole` with what lists leave out.

template <typename Request, typename Response, typename Convert>
grpc::ServerUnaryReactor* AnswerGetJob(const ServiceContext& services, std::string_view method,
                                       JobKind kind, grpc::CallbackServerContext* context,
                                       const Request* request, Response* response,
                                       Convert convert) {
  return AnswerUnary(services, method, context, *request, [=, &services]() -> absl::Status {
    NERF_ASSIGN_OR_RETURN(const ResourceKey key, ParseJobName("name", request->name(), kind));
    NERF_ASSIGN_OR_RETURN(const Job job, services.queue.Get(key, kind));
    JobConverter converter(services);
    *response = convert(converter, job, /*whole=*/true);
    return absl::OkStatus();
  });
}

// `add` adds one to the list of a response.
template <typename Request, typename Response, typename Resource, typename Convert>
grpc::ServerUnaryReactor* AnswerListJobs(const ServiceContext& services, std::string_view method,
                                         JobKind kind, grpc::CallbackServerContext* context,
                                         const Request* request, Response* response,
                                         Resource* (Response::*add)(), Convert convert) {
  return AnswerUnary(services, method, context, *request, [=, &services]() -> absl::Status {
    JobConverter converter(services);
    return AnswerList(
        *request, response,
        [&](const PageRequest& page) { return services.queue.ListOfKind(page, kind); },
        [&](const Job& job, Response* list) {
          *(list->*add)() = convert(converter, job, /*whole=*/false);
        });
  });
}

template <typename Request, typename Response, typename Convert>
grpc::ServerUnaryReactor* AnswerCancelJob(const ServiceContext& services, std::string_view method,
                                          JobKind kind, grpc::CallbackServerContext* context,
                                          const Request* request, Response* response,
                                          Convert convert) {
  return AnswerUnary(services, method, context, *request, [=, &services]() -> absl::Status {
    NERF_ASSIGN_OR_RETURN(const ResourceKey key, ParseJobName("name", request->name(), kind));
    NERF_ASSIGN_OR_RETURN(const Job job,
                          kind == JobKind::kRender
                              ? services.queue.CancelRender(key)
                              : services.queue.Cancel(key, /*keep_checkpoint=*/false, kind));
    JobConverter converter(services);
    *response = convert(converter, job, /*whole=*/false);
    return absl::OkStatus();
  });
}

template <typename Request>
grpc::ServerUnaryReactor* AnswerDeleteJob(const ServiceContext& services, std::string_view method,
                                          JobKind kind, grpc::CallbackServerContext* context,
                                          const Request* request) {
  return AnswerUnary(services, method, context, *request, [=, &services]() -> absl::Status {
    NERF_ASSIGN_OR_RETURN(const ResourceKey key, ParseJobName("name", request->name(), kind));
    return services.queue.Delete(key, kind);
  });
}

}  // namespace nerf
