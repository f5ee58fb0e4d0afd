#include "engine/base/messages/export_options.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"
#include "engine/base/export_bytes.h"
#include "engine/base/messages/crop_box.h"

namespace nerf {
namespace {

using Spec = v1::ExportSpec;
using google::protobuf::FieldDescriptor;

// Empty of formats that are not known here.
constexpr uint32_t SetOf(ExportFormat format) {
  return format >= Spec::Format_MIN && format <= Spec::Format_MAX ? 1u << format : 0;
}

static_assert(Spec::Format_MAX < 32);
constexpr uint32_t kAll = ~0u, kViewer = SetOf(Spec::VIEWER), kGlb = SetOf(Spec::GLB),
                   kMeshes = SetOf(Spec::PLY) | kGlb,
                   kSplats = SetOf(Spec::SPLATS) | SetOf(Spec::SPZ) | SetOf(Spec::SOG) |
                             SetOf(Spec::SPLATS_GLB),
                   kGrids = kMeshes | SetOf(Spec::POINTS) | SetOf(Spec::VDB) | SetOf(Spec::NVDB),
                   kPaths = SetOf(Spec::NERFSTUDIO_PATH) | SetOf(Spec::NGP_PATH),
                   kViews = SetOf(Spec::VIEWS), kCameras = SetOf(Spec::CAMERAS);

constexpr ExportOption kOptions[] = {
    {"format", "--format", "FORMAT",
     "viewer (HTML), glb or ply (mesh), points (PLY), splats (PLY, or spz, sog\n"
     "or splats-glb where --out ends in .spz, .sog or .glb), vdb or nvdb\n"
     "(volume), cameras (transforms.json), nerfstudio-path (camera_path.json),\n"
     "ngp-path (base_cam.json) or views (a data set of rendered views with\n"
     "depths; of nerf-engine also a folder); needed where --out ends in none of .html (viewer), "
     ".ply, .glb,\n"
     ".vdb, .nvdb, .spz, .sog and .zip (views)",
     kAll},
    {"frame", "--frame", "AXES",
     "axes: dataset (its own), blender, unity, unreal or opencv\n(default: dataset)",
     kGrids | kSplats | kViews | kCameras},
    {"box", "--crop,--box", "X,Y,Z,SX,SY,SZ|none",
     "export what is in this box: center and sides in the data set's frame and\n"
     "unit, with its turn behind them, a quaternion x,y,z,w; none: without the\n"
     "box that a server keeps with a model or job (default: that box, else what\n"
     "the inner box of the scene holds, of splats, a viewer and views all)",
     kGrids | kSplats | kViewer | kViews},
    {"whole", "", "", "", kGrids | kSplats | kViewer | kViews},  // --crop none
    {"resolution", "--resolution", "N", "cells along the box's longest side; points: one a cell\n",
     kGrids, 8, 1024, 256},
    {"max_splats", "--max-splats", "N", "the most splats, such as 50k or 1M ", kSplats, 1000,
     1'000'000, 200'000},
    {"triangles", "--triangles", "N", "simplify a mesh to about this many, such as 50k or 1M ",
     kMeshes, 1, 1'000'000'000, 200'000},
    {"texture", "--texture", "N",
     "texels along a side of a GLB's texture; without it, vertices have colors\n", kGlb, 64, 8192},
    {"path", "", "", "", kPaths | kViews},
    {"baked", "--baked", "",
     "of a viewer: a baked model, too, that phones draw; alone where both would\n"
     "have more than 25 MB",
     kViewer},
};

constexpr ExportFileKind kFiles[] = {
    {Spec::VIEWER, ".html", "viewer.html", "viewer"},
    {Spec::PLY, ".ply", "mesh.ply", "mesh"},
    {Spec::GLB, ".glb", "mesh.glb", "mesh"},
    {Spec::POINTS, "", "points.ply", "points"},
    {Spec::SPLATS, "", "splats.ply", "splats"},
    {Spec::CAMERAS, "", "transforms.json", "cameras"},
    {Spec::VDB, ".vdb", "volume.vdb", "volume"},
    {Spec::NVDB, ".nvdb", "volume.nvdb", "volume"},
    {Spec::NERFSTUDIO_PATH, "", "camera_path.json", "path"},
    {Spec::NGP_PATH, "", "base_cam.json", "path"},
    {Spec::VIEWS, ".zip", "views.zip", "views"},
    {Spec::SPZ, ".spz", "splats.spz", "splats"},
    {Spec::SOG, ".sog", "splats.sog", "splats"},
    {Spec::SPLATS_GLB, "", "splats.glb", "splats"},
};

const ExportOption& OptionOf(std::string_view field) {
  return *std::find_if(std::begin(kOptions), std::end(kOptions),
                       [&](const ExportOption& option) { return option.field == field; });
}

const FieldDescriptor& FieldOf(const ExportOption& option) {
  return *Spec::descriptor()->FindFieldByName(std::string(option.field));
}

bool IsNumber(const ExportOption& option) { return option.max > 0; }

uint32_t NumberOf(const Spec& spec, const ExportOption& option) {
  return spec.GetReflection()->GetUInt32(spec, &FieldOf(option));
}

// The frame of the data set is what every file has, asked for or not.
bool IsAsked(const Spec& spec, const ExportOption& option) {
  if (option.field == "frame" && spec.frame() == Spec::DATASET) return false;
  return spec.GetReflection()->HasField(spec, &FieldOf(option));
}

std::string WordOf(const std::string& name) {
  return absl::StrReplaceAll(absl::AsciiStrToLower(name), {{"_", "-"}});
}

// "must be one of DATASET, BLENDER"
std::string NotKnown(std::string_view field) {
  const auto& values = *FieldOf(OptionOf(field)).enum_type();
  std::string text = "must be one of ";
  for (int i = 1; i < values.value_count(); ++i)
    text += (i == 1 ? "" : ", ") + values.value(i)->name();
  return text;
}

// Closing a simplified mesh adds a few triangles.
uint32_t DefaultTriangles(const Spec& spec, uint32_t fallback) {
  if (spec.texture() == 0) return fallback;
  return std::min<uint32_t>(fallback, MaxTexturedTriangles(spec.texture()) / 10 * 9);
}

void CheckTexture(const Spec& spec, Problems* problems) {
  const size_t most = MaxTexturedTriangles(spec.texture()), wanted = spec.triangles();
  if (wanted <= most) return;
  const ExportOption& texture = OptionOf("texture");
  std::string remedy = fmt::format("at most {} triangles", most);
  if (wanted <= MaxTexturedTriangles(texture.max))
    remedy = fmt::format("{} or {}", MinTextureSize(wanted), remedy);
  problems->Add("texture", fmt::format("{0}x{0} texels are too few for {1} triangles: take {2}",
                                       spec.texture(), wanted, remedy));
}

// Of a field that the format honors, or of a format that is not known.
void CheckValue(const Spec& spec, const ExportOption& option, Problems* problems) {
  const std::string field(option.field);
  const auto require = [&](bool is_right, std::string_view words) {
    problems->Require(is_right, field, words);
  };
  if (IsNumber(option)) {
    const uint32_t number = NumberOf(spec, option);
    require(number >= option.min && number <= option.max,
            fmt::format("must be {} to {}", option.min, option.max));
  } else if (field == "frame") {
    require(Spec::Frame_IsValid(spec.frame()), NotKnown(field));
    const bool is_mirrored = spec.frame() == Spec::UNITY || spec.frame() == Spec::UNREAL;
    const bool has_cameras = spec.format() == Spec::CAMERAS || spec.format() == Spec::VIEWS;
    require(!is_mirrored || !has_cameras,
            Spec::Frame_Name(spec.frame()) + " is left-handed, cameras are not");
  } else if (field == "box") {
    ReadCropBox(field, spec.box(), problems);
  } else if (field == "whole") {
    require(!spec.has_box(), "has no effect with box");
  } else if (field == "path" && spec.path().has_scene()) {
    problems->Add("path.scene", "is for render jobs alone");
  }
}

}  // namespace

std::span<const ExportOption> ExportOptions() { return kOptions; }
std::span<const ExportFileKind> ExportFileKinds() { return kFiles; }

bool Honors(ExportFormat format, std::string_view field) {
  return (OptionOf(field).formats & SetOf(format)) != 0;
}
bool IsMesh(ExportFormat format) { return (kMeshes & SetOf(format)) != 0; }
bool IsPath(ExportFormat format) { return (kPaths & SetOf(format)) != 0; }
bool IsSplats(ExportFormat format) { return (kSplats & SetOf(format)) != 0; }

Problems ProblemsOf(const v1::ExportSpec& spec) {
  Problems problems;
  const bool is_known =
      Spec::Format_IsValid(spec.format()) && spec.format() != Spec::FORMAT_UNSPECIFIED;
  if (!is_known) problems.Add("format", NotKnown("format"));
  for (const ExportOption& option : kOptions) {
    if (!IsAsked(spec, option)) continue;
    if (is_known && !Honors(spec.format(), option.field)) {
      problems.Add(option.field, "has no effect on " + Spec::Format_Name(spec.format()));
    } else {
      CheckValue(spec, option, &problems);
    }
  }
  if (problems.empty() && spec.texture() > 0) CheckTexture(spec, &problems);
  return problems;
}

v1::ExportSpec WithDefaults(v1::ExportSpec spec) {
  if (spec.frame() == Spec::FRAME_UNSPECIFIED) spec.set_frame(Spec::DATASET);
  for (const ExportOption& option : kOptions) {
    if (IsNumber(option) && Honors(spec.format(), option.field) && NumberOf(spec, option) == 0)
      spec.GetReflection()->SetUInt32(
          &spec, &FieldOf(option),
          option.field == "triangles" ? DefaultTriangles(spec, option.fallback) : option.fallback);
  }
  return spec;
}

const ExportFileKind& FileKindOf(ExportFormat format) { return kFiles[format - 1]; }

ExportFormat FormatOfFile(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  for (const ExportFileKind& kind : kFiles) {
    if (!kind.ending.empty() && name.ends_with(kind.ending) && name != kind.ending)
      return kind.format;
  }
  return Spec::FORMAT_UNSPECIFIED;
}

ExportFormat SplatsFormatOfFile(std::string_view path) {
  for (const ExportFileKind& kind : kFiles) {
    if (IsSplats(kind.format) && path.ends_with(kind.name.substr(kind.name.find('.'))))
      return kind.format;
  }
  return Spec::SPLATS;
}

SplatFile SplatFileOf(ExportFormat format) {
  switch (format) {
    case Spec::SPZ:
      return SplatFile::kSpz;
    case Spec::SOG:
      return SplatFile::kSog;
    case Spec::SPLATS_GLB:
      return SplatFile::kGlb;
    default:
      return SplatFile::kPly;
  }
}

std::vector<std::string> ExportWords(std::string_view field) {
  const auto& values = *FieldOf(OptionOf(field)).enum_type();
  std::vector<std::string> words;
  for (int i = 1; i < values.value_count(); ++i) words.push_back(WordOf(values.value(i)->name()));
  return words;
}
std::string ExportWord(ExportFormat format) { return WordOf(Spec::Format_Name(format)); }
std::string ExportWord(v1::ExportSpec::Frame frame) { return WordOf(Spec::Frame_Name(frame)); }

std::vector<std::string> ExportArguments(const v1::ExportSpec& spec, const std::string& cameras) {
  std::vector<std::string> arguments;
  for (const ExportOption& option : kOptions) {
    if (option.flag.empty() || !IsAsked(spec, option) || !Honors(spec.format(), option.field))
      continue;
    const std::string flag(option.flag.substr(0, option.flag.find(',')));
    const FieldDescriptor& field = FieldOf(option);
    if (field.type() == FieldDescriptor::TYPE_ENUM) {
      const auto* value = spec.GetReflection()->GetEnum(spec, &field);
      arguments.insert(arguments.end(), {flag, WordOf(value->name())});
    } else if (field.type() == FieldDescriptor::TYPE_MESSAGE) {
      // A negative number by itself would look like a flag.
      arguments.push_back(flag + "=" + CropText(spec.box()));
    } else if (IsNumber(option)) {
      arguments.insert(arguments.end(), {flag, std::to_string(NumberOf(spec, option))});
    } else {
      arguments.push_back(flag);
    }
  }
  if (spec.has_path()) arguments.insert(arguments.end(), {"--camera", cameras});
  // The program that plays the path may have no other data set.
  if (IsPath(spec.format())) arguments.emplace_back("--exported-cameras");
  return arguments;
}

}  // namespace nerf
