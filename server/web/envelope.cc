#include "server/web/envelope.h"

#include <array>

#include "absl/strings/str_cat.h"

namespace nerf {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<int8_t, 256> MakeSextets() {
  std::array<int8_t, 256> sextets{};
  for (int8_t& sextet : sextets) sextet = -1;
  for (size_t i = 0; i < kAlphabet.size(); ++i) {
    sextets[static_cast<unsigned char>(kAlphabet[i])] = static_cast<int8_t>(i);
  }
  return sextets;
}
constexpr std::array<int8_t, 256> kSextets = MakeSextets();

}  // namespace

std::string Envelope(uint8_t flags, std::string_view payload) {
  std::string frame;
  frame.reserve(kEnvelopeHeaderBytes + payload.size());
  frame += static_cast<char>(flags);
  for (int shift = 24; shift >= 0; shift -= 8) {
    frame += static_cast<char>((payload.size() >> shift) & 0xff);
  }
  frame += payload;
  return frame;
}

absl::StatusOr<std::string_view> SoleEnvelope(std::string_view body) {
  if (body.size() < kEnvelopeHeaderBytes) {
    return absl::InvalidArgumentError(
        "the body is cut: a frame begins with 5 bytes of flags and length");
  }
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(body[i]); };
  if ((byte(0) & kCompressedFlag) != 0) {
    return absl::UnimplementedError("compressed messages are not supported");
  }
  if (byte(0) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a request's frame must have the flags 0, not ", byte(0)));
  }
  const size_t length =
      size_t{byte(1)} << 24 | size_t{byte(2)} << 16 | size_t{byte(3)} << 8 | size_t{byte(4)};
  const size_t n_present = body.size() - kEnvelopeHeaderBytes;
  if (length > n_present) {
    return absl::InvalidArgumentError(absl::StrCat("the body is cut: its frame states ", length,
                                                   " bytes, ", n_present, " follow"));
  }
  if (length < n_present) {
    return absl::InvalidArgumentError("the body holds more than one message");
  }
  return body.substr(kEnvelopeHeaderBytes);
}

absl::StatusOr<std::string> DecodeBase64Pieces(std::string_view text) {
  const absl::Status bad = absl::InvalidArgumentError("the body is not base64");
  if (text.size() % 4 != 0) return bad;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (size_t i = 0; i < text.size(); i += 4) {
    const std::string_view quad = text.substr(i, 4);
    const size_t n_padding = quad[3] != '=' ? 0 : quad[2] != '=' ? 1 : 2;
    uint32_t bits = 0;
    for (size_t j = 0; j < 4 - n_padding; ++j) {
      const int8_t sextet = kSextets[static_cast<unsigned char>(quad[j])];
      if (sextet < 0) return bad;
      bits |= static_cast<uint32_t>(sextet) << (18 - 6 * j);
    }
    for (size_t j = 0; j < 3 - n_padding; ++j) {
      bytes += static_cast<char>((bits >> (16 - 8 * j)) & 0xff);
    }
  }
  return bytes;
}

}  // namespace nerf
