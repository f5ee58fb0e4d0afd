#include "client/kinds/job_words.h"

#include <algorithm>
#include <optional>

#include "client/kinds/kind_view.h"
#include "common/error_reason.h"
#include "common/messages/rpc_status.h"
#include "fmt/format.h"

namespace nerf {
namespace {

std::string FailureCode(const v1::Job& job) {
  const absl::Status error = FromRpcStatus(job.error());
  const std::optional<ErrorReason> why = GetReason(error);
  return why.has_value() ? why->reason : absl::StatusCodeToString(error.code());
}

// The first line of a text, cut where it is too long for a table.
std::string Beginning(const std::string& text) {
  constexpr size_t kMaxBytes = 100;
  const size_t end = std::min(text.find('\n'), text.size());
  if (end <= kMaxBytes) return text.substr(0, end);
  size_t cut = std::min(text.rfind(' ', kMaxBytes), kMaxBytes);
  // Not within a character: its bytes after the first are 10xxxxxx.
  while (cut > 0 && (text[cut] & 0xC0) == 0x80) --cut;
  return text.substr(0, cut) + " ...";
}

}  // namespace

bool IsFinal(v1::Job::State state) {
  return state == v1::Job::SUCCEEDED || state == v1::Job::FAILED || state == v1::Job::CANCELLED;
}

std::string StateText(v1::Job::State state) {
  const std::string& name = v1::Job::State_Name(state);
  return name.empty() ? fmt::format("STATE_{}", static_cast<int>(state)) : name;
}

std::string QueueReasonText(const v1::Job& job) {
  if (job.state() != v1::Job::QUEUED) return "";
  const std::string& code = job.queue_reason();
  const char* words = code == "WORKER_LOST"      ? "its worker was lost"
                      : code == "WORKER_DRAINED" ? "its worker handed it back"
                      : code == "ENGINE_CRASHED" ? "the engine crashed"
                      : code == "CHECKPOINT_CORRUPT"
                          ? "its last checkpoint is damaged, it goes on from the one before"
                      : code == "NO_ROOM"   ? "its worker had no room on its disk"
                      : code == "PREEMPTED" ? "a job of a higher priority took its place"
                      : code == "QUOTA"     ? "its project has used its workers' time of the day"
                      : code == "BLOBS_MISSING"
                          ? "files that it needs were damaged or missing on the server"
                          : nullptr;
  // The server may know more, such as which worker of several was lost.
  if (!job.queue_message().empty()) return fmt::format("{} ({})", job.queue_message(), code);
  return words == nullptr ? code : fmt::format("{} ({})", words, code);
}

std::string FailureText(const v1::Job& job) {
  if (!job.has_error()) return "";
  const std::string code = FailureCode(job);
  const bool lists_problems =
      job.has_training() && code == reason::kDatasetInvalid && !job.problems().empty();
  return fmt::format(
      "{} ({})", lists_problems ? "the scene cannot be trained on" : job.error().message(), code);
}

std::string NoteText(const v1::Job& job) {
  if (job.has_error()) {
    return fmt::format("{} ({})", Beginning(job.error().message()), FailureCode(job));
  }
  if (job.state() != v1::Job::QUEUED) return KindViewOf(job).Doing(job);
  std::string note = QueueReasonText(job);
  if (job.has_wait()) note += (note.empty() ? "" : "; ") + job.wait().message();
  return note;
}

}  // namespace nerf
