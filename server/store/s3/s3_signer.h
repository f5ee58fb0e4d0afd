#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"

namespace nerf {

struct S3Keys {
  std::string access_key, secret_key;
  std::string session_token = {};  // of temporary keys; may be empty
};

// What is signed of a request.
struct S3Request {
  std::string method;                               // "PUT"
  std::string host;                                 // as in the header: "s3.example.com:9000"
  std::string path;                                 // "/bucket/blobs/0a", not encoded
  std::map<std::string, std::string> query = {};    // not encoded
  std::map<std::string, std::string> headers = {};  // others that are sent, names in small letters
  std::string payload_sha256 = {};                  // of the body, in 64 hexadecimal digits
};

// AWS Signature Version 4 of a request
// (https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html). Returns its
// header lines, those of `headers` and the signature. The signatures of libcurl 7.88
// (CURLOPT_AWS_SIGV4) are refused by Swift.
std::vector<std::string> SignedHeaders(const S3Request& request, const S3Keys& keys,
                                       std::string_view region, absl::Time now);

// The query of a URL that makes the request without a key for so long, with any body
// (https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html).
std::string SignedQuery(const S3Request& request, const S3Keys& keys, std::string_view region,
                        absl::Time now, absl::Duration lifetime);

// The path and query as they are sent and signed.
std::string EncodedPath(std::string_view path);
std::string EncodedQuery(const std::map<std::string, std::string>& query);

}  // namespace nerf
