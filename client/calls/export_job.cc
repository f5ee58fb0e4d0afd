#include "client/calls/export_job.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "client/calls/follow_job.h"
#include "client/flags/text_format.h"
#include "nerf/v1/export_job_service.grpc.pb.h"

namespace nerf {
namespace {

struct ExportFollow {
  using Job = v1::ExportJob;
  using Service = v1::ExportJobService;
  using Request = v1::WatchExportJobRequest;
  using Response = v1::WatchExportJobResponse;
  static constexpr std::string_view kNoun = "export job";

  static auto Watch(Service::Stub& stub, grpc::ClientContext* context, const Request& request) {
    return stub.WatchExportJob(context, request);
  }
  static const Job* JobOf(const Response& response) {
    return response.has_export_job() ? &response.export_job() : nullptr;
  }
  static std::optional<ProgressLine> ProgressOf(const Job& job) {
    if (!job.has_progress()) return std::nullopt;
    return ProgressLine{.fraction = job.progress().share(),
                        .label = "exporting  " + PlainText(job.progress().step()),
                        .details = ExpectedSizeText(job),
                        .json = nlohmann::ordered_json({{"event", "exporting"},
                                                        {"step", PlainText(job.progress().step())},
                                                        {"share", job.progress().share()},
                                                        {"expected_bytes", job.expected_bytes()},
                                                        {"max_bytes", job.max_bytes()}})
                                    .dump()};
  }
};

}  // namespace

int AwaitExportJob(Session& session, const std::string& name, v1::ExportJob* job) {
  return AwaitEndOf<ExportFollow>(session, name, "export-job", job);
}

absl::Status DownloadExport(Session& session, const v1::ExportJob& job, const std::string& path) {
  if (job.result().files().empty()) {
    return absl::NotFoundError(fmt::format("{} has no file", job.name()));
  }
  return session.Blobs(job.name())
      .DownloadToFile(job.result().files(0).blob(), path, session.stop());
}

std::string ExpectedSizeText(const v1::ExportJob& job) {
  std::string text;
  if (job.expected_bytes() > 0) text = "about " + FormatBytes(job.expected_bytes());
  if (job.max_bytes() > 0) {
    if (!text.empty()) text += ", ";
    text += "at most " + FormatBytes(job.max_bytes());
  }
  return text;
}

std::string ExportProgressText(const v1::ExportJob& job) {
  if (!job.has_progress()) return "";
  return fmt::format("{} {:.0f}%", job.progress().step(), 100 * job.progress().share());
}

}  // namespace nerf
