#include "server/rpc/convert/convert_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "common/status_macros.h"
#include "server/queue/jobs/job_spec.h"
#include "server/queue/kinds/kind_policy.h"
#include "server/queue/resources/request_check.h"
#include "server/rpc/convert/convert_common.h"
#include "server/rpc/convert/convert_render.h"
#include "server/rpc/convert/export_bytes.h"
#include "server/rpc/convert/job_fields.h"
#include "server/rpc/convert/render_request.h"

namespace nerf {
namespace {

// As of `nerf-engine export`.
constexpr uint32_t kDefaultExportResolution = 256, kMinExportResolution = 8,
                   kMaxExportResolution = 1024;
constexpr uint32_t kDefaultTriangles = 200'000, kMaxTriangles = 1'000'000'000;
constexpr uint32_t kMinTexture = 64, kMaxTexture = 8192;
// Of what a worker reports.
constexpr int kMaxExportFiles = 16;
constexpr size_t kMaxFileName = 128, kMaxStepName = 64, kMaxExportWords = 1024;
constexpr uint32_t kThousandths = 1000;
// Figures of a job's progress.
constexpr char kExpectedBytes[] = "expected_bytes", kMaxBytes[] = "max_bytes";

bool HasGrid(v1::ExportJob::Format format) {
  return IsMesh(format) || format == v1::ExportJob::POINTS || format == v1::ExportJob::SPLATS ||
         format == v1::ExportJob::VDB || format == v1::ExportJob::NVDB;
}

bool HasBox(v1::ExportJob::Format format) {
  return HasGrid(format) || format == v1::ExportJob::VIEWER || format == v1::ExportJob::VIEWS;
}

std::string FormatNames() {
  const auto* const formats = v1::ExportJob::Format_descriptor();
  std::string names;
  for (int i = 1; i < formats->value_count(); ++i)
    names += fmt::format("{}{}", i == 1 ? "" : ", ", formats->value(i)->name());
  return names;
}

// What is asked of a format that does not have it is refused, never ignored.
void CheckProduct(const v1::ExportJob& job, RequestCheck& check) {
  using Job = v1::ExportJob;
  const Job::Format format = job.format();
  const bool is_known = Job::Format_IsValid(format) && format != Job::FORMAT_UNSPECIFIED;
  check.Require(is_known, "export_job.format", fmt::format("must be one of {}", FormatNames()));
  check.Require(Job::Frame_IsValid(job.frame()), "export_job.frame",
                "is not a frame known to this server");
  if (job.has_box()) CheckCropBox("export_job.box", job.box(), check);
  check.Require(!job.has_box() || !job.whole(), "export_job.whole", "has no effect with box");
  const uint32_t resolution = job.resolution(), triangles = job.triangles();
  check.Require(
      resolution == 0 || (resolution >= kMinExportResolution && resolution <= kMaxExportResolution),
      "export_job.resolution",
      fmt::format("must be {} to {}", kMinExportResolution, kMaxExportResolution));
  check.Require(triangles <= kMaxTriangles, "export_job.triangles", "must be at most 1e9");
  const uint32_t texture = job.texture();
  check.Require(texture == 0 || (texture >= kMinTexture && texture <= kMaxTexture),
                "export_job.texture", fmt::format("must be {} to {}", kMinTexture, kMaxTexture));
  const v1::CameraPath& path = job.path();
  if (job.has_path()) CheckCameraPath("export_job.path", path, check);
  check.Require(!path.has_scene(), "export_job.path.scene", "is for render jobs alone");
  if (!is_known) return;
  const auto refuse = [&](bool is_given, std::string_view field) {
    check.Require(!is_given, fmt::format("export_job.{}", field),
                  fmt::format("has no effect on {}", Job::Format_Name(format)));
  };
  refuse(!HasBox(format) && job.has_box(), "box");
  refuse(!HasBox(format) && job.whole(), "whole");
  refuse(!HasGrid(format) && resolution > 0, "resolution");
  refuse(!IsPath(format) && format != Job::VIEWS && job.has_path(), "path");
  refuse(!IsMesh(format) && triangles > 0, "triangles");
  refuse(format != Job::GLB && texture > 0, "texture");
  refuse(format != Job::VIEWER && job.baked(), "baked");
  const bool has_frame = job.frame() != Job::FRAME_UNSPECIFIED && job.frame() != Job::DATASET;
  refuse((format == Job::VIEWER || IsPath(format)) && has_frame, "frame");
  const bool is_mirrored = job.frame() == Job::UNITY || job.frame() == Job::UNREAL;
  const bool has_cameras = format == Job::CAMERAS || format == Job::VIEWS;
  check.Require(!has_cameras || !is_mirrored, "export_job.frame",
                "is left-handed, cameras are not");
}

// What the client has asked for, without labels and what only the server sets.
v1::ExportJob RequestedExport(const v1::ExportJob& job) {
  v1::ExportJob requested;
  requested.set_display_name(job.display_name());
  requested.set_priority(job.priority());
  if (job.has_model()) requested.set_model(job.model());
  if (job.has_checkpoint()) requested.set_checkpoint(job.checkpoint());
  requested.set_format(job.format());
  requested.set_frame(job.frame() == v1::ExportJob::FRAME_UNSPECIFIED ? v1::ExportJob::DATASET
                                                                      : job.frame());
  if (job.has_box()) *requested.mutable_box() = job.box();
  requested.set_whole(job.whole());
  if (HasGrid(job.format())) {
    requested.set_resolution(job.resolution() == 0 ? kDefaultExportResolution : job.resolution());
  }
  if (IsMesh(job.format())) {
    requested.set_triangles(job.triangles() == 0 ? kDefaultTriangles : job.triangles());
  }
  requested.set_texture(job.texture());
  requested.set_baked(job.baked());
  if (job.has_path()) *requested.mutable_path() = job.path();
  requested.DiscardUnknownFields();
  return requested;
}

// Whether it is of the box that is kept with its source, if there is one.
bool UsesKeptCrop(const v1::ExportJob& job) {
  return !job.has_box() && !job.whole() && HasBox(job.format());
}

// The request with the box that is kept with its source, where it uses that. A request that cannot
// be parsed is left out.
v1::ExportJob AsMade(const ExportSpec& spec) {
  v1::ExportJob job;
  if (!job.ParseFromString(spec.request)) job.Clear();
  if (spec.crop.empty() || !UsesKeptCrop(job)) return job;
  if (!job.mutable_box()->ParseFromString(spec.crop)) job.clear_box();
  return job;
}

// What a worker must announce besides kExportFeature to know what is asked; or empty.
std::string_view FeatureOf(const v1::ExportJob& job) {
  const v1::ExportJob::Format format = job.format();
  if (job.baked()) return kBakedExportsFeature;
  if (format == v1::ExportJob::NVDB) return kNanoVdbFeature;
  if (IsPath(format) || format == v1::ExportJob::VIEWS) return kPathExportsFeature;
  const bool is_boxed_viewer = format == v1::ExportJob::VIEWER && job.has_box();
  const bool is_newer = format == v1::ExportJob::VDB || job.texture() > 0 ||
                        !job.box().turn().empty() || is_boxed_viewer;
  return is_newer ? kMoreExportsFeature : "";
}

// The worker's figures where there are some, else the estimate from the request and the model.
void SetExportSize(const Job& job, v1::ExportJob* proto) {
  ExportBytes size = BytesOfRequest(*proto);
  if (job.exporting.expected_bytes > 0) size.expected = job.exporting.expected_bytes;
  const auto take = [&](const char* name, double* bytes) {
    const auto found = job.progress.figures.find(name);
    if (found != job.progress.figures.end()) *bytes = found->second;
  };
  take(kExpectedBytes, &size.expected);
  take(kMaxBytes, &size.max);
  proto->set_expected_bytes(size.expected);
  proto->set_max_bytes(size.max);
}

}  // namespace

v1::ExportJob ToExportJob(const Job& job, bool whole) {
  v1::ExportJob proto = AsMade(job.exporting);
  SetOneWorkerFields(job, &proto);
  if (proto.has_checkpoint() && job.exporting.step.has_value()) {
    proto.set_checkpoint(CheckpointName(job.exporting.source, *job.exporting.step));
  }
  SetExportSize(job, &proto);
  if (!whole) proto.clear_path();
  const PoseStage& stage = job.progress.pose;
  if (!stage.doing.empty()) {
    proto.mutable_progress()->set_step(stage.doing);
    proto.mutable_progress()->set_share(static_cast<double>(stage.done) / kThousandths);
  }
  if (!job.export_result.has_value()) return proto;
  v1::ExportResult* result = proto.mutable_result();
  if (!result->ParseFromString(job.export_result->report)) result->Clear();
  for (const SceneFileRecord& record : job.export_result->files) {
    v1::ExportFile* file = result->add_files();
    file->set_name(record.path);
    *file->mutable_blob() = ToProto(record.blob);
  }
  return proto;
}

v1::WatchExportJobResponse ToExportWatch(const WatchEvent& event) {
  auto proto = ToJobWatch<v1::WatchExportJobResponse>(event);
  *proto.mutable_export_job() = ToExportJob(event.job, /*whole=*/false);
  return proto;
}

absl::StatusOr<JobSpec> FromProto(const v1::CreateExportJobRequest& request) {
  RequestCheck check;
  const v1::ExportJob& job = request.export_job();
  JobSpec spec = JobSpecOf(JobKind::kExport, request, request.export_job_id(), job, check);
  CheckJobNames(spec, "export_job", check);
  ParseModelSource("export_job", job, &spec.exporting, check);
  CheckProduct(job, check);
  NERF_RETURN_IF_ERROR(check.Result());
  spec.exporting.request = RequestedExport(job).SerializeAsString();
  const std::string_view feature = FeatureOf(job);
  spec.exporting.feature = feature;
  // The queue does not know whether the kept box is turned.
  if (UsesKeptCrop(job))
    spec.exporting.crop_feature = feature.empty() ? kMoreExportsFeature : feature;
  return spec;
}

v1::DesiredJob ExportOrder(const LeaseGrant& grant) {
  v1::DesiredJob proto;
  proto.set_action(v1::DesiredJob::EXPORT);
  proto.set_training_job(JobName(grant.lease.job, JobKind::kExport));
  proto.set_lease_epoch(grant.lease.epoch);
  *proto.mutable_lease_ttl() = ToProto(grant.ttl);
  v1::ExportTask* task = proto.mutable_model_export();
  *task->mutable_file() = ToProto(grant.job.exporting.model_blob);
  *task->mutable_product() = AsMade(grant.job.exporting);
  return proto;
}

JobProgress FromProto(const v1::ExportProgress& progress) {
  JobProgress parsed;
  for (const auto& [name, bytes] :
       {std::pair{kExpectedBytes, progress.expected_bytes()}, {kMaxBytes, progress.max_bytes()}}) {
    if (Finite(bytes) > 0) parsed.figures[name] = bytes;
  }
  PoseStage& stage = parsed.pose;
  stage.doing = Cut(progress.step(), kMaxStepName);
  const double share = std::clamp(Finite(progress.share()), 0.0, 1.0);
  stage.done = static_cast<uint32_t>(std::lround(share * kThousandths));
  stage.of = kThousandths;
  return parsed;
}

absl::StatusOr<ExportResult> FromProto(const v1::ExportResult& result) {
  RequestCheck check;
  ExportResult parsed;
  check.Require(result.files_size() <= kMaxExportFiles, "export_result.files",
                fmt::format("must be at most {}", kMaxExportFiles));
  for (int i = 0; i < std::min(result.files_size(), kMaxExportFiles); ++i) {
    const v1::ExportFile& file = result.files(i);
    const std::string& name = file.name();
    check.Require(!name.empty() && name.size() <= kMaxFileName && IsPlainText(name) &&
                      name[0] != '.' && name.find_first_of("/\\") == std::string::npos,
                  fmt::format("export_result.files[{}].name", i), "must be a plain file name");
    parsed.files.push_back(
        {name,
         TakeOr(FromProto(fmt::format("export_result.files[{}].blob", i), file.blob()), check)});
  }
  NERF_RETURN_IF_ERROR(check.Result());
  v1::ExportResult report;
  report.set_vertices(result.vertices());
  report.set_triangles(result.triangles());
  report.set_axes(Cut(result.axes(), kMaxExportWords));
  report.set_words(Cut(result.words(), kMaxExportWords));
  report.set_seconds(Finite(result.seconds()));
  parsed.report = report.SerializeAsString();
  return parsed;
}

}  // namespace nerf
