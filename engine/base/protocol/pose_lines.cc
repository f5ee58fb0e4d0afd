#include "engine/base/protocol/pose_lines.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "common/status_macros.h"
#include "engine/base/protocol/failed_line.h"
#include "engine/base/protocol/json.h"
#include "engine/base/protocol/key_reader.h"

namespace nerf::protocol {
namespace {

// Empty if it is anything but pairs of hex digits.
std::string HexDigits(std::string text) {
  const bool is_hex = text.size() % 2 == 0 && std::all_of(text.begin(), text.end(), [](char c) {
                        return absl::ascii_isxdigit(static_cast<unsigned char>(c));
                      });
  return is_hex ? text : "";
}

Posing ReadPosing(KeyReader& reader) {
  return {reader.Count("stage", Need::kRequired),
          reader.Count("stages", Need::kRequired),
          reader.Text("doing", Need::kRequired),
          reader.Count("done", Need::kOptional),
          reader.Count("of", Need::kOptional),
          reader.Text("unit", Need::kOptional),
          reader.Number("seconds", Need::kOptional).value_or(0),
          reader.Number("eta_seconds", Need::kOptional).value_or(0),
          reader.Number("matches_per_second", Need::kOptional).value_or(0),
          absl::HexStringToBytes(HexDigits(reader.Text("points", Need::kOptional))),
          absl::HexStringToBytes(HexDigits(reader.Text("cameras", Need::kOptional)))};
}

}  // namespace

std::string ToLine(const Posing& posing) {
  JsonObject line;
  line["event"] = "posing";
  line["stage"] = posing.stage;
  line["stages"] = posing.stages;
  line["doing"] = posing.doing;
  line["done"] = posing.done;
  if (posing.of > 0) line["of"] = posing.of;
  if (!posing.unit.empty()) line["unit"] = posing.unit;
  line["seconds"] = JsonNumber(posing.seconds);
  if (posing.eta_seconds > 0) line["eta_seconds"] = JsonNumber(posing.eta_seconds);
  if (posing.matches_per_second > 0) {
    line["matches_per_second"] = JsonNumber(posing.matches_per_second);
  }
  if (!posing.points.empty()) line["points"] = absl::BytesToHexString(posing.points);
  if (!posing.cameras.empty()) line["cameras"] = absl::BytesToHexString(posing.cameras);
  return JsonLine(line);
}

std::string ToLine(const PoseTools& tools) {
  JsonObject line;
  line["event"] = "done";
  line["colmap"] = tools.colmap;
  if (!tools.ffmpeg.empty()) line["ffmpeg"] = tools.ffmpeg;
  return JsonLine(line);
}

PoseLine ParsePoseLine(std::string_view line) {
  if (!line.starts_with('{')) return {};
  const absl::StatusOr<nlohmann::json> object = ParseJsonObject(line);
  if (!object.ok()) return {};
  KeyReader reader(*object);
  const std::string event = reader.Text("event", Need::kRequired);
  PoseLine parsed;
  if (event == "posing") {
    parsed = ReadPosing(reader);
  } else if (event == "failed") {
    parsed = ReadFailed(reader);
  } else if (event == "done" && !object->contains("photographs")) {
    parsed =
        PoseTools{reader.Text("colmap", Need::kRequired), reader.Text("ffmpeg", Need::kOptional)};
  }
  return reader.status().ok() ? parsed : PoseLine();
}

absl::StatusOr<PoseReportFile> ParsePoseReport(std::string_view text) {
  NERF_ASSIGN_OR_RETURN(const nlohmann::json object, ParseJsonObject(text));
  KeyReader reader(object);
  PoseReportFile report;
  report.photographs = reader.Count("photographs", Need::kRequired);
  report.usable = reader.Count("usable", Need::kRequired);
  report.posed = reader.Count("posed", Need::kRequired);
  report.points = reader.Count("points", Need::kOptional);
  report.reprojection_error =
      reader.Number("reprojection_error_pixels", Need::kOptional).value_or(0);
  report.parallax = reader.Number("parallax_degrees", Need::kOptional).value_or(0);
  report.warnings = reader.Texts("warnings");
  report.again = reader.Texts("again");
  reader.Objects("photos", [&](KeyReader& inner) {
    PosedPhoto photo;
    photo.name = inner.Text("name", Need::kRequired);
    photo.file = inner.Text("file", Need::kOptional);
    photo.posed = inner.Flag("posed", Need::kRequired).value_or(false);
    photo.reason = inner.Text("reason", Need::kOptional);
    photo.words = inner.Text("words", Need::kOptional);
    report.photos.push_back(std::move(photo));
  });
  NERF_RETURN_IF_ERROR(reader.status());
  return report;
}

}  // namespace nerf::protocol
