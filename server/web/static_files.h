#pragma once

#include <optional>
#include <span>

#include "common/files/embedded_file.h"
#include "server/web/http_exchange.h"

namespace nerf {

// The files of the page, of web/dist. Defined by the source that cmake/NerfEmbed.cmake writes.
std::span<const EmbeddedFile> EmbeddedFiles();

// The response to GET or HEAD of the page or one of its files; nullopt for other paths. The page
// may load nothing from other sites, and no other site may frame it.
std::optional<HttpResponse> StaticResponse(const HttpRequestHead& head);

}  // namespace nerf
