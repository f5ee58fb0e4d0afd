#include "server/store/commit_count.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/error_reason.h"
#include "common/logging.h"

namespace nerf {

CommitCount::CommitCount(std::string path, std::string store)
    : path_(std::move(path)), store_(std::move(store)) {}

absl::Status CommitCount::Check(const std::string& epoch, uint64_t n_commits) const {
  constexpr uint64_t kMaxLength = 256;
  const absl::StatusOr<std::string> line = ReadFile(path_, kMaxLength);
  if (!line.ok()) return absl::OkStatus();
  const std::vector<std::string> words =
      absl::StrSplit(*line, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  uint64_t n_acknowledged = 0;
  // A power cut may leave the beginning of the line.
  const bool is_whole = line->ends_with('\n') && words.size() == 2;
  if (!is_whole || !absl::SimpleAtoi(words[0], &n_acknowledged)) {
    LogWarning("the count of commits is unreadable", {{"file", path_}});
    return absl::OkStatus();
  }
  const bool is_same_store = words[1] == epoch;
  if (is_same_store && n_acknowledged <= n_commits) return absl::OkStatus();
  const std::string what =
      is_same_store ? fmt::format(
                          "{} of {} acknowledged commits are missing from {}: its log is "
                          "damaged or lost, or an older copy was put back",
                          n_acknowledged - n_commits, n_acknowledged, store_)
                    : fmt::format("{} is another store than the one that {} counts", store_, path_);
  return WithReason(absl::DataLossError(what), reason::kStoreCorrupt);
}

absl::Status CommitCount::Begin(const std::string& epoch, uint64_t n_commits) {
  file_ = UniqueFd(open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (!file_.ok()) return ErrnoToStatus(errno, "open " + path_);
  epoch_ = epoch;
  Set(n_commits);
  return absl::OkStatus();
}

void CommitCount::Set(uint64_t n_commits) {
  const std::string line = fmt::format("{:20} {}\n", n_commits, epoch_);
  const absl::Status written = WriteFully(file_.get(), line, 0, path_);
  if (!written.ok()) LogWarning("commits are not counted", {{"error", written.ToString()}});
}

}  // namespace nerf
