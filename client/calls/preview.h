#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "nerf/v1/training_job.pb.h"

namespace CLI {
class App;
}

namespace nerf {

class Session;

// The flags about previews that `train`, `job create` and `job watch` share.
struct PreviewFlags {
  std::string file;   // PNG for the newest preview; empty: none
  bool show = false;  // show each in the terminal
};

void AddPreviewFlags(CLI::App& app, PreviewFlags* flags);

// Whether the flags can work here; messages call the flag of the file `file_flag`. Errors:
// InvalidArgument with --show when standard error is no terminal, and for a file that is a folder.
absl::Status CheckPreviewFlags(const Session& session, const PreviewFlags& flags,
                               std::string_view file_flag = "--preview");

// Follows the previews of a job: writes each new one to the file and shows it in the terminal.
// Errors are reported once and do not end the watch. Not thread-safe.
class PreviewFollower {
 public:
  // Both outlive it.
  PreviewFollower(Session& session, const PreviewFlags& flags) : session_(session), flags_(flags) {}

  // True if `progress` has a preview that was not seen yet and a flag asks for it.
  bool HasNew(const v1::Progress& progress) const;
  // Fetches it.
  void Follow(const v1::Progress& progress);

 private:
  absl::Status Fetch(const v1::Progress& progress);

  Session& session_;
  const PreviewFlags& flags_;
  std::string seen_;  // digest of the last preview
  bool failed_ = false;
};

// `job preview`: writes the job's last preview to `file` (unless empty), and shows it. Returns the
// exit code.
int PrintPreview(Session& session, const std::string& job, const PreviewFlags& flags);

}  // namespace nerf
