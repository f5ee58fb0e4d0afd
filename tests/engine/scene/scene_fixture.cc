#include "tests/engine/scene/scene_fixture.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace nerf {
namespace {

std::string BigEndian(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
  return bytes;
}

uint32_t Crc32(std::string_view bytes) {
  uint32_t crc = 0xffffffffu;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0xedb88320u : 0);
  }
  return ~crc;
}

std::string StoredZlib(std::string_view content) {
  std::string stream = "\x78\x01";
  size_t start = 0;
  do {
    const size_t size = std::min<size_t>(65535, content.size() - start);
    const bool is_last = start + size == content.size();
    stream += is_last ? '\1' : '\0';
    stream += static_cast<char>(size & 0xff);
    stream += static_cast<char>(size >> 8);
    stream += static_cast<char>(~size & 0xff);
    stream += static_cast<char>((~size >> 8) & 0xff);
    stream += content.substr(start, size);
    start += size;
  } while (start < content.size());
  uint32_t a = 1, b = 0;
  for (const char c : content) {
    a = (a + static_cast<unsigned char>(c)) % 65521;
    b = (b + a) % 65521;
  }
  return stream + BigEndian((b << 16) | a);
}

}  // namespace

TempFolder::TempFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "nerf_scene_XXXXXX").string();
  root_ = mkdtemp(pattern.data());
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(root_, ignored);
}

void TempFolder::Write(std::string_view name, std::string_view bytes) const {
  const std::filesystem::path path = root_ / name;
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string ReadFile(const std::string& path) {
  std::ostringstream content;
  content << std::ifstream(path, std::ios::binary).rdbuf();
  return content.str();
}

ImageU8 MakeImage(int width, int height, int n_channels) {
  ImageU8 image{width, height, n_channels, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < n_channels; ++c) {
        image.pixels.push_back(static_cast<uint8_t>((x * (3 + c) + y * (5 - c) + 40 * c) & 0xff));
      }
    }
  }
  return image;
}

std::string MakePng(int width, int height, int n_channels) {
  return EncodePng(MakeImage(width, height, n_channels)).value();
}

std::string MakeJpeg(int width, int height) {
  return EncodeJpeg(MakeImage(width, height, 3)).value();
}

std::string PngChunk(std::string_view type, std::string_view content) {
  const std::string body = std::string(type) + std::string(content);
  return BigEndian(static_cast<uint32_t>(content.size())) + body + BigEndian(Crc32(body));
}

std::string RawPng(uint32_t width, uint32_t height, int bit_depth, int color_type,
                   std::string_view chunks_before, std::string_view rows) {
  std::string header = BigEndian(width) + BigEndian(height);
  header += static_cast<char>(bit_depth);
  header += static_cast<char>(color_type);
  header += std::string(3, '\0');
  return "\x89PNG\r\n\x1a\n" + PngChunk("IHDR", header) + std::string(chunks_before) +
         PngChunk("IDAT", StoredZlib(rows)) + PngChunk("IEND", "");
}

std::string MatrixJson(double x, double y, double z) {
  return absl::StrFormat("[[1,0,0,%g],[0,1,0,%g],[0,0,1,%g],[0,0,0,1]]", x, y, z);
}

std::string FrameJson(std::string_view file, double x, double y, double z, std::string_view more) {
  return absl::StrCat("{\"file_path\":\"", std::string(file),
                      "\",\"transform_matrix\":", MatrixJson(x, y, z), std::string(more), "}");
}

std::optional<std::string> TestData(std::string_view name) {
  const char* root = std::getenv("NERF_TEST_DATA");
  if (root == nullptr) return std::nullopt;
  const std::filesystem::path path = std::filesystem::path(root) / name;
  if (!std::filesystem::exists(path)) return std::nullopt;
  return path.string();
}

}  // namespace nerf
