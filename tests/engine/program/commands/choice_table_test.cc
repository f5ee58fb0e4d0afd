#include "engine/program/session/choice_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/config/setting.h"
#include "engine/base/config/step_size.h"
#include "engine/base/method_list/method_descriptions.h"
#include "engine/program/session/picture_limits.h"
#include "engine/scene/view_frustum.h"
#include "fmt/format.h"
#include "tests/testing/paths.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Values = std::map<std::string, std::string>;

// As trainings choose.
Values Chosen(const SceneFacts& facts) {
  TrainConfig config;
  ChooseStepSize(facts.device, &config);
  const MethodDescription& method = MethodDescriptionOf(config);
  method.ChooseSettings(facts, &config);
  method.ChooseForPictures([&] { return facts.exposures_differ; }, &config);
  return ConfigSettings(config);
}

SceneFacts WithSteps() {
  SceneFacts facts;
  facts.n_pixels = 1e6;
  facts.step = 0.01f;
  facts.cone = 1.0f / 128;
  return facts;
}

// Facts on both sides of every bound, each with each.
std::vector<SceneFacts> ManyFacts() {
  std::vector<SceneFacts> all;
  for (const double pixels : {0.0, 140.0, 320.0, 400.0, 500.0, 590.0, 700.0, 1300.0, 5000.0}) {
    for (const double samples : {1.0, 4.0, 7.0, 9.0, 11.0, 13.0, 17.0, 30.0}) {
      for (int bits = 0; bits < 256; ++bits) {
        SceneFacts facts = WithSteps();
        facts.pixels_along_box = pixels;
        facts.n_samples = samples * facts.n_pixels;
        facts.has_alpha = (bits & 1) != 0;
        facts.may_have_hull = facts.has_alpha && (bits & 2) != 0;
        facts.faces_one_way = (bits & 4) != 0;
        facts.has_frustum = (bits & 8) != 0;
        facts.pixels_along_frustum = facts.has_frustum ? 500 : 0;
        facts.near = (bits & 16) != 0 ? 0.2f : 0;
        facts.lowers_steps = (bits & 32) != 0;
        facts.device = (bits & 64) != 0 ? DeviceClass::kLargeGpu : DeviceClass::kCpu;
        facts.exposures_differ = (bits & 128) != 0;
        all.push_back(facts);
      }
    }
  }
  return all;
}

std::string TextOf(const SceneFacts& f) {
  return fmt::format("alpha {} hull {} P {} samples {} lowers {} near {} one way {} frustum {}",
                     f.has_alpha, f.may_have_hull, f.pixels_along_box, f.n_samples, f.lowers_steps,
                     f.near, f.faces_one_way, f.has_frustum);
}

// The number behind the words; 0 without them.
double NumberAfter(const std::string& text, const std::string& words) {
  const size_t at = text.find(words);
  return at == std::string::npos ? 0 : std::atof(text.c_str() + at + words.size());
}

// What a rule's words say: who changes a bound changes its words.
class Words {
 public:
  explicit Words(const std::string& when) : when_(when) {
    if (!Has("or with P"))
      least_ = std::max(NumberAfter(when, "P above "), NumberAfter(when, "P from "));
    if (Has("P to ")) most_ = NumberAfter(when, "P to ");
    if (Has("an object") || Has("less S")) return;
    const std::regex number("([0-9]+) S");
    for (std::sregex_iterator each(when.begin(), when.end(), number), end; each != end; ++each) {
      const double samples = std::stod((*each)[1]);
      samples_ = samples_ == 0 ? samples : std::min(samples_, samples);
    }
  }
  bool Exclude(const SceneFacts& facts) const {
    const bool of_one_side = facts.faces_one_way && !facts.has_alpha;
    const int times = facts.has_alpha || of_one_side ? 1 : 4;
    return facts.n_samples < times * samples_ * facts.n_pixels || facts.pixels_along_box < least_ ||
           facts.pixels_along_box > most_ || (when_.starts_with("objects") && !facts.has_alpha) ||
           (when_.starts_with("photographs") && facts.has_alpha) ||
           (when_.starts_with("photographs of one side") && !of_one_side) ||
           ((Has("not of one side") || Has("neither of one side")) && of_one_side) ||
           (Has("large GPU") && facts.device != DeviceClass::kLargeGpu);
  }

 private:
  bool Has(const char* words) const { return when_.find(words) != std::string::npos; }

  std::string when_;
  double least_ = 0, most_ = 1e9, samples_ = 0;  // of P, of samples for each pixel
};

// A value that stands in the table as it is; others are words.
bool IsExact(const std::string& value) { return value.find(' ') == std::string::npos; }

TEST(AllChoiceRulesTest, SayWhatTrainingsChooseAndNothingElse) {
  const Values defaults = Chosen(WithSteps());
  const std::vector<ChoiceRule> rules = AllChoiceRules();
  std::vector<Words> words;
  for (const ChoiceRule& rule : rules) words.emplace_back(rule.when);
  std::vector<int> n_held(rules.size());
  const std::vector<SceneFacts> all = ManyFacts();
  for (const SceneFacts& facts : all) {
    Values said;
    for (size_t i = 0; i < rules.size(); ++i) {
      if (!rules[i].holds(facts)) continue;
      ++n_held[i];
      ASSERT_FALSE(words[i].Exclude(facts)) << rules[i].when << ": " << TextOf(facts);
      for (const auto& [key, value] : rules[i].settings) said[key] = value;
    }
    for (const auto& [key, value] : Chosen(facts)) {
      const auto found = said.find(key);
      if (found == said.end()) {
        ASSERT_EQ(value, defaults.at(key)) << key << ", which no rule names: " << TextOf(facts);
      } else if (IsExact(found->second)) {
        ASSERT_EQ(value, found->second) << key << ": " << TextOf(facts);
      } else {
        ASSERT_NE(value, defaults.at(key)) << key << ": " << TextOf(facts);
      }
    }
  }
  for (size_t i = 0; i < rules.size(); ++i) {
    if (rules[i].settings[0].first == "max_side") continue;  // chosen of files: below
    EXPECT_GT(n_held[i], 0) << rules[i].when;
    EXPECT_LT(n_held[i], static_cast<int>(all.size())) << rules[i].when;
  }
}

// The rule that names the setting and whose value has the words.
ChoiceRule RuleOf(const std::string& key, const std::string& words) {
  for (ChoiceRule& rule : AllChoiceRules()) {
    for (const auto& [name, value] : rule.settings) {
      if (name == key && value.find(words) != std::string::npos) return std::move(rule);
    }
  }
  ADD_FAILURE() << "no rule has " << key << "=" << words;
  return {"", {}, "", [](const SceneFacts&) { return false; }};
}

SceneFacts Photographs(double pixels, double samples) {
  SceneFacts facts = WithSteps();
  facts.pixels_along_box = pixels;
  facts.n_samples = samples * facts.n_pixels;
  return facts;
}

TEST(AllChoiceRulesTest, PhotographsAroundAPlaceNeedFourTimesTheSamples) {
  const ChoiceRule tables = RuleOf("log2_hashmap_size", "17 + 2 log2(P / 300), at most 19");
  EXPECT_FALSE(tables.holds(Photographs(700, 11.9)));
  EXPECT_TRUE(tables.holds(Photographs(700, 12)));
  SceneFacts one_side = Photographs(700, 3);
  one_side.faces_one_way = true;
  EXPECT_TRUE(tables.holds(one_side)) << "but not of one side";
  EXPECT_EQ(Chosen(Photographs(300, 100)).at("log2_hashmap_size"), "17");
  EXPECT_EQ(Chosen(Photographs(300 * 1.4142, 100)).at("log2_hashmap_size"), "18");
  EXPECT_EQ(Chosen(Photographs(5000, 100)).at("log2_hashmap_size"), "19");
}

TEST(AllChoiceRulesTest, WordsForFormulasSayWhatTheyGive) {
  SceneFacts one_side = Photographs(600, 1);
  one_side.faces_one_way = true;
  RuleOf("step", "2 x own");
  EXPECT_EQ(Chosen(one_side).at("step"), "0.02");
  EXPECT_EQ(Chosen(one_side).at("cone"), "0.015625");
  RuleOf("finest_resolution", "cells of 2 px, 256 to 2048");
  EXPECT_EQ(Chosen(one_side).at("finest_resolution"), "256");
  one_side.has_frustum = true;
  one_side.pixels_along_frustum = 900;
  RuleOf("finest_resolution", "cells of 1 px, 256 to 2048");
  EXPECT_EQ(Chosen(one_side).at("finest_resolution"), "1024");
  RuleOf("step", "1/2 of own; from P 1169 on 1/4");
  EXPECT_EQ(Chosen(Photographs(585, 12)).at("step"), "0.005");
  EXPECT_EQ(Chosen(Photographs(584, 12)).at("step"), "-1");
  EXPECT_EQ(Chosen(Photographs(1168, 12)).at("step"), "0.005");
  EXPECT_EQ(Chosen(Photographs(1169, 12)).at("step"), "0.0025");
  EXPECT_EQ(Chosen(Photographs(1169, 24)).at("step"), "0.00125") << "1/2 of that";
  EXPECT_EQ(Chosen(Photographs(1168, 1)).at("finest_resolution"), "1024");
  EXPECT_EQ(Chosen(Photographs(1169, 1)).at("finest_resolution"), "2048") << "doubles with P";
  SceneFacts small_budget = Photographs(100, 4.096);
  small_budget.lowers_steps = true;
  RuleOf("target_samples", "budget / 2048, at least 1024");
  EXPECT_EQ(Chosen(small_budget).at("target_samples"), "2000");
  SceneFacts object = Photographs(500, 1);
  object.has_alpha = true;
  RuleOf("initial_step_scale", "413 / P of that");
  EXPECT_EQ(Chosen(object).at("initial_step_scale"), "2.5");
  RuleOf("near", fmt::format("{} of the nearest depth", kNearOfNearest));
}

TEST(AllChoiceRulesTest, LargePicturesAreReducedToWhatTheBudgetUses) {
  const ChoiceRule rule = RuleOf("max_side", "3 pixels for each sample");
  EXPECT_THAT(rule.when, HasSubstr("above 1048576 pixels"));
  SceneDescription description;
  description.train.resize(50);
  for (ViewDescription& view : description.train)
    view.camera.width = 3000, view.camera.height = 4000;
  const double side = MaxSideOf(TrainConfig(), description, {});
  EXPECT_NEAR(50 * side * side * 0.75 / SamplesOfBudget(TrainConfig(), {}), 3, 0.01);
  SceneFacts facts;
  EXPECT_FALSE(rule.holds(facts));
  facts.are_reduced = true;
  EXPECT_TRUE(rule.holds(facts));
}

// The lines of the table.
std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(ChoiceTableTest, EndsWithTheDefaults) {
  EXPECT_THAT(ChoiceTable(nullptr), HasSubstr("\nWhere no row holds: max_side=own "));
  EXPECT_EQ(ChoiceReport(nullptr)["defaults"]["grid_resolution"], "128");
  EXPECT_EQ(ChoiceReport(nullptr)["defaults"]["contraction"], "none");
}

TEST(ChoiceTableTest, FitsATerminalInAlignedColumns) {
  const std::vector<std::string> lines = LinesOf(ChoiceTable(nullptr));
  const size_t of_settings = lines[0].find("SETTING=VALUE"), of_why = lines[0].find("WHY");
  ASSERT_NE(of_why, std::string::npos);
  const auto end = std::find(lines.begin(), lines.end(), "");
  ASSERT_GT(end - lines.begin(), 20);
  for (auto line = lines.begin(); line != end; ++line) {
    EXPECT_LE(line->size(), 100u) << *line;
    EXPECT_EQ((*line)[0], ' ') << "no marks without a data set: " << *line;
    for (const size_t column : {of_settings, of_why})
      EXPECT_TRUE(line->size() < column || (*line)[column - 1] == ' ') << *line;
  }
  for (auto line = end; line != lines.end(); ++line) EXPECT_LE(line->size(), 100u) << *line;
}

TEST(ChoiceTableTest, MarksTheRowsOfADataSetAndShowsWhatATrainingChooses) {
  ThreadPool pool(1);
  Problems problems;
  TrainRequest request;
  request.dataset = SourceDir() + "/examples/mic";
  const auto session = OpenTrainingSession(request, &pool, &problems, {});
  ASSERT_THAT(session, IsOk());
  const std::string table = ChoiceTable(session->get());
  EXPECT_THAT(table, StartsWith("Facts: flavor=blender train="));
  EXPECT_THAT(table, HasSubstr("\n* objects with P above 150, "));
  EXPECT_THAT(table, Not(HasSubstr("\n* photographs")));
  const JsonObject report = ChoiceReport(session->get());
  EXPECT_EQ(report["facts"]["alpha"], true);
  EXPECT_EQ(report["chosen"]["grid_resolution"], "256");
  std::set<std::string> held;
  for (const auto& rule : report["rules"]) {
    if (!rule["holds"].get<bool>()) continue;
    for (const auto& [key, value] : rule["settings"].items()) held.insert(key);
  }
  // What a training says that it chose, but for defaults.
  const Values defaults = Chosen(WithSteps());
  for (const auto& [key, value] : ConfigSettings((*session)->state.config)) {
    if (value != defaults.at(key)) {
      EXPECT_TRUE(held.contains(key) || key == "max_side") << key << "=" << value;
    }
  }
  EXPECT_FALSE(ChoiceReport(nullptr).contains("facts"));
}

}  // namespace
}  // namespace nerf
