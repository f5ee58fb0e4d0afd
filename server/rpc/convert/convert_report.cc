#include "server/rpc/convert/convert_report.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "common/error_reason.h"
#include "common/messages/proto_figures.h"
#include "common/messages/rpc_status.h"
#include "common/status_macros.h"
#include "server/queue/resources/request_check.h"
#include "server/queue/resources/resource_key.h"
#include "server/rpc/convert/convert_common.h"

namespace nerf {
namespace {

// Limits of a stored failure, so that a job fits into a message.
constexpr int kMaxProblems = 500;
constexpr size_t kMaxProblemTextLength = 1024;
constexpr size_t kMaxErrorLength = 4096;
constexpr size_t kMaxErrorMetadata = 32;
constexpr size_t kMaxFigures = 100;
constexpr size_t kMaxFigureNameLength = 64;

// True for names of figures: short, of lower-case letters and '_'.
bool IsFigureName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxFigureNameLength &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string_view::npos;
}

}  // namespace

absl::StatusOr<JobProgress> FromProto(const v1::Progress& proto) {
  JobProgress progress;
  progress.step = proto.step();
  progress.eta_seconds = Finite(proto.eta_seconds());
  progress.figures = Figures(proto);
  // A figure with a field of its own is taken from there only.
  for (const auto& [name, value] : proto.figures()) {
    if (progress.figures.size() == kMaxFigures) break;
    if (IsFigureName(name) && v1::Progress::descriptor()->FindFieldByName(name) == nullptr) {
      progress.figures[name] = value;
    }
  }
  std::erase_if(progress.figures, [](const auto& figure) {
    return figure.first == "step" || figure.first == "eta_seconds" || Finite(figure.second) == 0;
  });
  if (proto.has_psnr_preview()) progress.preview_psnr = Finite(proto.psnr_preview());
  if (proto.has_preview_step()) progress.preview_step = proto.preview_step();
  if (proto.has_preview_image()) {
    NERF_ASSIGN_OR_RETURN(BlobRef image,
                          FromProto("job.progress.preview_image", proto.preview_image()));
    progress.preview_image = std::move(image);
  }
  return progress;
}

JobError ToJobError(const v1::JobReport& report) {
  JobError error;
  const absl::Status status = FromRpcStatus(report.error());
  error.code = status.ok() ? absl::StatusCode::kUnknown : status.code();
  error.message = Cut(std::string(status.message()), kMaxErrorLength);
  if (const auto found = GetReason(status); found.has_value()) {
    error.reason = Cut(found->reason, 63);
    for (const auto& [key, value] : found->metadata) {
      if (error.metadata.size() == kMaxErrorMetadata) break;
      error.metadata[Cut(key, kMaxProblemTextLength)] = Cut(value, kMaxProblemTextLength);
    }
  }
  for (const v1::SceneProblem& problem : report.problems()) {
    if (error.problems.size() == kMaxProblems) {
      error.problems.push_back(
          {"", "", fmt::format("and {} more", report.problems_size() - kMaxProblems)});
      break;
    }
    error.problems.push_back({Cut(problem.file(), kMaxProblemTextLength),
                              Cut(problem.field(), kMaxProblemTextLength),
                              Cut(problem.message(), kMaxProblemTextLength)});
  }
  return error;
}

absl::StatusOr<CheckpointRecord> FromProto(const v1::CommitCheckpointRequest& request) {
  constexpr int kMaxTensors = 1000;
  RequestCheck check;
  CheckpointRecord checkpoint;
  checkpoint.step = request.step();
  checkpoint.checkpoint_blob =
      TakeOr(FromProto("checkpoint_blob", request.checkpoint_blob()), check);
  checkpoint.model_blob = TakeOr(FromProto("model_blob", request.model_blob()), check);
  check.Require(request.tensors_size() <= kMaxTensors, "tensors",
                fmt::format("must be at most {}", kMaxTensors));
  check.Require(!request.has_psnr() || std::isfinite(request.psnr()), "psnr",
                "must be a finite number");
  NERF_RETURN_IF_ERROR(check.Result());
  if (request.has_psnr()) checkpoint.preview_psnr = request.psnr();
  checkpoint.seconds = Finite(request.seconds());
  for (const v1::TensorSpec& tensor : request.tensors()) {
    checkpoint.tensors.push_back(FromProto(tensor));
  }
  return checkpoint;
}

absl::StatusOr<LeaseRef> ParseLease(std::string_view field, std::string_view job,
                                    uint64_t lease_epoch, uint32_t part) {
  LeaseRef lease;
  const std::string name = field.empty() ? "job" : fmt::format("{}.job", field);
  NERF_ASSIGN_OR_RETURN(lease.job, ParseJobName(name, job));
  lease.epoch = lease_epoch;
  lease.part = part;
  return lease;
}

absl::StatusOr<LeaseRef> ParseLease(std::string_view field, const v1::JobReport& report) {
  return ParseLease(field, report.job(), report.lease_epoch(), report.part());
}

}  // namespace nerf
