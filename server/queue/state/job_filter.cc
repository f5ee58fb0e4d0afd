#include "server/queue/state/job_filter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "common/error_reason.h"
#include "common/status_macros.h"
#include "server/queue/jobs/job_labels.h"
#include "server/queue/kinds/kind_policy.h"

namespace nerf {
namespace {

constexpr size_t kMaxFilterLength = 1024;  // bytes

absl::Status Bad(std::string_view what) {
  return InvalidFieldsError({{"filter", std::string(what)}});
}

bool IsWordCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-';
}

template <typename Value>
bool Compare(const Value& left, std::string_view op, const Value& right) {
  if (op == "=") return left == right;
  if (op == "!=") return left != right;
  if (op == "<") return left < right;
  if (op == "<=") return left <= right;
  if (op == ">") return left > right;
  return left >= right;
}

}  // namespace

class JobFilter::Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  absl::StatusOr<std::vector<Comparison>> Run() {
    std::vector<Comparison> comparisons;
    SkipSpaces();
    while (at_ < text_.size()) {
      if (!comparisons.empty() && TakeWord() != "AND") return Expected("AND");
      SkipSpaces();
      NERF_ASSIGN_OR_RETURN(Comparison comparison, TakeComparison());
      comparisons.push_back(std::move(comparison));
      SkipSpaces();
    }
    return comparisons;
  }

 private:
  absl::Status Expected(std::string_view what) const {
    return Bad(fmt::format("expected {} before byte {}", what, at_));
  }
  void SkipSpaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  std::string TakeWord() {
    const size_t begin = at_;
    while (at_ < text_.size() && IsWordCharacter(text_[at_])) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  absl::StatusOr<Comparison> TakeComparison() {
    Comparison comparison;
    const std::string field = TakeWord();
    constexpr std::string_view kLabels = "labels.";
    if (field == "kind") {
      comparison.field = Field::kKind;
    } else if (field == "state") {
      comparison.field = Field::kState;
    } else if (field == "scene") {
      comparison.field = Field::kScene;
    } else if (field == "display_name") {
      comparison.field = Field::kDisplayName;
    } else if (field == "priority") {
      comparison.field = Field::kPriority;
    } else if (field == "part_of") {
      comparison.field = Field::kPartOf;
    } else if (field.starts_with(kLabels) && IsLabelKey(field.substr(kLabels.size()))) {
      comparison.field = Field::kLabel;
      comparison.label = field.substr(kLabels.size());
    } else {
      return Expected("kind, state, scene, display_name, priority, part_of or labels.KEY");
    }
    SkipSpaces();
    comparison.op = TakeOperator();
    const bool is_order = comparison.op.find_first_of("<>") != std::string::npos;
    if (comparison.op.empty() || (is_order && comparison.field != Field::kPriority)) {
      return Expected(comparison.field == Field::kPriority ? "= != < <= > or >=" : "= or !=");
    }
    SkipSpaces();
    const std::optional<std::string> value = TakeValue();
    if (!value.has_value()) return Expected("a value, or the end of a quoted one");
    comparison.value = *value;
    if (comparison.field == Field::kPriority &&
        !absl::SimpleAtoi(comparison.value, &comparison.number)) {
      return Bad("priority is compared with a whole number");
    }
    if (comparison.field == Field::kKind) NERF_RETURN_IF_ERROR(TakeKind(&comparison));
    if (comparison.field == Field::kState && !ParseJobState(comparison.value).ok()) {
      return Bad(
          "state is compared with QUEUED, PREPARING, RUNNING, PAUSING, PAUSED, CANCELLING, "
          "SUCCEEDED, FAILED or CANCELLED");
    }
    return comparison;
  }

  static absl::Status TakeKind(Comparison* comparison) {
    std::vector<std::string> words;
    for (const KindPolicy* policy : KindPolicy::All()) {
      words.push_back(JobKindWord(policy->traits().kind));
      comparison->number = static_cast<int>(policy->traits().kind);
      if (words.back() == comparison->value) return absl::OkStatus();
    }
    return Bad(fmt::format("kind is compared with one of {}", fmt::join(words, ", ")));
  }

  std::string TakeOperator() {
    for (const std::string_view op : {"!=", "<=", ">=", "=", "<", ">"}) {
      if (!text_.substr(at_).starts_with(op)) continue;
      at_ += op.size();
      return std::string(op);
    }
    return "";
  }

  // nullopt without a value.
  std::optional<std::string> TakeValue() {
    if (at_ >= text_.size() || text_[at_] != '"') {
      std::string word = TakeWord();
      return word.empty() ? std::nullopt : std::optional(std::move(word));
    }
    std::string value;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '"') {
        ++at_;
        return value;
      }
      if (text_[at_] == '\\' && ++at_ == text_.size()) break;
      value += text_[at_];
    }
    return std::nullopt;
  }

  const std::string_view text_;
  size_t at_ = 0;
};

absl::StatusOr<JobFilter> JobFilter::Parse(std::string_view text) {
  if (text.size() > kMaxFilterLength) {
    return Bad(fmt::format("must be at most {} bytes", kMaxFilterLength));
  }
  JobFilter filter;
  filter.text_ = std::string(text);
  NERF_ASSIGN_OR_RETURN(filter.comparisons_, Parser(text).Run());
  return filter;
}

bool JobFilter::Holds(const Comparison& comparison, const Job& job) {
  const auto compare = [&](std::string_view text) {
    return Compare<std::string_view>(text, comparison.op, comparison.value);
  };
  switch (comparison.field) {
    case Field::kKind:
      return Compare(static_cast<int>(job.kind), comparison.op, comparison.number);
    case Field::kState:
      return compare(JobStateName(job.state));
    case Field::kScene:
      return compare(job.training.scene.empty() ? job.pose.scene : job.training.scene);
    case Field::kDisplayName:
      return compare(job.display_name);
    case Field::kPriority:
      return Compare(static_cast<int>(job.priority), comparison.op, comparison.number);
    case Field::kPartOf:
      return compare(job.part_of);
    case Field::kLabel: {
      const auto found = job.labels.find(comparison.label);
      return compare(found == job.labels.end() ? std::string_view() : found->second);
    }
  }
  return false;
}

bool JobFilter::Admits(JobKind kind) const {
  return std::ranges::all_of(comparisons_, [&](const Comparison& comparison) {
    return comparison.field != Field::kKind ||
           Compare(static_cast<int>(kind), comparison.op, comparison.number);
  });
}

bool JobFilter::Matches(const Job& job) const {
  const bool names_parts =
      std::any_of(comparisons_.begin(), comparisons_.end(),
                  [](const Comparison& comparison) { return comparison.field == Field::kPartOf; });
  if (!job.part_of.empty() && !names_parts) return false;
  for (const Comparison& comparison : comparisons_) {
    if (!Holds(comparison, job)) return false;
  }
  return true;
}

}  // namespace nerf
