#include <algorithm>

#include "client/flags/names.h"
#include "client/flags/text_format.h"
#include "client/kinds/job_words.h"
#include "client/kinds/kind_view.h"
#include "common/process/exit_code.h"
#include "fmt/format.h"

namespace nerf {
namespace {

std::string FramesText(const v1::Job& job) {
  return fmt::format("{}/{}", job.render_status().frames_done(), job.render_status().frame_count());
}

class RenderJobs final : public KindView {
 public:
  RenderJobs() : KindView("render", "render job", kJobFailed) {}

  std::string Subject(const v1::Job& job) const override {
    return ShortName(SourceOfJob(job.render()));
  }
  std::string Progress(const v1::Job& job) const override { return FramesText(job) + " frames"; }
  std::string Result(const v1::Job& job) const override {
    return fmt::format("{}x{}", job.render().width(), job.render().height());
  }
  void AddSpec(const v1::Job& job, TextFields* fields) const override {
    fields->Add("source", SourceOfJob(job.render()));
    fields->Add("size", Result(job));
  }
  void AddStatus(const v1::Job& job, TextFields* fields) const override {
    fields->Add("frames", FramesText(job));
    if (job.render_status().has_movie_blob()) {
      fields->Add("movie", FormatBytes(job.render_status().movie_blob().size_bytes()));
    }
  }
  std::optional<ProgressLine> LineOf(const v1::Job& job, absl::Duration) const override {
    const v1::RenderStatus& status = job.render_status();
    if (status.frames_done() == 0) return std::nullopt;
    return ProgressLine{
        .fraction = static_cast<double>(status.frames_done()) / std::max(1u, status.frame_count()),
        .label = "render  " + Progress(job),
        .details = StateText(job.state()),
        .json = fmt::format(R"({{"event":"render_job","state":"{}","frames":{}}})",
                            StateText(job.state()), status.frames_done())};
  }
  JobOutput OutputOf(const v1::Job& job) const override {
    return job.render().images() ? JobOutput::kFilesMeanwhile : JobOutput::kOneFile;
  }
  std::vector<JobFile> FilesOf(const v1::Job& job) const override {
    const v1::RenderSpec& spec = job.render();
    const v1::RenderStatus& status = job.render_status();
    std::vector<JobFile> files;
    if (status.has_movie_blob()) {
      files.push_back({fmt::format("movie{}", MovieEnding(spec)), status.movie_blob()});
    }
    if (!spec.images()) return files;
    for (const v1::RenderedFrame& frame : status.frames()) {
      for (int i = 0; i < frame.images_size(); ++i) {
        files.push_back(
            {fmt::format(
                 "frame_{:05}_{}.{}", frame.index(),
                 i < spec.channels_size() ? v1::RenderChannel_Name(spec.channels(i)) : "RGB",
                 spec.format() == v1::EXR ? "exr" : "png"),
             frame.images(i)});
      }
    }
    return files;
  }
  std::string FileEnding(const v1::Job& job) const override {
    return job.render().images() ? "" : std::string(MovieEnding(job.render()));
  }
};

}  // namespace

const KindView& RenderKindView() {
  static const auto* const kKind = new RenderJobs;
  return *kKind;
}

std::string_view MovieEnding(const v1::RenderSpec& spec) {
  return !spec.channels().empty() && spec.channels(0) == v1::RGBA ? ".webm" : ".mp4";
}

}  // namespace nerf
