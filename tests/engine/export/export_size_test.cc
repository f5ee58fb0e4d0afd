// What `nerf-engine export` says of sizes beforehand, beside what it then writes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>

#include "nlohmann/json.hpp"
#include "tests/engine/export/export_command_fixture.h"

namespace nerf {
namespace {

using ::testing::HasSubstr;

// Lines of JSON, by their event; the last of each.
std::map<std::string, nlohmann::json> EventsOf(const std::string& out) {
  std::map<std::string, nlohmann::json> events;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) {
    const auto event = nlohmann::json::parse(line, nullptr, false);
    if (event.is_object()) events[event.value("event", "")] = event;
  }
  return events;
}

TEST_F(ExportCommandTest, SizeIsToldBeforeTheWorkAndHolds) {
  constexpr double kExact = 1;
  const struct {
    std::string flags;
    bool is_bound;
    double slack;  // told over made, or its inverse, at most
  } cases[] = {
      {" --format glb --resolution 64 --triangles 500 --out ", false, 1.3},
      {" --format ply --resolution 64 --triangles 500 --out ", false, 1.3},
      {" --format points --resolution 32 --out ", true, 50},
      {" --format splats --max-splats 1000 --out ", true, 1.1},
      {" --format spz --max-splats 1000 --out ", true, 3},
      {" --format sog --max-splats 1000 --out ", true, 3},
      {" --format splats-glb --max-splats 1000 --out ", true, 1.1},
      {" --format vdb --resolution 48 --out ", true, 1.5},
      {" --format vdb --resolution 48 --crop 0,0,0.2,0.5,0.7,0.5,0,0,0.6,0.8 --out ", true, 1.5},
      {" --format nvdb --resolution 48 --out ", true, 1.5},
      {" --format views --out ", true, 2.5},
      {" --format cameras --out ", false, kExact},
      {" --format ngp-path --exported-cameras --out ", false, kExact},
      {" --format viewer --out ", false, kExact},
      {" --format viewer --baked --out ", true, 3}};
  for (const auto& [flags, is_bound, slack] : cases) {
    const std::string file = dir_ / "x.zip";
    const Ended dry = Export(Model() + " --json --dry-run" + flags + file);
    if (dry.code == 10) continue;  // built without NanoVDB
    ASSERT_EQ(dry.code, 0) << flags << dry.err;
    EXPECT_THAT(Files(), ::testing::IsEmpty()) << flags;
    auto told = EventsOf(dry.out);
    EXPECT_FALSE(told.contains("done"));
    const Ended ended = Export(Model() + " --json" + flags + file);
    ASSERT_EQ(ended.code, 0) << flags << ended.err;
    auto events = EventsOf(ended.out);
    EXPECT_EQ(events["size"], told["size"]) << flags;
    const double size = told["size"]["bytes"], made = events["done"]["bytes"];
    std::printf("%s: %s %.0f, made %.0f\n", flags.c_str(), is_bound ? "at most" : "about", size,
                made);
    EXPECT_EQ(told["size"]["at_most"], is_bound) << flags;
    EXPECT_LE(made, is_bound ? size : slack * size) << flags;
    EXPECT_LE(size, slack * made) << flags;
    std::filesystem::remove(file);
  }
  const Ended text = Export(Model() + " --dry-run --out " + (dir_ / "m.glb"));
  EXPECT_EQ(text.out, "about 5.6 MB\n");
  EXPECT_THAT(Export(Model() + " --dry-run --texture 512 --out " + (dir_ / "m.glb")).out,
              HasSubstr("not known before"));
  EXPECT_EQ(Export((dir_ / "none") + " --dry-run --out " + (dir_ / "m.glb")).code, 5);
  EXPECT_THAT(Files(), ::testing::IsEmpty());
}

}  // namespace
}  // namespace nerf
