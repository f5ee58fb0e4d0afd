#include "server/rpc/convert/convert_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "common/messages/proto_figures.h"
#include "common/messages/worker_limits.h"
#include "common/status_macros.h"
#include "server/queue/resources/request_check.h"
#include "server/queue/resources/resource_key.h"
#include "server/rpc/convert/convert_common.h"

namespace nerf {
namespace {

// Limits of a stored failure, so that a job fits into a message.
constexpr size_t kMaxReasonLength = 63;
constexpr size_t kMaxProblemTextLength = 1024;
constexpr size_t kMaxErrorLength = 4096;
constexpr size_t kMaxErrorMetadata = 32;

// True for names of figures: short, of lower-case letters and '_'.
bool IsFigureName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxFigureNameLength &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string_view::npos;
}

}  // namespace

absl::StatusOr<v1::Progress> ReportedProgress(const v1::Progress& reported) {
  v1::Progress progress = reported;
  progress.DiscardUnknownFields();
  DropNonFinite(&progress);
  auto& figures = *progress.mutable_figures();
  figures.clear();
  for (const auto& [name, value] : reported.figures()) {
    if (progress.figures_size() == kMaxFigures) break;
    // A figure with a field of its own is taken from there only.
    const bool is_own =
        IsFigureName(name) && v1::Progress::descriptor()->FindFieldByName(name) == nullptr;
    if (is_own && Finite(value) != 0) figures[name] = value;
  }
  if (progress.has_preview_image()) {
    NERF_ASSIGN_OR_RETURN(const BlobRef image,
                          FromProto("job.progress.preview_image", progress.preview_image()));
    *progress.mutable_preview_image() = ToProto(image);
  }
  return progress;
}

JobError ToJobError(const v1::JobReport& report) {
  JobError error = ToJobError(report.error());
  error.message = Cut(error.message, kMaxErrorLength);
  error.reason = Cut(error.reason, kMaxReasonLength);
  std::map<std::string, std::string> metadata;
  for (const auto& [key, value] : error.metadata) {
    if (metadata.size() == kMaxErrorMetadata) break;
    metadata[Cut(key, kMaxProblemTextLength)] = Cut(value, kMaxProblemTextLength);
  }
  error.metadata = std::move(metadata);
  const int n_problems = report.problems_size();
  for (int i = 0; i < std::min(n_problems, kMaxProblems); ++i) {
    v1::SceneProblem& problem = error.problems.emplace_back();
    problem.set_file(Cut(report.problems(i).file(), kMaxProblemTextLength));
    problem.set_field(Cut(report.problems(i).field(), kMaxProblemTextLength));
    problem.set_message(Cut(report.problems(i).message(), kMaxProblemTextLength));
  }
  if (n_problems > kMaxProblems)
    error.problems.emplace_back().set_message(
        fmt::format("and {} more", n_problems - kMaxProblems));
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
