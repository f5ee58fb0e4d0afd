#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/scene/pictures/image_io.h"
#include "tests/testing/paths.h"

// Small data sets on disk, well-formed unless a test breaks them.
namespace nerf {

inline const std::string kMic = SourceDir() + "/examples/mic";

// A folder of its own for one test, removed at the end.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string path() const { return root_.string(); }
  std::string PathOf(std::string_view name) const { return (root_ / name).string(); }
  // Makes the folders on the way.
  void Write(std::string_view name, std::string_view bytes) const;

 private:
  std::filesystem::path root_;
};

std::string ReadFile(const std::string& path);

// A smooth test picture.
ImageU8 MakeImage(int width, int height, int n_channels);
std::string MakePng(int width, int height, int n_channels = 3);
std::string MakeJpeg(int width, int height);

// One PNG chunk with its checksum; a PNG from IHDR fields, extra chunks and raw (filtered) rows in
// stored deflate blocks.
std::string PngChunk(std::string_view type, std::string_view content);
std::string RawPng(uint32_t width, uint32_t height, int bit_depth, int color_type,
                   std::string_view chunks_before, std::string_view rows);

// "[[1,0,0,x],[0,1,0,y],[0,0,1,z],[0,0,0,1]]"
std::string MatrixJson(double x, double y, double z);
// {"file_path": ..., "transform_matrix": ...<more>}
std::string FrameJson(std::string_view file, double x, double y, double z,
                      std::string_view more = "");

// Little-endian bytes of plain values, one after the other.
template <typename... T>
std::string Bytes(const T&... values) {
  std::string bytes;
  (bytes.append(reinterpret_cast<const char*>(&values), sizeof(values)), ...);
  return bytes;
}

// NERF_TEST_DATA/name, when that is set and holds it.
std::optional<std::string> TestData(std::string_view name);

}  // namespace nerf
