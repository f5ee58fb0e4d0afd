#include "server/web/static_files.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "common/files/sha256.h"

namespace nerf {
namespace {

struct PageFileType {
  std::string_view extension;
  std::string_view type;
};

constexpr std::array kPageFileTypes = {
    PageFileType{".html", "text/html; charset=utf-8"},
    PageFileType{".js", "text/javascript; charset=utf-8"},
    PageFileType{".css", "text/css; charset=utf-8"},
    PageFileType{".svg", "image/svg+xml"},
};

// blob: and data: allow images that the page makes itself. Styles set by scripts need no exception,
// because they are no `style` attributes.
constexpr char kContentSecurityPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "media-src 'self' blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

std::string_view TypeOf(std::string_view name) {
  const auto found =
      std::find_if(kPageFileTypes.begin(), kPageFileTypes.end(),
                   [&](const PageFileType& row) { return name.ends_with(row.extension); });
  return found == kPageFileTypes.end() ? "application/octet-stream" : found->type;
}

const EmbeddedFile* Find(std::string_view path) {
  const std::string_view name = path == "/" ? "index.html" : path.substr(1);
  const auto files = EmbeddedFiles();
  const auto found = std::find_if(files.begin(), files.end(),
                                  [&](const EmbeddedFile& file) { return file.name == name; });
  return found == files.end() ? nullptr : &*found;
}

// The files are compiled in, so each digest is computed once.
const std::string& ETagOf(const EmbeddedFile& file) {
  static const std::map<std::string_view, std::string>* const etags = [] {
    auto* made = new std::map<std::string_view, std::string>();
    for (const EmbeddedFile& each : EmbeddedFiles()) {
      (*made)[each.name] = '"' + Sha256Hex(each.bytes).substr(0, 32) + '"';
    }
    return made;
  }();
  return etags->at(file.name);
}

}  // namespace

std::optional<HttpResponse> StaticResponse(const HttpRequestHead& head) {
  const EmbeddedFile* const file = Find(head.path);
  if (file == nullptr) return std::nullopt;
  HttpResponse response{.headers = {{"Content-Type", std::string(TypeOf(file->name))},
                                    {"Content-Security-Policy", kContentSecurityPolicy},
                                    {"Cross-Origin-Opener-Policy", "same-origin"},
                                    // The browser asks each time; an unchanged file is not sent
                                    // again.
                                    {"Cache-Control", "no-cache"},
                                    {"ETag", ETagOf(*file)}}};
  if (head.Header("if-none-match") == ETagOf(*file)) {
    response.status = 304;
  } else {
    response.body = std::string(file->bytes);
  }
  return response;
}

}  // namespace nerf
