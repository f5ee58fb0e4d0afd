#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace nerf {

// Frames of gRPC-Web and of Connect's streams: one byte of flags, four of length (big endian), then
// the payload.
inline constexpr size_t kEnvelopeHeaderBytes = 5;
inline constexpr uint8_t kCompressedFlag = 0x01;
inline constexpr uint8_t kConnectEndFlag = 0x02;
inline constexpr uint8_t kGrpcWebTrailerFlag = 0x80;

std::string Envelope(uint8_t flags, std::string_view payload);

// The payload of a body that is exactly one frame without flags; a view into `body`. Errors:
// InvalidArgument for a body that is cut, empty or holds more; Unimplemented for a compressed
// frame.
absl::StatusOr<std::string_view> SoleEnvelope(std::string_view body);

// Decodes base64, which may be a sequence of padded pieces, as gRPC-Web's text form allows.
// InvalidArgument for anything else.
absl::StatusOr<std::string> DecodeBase64Pieces(std::string_view text);

}  // namespace nerf
