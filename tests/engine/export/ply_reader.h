#pragma once

#include <cstring>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace nerf {

// A PLY file as written here: vertices by property, and the corners of triangles. Empty properties
// where the file is not what its header says.
struct PlyFile {
  size_t n_vertices = 0;
  std::map<std::string, std::vector<double>> properties;
  std::vector<uint32_t> corners;
};

inline PlyFile ReadPly(const std::string& bytes) {
  PlyFile file;
  const size_t end = bytes.find("end_header\n");
  if (!bytes.starts_with("ply\nformat binary_little_endian 1.0\n") || end == std::string::npos) {
    return {};
  }
  std::istringstream header(bytes.substr(0, end));
  std::vector<std::pair<std::string, std::string>> columns;  // type, name
  size_t n_faces = 0;
  for (std::string word; header >> word;) {
    std::string name, type;
    if (word == "element") {
      header >> name;
      header >> (name == "vertex" ? file.n_vertices : n_faces);
    } else if (word == "property") {
      header >> type >> name;
      if (type != "list") columns.emplace_back(type, name);
    }
  }
  size_t at = end + strlen("end_header\n");
  const auto take = [&](auto number) {
    if (at + sizeof(number) <= bytes.size())
      std::memcpy(&number, bytes.data() + at, sizeof(number));
    at += sizeof(number);
    return number;
  };
  for (size_t i = 0; i < file.n_vertices; ++i) {
    for (const auto& [type, name] : columns) {
      file.properties[name].push_back(type == "float" ? take(float{}) : take(uint8_t{}));
    }
  }
  for (size_t i = 0; i < n_faces; ++i) {
    if (take(uint8_t{}) != 3) return {};
    for (int corner = 0; corner < 3; ++corner) {
      file.corners.push_back(static_cast<uint32_t>(take(int32_t{})));
    }
  }
  return at == bytes.size() ? file : PlyFile();
}

}  // namespace nerf
