// The options of exports: what each format honors, ranges, defaults, and the flags of both
// programs.
#include "engine/base/messages/export_options.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/usage_error.h"
#include "engine/base/messages/crop_box.h"
#include "engine/base/messages/export_flags.h"

namespace nerf {
namespace {

using Spec = v1::ExportSpec;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<ExportFormat> AllFormats() {
  std::vector<ExportFormat> formats;
  for (int i = 1; i <= Spec::Format_MAX; ++i) formats.push_back(static_cast<ExportFormat>(i));
  return formats;
}

// "triangles: has no effect on POINTS"
std::vector<std::string> TextsOf(const Spec& spec) {
  std::vector<std::string> texts;
  for (const Problem& problem : ProblemsOf(spec))
    texts.push_back(problem.field + ": " + problem.message);
  return texts;
}

Spec SpecOf(ExportFormat format) {
  Spec spec;
  spec.set_format(format);
  return spec;
}

void SetBox(Spec* spec) { *spec->mutable_box() = ToMessage({{0, 0, 0}, {1, 1, 1}}); }

// A valid value of each option, and the formats that take it.
struct Asked {
  std::function<void(Spec*)> set;
  std::set<ExportFormat> formats;
};
std::map<std::string, Asked> AskedOptions() {
  const std::set<ExportFormat> meshes = {Spec::PLY, Spec::GLB},
                               grids = {Spec::PLY, Spec::GLB, Spec::POINTS, Spec::VDB, Spec::NVDB},
                               paths = {Spec::NERFSTUDIO_PATH, Spec::NGP_PATH},
                               splats = {Spec::SPLATS, Spec::SPZ, Spec::SOG, Spec::SPLATS_GLB};
  const auto with = [](std::set<ExportFormat> some, const std::set<ExportFormat>& more) {
    some.insert(more.begin(), more.end());
    return some;
  };
  return {{"frame",
           {[](Spec* spec) { spec->set_frame(Spec::BLENDER); },
            with(grids, with(splats, {Spec::CAMERAS, Spec::VIEWS}))}},
          {"box", {SetBox, with(grids, with(splats, {Spec::VIEWER, Spec::VIEWS}))}},
          {"max_splats", {[](Spec* spec) { spec->set_max_splats(5000); }, splats}},
          {"whole",
           {[](Spec* spec) { spec->set_whole(true); },
            with(grids, with(splats, {Spec::VIEWER, Spec::VIEWS}))}},
          {"resolution", {[](Spec* spec) { spec->set_resolution(8); }, grids}},
          {"triangles", {[](Spec* spec) { spec->set_triangles(1); }, meshes}},
          {"texture", {[](Spec* spec) { spec->set_texture(64); }, {Spec::GLB}}},
          {"path", {[](Spec* spec) { spec->mutable_path(); }, with(paths, {Spec::VIEWS})}},
          {"baked", {[](Spec* spec) { spec->set_baked(true); }, {Spec::VIEWER}}}};
}

TEST(ExportOptionsTest, EveryFieldButTheSourceIsAnOption) {
  std::set<std::string> fields = {"model", "checkpoint"};
  for (const ExportOption& option : ExportOptions()) fields.insert(std::string(option.field));
  std::set<std::string> asked = {"model", "checkpoint", "format"};
  for (const auto& [field, value] : AskedOptions()) asked.insert(field);
  EXPECT_EQ(asked, fields);
  for (int i = 0; i < Spec::descriptor()->field_count(); ++i)
    EXPECT_TRUE(fields.contains(Spec::descriptor()->field(i)->name())) << i;
  EXPECT_EQ(static_cast<int>(fields.size()), Spec::descriptor()->field_count());
}

TEST(ExportOptionsTest, EachFormatTakesWhatItHonorsAndRefusesTheRest) {
  for (const ExportFormat format : AllFormats()) {
    EXPECT_THAT(TextsOf(SpecOf(format)), IsEmpty()) << Spec::Format_Name(format);
    std::vector<std::string> refused;
    Spec all = SpecOf(format);
    for (const auto& [field, asked] : AskedOptions()) {
      Spec spec = SpecOf(format);
      asked.set(&spec);
      const bool honors = asked.formats.contains(format);
      EXPECT_EQ(Honors(format, field), honors) << field << Spec::Format_Name(format);
      const std::string text = field + ": has no effect on " + Spec::Format_Name(format);
      EXPECT_THAT(TextsOf(spec), honors ? std::vector<std::string>() : std::vector{text});
      if (field != "whole") asked.set(&all);
      if (field != "whole" && !honors) refused.push_back(text);
    }
    EXPECT_THAT(TextsOf(all), ::testing::UnorderedElementsAreArray(refused)) << "all at once";
    EXPECT_EQ(IsMesh(format), Honors(format, "triangles"));
    EXPECT_EQ(IsPath(format), Honors(format, "path") && !Honors(format, "box"));
    EXPECT_EQ(IsSplats(format), Honors(format, "max_splats"));
  }
}

TEST(ExportOptionsTest, DataSetsFrameIsThatOfEveryFormat) {
  for (const ExportFormat format : AllFormats()) {
    Spec spec = SpecOf(format);
    spec.set_frame(Spec::DATASET);
    EXPECT_THAT(TextsOf(spec), IsEmpty());
  }
}

TEST(ExportOptionsTest, CamerasAreRightHanded) {
  for (const ExportFormat format : {Spec::CAMERAS, Spec::VIEWS}) {
    for (const auto frame : {Spec::UNITY, Spec::UNREAL}) {
      Spec spec = SpecOf(format);
      spec.set_frame(frame);
      EXPECT_THAT(TextsOf(spec), ElementsAre("frame: " + Spec::Frame_Name(frame) +
                                             " is left-handed, cameras are not"));
    }
  }
}

TEST(ExportOptionsTest, NumbersHaveRanges) {
  for (const ExportOption& option : ExportOptions()) {
    if (option.max == 0) continue;
    const auto* const field = Spec::descriptor()->FindFieldByName(std::string(option.field));
    const auto problems = [&](uint32_t number) {
      Spec spec = SpecOf(Honors(Spec::GLB, option.field) ? Spec::GLB : Spec::SPLATS);
      spec.GetReflection()->SetUInt32(&spec, field, number);
      return TextsOf(spec).size();
    };
    EXPECT_EQ(problems(0), 0u) << option.field << ": the default";
    EXPECT_EQ(problems(option.min), 0u) << option.field;
    EXPECT_EQ(problems(option.max), 0u) << option.field;
    EXPECT_EQ(problems(option.max + 1), 1u) << option.field;
    EXPECT_EQ(problems(~0u), 1u) << option.field;
    if (option.min > 1) {
      EXPECT_EQ(problems(option.min - 1), 1u) << option.field;
    }
  }
}

TEST(ExportOptionsTest, HostileValuesAreNamedAllAtOnce) {
  Spec spec;
  EXPECT_THAT(TextsOf(spec), ElementsAre(HasSubstr("format: must be one of VIEWER, PLY, GLB")));
  for (const int format : {15, 77, 1 << 30, -1, std::numeric_limits<int>::min()}) {
    spec = SpecOf(static_cast<ExportFormat>(format));
    spec.set_frame(static_cast<Spec::Frame>(format));
    spec.set_resolution(7);
    spec.set_triangles(~0u);
    spec.set_texture(9000);
    spec.set_whole(true);
    *spec.mutable_box() = ToMessage({{kNan, 0, 0}, {0, 1, INFINITY}});
    spec.mutable_path()->mutable_scene();
    EXPECT_THAT(
        TextsOf(spec),
        ElementsAre(HasSubstr("format: must be"), HasSubstr("frame: must be one of DATASET"),
                    HasSubstr("box.center[0]: "), HasSubstr("box.size[0]: "),
                    HasSubstr("box.size[2]: "), "whole: has no effect with box",
                    "resolution: must be 8 to 1024", "triangles: must be 1 to 1000000000",
                    "texture: must be 64 to 8192", "path.scene: is for render jobs alone"))
        << format;
    EXPECT_FALSE(Honors(spec.format(), "box"));
    EXPECT_FALSE(IsMesh(spec.format()) || IsPath(spec.format()));
    EXPECT_THAT(ExportArguments(spec, "c"), ElementsAre("--camera", "c"));
  }
  spec = SpecOf(Spec::GLB);
  for (int i = 0; i < 5; ++i) spec.mutable_box()->add_turn(1e300);
  EXPECT_THAT(TextsOf(spec),
              ElementsAre("box.center: must be 3 numbers", "box.size: must be 3 numbers",
                          "box.turn: must be 4 numbers"));
}

TEST(ExportOptionsTest, TextureHasRoomForTheTriangles) {
  Spec spec = SpecOf(Spec::GLB);
  spec.set_texture(1024);
  EXPECT_THAT(TextsOf(spec), IsEmpty());
  EXPECT_EQ(WithDefaults(spec).triangles(), 157'131u) << "fewer than elsewhere";
  EXPECT_THAT(TextsOf(WithDefaults(spec)), IsEmpty());
  spec.set_triangles(174'592);
  EXPECT_THAT(TextsOf(spec), IsEmpty());
  spec.set_triangles(199'132);
  EXPECT_THAT(TextsOf(spec),
              ElementsAre("texture: 1024x1024 texels are too few for 199132 triangles: take 1095 "
                          "or at most 174592 triangles"));
  spec.set_triangles(1'000'000'000);
  EXPECT_THAT(TextsOf(spec), ElementsAre(::testing::EndsWith("take at most 174592 triangles")));
  spec.clear_triangles();
  spec.set_texture(2048);
  EXPECT_EQ(WithDefaults(spec).triangles(), 200'000u);
}

TEST(ExportOptionsTest, DefaultsAreFilledInWhereTheyMeanSomething) {
  for (const ExportFormat format : AllFormats()) {
    const Spec spec = WithDefaults(SpecOf(format));
    EXPECT_THAT(TextsOf(spec), IsEmpty());
    EXPECT_EQ(spec.frame(), Spec::DATASET);
    EXPECT_EQ(spec.resolution(), Honors(format, "resolution") ? 256u : 0u);
    EXPECT_EQ(spec.triangles(), IsMesh(format) ? 200'000u : 0u);
    EXPECT_EQ(spec.texture(), 0u);
  }
  Spec spec = SpecOf(Spec::GLB);
  spec.set_frame(Spec::UNITY);
  spec.set_resolution(9);
  spec.set_triangles(8);
  EXPECT_EQ(WithDefaults(spec).SerializeAsString(), spec.SerializeAsString());
}

TEST(ExportOptionsTest, FilesSayTheirFormat) {
  const std::vector<ExportFormat> formats = AllFormats();
  ASSERT_EQ(ExportFileKinds().size(), formats.size());
  for (const ExportFormat format : formats) {
    const ExportFileKind& kind = FileKindOf(format);
    EXPECT_EQ(kind.format, format);
    const std::string path = "some.dir/x" + std::string(kind.ending);
    EXPECT_EQ(FormatOfFile(path), kind.ending.empty() ? Spec::FORMAT_UNSPECIFIED : kind.format);
    EXPECT_TRUE(kind.ending.empty() || kind.name.ends_with(kind.ending));
  }
  for (const char* path :
       {"", "x", "x.obj", "x.json", "glb", "x.glb/", "x.GLB", ".ply", "a.ply/.ply"})
    EXPECT_EQ(FormatOfFile(path), Spec::FORMAT_UNSPECIFIED) << path;
}

TEST(ExportOptionsTest, FilesOfSplatsSayTheirFormat) {
  const std::pair<const char*, ExportFormat> cases[] = {
      {"a.ply", Spec::SPLATS},     {"a.spz", Spec::SPZ}, {"b/a.sog", Spec::SOG},
      {"a.glb", Spec::SPLATS_GLB}, {"a", Spec::SPLATS},  {"a.glb/", Spec::SPLATS},
      {"a.html", Spec::SPLATS}};
  for (const auto& [path, format] : cases) {
    EXPECT_EQ(SplatsFormatOfFile(path), format) << path;
    EXPECT_TRUE(IsSplats(format));
  }
  EXPECT_EQ(SplatFileOf(Spec::SPLATS), SplatFile::kPly);
  EXPECT_EQ(SplatFileOf(Spec::SPZ), SplatFile::kSpz);
  EXPECT_EQ(SplatFileOf(Spec::SOG), SplatFile::kSog);
  EXPECT_EQ(SplatFileOf(Spec::SPLATS_GLB), SplatFile::kGlb);
}

// What is wrong with words of a command line, or the arguments that ask for the same.
std::vector<std::string> Parsed(const std::string& words, ExportFlags* flags) {
  CLI::App app("", "export");
  AddExportFlags(app, "file to write", /*capitals=*/false, flags);
  std::vector<std::string> reversed;
  if (!words.empty()) reversed = absl::StrSplit(words, ' ');
  std::reverse(reversed.begin(), reversed.end());
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    return absl::StrSplit(UsageErrorText(app, error), '\n');
  }
  std::vector<std::string> texts;
  for (const Problem& wrong : CheckExportFlags("--camera", flags))
    texts.push_back(wrong.field + ": " + wrong.message);
  return texts;
}
std::vector<std::string> Parsed(const std::string& words) {
  ExportFlags flags;
  return Parsed(words, &flags);
}

TEST(ExportFlagsTest, FlagsBecomeTheSpecAndTheSpecTheseFlags) {
  for (const std::string words :
       {"--format glb", "--format views --frame opencv --crop=-1,0,0.5,2,2,1",
        "--format glb --frame unreal --crop=0,0,0,1,1,1,0,0,0.6,0.8 --resolution 1024 --triangles "
        "600 --texture 64",
        "--format nerfstudio-path --exported-cameras", "--format viewer --baked",
        "--format spz --max-splats 2000", "--format splats-glb --frame blender"}) {
    ExportFlags flags;
    const size_t own = words.find(" --exported-cameras");
    EXPECT_THAT(Parsed("--out x " + words.substr(0, own), &flags), IsEmpty()) << words;
    EXPECT_EQ(absl::StrJoin(ExportArguments(flags.spec, ""), " "), words);
  }
}

TEST(ExportFlagsTest, NumbersMayBeAmounts) {
  ExportFlags flags;
  EXPECT_THAT(Parsed("--out a.glb --triangles 1.5e5 --resolution 1k --texture 1e3", &flags),
              IsEmpty());
  EXPECT_EQ(flags.spec.format(), Spec::GLB);
  EXPECT_EQ(flags.spec.triangles(), 150'000u);
  EXPECT_EQ(flags.spec.resolution(), 1000u);
  EXPECT_EQ(flags.spec.texture(), 1000u);
}

TEST(ExportFlagsTest, SplatsAreInTheFileThatOutNames) {
  const std::pair<const char*, ExportFormat> cases[] = {
      {"--out a.spz", Spec::SPZ},
      {"--out a.sog", Spec::SOG},
      {"--out a.glb", Spec::GLB},
      {"--out a.glb --format splats", Spec::SPLATS_GLB},
      {"--out a.spz --format splats", Spec::SPZ},
      {"--out a.ply --format splats", Spec::SPLATS},
      {"--out exports/ --format splats", Spec::SPLATS},
      {"--out exports/ --format sog", Spec::SOG}};
  for (const auto& [words, format] : cases) {
    ExportFlags flags;
    EXPECT_THAT(Parsed(words, &flags), IsEmpty()) << words;
    EXPECT_EQ(flags.spec.format(), format) << words;
  }
  EXPECT_THAT(Parsed("--out a.spz --resolution 64"),
              ElementsAre("--resolution: has no effect on SPZ"));
  EXPECT_THAT(Parsed("--out a.glb --max-splats 5k"),
              ElementsAre("--max-splats: has no effect on GLB"));
}

TEST(ExportFlagsTest, BoxMayBeNone) {
  ExportFlags flags;
  EXPECT_THAT(Parsed("--out a.glb --crop none", &flags), IsEmpty());
  EXPECT_TRUE(flags.spec.whole());
  EXPECT_FALSE(flags.spec.has_box());
  EXPECT_THAT(Parsed("--out a --format cameras --crop none"),
              ElementsAre("--crop: has no effect on CAMERAS"));
}

TEST(ExportFlagsTest, WrongOnesAreNamed) {
  EXPECT_THAT(Parsed(""), ElementsAre("--out is required"));
  EXPECT_THAT(Parsed("--out a"),
              ElementsAre("--format: is needed where --out ends in none of .html, .ply, .glb, "
                          ".vdb, .nvdb, .zip, .spz, .sog: points, splats, cameras, "
                          "nerfstudio-path, ngp-path, splats-glb have no ending of their own"));
  EXPECT_THAT(Parsed("--out  --format ply"), ElementsAre("--out: is empty"));
  EXPECT_THAT(Parsed("--out a --format gbl"), ElementsAre(HasSubstr("did you mean glb?")));
  EXPECT_THAT(Parsed("--out a --format GLB --frame maya --resolution 7 --triangles 0 "
                     "--texture nan --crop 1,2"),
              ElementsAre(HasSubstr("--format: 'GLB' is not one of viewer, ply"),
                          HasSubstr("--frame: 'maya' is not one of dataset"),
                          HasSubstr("--crop: '1,2' is not a center"),
                          "--resolution: '7' is not a whole number from 8 to 1024",
                          "--triangles: '0' is not a whole number from 1 to 1000000000",
                          "--texture: 'nan' is not a whole number from 64 to 8192"));
  for (const char* number : {"-9", "99999999999", "inf", "8.5", "64px"}) {
    EXPECT_THAT(Parsed(std::string("--out a.glb --resolution ") + number),
                ElementsAre(HasSubstr("is not a whole number")))
        << number;
  }
  EXPECT_THAT(
      Parsed("--out a.zip --triangles 5 --texture 64 --resolution 64 --frame unity"),
      ElementsAre("--frame: UNITY is left-handed, cameras are not",
                  "--resolution: has no effect on VIEWS", "--triangles: has no effect on VIEWS",
                  "--texture: has no effect on VIEWS"));
  EXPECT_THAT(Parsed("--out a.glb --crop nan,0,0,1,1,1"),
              ElementsAre(HasSubstr("--crop: center[0] must be")));
  ExportFlags flags;
  flags.spec.mutable_path();
  EXPECT_THAT(Parsed("--out a.glb", &flags), ElementsAre("--camera: has no effect on GLB"));
}

TEST(ExportFlagsTest, HelpHasLimitsAndDefaults) {
  for (const bool capitals : {false, true}) {
    ExportFlags flags;
    CLI::App app("", "export");
    AddExportFlags(app, "", capitals, &flags);
    const std::string help = app.help();
    EXPECT_THAT(help, HasSubstr(capitals ? "Simplify a mesh" : "simplify a mesh"));
    EXPECT_THAT(help, HasSubstr("(1 to 1000000000; default: 200000)"));
    EXPECT_THAT(help, HasSubstr("(8 to 1024; default: 256)"));
    EXPECT_THAT(help, HasSubstr("(64 to 8192)"));
    for (const std::string& word : ExportWords("format")) EXPECT_THAT(help, HasSubstr(word));
    for (const std::string& word : ExportWords("frame")) EXPECT_THAT(help, HasSubstr(word));
  }
}

}  // namespace
}  // namespace nerf
