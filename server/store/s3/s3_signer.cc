#include "server/store/s3/s3_signer.h"

#include <fmt/format.h>

#include "common/hmac.h"
#include "common/sha256.h"

namespace nerf {
namespace {

// All but the characters that RFC 3986 calls unreserved, and those of `kept`.
std::string Encoded(std::string_view text, std::string_view kept) {
  constexpr std::string_view kUnreserved =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  std::string encoded;
  for (const char c : text) {
    const bool stays =
        kUnreserved.find(c) != std::string_view::npos || kept.find(c) != std::string_view::npos;
    if (stays) {
      encoded += c;
    } else {
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

std::string Hex(std::string_view bytes) {
  std::string hex;
  for (const char c : bytes) hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return hex;
}

}  // namespace

std::string EncodedPath(std::string_view path) { return Encoded(path, "/"); }

std::string EncodedQuery(const std::map<std::string, std::string>& query) {
  std::string text;
  for (const auto& [name, value] : query) {
    text += fmt::format("{}{}={}", text.empty() ? "" : "&", Encoded(name, ""), Encoded(value, ""));
  }
  return text;
}

std::vector<std::string> SignedHeaders(const S3Request& request, const S3Keys& keys,
                                       std::string_view region, absl::Time now) {
  const std::string time = absl::FormatTime("%Y%m%dT%H%M%SZ", now, absl::UTCTimeZone());
  const std::string day = time.substr(0, 8);
  std::map<std::string, std::string> headers = request.headers;
  headers["x-amz-date"] = time;
  headers["x-amz-content-sha256"] = request.payload_sha256;
  if (!keys.session_token.empty()) headers["x-amz-security-token"] = keys.session_token;
  std::vector<std::string> lines;
  for (const auto& [name, value] : headers) lines.push_back(name + ": " + value);
  headers["host"] = request.host;  // libcurl sends it

  std::string canonical_headers, names;
  for (const auto& [name, value] : headers) {
    canonical_headers += fmt::format("{}:{}\n", name, value);
    names += (names.empty() ? "" : ";") + name;
  }
  const std::string canonical =
      fmt::format("{}\n{}\n{}\n{}\n{}\n{}", request.method, EncodedPath(request.path),
                  EncodedQuery(request.query), canonical_headers, names, request.payload_sha256);
  const std::string scope = fmt::format("{}/{}/s3/aws4_request", day, region);
  const std::string to_sign =
      fmt::format("AWS4-HMAC-SHA256\n{}\n{}\n{}", time, scope, Sha256Hex(canonical));
  std::string key = "AWS4" + keys.secret_key;
  for (const std::string_view part :
       {std::string_view(day), region, std::string_view("s3"), std::string_view("aws4_request")}) {
    key = HmacSha256(key, part);
  }
  lines.push_back(
      fmt::format("Authorization: AWS4-HMAC-SHA256 "
                  "Credential={}/{},SignedHeaders={},Signature={}",
                  keys.access_key, scope, names, Hex(HmacSha256(key, to_sign))));
  return lines;
}

}  // namespace nerf
