#pragma once

namespace nerf {

// Lets this program decode HEIC, AVIF (libheif) and WebP (libwebp) pictures. Call it before threads
// are started. Only the engine, which runs in a sandbox, does: the decoders are large.
void RegisterPhonePictures();

}  // namespace nerf
