#include "client/job_create.h"

#include "client/job_watch.h"
#include "client/names.h"
#include "client/resource_printers.h"
#include "client/session.h"
#include "common/exit_code.h"
#include "fmt/format.h"
#include "nerf/v1/training_service.grpc.pb.h"

namespace nerf {

int SubmitJob(Session& session, const v1::CreateTrainingJobRequest& request, bool watch,
              const std::string& views) {
  const auto stub = session.Stub<v1::TrainingService>();
  const absl::StatusOr<v1::TrainingJob> job =
      session.Call(*stub, &v1::TrainingService::Stub::CreateTrainingJob, request);
  if (!job.ok()) return session.Fail(job.status());
  const Printer printer = session.printer();
  if (request.validate_only()) {
    if (!PrintJson(printer, *job)) {
      PrintDone(printer, job->name(), "valid; nothing was created");
    }
    return kOk;
  }
  const std::string id = ShortName(job->name());
  if (watch) {
    session.Say(fmt::format("job {} on scene {}", id, ShortName(job->scene())));
    return WatchJobToTheEnd(session, job->name(), {.patient_from_start = true, .views = views});
  }
  if (!PrintJson(printer, *job)) {
    PrintDone(printer, job->name(), fmt::format("{}  {}", StateText(job->state()), id));
  }
  session.SayNext(fmt::format("nerfctl job watch {}", id));
  return kOk;
}

}  // namespace nerf
