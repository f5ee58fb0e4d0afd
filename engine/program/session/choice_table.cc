#include "engine/program/session/choice_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <utility>

#include "engine/base/config/setting.h"
#include "engine/base/config/step_size.h"
#include "engine/base/config/view_limits.h"
#include "engine/base/method_list/method_descriptions.h"
#include "engine/program/session/picture_limits.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr size_t kWidth = 98;
constexpr std::array<size_t, 3> kWidths = {31, 33, 30};  // of the columns, beside mark and gaps
constexpr std::string_view kLegend = R"(
P: pixels along a side of the level-0 box, seen from the median camera. Objects: pictures with
alpha; photographs: without. n S: the budget has n samples for each pixel of the training
pictures; of photographs that are not of one side, 4 n. Of one side: all cameras look one way
from places closer together than what they show is near. Settings that the user names stay;
of rows that name the same one, the last counts. *: holds for the data set. own: the scene's.
)";

using Lines = std::vector<std::string>;

// Adds the text in lines of at most `width` columns, but for longer words; all but the first are
// indented.
void AppendWrapped(std::string text, size_t width, Lines* lines) {
  while (text.size() > width) {
    const size_t end = text.rfind(' ', width);
    if (end == std::string::npos || text.find_first_not_of(' ') > end) break;
    lines->push_back(text.substr(0, end));
    text.replace(0, end + 1, "  ");
  }
  lines->push_back(text);
}

void AppendRow(char mark, const std::array<Lines, 3>& cells, std::string* table) {
  const size_t n_lines = std::max({cells[0].size(), cells[1].size(), cells[2].size()});
  for (size_t i = 0; i < n_lines; ++i) {
    std::string line(1, i == 0 ? mark : ' ');
    for (size_t c = 0; c < cells.size(); ++c)
      line += fmt::format(" {:<{}}", i < cells[c].size() ? cells[c][i] : "", kWidths[c]);
    *table += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
}

// "Facts: a=1 b=2", wrapped.
std::string ListText(std::string text, const JsonObject& values) {
  for (const auto& [key, value] : values.items())
    text += fmt::format(" {}={}", key, value.is_string() ? value.get<std::string>() : value.dump());
  Lines lines;
  AppendWrapped(text, kWidth, &lines);
  std::string list;
  for (const std::string& line : lines) list += line + "\n";
  return list;
}

// -1 is the cone of a scene without one and the longer side of pictures that stay as they are.
std::string ValueText(const std::string& value) { return value.starts_with('-') ? "own" : value; }

// Of the settings that the rules name, where none holds.
JsonObject ChoiceDefaults() {
  TrainConfig config;
  ChooseStepSize(DeviceClass::kCpu, &config);
  MethodDescriptionOf(config).ChooseSettings(SceneFacts(), &config);
  MethodDescriptionOf(config).ChooseForPictures([] { return false; }, &config);
  JsonObject named;
  for (const ChoiceRule& rule : AllChoiceRules())
    for (const auto& [key, value] : rule.settings)
      named[key] = ValueText(ConfigSettings(config).at(key));
  return named;
}

JsonObject FactsReport(const TrainingSession& session) {
  const SceneFacts& facts = session.facts;
  const auto size = [](double number) { return JsonNumber(std::round(100 * number) / 100); };
  int width = 0, height = 0;
  for (const View& view : session.scene.train) {
    width = std::max(width, view.camera.width);
    height = std::max(height, view.camera.height);
  }
  const std::string reduced = ReductionText(session.reductions.train);
  return {{"flavor", SceneFlavorName(session.scene.geometry.flavor)},
          {"train", session.scene.train.size()},
          {"test", session.scene.test.size()},
          {"pictures", reduced.empty() ? fmt::format("{}x{}", width, height) : reduced},
          {"alpha", facts.has_alpha},
          {"one_way", facts.has_frustum},
          {"one_side", facts.faces_one_way},
          {"exposures_differ", facts.exposures_differ},
          {"P", size(facts.pixels_along_box)},
          {"pixels_across_frustum", size(facts.pixels_along_frustum)},
          {"samples", static_cast<int64_t>(facts.n_samples)},
          {"samples_per_pixel", size(facts.n_samples / facts.n_pixels)},
          {"device", session.device}};
}

}  // namespace

std::vector<ChoiceRule> AllChoiceRules() {
  const StepSize large = StepSizeFor(DeviceClass::kLargeGpu);
  std::vector<ChoiceRule> rules = {
      {fmt::format("pictures above {:.0f} pixels and above {:g} for each sample of the budget",
                   kMaxDefaultViewPixels, kPixelsPerSample),
       {{"max_side", fmt::format("{:g} pixels for each sample", kPixelsPerSample)}},
       "a budget has no use for more",
       [](const SceneFacts& scene) { return scene.are_reduced; }},
      {"a large GPU: an A100 and up",
       {{"target_samples", std::to_string(large.target_samples)},
        {"batch_growth", fmt::format("{}", large.batch_growth)},
        {"max_rays", std::to_string(large.max_rays)}},
       "an H100 trains 110 to 160 M samples/s, not 43 M; up to 0.9 dB in the first seconds",
       [](const SceneFacts& scene) { return scene.device == DeviceClass::kLargeGpu; }}};
  for (ChoiceRule& rule : MethodDescriptionOf(TrainConfig()).ChoiceRules())
    rules.push_back(std::move(rule));
  return rules;
}

std::string ChoiceTable(const TrainingSession* session) {
  std::string table;
  if (session != nullptr) table = ListText("Facts:", FactsReport(*session)) + "\n";
  AppendRow(' ', {{{"WHEN"}, {"SETTING=VALUE"}, {"WHY"}}}, &table);
  const auto chosen = ConfigSettings(session == nullptr ? TrainConfig() : session->state.config);
  for (const ChoiceRule& rule : AllChoiceRules()) {
    const bool holds = session != nullptr && rule.holds(session->facts);
    std::array<Lines, 3> cells;
    AppendWrapped(rule.when, kWidths[0] - 1, &cells[0]);
    for (const auto& [key, value] : rule.settings) {
      const std::string text = holds ? ValueText(chosen.at(key)) : value;
      AppendWrapped(fmt::format("{}={}", key, text), kWidths[1] - 1, &cells[1]);
    }
    AppendWrapped(rule.why, kWidths[2], &cells[2]);
    AppendRow(holds ? '*' : ' ', cells, &table);
  }
  table += kLegend;
  return table + ListText("Where no row holds:", ChoiceDefaults());
}

JsonObject ChoiceReport(const TrainingSession* session) {
  JsonObject report = {{"rules", JsonObject::array()}, {"defaults", ChoiceDefaults()}};
  for (const ChoiceRule& rule : AllChoiceRules()) {
    JsonObject row = {{"when", rule.when}, {"settings", JsonObject::object()}, {"why", rule.why}};
    for (const auto& [key, value] : rule.settings) row["settings"][key] = value;
    if (session != nullptr) row["holds"] = rule.holds(session->facts);
    report["rules"].push_back(std::move(row));
  }
  if (session == nullptr) return report;
  report["facts"] = FactsReport(*session);
  report["chosen"] = ConfigSettings(session->state.config);
  return report;
}

}  // namespace nerf
