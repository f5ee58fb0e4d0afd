#include "client/show/error_printer.h"

#include <nlohmann/json.hpp>
#include <ostream>

#include "client/flags/names.h"
#include "client/flags/text_format.h"
#include "common/error_reason.h"
#include "fmt/format.h"

namespace nerf {
namespace {

// "job j is PAUSED" for a message that begins with the job's name.
std::string WithNoun(const std::string& message) {
  const std::string name(SubjectOf(message));
  if (name.empty()) return message;
  // Names outside of projects are short everywhere.
  return fmt::format("{} {}{}", NounOf(name),
                     name.starts_with("projects/") ? name : ShortName(name),
                     message.substr(name.size()));
}

std::string Dump(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

void PrintError(const absl::Status& status, std::string_view project, std::ostream& err) {
  const std::vector<Problem> problems = GetProblems(status);
  const std::optional<ErrorReason> reason = GetReason(status);
  std::string message = WithShortNames(
      WithNoun(PlainLines({status.message().data(), status.message().size()})), project);
  // The message of several problems is the list that follows anyway.
  if (problems.size() > 1) message = fmt::format("{} fields are wrong", problems.size());
  if (message.empty()) message = "the call failed without a message";
  err << "nerfctl: " << message << " ("
      << PlainText(reason.has_value() ? reason->reason : absl::StatusCodeToString(status.code()))
      << ")\n";
  if (problems.size() == 1 && message.find(problems[0].message) != std::string::npos) {
    return;
  }
  for (const Problem& problem : problems) {
    err << "  " << PlainText(problem.field) << ": "
        << WithShortNames(PlainText(problem.message), project) << '\n';
  }
}

void PrintUsageError(const absl::Status& status, std::string_view command, std::ostream& err) {
  const std::vector<Problem> problems = GetProblems(status);
  for (const Problem& problem : problems) {
    err << "nerfctl: " << PlainText(problem.field) << (problem.field.empty() ? "" : ": ")
        << PlainText(problem.message) << '\n';
  }
  if (problems.empty()) {
    err << "nerfctl: " << PlainLines({status.message().data(), status.message().size()}) << '\n';
  }
  err << fmt::format("  run `{} --help` for usage\n", command);
}

std::string ErrorJson(const absl::Status& status) {
  nlohmann::ordered_json json;
  json["event"] = "error";
  json["code"] = absl::StatusCodeToString(status.code());
  if (const std::optional<ErrorReason> reason = GetReason(status); reason.has_value()) {
    json["reason"] = reason->reason;
  }
  json["message"] = std::string(status.message());
  for (const Problem& problem : GetProblems(status)) {
    json["violations"].push_back({{"field", problem.field}, {"description", problem.message}});
  }
  return Dump(json);
}

std::string LineJson(std::string_view event, std::string_view line) {
  nlohmann::ordered_json json;
  json["event"] = event;
  json["message"] = line;
  return Dump(json);
}

}  // namespace nerf
