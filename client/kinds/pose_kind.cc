#include <algorithm>

#include "client/flags/names.h"
#include "client/kinds/job_words.h"
#include "client/kinds/kind_view.h"
#include "common/counted.h"
#include "common/process/exit_code.h"
#include "fmt/format.h"

namespace nerf {
namespace {

class PoseJobs final : public KindView {
 public:
  PoseJobs() : KindView("pose", "pose job", kBadData) {}

  std::string Subject(const v1::Job& job) const override { return ShortName(job.pose().scene()); }
  // "6/7 placing cameras: 12 of 50 photographs".
  std::string Progress(const v1::Job& job) const override {
    const v1::PoseProgress& progress = job.pose_status().progress();
    if (progress.stage() == 0 || job.state() == v1::Job::SUCCEEDED) return "";
    std::string text =
        fmt::format("{}/{} {}", progress.stage(), progress.stages(), progress.doing());
    if (progress.of() > 0) text += fmt::format(": {} of {}", progress.done(), progress.of());
    if (progress.of() > 0 && !progress.unit().empty()) text += " " + progress.unit();
    return text;
  }
  std::string Result(const v1::Job& job) const override {
    const v1::PoseStatus& status = job.pose_status();
    if (!status.has_report()) return Counted(status.file_count(), "file");
    return fmt::format("{}/{} posed", status.report().posed(), status.report().photographs());
  }
  double SecondsLeft(const v1::Job& job) const override {
    return job.pose_status().progress().eta_seconds();
  }
  void AddSpec(const v1::Job& job, TextFields* fields) const override {
    fields->Add("scene", job.pose().scene());
    fields->Add("into", job.pose().into());
    fields->Add("files", fmt::format("{}", job.pose_status().file_count()));
  }
  void AddStatus(const v1::Job& job, TextFields* fields) const override {
    const v1::PoseStatus& status = job.pose_status();
    fields->Add("stage", Progress(job));
    if (SecondsLeft(job) > 0) fields->Add("left", fmt::format("about {:.0f} s", SecondsLeft(job)));
    if (status.has_report()) {
      fields->Add("posed",
                  fmt::format("{}/{}", status.report().posed(), status.report().photographs()));
    }
    for (const std::string& again : status.report().again()) fields->Add("again", again);
  }
  std::optional<ProgressLine> LineOf(const v1::Job& job, absl::Duration) const override {
    const v1::PoseProgress& progress = job.pose_status().progress();
    if (progress.stage() == 0 || progress.stages() == 0 || IsFinal(job.state())) {
      return std::nullopt;
    }
    const double of = std::max(1u, progress.of());
    const double within = progress.of() == 0 ? 0 : progress.done() / of;
    return ProgressLine{
        .fraction = (progress.stage() - 1 + std::min(within, 1.0)) / progress.stages(),
        .label = "poses  " + Progress(job),
        .details = fmt::format("({:.0f} s{})", progress.seconds(),
                               progress.eta_seconds() > 0
                                   ? fmt::format(", about {:.0f} s left", progress.eta_seconds())
                                   : ""),
        .json = fmt::format(
            R"({{"event":"posing","stage":{},"stages":{},"done":{},"of":{},"seconds":{:.1f},)"
            R"("eta_seconds":{:.1f},"matches_per_second":{:.0f}}})",
            progress.stage(), progress.stages(), progress.done(), progress.of(), progress.seconds(),
            progress.eta_seconds(), progress.matches_per_second())};
  }
  std::vector<std::string> Remarks(const v1::Job& job) const override {
    const v1::PoseReport& report = job.pose_status().report();
    std::vector<std::string> remarks = {fmt::format(
        "{} of {} posed, {} points, reprojection error {:.2f} pixels, parallax {:.1f} degrees",
        report.posed(), Counted(report.photographs(), "photograph"), report.points(),
        report.reprojection_error_pixels(), report.parallax_degrees())};
    for (const std::string& warning : report.warnings()) remarks.push_back("warning: " + warning);
    return remarks;
  }
  std::string NextCommand(const v1::Job& job) const override {
    if (job.state() != v1::Job::SUCCEEDED) return "";
    return fmt::format("nerfctl job create {} --watch", ShortName(job.pose().scene()));
  }
  JobOutput OutputOf(const v1::Job&) const override { return JobOutput::kSeveralFiles; }
  std::vector<JobFile> FilesOf(const v1::Job& job) const override {
    const v1::PoseReport& report = job.pose_status().report();
    std::vector<JobFile> files;
    if (report.has_text()) files.push_back({"pose.txt", report.text()});
    if (report.has_json()) files.push_back({"pose.json", report.json()});
    if (report.has_picture()) files.push_back({"pose.png", report.picture()});
    return files;
  }
};

}  // namespace

const KindView& PoseKindView() {
  static const auto* const kKind = new PoseJobs;
  return *kKind;
}

}  // namespace nerf
