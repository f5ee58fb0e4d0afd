#include "common/error_reason.h"

#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "common/packed_strings.h"

namespace nerf {
namespace {

constexpr char kReasonUrl[] = "nerfd/error_reason";
constexpr char kProblemsUrl[] = "nerfd/problems";
constexpr char kMissingBlobsUrl[] = "nerfd/missing_blobs";
// A message names this many problems; the payload carries all of them.
constexpr size_t kMaxProblemsInMessage = 8;
constexpr size_t kMaxBlobsInMessage = 3;

std::optional<std::vector<std::string>> GetStrings(const absl::Status& status, const char* url) {
  const auto payload = status.GetPayload(url);
  if (!payload.has_value()) return std::nullopt;
  return UnpackStrings(std::string(*payload));
}

}  // namespace

absl::Status WithReason(absl::Status status, std::string_view reason, ErrorMetadata metadata) {
  if (status.ok()) return status;
  std::vector<std::string> strings = {std::string(reason)};
  for (auto& [key, value] : metadata) {
    strings.push_back(std::move(key));
    strings.push_back(std::move(value));
  }
  status.SetPayload(kReasonUrl, absl::Cord(PackStrings(strings)));
  return status;
}

std::optional<ErrorReason> GetReason(const absl::Status& status) {
  const auto strings = GetStrings(status, kReasonUrl);
  if (!strings.has_value() || strings->size() % 2 != 1) return std::nullopt;
  ErrorReason result{(*strings)[0], {}};
  for (size_t i = 1; i < strings->size(); i += 2) {
    result.metadata.emplace((*strings)[i], (*strings)[i + 1]);
  }
  return result;
}

absl::Status InvalidFieldsError(const std::vector<Problem>& problems) {
  std::string message;
  std::vector<std::string> strings;
  for (size_t i = 0; i < problems.size(); ++i) {
    if (i < kMaxProblemsInMessage) {
      absl::StrAppend(&message, i == 0 ? "" : "; ", problems[i].field,
                      problems[i].field.empty() ? "" : ": ", problems[i].message);
    }
    strings.push_back(problems[i].field);
    strings.push_back(problems[i].message);
  }
  if (problems.size() > kMaxProblemsInMessage)
    absl::StrAppend(&message, "; and ", problems.size() - kMaxProblemsInMessage, " more");
  absl::Status status = absl::InvalidArgumentError(message);
  status.SetPayload(kProblemsUrl, absl::Cord(PackStrings(strings)));
  return WithReason(std::move(status), reason::kFieldInvalid);
}

std::vector<Problem> GetProblems(const absl::Status& status) {
  const auto strings = GetStrings(status, kProblemsUrl);
  std::vector<Problem> problems;
  if (!strings.has_value()) return problems;
  for (size_t i = 0; i + 1 < strings->size(); i += 2)
    problems.emplace_back((*strings)[i], (*strings)[i + 1]);
  return problems;
}

absl::Status BlobsMissingError(const std::vector<std::string>& blob_names) {
  std::string message = absl::StrCat(blob_names.size(), " missing: ");
  for (size_t i = 0; i < blob_names.size() && i < kMaxBlobsInMessage; ++i) {
    absl::StrAppend(&message, i == 0 ? "" : ", ", blob_names[i]);
  }
  if (blob_names.size() > kMaxBlobsInMessage) absl::StrAppend(&message, ", ...");
  absl::Status status = absl::FailedPreconditionError(message);
  status.SetPayload(kMissingBlobsUrl, absl::Cord(PackStrings(blob_names)));
  return WithReason(std::move(status), reason::kBlobsMissing);
}

std::vector<std::string> GetMissingBlobs(const absl::Status& status) {
  return GetStrings(status, kMissingBlobsUrl).value_or(std::vector<std::string>());
}

}  // namespace nerf
