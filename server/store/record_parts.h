#pragma once

#include <charconv>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "server/queue/resources/blob_ref.h"
#include "server/queue/resources/scene_record.h"
#include "server/store/record_io.h"

namespace nerf {

// Values that several records have.

void PutBlob(RecordWriter& writer, const std::string& key, const BlobRef& blob);
BlobRef GetBlob(RecordReader& reader, const std::string& key);

// False unless all of `text` is a number.
template <typename Number>
bool ParseNumber(std::string_view text, Number* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

// Path, digest and size of each file in turn.
std::vector<std::string> EncodeFiles(const std::vector<SceneFileRecord>& files);
void DecodeFiles(RecordReader& reader, std::string_view key, std::vector<SceneFileRecord>* files);

}  // namespace nerf
