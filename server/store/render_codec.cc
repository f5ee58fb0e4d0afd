#include "server/store/render_codec.h"

#include <utility>
#include <vector>

#include "server/store/export_codec.h"
#include "server/store/record_parts.h"

namespace nerf {

std::string EncodeRender(const RenderSpec& render) {
  RecordWriter writer;
  PutModelSource(writer, render);
  writer.Put("request", render.request);
  writer.PutNumber("frames", render.n_frames);
  writer.PutNumber("channels", render.n_channels);
  writer.PutNumber("images", render.images ? 1 : 0);
  writer.PutNumber("movie", render.movie ? 1 : 0);
  return writer.Finish();
}

absl::Status DecodeRender(std::string_view record, RenderSpec* render) {
  RecordReader reader(record);
  GetModelSource(reader, render);
  render->request = reader.Get("request");
  render->n_frames = reader.GetNumber<uint32_t>("frames");
  render->n_channels = reader.GetNumber<uint32_t>("channels");
  render->images = reader.GetNumber<uint32_t>("images") != 0;
  render->movie = reader.GetNumber<uint32_t>("movie") != 0;
  if (render->n_frames > kMaxFrames) reader.Fail("frames");
  return reader.status();
}

void PutRenderWork(RecordWriter& writer, const RenderWork& work) {
  std::vector<std::string> parts, frames;
  for (const RenderPart& part : work.parts) {
    parts.insert(parts.end(), {part.worker, std::to_string(part.epoch), part.done ? "1" : "0"});
  }
  for (size_t i = 0; i < work.frames.size(); ++i) {
    if (work.frames[i].images.empty()) continue;
    RecordWriter frame;
    frame.PutNumber("index", i);
    frame.PutDouble("far", work.frames[i].far);
    std::vector<std::string> images;
    for (const BlobRef& image : work.frames[i].images) {
      images.insert(images.end(), {image.sha256, std::to_string(image.byte_size)});
    }
    frame.PutList("images", images);
    frames.push_back(frame.Finish());
  }
  writer.PutList("parts", parts);
  writer.PutList("frames", frames);
  writer.PutNumber("has_frames", work.frames.empty() ? 0 : 1);
  if (work.movie.has_value()) PutBlob(writer, "movie", *work.movie);
}

void GetRenderWork(RecordReader& reader, const RenderSpec& render, RenderWork* work) {
  const std::vector<std::string> parts = reader.GetList("parts");
  for (size_t i = 0; i + 2 < parts.size(); i += 3) {
    RenderPart part{parts[i], 0, parts[i + 2] == "1"};
    if (!ParseNumber(parts[i + 1], &part.epoch)) reader.Fail("parts");
    work->parts.push_back(std::move(part));
  }
  if (reader.GetNumber<uint32_t>("has_frames") != 0) work->frames.resize(render.n_frames);
  for (const std::string& record : reader.GetList("frames")) {
    RecordReader frame(record);
    const auto index = frame.GetNumber<uint32_t>("index");
    if (index >= work->frames.size()) return reader.Fail("frames");
    work->frames[index].far = frame.GetDouble("far");
    const std::vector<std::string> images = frame.GetList("images");
    for (size_t i = 0; i + 1 < images.size(); i += 2) {
      BlobRef image{images[i], 0};
      if (!ParseNumber(images[i + 1], &image.byte_size)) reader.Fail("frames");
      work->frames[index].images.push_back(std::move(image));
    }
    reader.Take(frame.status());
  }
  if (reader.Has("movie.sha256")) work->movie = GetBlob(reader, "movie");
}

}  // namespace nerf
