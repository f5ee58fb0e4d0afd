#include "common/process/child_failure.h"

#include <signal.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/error_reason.h"

namespace nerf {
namespace {

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

bool Says(const std::string& output, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](const char* w) { return output.find(w) != std::string::npos; });
}

std::string LastWords(const std::string& output) {
  constexpr size_t kLines = 3, kMaxLineBytes = 200;
  std::vector<absl::string_view> lines =
      absl::StrSplit(output, absl::ByAnyChar("\n\r"), absl::SkipWhitespace());
  if (lines.size() > kLines) lines.erase(lines.begin(), lines.end() - kLines);
  std::vector<std::string> words;
  for (absl::string_view line : lines) {
    std::string text(absl::StripAsciiWhitespace(line).substr(0, kMaxLineBytes));
    for (char& c : text) {
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
    }
    words.push_back(std::move(text));
  }
  return words.empty() ? "it said nothing" : absl::StrCat("it said: ", absl::StrJoin(words, " / "));
}

}  // namespace

absl::Status FailureOf(std::string_view program, std::string_view doing,
                       const ChildProcessEnd& end) {
  const std::string start = absl::StrCat(View(program), ": ");
  const std::string while_doing = absl::StrCat(" while ", View(doing));
  switch (end.kind) {
    case ChildProcessEnd::Kind::kStopped:
      return absl::CancelledError(absl::StrCat("interrupted", while_doing));
    case ChildProcessEnd::Kind::kTimeLimit:
      return absl::DeadlineExceededError(
          absl::StrCat(start, "was ended at the time limit", while_doing));
    case ChildProcessEnd::Kind::kExited:
      if (end.code == 0) return absl::OkStatus();
      break;
    case ChildProcessEnd::Kind::kSignaled:
      break;
  }
  const bool is_signal = end.kind == ChildProcessEnd::Kind::kSignaled;
  if ((is_signal && end.code == SIGXFSZ) ||
      Says(end.last_output,
           {"No space left on device", "disk is full", "disk I/O error", "File too large"})) {
    return WithReason(
        absl::ResourceExhaustedError(absl::StrCat(start, "the disk is full", while_doing)),
        reason::kStoreReadOnly);
  }
  if ((is_signal && end.code == SIGKILL) ||
      Says(end.last_output, {"bad_alloc", "Cannot allocate memory", "out of memory"})) {
    return WithReason(
        absl::ResourceExhaustedError(absl::StrCat(
            start, is_signal && end.code == SIGKILL ? "was killed" : "ran out of memory",
            while_doing,
            is_signal && end.code == SIGKILL ? ", most often by the system for lack of memory" : "",
            "; --threads 1 needs the least")),
        reason::kOutOfMemory);
  }
  return absl::AbortedError(absl::StrCat(start, is_signal ? "ended by signal " : "ended with code ",
                                         end.code, while_doing, "; ", LastWords(end.last_output)));
}

}  // namespace nerf
