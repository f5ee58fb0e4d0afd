#include "client/kinds/kind_view.h"

#include <filesystem>

#include "client/flags/names.h"
#include "client/kinds/job_words.h"
#include "common/process/exit_code.h"
#include "fmt/format.h"

namespace nerf {

std::optional<ProgressLine> KindView::LineOf(const v1::Job&, absl::Duration) const {
  return std::nullopt;
}

std::string KindView::EndLine(const v1::Job& job) const {
  if (job.state() == v1::Job::SUCCEEDED) return "";
  return fmt::format("{}  {}", StateText(job.state()), ShortName(job.name()));
}

std::string KindView::FileEnding(const v1::Job& job) const {
  const std::vector<JobFile> files = FilesOf(job);
  if (OutputOf(job) != JobOutput::kOneFile || files.empty()) return "";
  return std::filesystem::path(files[0].name).extension().string();
}

const KindView& KindViewOf(const v1::Job& job) {
  static const auto* const kUnknown = new KindView("", "job", kJobFailed);
  switch (job.spec_case()) {
    case v1::Job::kTraining:
      return TrainingKindView();
    case v1::Job::kRender:
      return RenderKindView();
    case v1::Job::kPose:
      return PoseKindView();
    case v1::Job::kExport:
      return ExportKindView();
    case v1::Job::SPEC_NOT_SET:
      break;
  }
  return *kUnknown;
}

std::vector<std::string> JobKindWords() {
  std::vector<std::string> words;
  for (const KindView* kind :
       {&TrainingKindView(), &RenderKindView(), &PoseKindView(), &ExportKindView()}) {
    words.emplace_back(kind->word());
  }
  return words;
}

}  // namespace nerf
