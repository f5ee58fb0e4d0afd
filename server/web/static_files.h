#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "server/web/http_exchange.h"

namespace nerf {

// A file of web/dist, compiled in.
struct EmbeddedFile {
  std::string_view name;
  std::string_view bytes;
};

// Defined by the source that cmake/NerfEmbed.cmake writes.
std::span<const EmbeddedFile> EmbeddedFiles();

// The response to GET or HEAD of the page or one of its files; nullopt for other paths. The page
// may load nothing from other sites, and no other site may frame it.
std::optional<HttpResponse> StaticResponse(const HttpRequestHead& head);

}  // namespace nerf
