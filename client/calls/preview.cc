#include "client/calls/preview.h"

#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <filesystem>
#include <ostream>
#include <utility>
#include <vector>

#include "client/calls/job_calls.h"
#include "client/calls/session.h"
#include "client/flags/names.h"
#include "client/flags/text_format.h"
#include "client/show/resource_printers.h"
#include "client/show/terminal_image.h"
#include "common/error_reason.h"
#include "common/files/atomic_file.h"
#include "common/process/exit_code.h"
#include "common/status_macros.h"
#include "engine/scene/pictures/image_io.h"
#include "fmt/format.h"

namespace nerf {
namespace {

// Previews are small. Limits the memory that a wrong blob can use.
constexpr double kMaxPreviewBytes = 64e6;
constexpr int kMaxRows = 20;  // of the terminal

std::vector<std::string> Environment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) variables.push_back(*variable);
  return variables;
}

absl::StatusOr<std::string> FetchPreview(Session& session, const v1::Progress& progress) {
  const v1::BlobRef& blob = progress.preview_image();
  if (!(blob.size_bytes() <= kMaxPreviewBytes)) {
    return absl::ResourceExhaustedError(
        fmt::format("the preview has {}", FormatBytes(blob.size_bytes())));
  }
  std::string bytes;
  NERF_RETURN_IF_ERROR(session.Blobs().Read(
      blob,
      [&](std::string_view chunk) {
        bytes += chunk;
        return absl::OkStatus();
      },
      session.stop()));
  return bytes;
}

absl::Status ShowInTerminal(const Session& session, const std::string& png) {
  NERF_ASSIGN_OR_RETURN(const ImageU8 image, DecodeImageBytes(png));
  NERF_ASSIGN_OR_RETURN(const std::string text,
                        TerminalImage(image, session.io().columns - 1, kMaxRows, Environment()));
  session.err() << text << '\n' << std::flush;
  return absl::OkStatus();
}

}  // namespace

void AddPreviewFlags(CLI::App& app, PreviewFlags* flags) {
  app.add_option("--preview", flags->file, "Write the newest preview to this PNG file")
      ->type_name("FILE");
  app.add_flag("--show", flags->show, "Show each preview in the terminal");
}

absl::Status CheckPreviewFlags(const Session& session, const PreviewFlags& flags,
                               std::string_view file_flag) {
  if (flags.show && session.flags().progress == ProgressMode::kJson) {
    return absl::InvalidArgumentError("--show: excludes --progress json");
  }
  if (flags.show && !session.io().err_is_terminal) {
    return absl::InvalidArgumentError(
        fmt::format("--show: standard error is no terminal; use {} FILE", file_flag));
  }
  std::error_code ignored;
  if (std::filesystem::is_directory(flags.file, ignored)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {} is a folder; name a file", file_flag, flags.file));
  }
  const std::string folder = std::filesystem::path(flags.file).parent_path().string();
  if (!folder.empty() && !std::filesystem::is_directory(folder, ignored)) {
    return absl::InvalidArgumentError(fmt::format("{}: there is no folder {}", file_flag, folder));
  }
  return absl::OkStatus();
}

bool PreviewFollower::HasNew(const v1::Progress& progress) const {
  return (flags_.show || !flags_.file.empty()) && progress.has_preview_image() &&
         progress.preview_image().sha256() != seen_;
}

void PreviewFollower::Follow(const v1::Progress& progress) {
  seen_ = progress.preview_image().sha256();
  const absl::Status status = Fetch(progress);
  // The server may have dropped the preview for a newer one.
  if (status.ok() || absl::IsNotFound(status) || std::exchange(failed_, true)) return;
  session_.Say(PlainText(fmt::format("warning: no preview: {}", std::string(status.message()))));
}

absl::Status PreviewFollower::Fetch(const v1::Progress& progress) {
  NERF_ASSIGN_OR_RETURN(const std::string png, FetchPreview(session_, progress));
  if (!flags_.file.empty()) NERF_RETURN_IF_ERROR(WriteFileAtomically(flags_.file, png));
  return flags_.show ? ShowInTerminal(session_, png) : absl::OkStatus();
}

int PrintPreview(Session& session, const std::string& text, const PreviewFlags& flags) {
  if (flags.file.empty() && !flags.show) {
    return session.FailUsage(absl::InvalidArgumentError("job preview needs --out FILE or --show"));
  }
  if (absl::Status status = CheckPreviewFlags(session, flags, "--out"); !status.ok()) {
    return session.FailUsage(status);
  }
  const auto name = ExpandName(ResourceKind::kJob, text, session.flags().project);
  if (!name.ok()) return session.FailUsage(name.status());
  const auto job = GetJob(session, *name);
  if (!job.ok()) return session.Fail(job.status());
  const v1::Progress& progress = job->training_status().progress();
  if (!progress.has_preview_image()) {
    return session.Fail(WithReason(
        absl::FailedPreconditionError(fmt::format("job {} has no preview yet", ShortName(*name))),
        reason::kStateConflict));
  }
  const absl::StatusOr<std::string> png = FetchPreview(session, progress);
  if (!png.ok()) return session.Fail(png.status());
  if (!flags.file.empty()) {
    const absl::Status status = WriteFileAtomically(flags.file, *png);
    if (!status.ok()) return session.Fail(status);
    PrintFiles(session.printer(), *name, {flags.file},
               fmt::format("preview of step {} in {}", progress.preview_step(), flags.file));
  }
  if (flags.show) {
    const absl::Status status = ShowInTerminal(session, *png);
    if (!status.ok()) return session.Fail(status);
  }
  return kOk;
}

}  // namespace nerf
