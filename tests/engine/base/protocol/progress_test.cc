#include "engine/base/protocol/progress.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "engine/base/protocol/json.h"
#include "engine/base/protocol/key_reader.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using nlohmann::json;

json Written(const TrainProgress& progress) {
  JsonObject object;
  SetProgress(progress, &object);
  return json::parse(object.dump());
}

TEST(ProgressTest, EveryFigureIsWrittenAndCountsWithoutAFraction) {
  TrainProgress progress;
  progress.step = 7;
  double value = 0.125;  // fractions stay below 1
  for (const ProgressFigure& figure : ProgressFigures()) {
    progress.*figure.value = figure.is_count ? 1000 * value : value;
    value += 1 / 64.0;
  }
  for (const ProgressFigure& figure : ProgressFigures()) {
    if (figure.is_count) progress.*figure.value = std::floor(progress.*figure.value);
  }
  const json object = Written(progress);
  EXPECT_EQ(object["step"], 7);
  for (const ProgressFigure& figure : ProgressFigures()) {
    EXPECT_EQ(object[figure.name], progress.*figure.value) << figure.name;
    EXPECT_EQ(object[figure.name].is_number_integer(), figure.is_count) << figure.name;
  }
}

TEST(ProgressTest, NamesAreDistinctAndFitAProtoField) {
  std::set<std::string> names = {"step"};
  for (const ProgressFigure& figure : ProgressFigures()) {
    const std::string name = figure.name;
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"), std::string::npos) << name;
  }
}

TEST(ProgressTest, UnknownFiguresAreNullOrLeftOut) {
  const json object = Written(TrainProgress());
  EXPECT_TRUE(object["loss"].is_null());
  EXPECT_FALSE(object.contains("gpu_utilization"));
  EXPECT_FALSE(object.contains("evaluated_views"));
}

TEST(ProgressTest, SummaryTellsNoTestViewsFromNoEvaluation) {
  using Psnr = std::optional<double>;
  for (const Psnr psnr : {Psnr(), Psnr(NAN), Psnr(31.5)}) {
    TrainSummary summary;
    summary.step = 30;
    summary.samples = 3000;
    summary.psnr = psnr;
    summary.model = "/m";
    JsonObject object;
    SetSummary(summary, &object);
    EXPECT_EQ(object.contains("psnr"), psnr.has_value());
    EXPECT_EQ(object["samples"].dump(), "3000");
    const json parsed = json::parse(object.dump());
    KeyReader reader(parsed);
    const TrainSummary read = ReadSummary(&reader);
    ASSERT_THAT(reader.status(), IsOk());
    EXPECT_EQ(read.step, 30u);
    EXPECT_EQ(read.model, "/m");
    EXPECT_EQ(read.psnr, psnr == 31.5 ? psnr : std::nullopt);
  }
}

TEST(ProgressTest, SummaryOfTheWrongTypesIsRefusedWithItsKey) {
  for (const std::string key : {"step", "samples", "psnr", "model"}) {
    for (const std::string value : {"[1]", "{}", "true"}) {
      json object = {{"step", 1}};
      object[key] = json::parse(value);
      KeyReader reader(object);
      ReadSummary(&reader);
      EXPECT_THAT(reader.status(), StatusIs(absl::StatusCode::kInvalidArgument, key)) << value;
    }
  }
}

}  // namespace
}  // namespace nerf
