#include "server/rpc/convert/convert_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "common/status_macros.h"
#include "engine/base/messages/export_options.h"
#include "engine/base/messages/render_check.h"
#include "server/queue/jobs/export_features.h"
#include "server/queue/jobs/job_spec.h"
#include "server/queue/resources/request_check.h"
#include "server/rpc/convert/convert_common.h"
#include "server/rpc/convert/convert_render.h"
#include "server/rpc/convert/export_bytes.h"
#include "server/rpc/convert/kind_messages.h"

namespace nerf {
namespace {

// Of what a worker reports.
constexpr int kMaxExportFiles = 16;
constexpr size_t kMaxFileName = 128, kMaxStepName = 64, kMaxExportWords = 1024;

// What is asked of a format that does not have it is refused, never ignored.
void CheckProduct(const v1::ExportSpec& spec, RequestCheck& check) {
  if (spec.has_path()) check.Add(ProblemsOf(spec.path()), "job.export.path");
  check.Add(ProblemsOf(spec), "job.export");
}

// Whether it is of the box that is kept with its source, if there is one.
bool UsesKeptCrop(const v1::ExportSpec& spec) {
  return !spec.has_box() && !spec.whole() && Honors(spec.format(), "box");
}

// What a worker must announce besides kExportFeature to know what is asked; or empty.
std::string_view FeatureOf(const v1::ExportSpec& spec) {
  const v1::ExportSpec::Format format = spec.format();
  if (spec.baked()) return kBakedExportsFeature;
  if (format == v1::ExportSpec::NVDB) return kNanoVdbFeature;
  if (IsSplats(format) && format != v1::ExportSpec::SPLATS) return kSplatFilesFeature;
  if (IsPath(format) || format == v1::ExportSpec::VIEWS) return kPathExportsFeature;
  const bool is_boxed_viewer = format == v1::ExportSpec::VIEWER && spec.has_box();
  const bool is_newer = format == v1::ExportSpec::VDB || spec.texture() > 0 ||
                        !spec.box().turn().empty() || is_boxed_viewer;
  return is_newer ? kMoreExportsFeature : "";
}

// The worker's figures where there are some, else the estimate from the request and the model.
void AddSizes(const Job& job, v1::Job* proto) {
  const ExportBytes asked = BytesOfRequest(*job.exporting);
  const v1::ExportProgress& progress = job.progress.export_();
  const auto known_or = [](double known, double other) { return known > 0 ? known : other; };
  v1::ExportStatus& status = *proto->mutable_export_status();
  status.set_expected_bytes(
      known_or(progress.expected_bytes(), known_or(job.expected_bytes, asked.expected)));
  status.set_max_bytes(known_or(progress.max_bytes(), asked.max));
}

absl::Status ParseExport(const v1::CreateJobRequest& request, RequestCheck& check, JobSpec* spec) {
  const v1::ExportSpec& proto = request.job().export_();
  ParseModelSource("job.export", proto, &spec->model, check);
  CheckProduct(proto, check);
  NERF_RETURN_IF_ERROR(check.Result());
  spec->exporting = WithDefaults(proto);
  spec->exporting.DiscardUnknownFields();
  const std::string_view feature = FeatureOf(proto);
  spec->model.feature = feature;
  // The queue does not know whether the kept box is turned.
  if (UsesKeptCrop(proto))
    spec->model.crop_feature = feature.empty() ? kMoreExportsFeature : feature;
  return absl::OkStatus();
}

void FillExportOrder(const LeaseGrant& grant, v1::DesiredJob* order) {
  order->set_action(v1::DesiredJob::EXPORT);
  v1::ExportTask* task = order->mutable_model_export();
  *task->mutable_file() = grant.job.model.blob();
  *task->mutable_product() = *grant.job.exporting;
}

// With long texts cut.
absl::StatusOr<internal::JobProgress> ExportProgressOf(const v1::JobReport& report) {
  internal::JobProgress progress;
  if (!report.has_export_progress()) return progress;
  const v1::ExportProgress& reported = report.export_progress();
  v1::ExportProgress& made = *progress.mutable_export_();
  made.set_step(Cut(reported.step(), kMaxStepName));
  made.set_share(std::clamp(Finite(reported.share()), 0.0, 1.0));
  made.set_expected_bytes(std::max(0.0, Finite(reported.expected_bytes())));
  made.set_max_bytes(std::max(0.0, Finite(reported.max_bytes())));
  return progress;
}

}  // namespace

const KindMessages kExportMessages = {ParseExport, FillExportOrder, ExportProgressOf, AddSizes};

absl::StatusOr<v1::ExportResult> ReportedResult(const v1::ExportResult& reported) {
  RequestCheck check;
  v1::ExportResult result;
  check.Require(reported.files_size() <= kMaxExportFiles, "export_result.files",
                fmt::format("must be at most {}", kMaxExportFiles));
  for (int i = 0; i < std::min(reported.files_size(), kMaxExportFiles); ++i) {
    const v1::ExportFile& file = reported.files(i);
    const std::string& name = file.name();
    check.Require(!name.empty() && name.size() <= kMaxFileName && IsPlainText(name) &&
                      name[0] != '.' && name.find_first_of("/\\") == std::string::npos,
                  fmt::format("export_result.files[{}].name", i), "must be a plain file name");
    v1::ExportFile& kept = *result.add_files();
    kept.set_name(name);
    *kept.mutable_blob() = ToProto(
        TakeOr(FromProto(fmt::format("export_result.files[{}].blob", i), file.blob()), check));
  }
  NERF_RETURN_IF_ERROR(check.Result());
  result.set_vertices(reported.vertices());
  result.set_triangles(reported.triangles());
  result.set_axes(Cut(reported.axes(), kMaxExportWords));
  result.set_words(Cut(reported.words(), kMaxExportWords));
  result.set_seconds(Finite(reported.seconds()));
  return result;
}

}  // namespace nerf
