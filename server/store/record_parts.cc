#include "server/store/record_parts.h"

#include <utility>

namespace nerf {

void PutBlob(RecordWriter& writer, const std::string& key, const BlobRef& blob) {
  writer.Put(key + ".sha256", blob.sha256);
  writer.PutNumber(key + ".size", blob.byte_size);
}

BlobRef GetBlob(RecordReader& reader, const std::string& key) {
  return {reader.Get(key + ".sha256"), reader.GetNumber<uint64_t>(key + ".size")};
}

std::vector<std::string> EncodeFiles(const std::vector<SceneFileRecord>& files) {
  std::vector<std::string> strings;
  for (const SceneFileRecord& file : files) {
    strings.insert(strings.end(),
                   {file.path, file.blob.sha256, std::to_string(file.blob.byte_size)});
  }
  return strings;
}

void DecodeFiles(RecordReader& reader, std::string_view key, std::vector<SceneFileRecord>* files) {
  std::vector<std::string> strings = reader.GetList(key);
  for (size_t i = 0; i + 2 < strings.size(); i += 3) {
    SceneFileRecord file{std::move(strings[i]), {std::move(strings[i + 1]), 0}};
    if (!ParseNumber(strings[i + 2], &file.blob.byte_size)) reader.Fail(key);
    files->push_back(std::move(file));
  }
}

}  // namespace nerf
