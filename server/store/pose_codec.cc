#include "server/store/pose_codec.h"

#include "server/store/record_parts.h"

namespace nerf {

std::string EncodePose(const PoseSpec& pose) {
  RecordWriter writer;
  writer.PutList("files", EncodeFiles(pose.files));
  writer.PutNumber("has_films", pose.has_films ? 1 : 0);
  writer.Put("scene", pose.scene);
  writer.PutDouble("min_posed", pose.min_posed);
  writer.PutNumber("film_frames", pose.film_frames);
  if (pose.HasOptions()) {
    writer.Put("into", pose.into);
    writer.PutNumber("camera", static_cast<uint64_t>(pose.camera));
    writer.PutDouble("mask_below", pose.mask_below);
  }
  return writer.Finish();
}

absl::Status DecodePose(std::string_view record, PoseSpec* pose) {
  RecordReader reader(record);
  DecodeFiles(reader, "files", &pose->files);
  pose->has_films = reader.GetNumber<uint32_t>("has_films") != 0;
  pose->scene = reader.Get("scene");
  pose->min_posed = reader.GetDouble("min_posed");
  pose->film_frames = reader.GetNumber<uint32_t>("film_frames");
  pose->into = reader.Get("into");
  const auto camera = reader.GetNumber<uint32_t>("camera");
  if (camera > static_cast<uint32_t>(PoseCamera::kEquirectangular)) reader.Fail("camera");
  pose->camera = static_cast<PoseCamera>(camera);
  pose->mask_below = reader.GetDouble("mask_below");
  return reader.status();
}

std::string EncodePoseResult(const PoseResult& result) {
  RecordWriter writer;
  writer.PutNumber("photographs", result.photographs);
  writer.PutNumber("usable", result.usable);
  writer.PutNumber("posed", result.posed);
  writer.PutNumber("points", result.points);
  writer.PutDouble("reprojection_error", result.reprojection_error);
  writer.PutDouble("parallax", result.parallax);
  writer.PutList("warnings", result.warnings);
  writer.PutList("again", result.again);
  if (result.json.has_value()) PutBlob(writer, "json", *result.json);
  if (result.text.has_value()) PutBlob(writer, "text", *result.text);
  if (result.picture.has_value()) PutBlob(writer, "picture", *result.picture);
  return writer.Finish();
}

absl::Status DecodePoseResult(std::string_view record, PoseResult* result) {
  RecordReader reader(record);
  result->photographs = reader.GetNumber<uint32_t>("photographs");
  result->usable = reader.GetNumber<uint32_t>("usable");
  result->posed = reader.GetNumber<uint32_t>("posed");
  result->points = reader.GetNumber<uint32_t>("points");
  result->reprojection_error = reader.GetDouble("reprojection_error");
  result->parallax = reader.GetDouble("parallax");
  result->warnings = reader.GetList("warnings");
  result->again = reader.GetList("again");
  if (reader.Has("json.sha256")) result->json = GetBlob(reader, "json");
  if (reader.Has("text.sha256")) result->text = GetBlob(reader, "text");
  if (reader.Has("picture.sha256")) result->picture = GetBlob(reader, "picture");
  return reader.status();
}

void PutPoseStage(RecordWriter& writer, const PoseStage& pose) {
  if (pose == PoseStage()) return;
  writer.PutNumber("pose.stage", pose.stage);
  writer.PutNumber("pose.stages", pose.stages);
  writer.Put("pose.doing", pose.doing);
  writer.PutNumber("pose.done", pose.done);
  writer.PutNumber("pose.of", pose.of);
  writer.PutDouble("pose.seconds", pose.seconds);
  writer.PutDouble("pose.eta_seconds", pose.eta_seconds);
  writer.PutDouble("pose.matches_per_second", pose.matches_per_second);
}

void GetPoseStage(RecordReader& reader, PoseStage* pose) {
  pose->stage = reader.GetNumber<uint32_t>("pose.stage");
  pose->stages = reader.GetNumber<uint32_t>("pose.stages");
  pose->doing = reader.Get("pose.doing");
  pose->done = reader.GetNumber<uint32_t>("pose.done");
  pose->of = reader.GetNumber<uint32_t>("pose.of");
  pose->seconds = reader.GetDouble("pose.seconds");
  pose->eta_seconds = reader.GetDouble("pose.eta_seconds");
  pose->matches_per_second = reader.GetDouble("pose.matches_per_second");
}

}  // namespace nerf
