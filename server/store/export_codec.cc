#include "server/store/export_codec.h"

#include "server/store/record_parts.h"

namespace nerf {

void PutModelSource(RecordWriter& writer, const ModelSource& model) {
  writer.Put("source", model.from_checkpoint ? "checkpoint" : "model");
  writer.Put("project", model.source.project);
  writer.Put("id", model.source.id);
  if (model.step.has_value()) writer.PutNumber("step", *model.step);
  PutBlob(writer, "model", model.model_blob);
  writer.Put("feature", model.feature);
  writer.Put("capability", model.capability);
  writer.Put("crop", model.crop);
}

void GetModelSource(RecordReader& reader, ModelSource* model) {
  model->from_checkpoint = reader.Get("source") == "checkpoint";
  model->source = {reader.Get("project"), reader.Get("id")};
  if (reader.Has("step")) model->step = reader.GetNumber<uint32_t>("step");
  model->model_blob = GetBlob(reader, "model");
  model->feature = reader.Get("feature");
  model->capability = reader.Get("capability");
  model->crop = reader.Get("crop");
}

std::string EncodeExport(const ExportSpec& spec) {
  RecordWriter writer;
  PutModelSource(writer, spec);
  writer.Put("request", spec.request);
  return writer.Finish();
}

absl::Status DecodeExport(std::string_view record, ExportSpec* spec) {
  RecordReader reader(record);
  GetModelSource(reader, spec);
  spec->request = reader.Get("request");
  return reader.status();
}

std::string EncodeExportResult(const ExportResult& result) {
  RecordWriter writer;
  writer.PutList("files", EncodeFiles(result.files));
  writer.Put("report", result.report);
  return writer.Finish();
}

absl::Status DecodeExportResult(std::string_view record, ExportResult* result) {
  RecordReader reader(record);
  DecodeFiles(reader, "files", &result->files);
  result->report = reader.Get("report");
  return reader.status();
}

}  // namespace nerf
