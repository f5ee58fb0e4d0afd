#include "client/kinds/job_kind.h"

#include "client/flags/names.h"
#include "client/kinds/job_words.h"
#include "common/exit_code.h"
#include "fmt/format.h"

namespace nerf {

std::optional<ProgressLine> JobKind::LineOf(const v1::Job&, absl::Duration) const {
  return std::nullopt;
}

std::string JobKind::EndLine(const v1::Job& job) const {
  if (job.state() == v1::Job::SUCCEEDED) return "";
  return fmt::format("{}  {}", StateText(job.state()), ShortName(job.name()));
}

const JobKind& KindOfJob(const v1::Job& job) {
  static const auto* const kUnknown = new JobKind("", "job", kJobFailed);
  switch (job.spec_case()) {
    case v1::Job::kTraining:
      return TrainingKind();
    case v1::Job::kRender:
      return RenderKind();
    case v1::Job::kPose:
      return PoseKind();
    case v1::Job::kExport:
      return ExportKind();
    case v1::Job::SPEC_NOT_SET:
      break;
  }
  return *kUnknown;
}

std::vector<std::string> JobKindWords() {
  std::vector<std::string> words;
  for (const JobKind* kind : {&TrainingKind(), &RenderKind(), &PoseKind(), &ExportKind()}) {
    words.emplace_back(kind->word());
  }
  return words;
}

}  // namespace nerf
