#include "engine/base/messages/export_flags.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "common/amount.h"
#include "common/usage_error.h"
#include "engine/base/config/view_style_check.h"
#include "engine/base/messages/crop_box.h"
#include "engine/base/messages/export_options.h"

namespace nerf {
namespace {

using google::protobuf::FieldDescriptor;

constexpr size_t kMaxShownValue = 64;  // bytes

std::string HelpOf(const ExportOption& option, bool capitals) {
  std::string help(option.help);
  if (capitals) help[0] = absl::ascii_toupper(static_cast<unsigned char>(help[0]));
  if (option.max == 0) return help;
  help += fmt::format("({} to {}", option.min, option.max);
  return help + (option.fallback > 0 ? fmt::format("; default: {})", option.fallback) : ")");
}

// Of the flag, without other names for it.
std::string_view FirstName(std::string_view flag) { return flag.substr(0, flag.find(',')); }

[[noreturn]] void Refuse(const ExportOption& option, const std::string& words) {
  throw CLI::ValidationError(std::string(FirstName(option.flag)), words);
}

void SetNumber(const ExportOption& option, const std::string& text, v1::ExportSpec* spec) {
  const double number = ParseAmount(text).value_or(0);
  if (!(number >= option.min && number <= option.max && number == std::floor(number))) {
    Refuse(option, fmt::format("'{}' is not a whole number from {} to {}",
                               text.substr(0, kMaxShownValue), option.min, option.max));
  }
  const auto* const field = spec->GetDescriptor()->FindFieldByName(std::string(option.field));
  spec->GetReflection()->SetUInt32(spec, field, static_cast<uint32_t>(number));
}

void SetWord(const ExportOption& option, const std::string& text, v1::ExportSpec* spec) {
  const std::vector<std::string> words = ExportWords(option.field);
  const auto found = std::find(words.begin(), words.end(), text);
  if (found == words.end()) Refuse(option, OneOf(words)(text));
  const auto* const field = spec->GetDescriptor()->FindFieldByName(std::string(option.field));
  spec->GetReflection()->SetEnumValue(spec, field, static_cast<int>(found - words.begin()) + 1);
}

void SetBox(const ExportOption& option, const std::string& text, v1::ExportSpec* spec) {
  spec->clear_box();
  spec->set_whole(text == kNoCrop);
  if (text.empty() || text == kNoCrop) return;
  const std::string prefix(FirstName(option.flag));
  const absl::StatusOr<OwnBox> box = ParseOwnBox(prefix, text);
  if (!box.ok()) Refuse(option, std::string(box.status().message()).substr(prefix.size() + 2));
  *spec->mutable_box() = ToMessage(*box);
}

// Where --out does not say the format.
std::string FormatIsNeeded() {
  std::vector<std::string> endings, words;
  for (const ExportFileKind& kind : ExportFileKinds()) {
    if (kind.ending.empty()) words.push_back(ExportWord(kind.format));
    if (!kind.ending.empty()) endings.emplace_back(kind.ending);
  }
  return fmt::format("is needed where --out ends in none of {}: {} have no ending of their own",
                     absl::StrJoin(endings, ", "), absl::StrJoin(words, ", "));
}

// The flag of a field, and the part of the field's name behind the option's: "size[1] ".
std::pair<std::string, std::string> FlagOf(std::string_view field, std::string_view path_flag) {
  const std::string_view name = field.substr(0, field.find('.'));
  const std::string_view part = name == field ? "" : field.substr(name.size() + 1);
  std::string flag(path_flag);
  for (const ExportOption& option : ExportOptions()) {
    // --crop sets the box or that there is none.
    if (option.field == (name == "whole" ? "box" : name) && !option.flag.empty())
      flag = FirstName(option.flag);
  }
  return {flag, part.empty() ? "" : std::string(part) + " "};
}

}  // namespace

void AddExportFlags(CLI::App& command, std::string_view out_help, bool capitals,
                    ExportFlags* flags) {
  command.add_option("--out", flags->out, std::string(out_help))->type_name("FILE")->required();
  v1::ExportSpec* const spec = &flags->spec;
  for (const ExportOption& option : ExportOptions()) {
    if (option.flag.empty()) continue;
    const std::string names(option.flag), help = HelpOf(option, capitals);
    const auto* const field = spec->GetDescriptor()->FindFieldByName(std::string(option.field));
    if (field->type() == FieldDescriptor::TYPE_BOOL) {
      const auto set = [=](int64_t count) {
        spec->GetReflection()->SetBool(spec, field, count > 0);
      };
      command.add_flag_function(names, set, help);
      continue;
    }
    const auto set = [&option, field, spec](const std::string& text) {
      if (field->type() == FieldDescriptor::TYPE_ENUM) return SetWord(option, text, spec);
      if (field->type() == FieldDescriptor::TYPE_MESSAGE) return SetBox(option, text, spec);
      SetNumber(option, text, spec);
    };
    command.add_option_function<std::string>(names, set, help)
        ->type_name(std::string(option.value));
  }
}

Problems CheckExportFlags(std::string_view path_flag, ExportFlags* flags) {
  Problems wrong;
  v1::ExportSpec& spec = flags->spec;
  if (flags->out.empty()) wrong.Add("--out", "is empty");
  if (spec.format() == v1::ExportSpec::FORMAT_UNSPECIFIED)
    spec.set_format(FormatOfFile(flags->out));
  else if (spec.format() == v1::ExportSpec::SPLATS)
    spec.set_format(SplatsFormatOfFile(flags->out));
  for (const Problem& problem : ProblemsOf(spec)) {
    const auto [flag, part] = FlagOf(problem.field, path_flag);
    const bool is_missing =
        problem.field == "format" && spec.format() == v1::ExportSpec::FORMAT_UNSPECIFIED;
    wrong.Add(flag, is_missing ? FormatIsNeeded() : part + problem.message);
  }
  return wrong;
}

}  // namespace nerf
