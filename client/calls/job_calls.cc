#include "client/calls/job_calls.h"

#include "client/calls/resource_calls.h"
#include "client/flags/names.h"
#include "client/flags/text_format.h"
#include "client/kinds/job_words.h"
#include "client/kinds/kind_view.h"
#include "client/show/resource_printers.h"
#include "fmt/format.h"
#include "nerf/v1/job_service.grpc.pb.h"

namespace nerf {

absl::StatusOr<v1::Job> CreateJob(Session& session, const v1::CreateJobRequest& request) {
  const auto stub = session.Stub<v1::JobService>();
  return session.Call(*stub, &v1::JobService::Stub::CreateJob, request);
}

absl::StatusOr<v1::Job> GetJob(Session& session, const std::string& name, absl::Duration limit) {
  return CallByName<v1::JobService>(session, name, &v1::JobService::Stub::GetJob, limit);
}

void PrintChanged(const Printer& printer, const v1::Job& job) {
  if (PrintJson(printer, job)) return;
  PrintDone(printer, job.name(),
            fmt::format("{}  {}", StateText(job.state()), ShortName(job.name())));
}

void PrintQueued(const Session& session, const v1::Job& job, const std::string& next) {
  PrintChanged(session.printer(), job);
  if (job.has_wait()) {
    session.Say(PlainText(fmt::format("{} {} waits: {}", KindViewOf(job).noun(),
                                      ShortName(job.name()), job.wait().message())));
  }
  session.SayNext(next);
}

}  // namespace nerf
