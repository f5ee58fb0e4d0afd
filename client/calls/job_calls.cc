#include "client/calls/job_calls.h"

#include "client/flags/names.h"
#include "client/flags/text_format.h"
#include "client/kinds/job_kind.h"
#include "client/kinds/job_words.h"
#include "client/show/resource_printers.h"
#include "fmt/format.h"
#include "nerf/v1/job_service.grpc.pb.h"

namespace nerf {
namespace {

using JobStub = v1::JobService::Stub;

}  // namespace

absl::StatusOr<v1::Job> CreateJob(Session& session, const v1::CreateJobRequest& request) {
  const auto stub = session.Stub<v1::JobService>();
  return session.Call(*stub, &JobStub::CreateJob, request);
}

absl::StatusOr<v1::Job> GetJob(Session& session, const std::string& name, absl::Duration limit) {
  v1::GetJobRequest request;
  request.set_name(name);
  const auto stub = session.Stub<v1::JobService>();
  return session.Call(*stub, &JobStub::GetJob, request, limit);
}

void PrintChanged(const Printer& printer, const v1::Job& job) {
  if (PrintJson(printer, job)) return;
  PrintDone(printer, job.name(),
            fmt::format("{}  {}", StateText(job.state()), ShortName(job.name())));
}

void PrintQueued(const Session& session, const v1::Job& job, const std::string& next) {
  PrintChanged(session.printer(), job);
  if (job.has_wait()) {
    session.Say(PlainText(fmt::format("{} {} waits: {}", KindOfJob(job).noun(),
                                      ShortName(job.name()), job.wait().message())));
  }
  session.SayNext(next);
}

}  // namespace nerf
