#include <nlohmann/json.hpp>

#include "client/flags/names.h"
#include "client/flags/text_format.h"
#include "client/kinds/job_words.h"
#include "client/kinds/kind_view.h"
#include "common/process/exit_code.h"
#include "fmt/format.h"

namespace nerf {
namespace {

std::string SizeText(const v1::ExportStatus& status) {
  if (status.result().files().empty()) return ExpectedSizeText(status);
  return FormatBytes(status.result().files(0).blob().size_bytes());
}

class ExportJobs final : public KindView {
 public:
  ExportJobs() : KindView("export", "export job", kBadData) {}

  std::string Subject(const v1::Job& job) const override {
    return ShortName(SourceOfJob(job.export_()));
  }
  std::string Progress(const v1::Job& job) const override {
    const v1::ExportStatus& status = job.export_status();
    if (!status.has_progress() || job.state() == v1::Job::SUCCEEDED) return "";
    return fmt::format("{} {:.0f}%", status.progress().step(), 100 * status.progress().share());
  }
  std::string Result(const v1::Job& job) const override {
    const std::string size = SizeText(job.export_status());
    return v1::ExportSpec::Format_Name(job.export_().format()) + (size.empty() ? "" : ", ") + size;
  }
  void AddSpec(const v1::Job& job, TextFields* fields) const override {
    fields->Add("source", SourceOfJob(job.export_()));
    fields->Add("format", v1::ExportSpec::Format_Name(job.export_().format()));
  }
  void AddStatus(const v1::Job& job, TextFields* fields) const override {
    const v1::ExportResult& result = job.export_status().result();
    fields->Add("step", Progress(job));
    fields->Add("size", SizeText(job.export_status()));
    for (const v1::ExportFile& file : result.files()) fields->Add("file", file.name());
    fields->Add("holds", result.words());
    fields->Add("axes", result.axes());
  }
  std::optional<ProgressLine> LineOf(const v1::Job& job, absl::Duration) const override {
    const v1::ExportStatus& status = job.export_status();
    if (!status.has_progress() || IsFinal(job.state())) return std::nullopt;
    const std::string step = PlainText(status.progress().step());
    return ProgressLine{.fraction = status.progress().share(),
                        .label = "exporting  " + step,
                        .details = ExpectedSizeText(status),
                        .json = nlohmann::ordered_json({{"event", "exporting"},
                                                        {"step", step},
                                                        {"share", status.progress().share()},
                                                        {"expected_bytes", status.expected_bytes()},
                                                        {"max_bytes", status.max_bytes()}})
                                    .dump()};
  }
  std::vector<JobFile> FilesOf(const v1::Job& job) const override {
    std::vector<JobFile> files;
    for (const v1::ExportFile& file : job.export_status().result().files()) {
      files.push_back({file.name(), file.blob()});
    }
    return files;
  }
};

}  // namespace

const KindView& ExportKindView() {
  static const auto* const kKind = new ExportJobs;
  return *kKind;
}

std::string ExpectedSizeText(const v1::ExportStatus& status) {
  std::string text;
  if (status.expected_bytes() > 0) text = "about " + FormatBytes(status.expected_bytes());
  if (status.max_bytes() > 0) {
    if (!text.empty()) text += ", ";
    text += "at most " + FormatBytes(status.max_bytes());
  }
  return text;
}

}  // namespace nerf
