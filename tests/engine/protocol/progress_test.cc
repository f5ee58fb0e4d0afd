#include "engine/protocol/progress.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "engine/protocol/json.h"
#include "engine/protocol/key_reader.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using nlohmann::json;

json Written(const TrainProgress& progress) {
  JsonObject object;
  SetProgress(progress, &object);
  return json::parse(object.dump());
}

TEST(ProgressTest, EveryFigureSurvivesARoundTrip) {
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
  KeyReader reader(object);
  const TrainProgress read = ReadProgress(&reader);
  ASSERT_THAT(reader.status(), IsOk());
  EXPECT_EQ(read.step, 7u);
  for (const ProgressFigure& figure : ProgressFigures()) {
    EXPECT_EQ(read.*figure.value, progress.*figure.value) << figure.name;
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
  KeyReader reader(object);
  const TrainProgress read = ReadProgress(&reader);
  EXPECT_TRUE(std::isnan(read.loss));
  EXPECT_TRUE(std::isnan(read.gpu_utilization));
}

TEST(ProgressTest, FractionAndEtaAreClamped) {
  const json object = json::parse(R"({"step":1,"fraction":1.5,"eta_seconds":-4})");
  KeyReader reader(object);
  const TrainProgress read = ReadProgress(&reader);
  EXPECT_THAT(reader.status(), IsOk());
  EXPECT_EQ(read.fraction, 1);
  EXPECT_EQ(read.eta_seconds, 0);
}

TEST(ProgressTest, FiguresOfTheWrongTypeAreNamed) {
  for (const std::string key : {"samples", "loss", "gpu_power_watts"}) {
    for (const std::string value : {"\"1\"", "[1]", "{}", "true"}) {
      const json object = json::parse("{\"step\":1,\"" + key + "\":" + value + "}");
      KeyReader reader(object);
      ReadProgress(&reader);
      EXPECT_THAT(reader.status(), StatusIs(absl::StatusCode::kInvalidArgument, key)) << value;
    }
  }
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

}  // namespace
}  // namespace nerf
