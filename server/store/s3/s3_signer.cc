#include "server/store/s3/s3_signer.h"

#include <fmt/format.h>

#include "common/files/sha256.h"
#include "common/hmac.h"

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

namespace {

std::string TimeText(absl::Time now) {
  return absl::FormatTime("%Y%m%dT%H%M%SZ", now, absl::UTCTimeZone());
}

std::string ScopeOf(absl::Time now, std::string_view region) {
  return fmt::format("{}/{}/s3/aws4_request", TimeText(now).substr(0, 8), region);
}

std::string NamesOf(const std::map<std::string, std::string>& headers) {
  std::string names;
  for (const auto& [name, value] : headers) names += (names.empty() ? "" : ";") + name;
  return names;
}

// Of a request whose headers are all signed, "host" among them.
std::string SignatureOf(const S3Request& request, const S3Keys& keys, std::string_view region,
                        absl::Time now) {
  std::string canonical_headers;
  for (const auto& [name, value] : request.headers) {
    canonical_headers += fmt::format("{}:{}\n", name, value);
  }
  const std::string canonical =
      fmt::format("{}\n{}\n{}\n{}\n{}\n{}", request.method, EncodedPath(request.path),
                  EncodedQuery(request.query), canonical_headers, NamesOf(request.headers),
                  request.payload_sha256);
  const std::string time = TimeText(now);
  const std::string to_sign =
      fmt::format("AWS4-HMAC-SHA256\n{}\n{}\n{}", time, ScopeOf(now, region), Sha256Hex(canonical));
  std::string key = "AWS4" + keys.secret_key;
  for (const std::string_view part : {std::string_view(time).substr(0, 8), region,
                                      std::string_view("s3"), std::string_view("aws4_request")}) {
    key = HmacSha256(key, part);
  }
  return Hex(HmacSha256(key, to_sign));
}

}  // namespace

std::vector<std::string> SignedHeaders(const S3Request& request, const S3Keys& keys,
                                       std::string_view region, absl::Time now) {
  S3Request signed_request = request;
  std::map<std::string, std::string>& headers = signed_request.headers;
  headers["x-amz-date"] = TimeText(now);
  headers["x-amz-content-sha256"] = request.payload_sha256;
  if (!keys.session_token.empty()) headers["x-amz-security-token"] = keys.session_token;
  std::vector<std::string> lines;
  for (const auto& [name, value] : headers) lines.push_back(name + ": " + value);
  headers["host"] = request.host;  // libcurl sends it
  lines.push_back(
      fmt::format("Authorization: AWS4-HMAC-SHA256 "
                  "Credential={}/{},SignedHeaders={},Signature={}",
                  keys.access_key, ScopeOf(now, region), NamesOf(headers),
                  SignatureOf(signed_request, keys, region, now)));
  return lines;
}

std::string SignedQuery(const S3Request& request, const S3Keys& keys, std::string_view region,
                        absl::Time now, absl::Duration lifetime) {
  S3Request signed_request = request;
  signed_request.headers["host"] = request.host;
  signed_request.payload_sha256 = "UNSIGNED-PAYLOAD";
  std::map<std::string, std::string>& query = signed_request.query;
  query["X-Amz-Algorithm"] = "AWS4-HMAC-SHA256";
  query["X-Amz-Credential"] = keys.access_key + "/" + ScopeOf(now, region);
  query["X-Amz-Date"] = TimeText(now);
  query["X-Amz-Expires"] = fmt::format("{}", absl::ToInt64Seconds(lifetime));
  query["X-Amz-SignedHeaders"] = NamesOf(signed_request.headers);
  if (!keys.session_token.empty()) query["X-Amz-Security-Token"] = keys.session_token;
  const std::string signature = SignatureOf(signed_request, keys, region, now);
  return EncodedQuery(query) + "&X-Amz-Signature=" + signature;
}

}  // namespace nerf
