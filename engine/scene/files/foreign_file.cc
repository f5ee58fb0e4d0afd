#include "engine/scene/files/foreign_file.h"

#include <utility>

namespace nerf {

std::string ForeignFileKind(std::string_view head) {
  using std::string_view_literals::operator""sv;
  static constexpr std::pair<std::string_view, const char*> kKinds[] = {
      {"II*\0"sv, "a TIFF"},
      {"MM\0*"sv, "a TIFF"},
      {"II+\0"sv, "a BigTIFF"},
      {"\x76\x2f\x31\x01"sv, "an OpenEXR file"},
      {"#?RADIANCE"sv, "a Radiance HDR picture"},
      {"PF\n"sv, "a PFM file"},
      {"Pf\n"sv, "a PFM file"},
      {"P5\n"sv, "a PGM picture"},
      {"P6\n"sv, "a PPM picture"},
      {"PK\3\4"sv, "a ZIP archive, such as .npz"},
      {"\x1f\x8b"sv, "a gzip archive"},
      {"GIF8"sv, "a GIF"},
      {"BM"sv, "a BMP"},
      {"\0\0\0\xcjP  "sv, "a JPEG 2000"},
      {"\xff\x4f\xff\x51"sv, "a JPEG 2000"},
      {"\0\0\0\xcJXL "sv, "a JPEG XL"},
      {"\xff\x0a"sv, "a JPEG XL"},
      {"8BPS"sv, "a Photoshop file"},
      {"%PDF"sv, "a PDF"},
      {"<!DOCTYPE"sv, "a web page, as of a download that failed"},
      {"<!doctype"sv, "a web page, as of a download that failed"},
      {"<html"sv, "a web page, as of a download that failed"},
      {"version http"sv, "a pointer of Git LFS: get the file itself by `git lfs pull`"},
  };
  for (const auto& [magic, kind] : kKinds) {
    if (head.substr(0, magic.size()) == magic) return kind;
  }
  return "";
}

}  // namespace nerf
