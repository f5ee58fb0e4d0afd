#pragma once

#include <string_view>

#include "common/status_macros.h"
#include "server/queue/kinds/kind_policy.h"
#include "server/rpc/calls/unary_call.h"
#include "server/rpc/convert/job_converter.h"
#include "server/rpc/convert/paging.h"

namespace nerf {

// The calls that jobs of all kinds answer alike. `method` is the full name of the call.

// The kind of a message's jobs.
template <typename Proto>
inline constexpr JobKind kKindOf = JobKind::kTraining;
template <>
inline constexpr JobKind kKindOf<v1::RenderJob> = JobKind::kRender;
template <>
inline constexpr JobKind kKindOf<v1::PoseJob> = JobKind::kPose;
template <>
inline constexpr JobKind kKindOf<v1::ExportJob> = JobKind::kExport;

// The message of a job, `whole` with what lists leave out.
template <typename Proto>
Proto MessageOf(JobConverter& converter, const Job& job, bool whole) {
  if constexpr (kKindOf<Proto> == JobKind::kRender) return converter.ToRenderProto(job, whole);
  if constexpr (kKindOf<Proto> == JobKind::kPose) return converter.ToPoseProto(job, whole);
  if constexpr (kKindOf<Proto> == JobKind::kExport) return converter.ToExportProto(job, whole);
  if constexpr (kKindOf<Proto> == JobKind::kTraining) return converter.ToProto(job);
}

// Answers with the job that `act` returns for the key of the one that is named.
template <typename Request, typename Proto, typename Act>
UnaryReactor* AnswerJob(const ServiceContext& services, std::string_view method,
                        CallContext* context, const Request* request, Proto* response, Act act,
                        bool whole = false) {
  return AnswerUnary(services, method, context, *request, [=, &services] {
    NERF_ASSIGN_OR_RETURN(const ResourceKey key,
                          ParseJobName("name", request->name(), kKindOf<Proto>));
    NERF_ASSIGN_OR_RETURN(const Job job, act(key));
    JobConverter converter(services);
    *response = MessageOf<Proto>(converter, job, whole);
    return absl::OkStatus();
  });
}

template <typename Request, typename Proto>
UnaryReactor* AnswerGetJob(const ServiceContext& services, std::string_view method,
                           CallContext* context, const Request* request, Proto* response) {
  const auto get = [&services](const ResourceKey& key) {
    return services.queue.Get(key, kKindOf<Proto>);
  };
  return AnswerJob(services, method, context, request, response, get, /*whole=*/true);
}

// Creates the job that `make_spec` returns, without its origin; or only says what it would be.
template <typename Request, typename Proto, typename MakeSpec>
UnaryReactor* AnswerCreateJob(const ServiceContext& services, std::string_view method,
                              CallContext* context, const Request* request, Proto* response,
                              MakeSpec make_spec) {
  return AnswerUnary(services, method, context, *request, [=, &services] {
    NERF_ASSIGN_OR_RETURN(JobSpec spec, make_spec());
    const CallOrigin origin = services.origins->Of(context);
    spec.origin = {origin.traceparent, origin.request_id};
    bool validate_only = false;
    if constexpr (requires { request->validate_only(); }) validate_only = request->validate_only();
    NERF_ASSIGN_OR_RETURN(const Job job, services.queue.Create(spec, validate_only));
    JobConverter converter(services);
    *response = MessageOf<Proto>(converter, job, /*whole=*/true);
    return absl::OkStatus();
  });
}

// For kinds that no filter is about. `add` adds one to the list of a response.
template <typename Request, typename Response, typename Proto>
UnaryReactor* AnswerListJobs(const ServiceContext& services, std::string_view method,
                             CallContext* context, const Request* request, Response* response,
                             Proto* (Response::*add)()) {
  return AnswerUnary(services, method, context, *request, [=, &services] {
    JobConverter converter(services);
    return AnswerList(
        *request, response,
        [&](const PageRequest& page) { return services.queue.ListOfKind(page, kKindOf<Proto>); },
        [&](const Job& job, Response* list) {
          *(list->*add)() = MessageOf<Proto>(converter, job, /*whole=*/false);
        });
  });
}

template <typename Request>
UnaryReactor* AnswerDeleteJob(const ServiceContext& services, std::string_view method, JobKind kind,
                              CallContext* context, const Request* request) {
  return AnswerUnary(services, method, context, *request, [=, &services] {
    NERF_ASSIGN_OR_RETURN(const ResourceKey key, ParseJobName("name", request->name(), kind));
    return services.queue.Delete(key, kind);
  });
}

}  // namespace nerf
