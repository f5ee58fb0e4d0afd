#include "engine/base/protocol/export_lines.h"

#include <gtest/gtest.h>

namespace nerf::protocol {
namespace {

TEST(ExportLinesTest, LinesOfTheEngineAreRead) {
  EXPECT_EQ(std::get<Exporting>(
                ParseExportLine(R"({"event":"exporting","step":"surface","share":0.25})")),
            (Exporting{"surface", 0.25}));
  EXPECT_EQ(
      std::get<ExportBytes>(ParseExportLine(R"({"event":"size","bytes":1e7,"at_most":true})")),
      (ExportBytes{1e7, true}));
  EXPECT_EQ(std::get<ExportDone>(ParseExportLine(
                R"({"event":"done","format":"glb","file":"out/mesh.glb","vertices":5,)"
                R"("triangles":7,"bytes":99,"seconds":1.5,"axes":"z up","words":"a mesh"})")),
            (ExportDone{"out/mesh.glb", 5, 7, "z up", "a mesh", 1.5}));
  EXPECT_EQ(std::get<ExportDone>(ParseExportLine(R"({"event":"done","file":"a.html","bytes":9})")),
            (ExportDone{"a.html", 0, 0, "", "", 0}));
  const auto error = std::get<absl::Status>(
      ParseExportLine(R"({"event":"failed","code":"NOT_FOUND","reason":"","message":"m"})"));
  EXPECT_EQ(error, absl::NotFoundError("m"));
}

TEST(ExportLinesTest, OtherLinesAreNone) {
  for (const char* line :
       {"", "a log", "{", R"({"event":"exporting"})",
        R"({"event":"done","vertices":-1,"file":"x"})", R"({"event":"done"})",
        R"({"event":"exporting","step":"s","share":2})", R"({"event":"size","bytes":-1})",
        R"({"event":"size","bytes":5})", R"({"event":"size","bytes":5,"at_most":1})",
        R"({"event":"exporting","step":"s","share":"1"})", R"({"event":"else"})"}) {
    EXPECT_TRUE(std::holds_alternative<std::monostate>(ParseExportLine(line))) << line;
  }
}

}  // namespace
}  // namespace nerf::protocol
