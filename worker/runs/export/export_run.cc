#include "worker/runs/export/export_run.h"

#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "common/error_reason.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "worker/files/scene_folder.h"
#include "worker/runs/export/export_program.h"

namespace nerf {

struct ExportRun::Export {
  Export(const JobContext& context, const v1::BlobRef& blob, std::string out)
      : model(context.room, context.cache, blob), out(std::move(out)) {}

  OpenBlob model;
  const std::string out;    // folder of what is made
  std::string file;         // set by Make
  v1::ExportResult result;  // set by Make and Upload
  Mutex mu;
  std::optional<v1::ExportProgress> news ABSL_GUARDED_BY(mu);  // not reported yet
};

ExportRun::ExportRun(PartRunOptions options, EngineProgramOptions program, JobContext context,
                     v1::DesiredJob grant, std::string folder)
    : ProgramRun(options, std::move(context), std::move(grant), std::move(folder)),
      program_(std::move(program)),
      export_(std::make_shared<Export>(context_, grant_.model_export().file(), folder_ + "/out")) {}

ExportRun::~ExportRun() = default;

void ExportRun::Fetch() {
  Work(
      [work = export_, stop = stop_.get_token()]() -> CallResult {
        absl::Status status = MakeFolders(work->out);
        if (status.ok()) status = work->model.Open(stop);
        return ToCallResult(status);
      },
      [this](const CallResult& result) {
        if (!result.ok()) return TryAgain(result, [this] { Fetch(); });
        Make();
      });
}

void ExportRun::Make() {
  stage_ = Stage::kWorking;
  report_.set_phase(v1::JobReport::RUNNING);
  context_.report_changed();
  Work(
      [work = export_, program = program_, product = grant_.model_export().product(),
       stop = stop_.get_token()]() -> CallResult {
        const auto made = ExportInSandbox(
            program, work->model.path, product, work->out,
            [&](const v1::ExportProgress& progress) {
              MutexLock lock(work->mu);
              work->news = progress;
            },
            stop);
        if (!made.ok()) return ToCallResult(made.status());
        const auto file = CheckInsideFolder(work->out, made->file);
        if (!file.ok()) return ToCallResult(absl::DataLossError(file.status().message()));
        work->file = *file;
        work->result.set_vertices(made->vertices);
        work->result.set_triangles(made->triangles);
        work->result.set_axes(made->axes);
        work->result.set_words(made->words);
        work->result.set_seconds(made->seconds);
        return {};
      },
      [this](const CallResult& result) {
        TakeNews();
        if (result.ok()) return Upload();
        EndFailed(result);
      });
}

void ExportRun::Upload() {
  Work(
      [work = export_, &blobs = context_.blobs, stop = stop_.get_token()]() -> CallResult {
        const auto blob = UploadOwnFile(blobs, work->file, stop);
        if (!blob.ok()) return ToCallResult(blob.status());
        v1::ExportFile* file = work->result.add_files();
        file->set_name(std::filesystem::path(work->file).filename());
        *file->mutable_blob() = *blob;
        return {};
      },
      [this](const CallResult& result) {
        if (!result.ok()) return TryAgain(result, [this] { Upload(); });
        *report_.mutable_export_result() = export_->result;
        Finish(v1::JobReport::SUCCEEDED);
      });
}

void ExportRun::TakeNews() {
  std::optional<v1::ExportProgress> news;
  {
    MutexLock lock(export_->mu);
    news.swap(export_->news);
  }
  if (!news.has_value() || ending()) return;
  *report_.mutable_export_progress() = *std::move(news);
  context_.progress_changed();
}

}  // namespace nerf
