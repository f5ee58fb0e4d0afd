#include "server/queue/records/kind_record.h"

#include <fmt/format.h>

#include <array>

#include "common/error_reason.h"

namespace nerf {
namespace {

// In the order of JobKind.
constexpr std::array kKinds = {&kTrainingRecord, &kRenderRecord, &kPoseRecord, &kExportRecord};

}  // namespace

const KindRecord& RecordOf(JobKind kind) { return *kKinds[static_cast<size_t>(kind)]; }

std::optional<JobKind> KindOfSpec(const v1::Job& job) {
  for (size_t i = 0; i < kKinds.size(); ++i) {
    if (kKinds[i]->spec == job.spec_case()) return static_cast<JobKind>(i);
  }
  return std::nullopt;
}

absl::Status CorruptRecord(std::string_view name, std::string_view what) {
  return WithReason(absl::DataLossError(fmt::format("the record of {} is damaged: {}", name, what)),
                    reason::kStoreCorrupt);
}

}  // namespace nerf
