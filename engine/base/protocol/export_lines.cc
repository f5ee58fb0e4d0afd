#include "engine/base/protocol/export_lines.h"

#include "engine/base/protocol/failed_line.h"
#include "engine/base/protocol/json.h"
#include "engine/base/protocol/key_reader.h"

namespace nerf::protocol {

ExportLine ParseExportLine(std::string_view line) {
  if (!line.starts_with('{')) return {};
  const absl::StatusOr<nlohmann::json> object = ParseJsonObject(line);
  if (!object.ok()) return {};
  KeyReader reader(*object);
  const std::string event = reader.Text("event", Need::kRequired);
  ExportLine parsed;
  if (event == "exporting") {
    parsed = Exporting{reader.Text("step", Need::kRequired),
                       reader.Number("share", Need::kRequired, 0, 1).value_or(0)};
  } else if (event == "size") {
    parsed = ExportBytes{reader.Number("bytes", Need::kRequired, 0).value_or(0),
                         reader.Flag("at_most", Need::kRequired).value_or(false)};
  } else if (event == "failed") {
    parsed = ReadFailed(reader);
  } else if (event == "done") {
    ExportDone done;
    done.file = reader.Text("file", Need::kRequired);
    done.vertices = reader.Count("vertices", Need::kOptional);
    done.triangles = reader.Count("triangles", Need::kOptional);
    done.axes = reader.Text("axes", Need::kOptional);
    done.words = reader.Text("words", Need::kOptional);
    done.seconds = reader.Number("seconds", Need::kOptional, 0).value_or(0);
    parsed = done;
  }
  return reader.status().ok() ? parsed : ExportLine();
}

}  // namespace nerf::protocol
