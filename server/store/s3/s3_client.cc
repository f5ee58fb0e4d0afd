#include "server/store/s3/s3_client.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "common/error_reason.h"
#include "common/files/file_io.h"
#include "common/files/sha256.h"
#include "common/logging.h"
#include "common/sleep.h"
#include "common/status_macros.h"
#include "server/store/s3/s3_xml.h"

namespace nerf {
namespace {

constexpr long kConnectSeconds = 10;
// Within it a transfer has to begin.
constexpr absl::Duration kUrlLifetime = absl::Minutes(15);
constexpr size_t kMaxTextBytes = size_t{8} << 20;  // of a list or an error

absl::Status Unreachable(std::string_view what, std::string_view why) {
  return WithReason(
      absl::UnavailableError(fmt::format("the blob store (S3) cannot {}: {}", what, why)),
      reason::kStoreReadOnly);
}

// What a call of libcurl reads and writes.
struct Transfer {
  std::string_view body;
  size_t n_sent = 0;
  std::string received = {};
  size_t most_bytes = 0;
  std::map<std::string, std::string> headers = {};  // names in small letters
};

size_t TakeBody(char* bytes, size_t, size_t n, void* transfer) {
  auto& to = *static_cast<Transfer*>(transfer);
  if (to.received.size() + n > to.most_bytes) return 0;  // ends the transfer
  to.received.append(bytes, n);
  return n;
}

size_t GiveBody(char* bytes, size_t, size_t n, void* transfer) {
  auto& from = *static_cast<Transfer*>(transfer);
  n = std::min(n, from.body.size() - from.n_sent);
  std::memcpy(bytes, from.body.data() + from.n_sent, n);
  from.n_sent += n;
  return n;
}

size_t TakeHeader(char* bytes, size_t, size_t n, void* transfer) {
  const std::string_view line(bytes, n);
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return n;
  const std::string name = absl::AsciiStrToLower(absl::string_view(line.data(), colon));
  const absl::string_view value = absl::StripAsciiWhitespace(
      absl::string_view(line.data() + colon + 1, line.size() - colon - 1));
  static_cast<Transfer*>(transfer)->headers[name] = std::string(value);
  return n;
}

bool MayPassByItself(CURLcode code) {
  switch (code) {
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_WRITE_ERROR:
      return false;
    default:
      return true;
  }
}

bool MayPassByItself(long status, const std::string& code) {
  return status >= 500 || status == 429 || code == "RequestTimeout" || code == "SlowDown" ||
         code == "RequestTimeTooSkewed";
}

std::string HostOf(const std::string& endpoint) {
  const size_t slashes = endpoint.find("://");
  return slashes == std::string::npos ? endpoint : endpoint.substr(slashes + 3);
}

}  // namespace

struct S3Client::Call {
  std::string what;  // for people: "store blobs/0a"
  std::string method;
  std::string key = {};  // with the prefix; empty: the bucket
  std::map<std::string, std::string> query = {};
  std::map<std::string, std::string> headers = {};
  std::string_view body = {};
  std::string body_sha256 = {};       // computed if it is empty
  size_t most_bytes = kMaxTextBytes;  // of the answer
};

struct S3Client::Reply {
  long status = 0;
  std::string body;
  std::map<std::string, std::string> headers;
};

// Handles of libcurl, each of which keeps connections open for the next one that takes it.
class S3Client::Handles {
 public:
  Handles() { curl_global_init(CURL_GLOBAL_DEFAULT); }
  ~Handles() {
    MutexLock lock(mu_);
    for (CURL* handle : free_) curl_easy_cleanup(handle);
  }
  CURL* Take() {
    MutexLock lock(mu_);
    if (free_.empty()) return curl_easy_init();
    CURL* const handle = free_.back();
    free_.pop_back();
    return handle;
  }
  void Return(CURL* handle) {
    curl_easy_reset(handle);
    MutexLock lock(mu_);
    free_.push_back(handle);
  }

 private:
  Mutex mu_;
  std::vector<CURL*> free_ ABSL_GUARDED_BY(mu_);
};

S3Client::S3Client(S3Options options, const Clock* clock, RandomSource* random)
    : options_(std::move(options)),
      host_(HostOf(options_.endpoint)),
      clock_(*clock),
      random_(*random),
      handles_(std::make_unique<Handles>()) {}

S3Client::~S3Client() = default;

absl::StatusOr<S3Client::Reply> S3Client::SendOnce(const Call& call, bool* may_pass) {
  S3Request request{call.method, host_, fmt::format("/{}", options_.bucket)};
  if (!call.key.empty()) request.path += "/" + call.key;
  request.query = call.query;
  request.headers = call.headers;
  request.payload_sha256 = call.body_sha256.empty() ? Sha256Hex(call.body) : call.body_sha256;
  std::string url = options_.endpoint + EncodedPath(request.path);
  if (!call.query.empty()) url += "?" + EncodedQuery(call.query);

  Transfer transfer{.body = call.body, .most_bytes = call.most_bytes};
  // No "Expect: 100-continue", which costs a second with servers that do not answer it.
  curl_slist* lines = curl_slist_append(nullptr, "Expect:");
  lines = curl_slist_append(lines, "Content-Type:");
  for (const std::string& line :
       SignedHeaders(request, options_.keys, options_.region, clock_.WallNow())) {
    lines = curl_slist_append(lines, line.c_str());
  }
  CURL* const handle = handles_->Take();
  std::array<char, CURL_ERROR_SIZE> words{};
  const auto set = [handle](CURLoption option, auto value) {
    curl_easy_setopt(handle, option, value);
  };
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_PATH_AS_IS, 1L);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_HTTPHEADER, lines);
  set(CURLOPT_ERRORBUFFER, words.data());
  set(CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  set(CURLOPT_LOW_SPEED_LIMIT, 1024L);
  set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(absl::ToInt64Seconds(options_.stall_limit)));
  set(CURLOPT_WRITEFUNCTION, &TakeBody);
  set(CURLOPT_WRITEDATA, &transfer);
  set(CURLOPT_HEADERFUNCTION, &TakeHeader);
  set(CURLOPT_HEADERDATA, &transfer);
  if (call.method == "HEAD") {
    set(CURLOPT_NOBODY, 1L);
  } else if (call.method == "PUT" || call.method == "POST") {
    set(CURLOPT_UPLOAD, 1L);
    set(CURLOPT_CUSTOMREQUEST, call.method.c_str());
    set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(call.body.size()));
    set(CURLOPT_READFUNCTION, &GiveBody);
    set(CURLOPT_READDATA, &transfer);
  } else if (call.method != "GET") {
    set(CURLOPT_CUSTOMREQUEST, call.method.c_str());
  }
  const CURLcode code = curl_easy_perform(handle);
  Reply reply;
  curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &reply.status);
  handles_->Return(handle);
  curl_slist_free_all(lines);
  if (code != CURLE_OK) {
    *may_pass = MayPassByItself(code);
    return Unreachable(call.what, words[0] != '\0' ? words.data() : curl_easy_strerror(code));
  }
  reply.body = std::move(transfer.received);
  reply.headers = std::move(transfer.headers);
  // CompleteMultipartUpload and CopyObject answer 200 before they know.
  const bool is_late_error =
      call.method != "GET" && reply.body.find("<Error>") != std::string::npos;
  if (reply.status < 300 && !is_late_error) return reply;
  const std::string error = XmlText(reply.body, "Code").value_or("");
  *may_pass = MayPassByItself(reply.status, error) || error == "InternalError";
  const std::string said = XmlText(reply.body, "Message").value_or("");
  if (reply.status == 416) return Reply{};  // the object ends before
  if (reply.status == 404 && error != "NoSuchBucket" && error != "NoSuchUpload") {
    return absl::NotFoundError(fmt::format("{} is not in the bucket", call.key));
  }
  return Unreachable(call.what,
                     fmt::format("{} {}{}{}", reply.status, error, said.empty() ? "" : ": ", said));
}

absl::StatusOr<S3Client::Reply> S3Client::Send(const Call& call) {
  absl::Duration bound = options_.first_pause;
  for (int attempt = 1;; ++attempt) {
    bool may_pass = false;
    absl::StatusOr<Reply> reply = SendOnce(call, &may_pass);
    if (reply.ok() || !may_pass || attempt >= options_.max_attempts) return reply;
    std::array<uint8_t, 2> drawn{};
    {
      MutexLock lock(mu_);
      random_.Fill(drawn);
    }
    const absl::Duration pause = bound * ((drawn[0] * 256 + drawn[1]) / 65536.0);
    LogWarning("a request to the blob store failed, trying again",
               {{"error", std::string(reply.status().message())}});
    if (options_.sleep) {
      options_.sleep(pause);
    } else {
      SleepUnlessStopped(pause, {});
    }
    bound = std::min(2 * bound, options_.max_pause);
  }
}

namespace {

absl::StatusOr<std::string> ReadPart(int fd, uint64_t offset, uint64_t n_bytes) {
  std::string part(n_bytes, '\0');
  size_t done = 0;
  while (done < part.size()) {
    const ssize_t n =
        pread(fd, part.data() + done, part.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoToStatus(errno, "read upload");
    if (n == 0) return absl::InternalError("the upload's file has become shorter");
    done += static_cast<size_t>(n);
  }
  return part;
}

}  // namespace

absl::Status S3Client::PutFile(const std::string& key, const std::string& path, uint64_t byte_size,
                               const std::string& sha256) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.ok()) return ErrnoToStatus(errno, "open upload");
  const std::string full_key = options_.prefix + key;
  const std::string what = "store " + key;
  if (byte_size <= options_.part_bytes) {
    NERF_ASSIGN_OR_RETURN(const std::string body, ReadPart(fd.get(), 0, byte_size));
    return Send({.what = what,
                 .method = "PUT",
                 .key = full_key,
                 .body = body,
                 .body_sha256 = sha256})
        .status();
  }
  NERF_ASSIGN_OR_RETURN(
      const Reply begun,
      Send({.what = what, .method = "POST", .key = full_key, .query = {{"uploads", ""}}}));
  const std::optional<std::string> upload_id = XmlText(begun.body, "UploadId");
  if (!upload_id.has_value()) return Unreachable(what, "it names no upload");
  {
    MutexLock lock(mu_);
    ++uploads_[*upload_id];
  }
  const absl::Status status = PutParts(full_key, fd.get(), byte_size, sha256, *upload_id);
  if (!status.ok()) {
    // Where this fails, AbortLostUploads does it later.
    Send({.what = "discard the parts of " + key,
          .method = "DELETE",
          .key = full_key,
          .query = {{"uploadId", *upload_id}}})
        .status()
        .IgnoreError();
  }
  MutexLock lock(mu_);
  uploads_.erase(*upload_id);
  return status;
}

absl::Status S3Client::PutParts(const std::string& key, int fd, uint64_t byte_size,
                                const std::string& sha256, const std::string& upload_id) {
  Sha256 digest;
  std::string list = "<CompleteMultipartUpload>";
  int number = 0;
  for (uint64_t offset = 0; offset < byte_size; offset += options_.part_bytes) {
    const uint64_t n_bytes = std::min(options_.part_bytes, byte_size - offset);
    NERF_ASSIGN_OR_RETURN(const std::string part, ReadPart(fd, offset, n_bytes));
    digest.Update(part);
    ++number;
    NERF_ASSIGN_OR_RETURN(
        const Reply reply,
        Send({.what = fmt::format("store part {} of {}", number, key),
              .method = "PUT",
              .key = key,
              .query = {{"partNumber", std::to_string(number)}, {"uploadId", upload_id}},
              .body = part}));
    const auto etag = reply.headers.find("etag");
    if (etag == reply.headers.end()) return Unreachable("store " + key, "a part has no ETag");
    list += fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>", number,
                        XmlEscaped(etag->second));
  }
  if (digest.HexDigest() != sha256) {
    return absl::DataLossError(fmt::format("the file of {} has another digest", key));
  }
  list += "</CompleteMultipartUpload>";
  return Send({.what = "complete " + key,
               .method = "POST",
               .key = key,
               .query = {{"uploadId", upload_id}},
               .body = list})
      .status();
}

absl::StatusOr<std::string> S3Client::Get(const std::string& key, uint64_t offset,
                                          uint64_t n_bytes) {
  if (n_bytes == 0) return std::string();
  NERF_ASSIGN_OR_RETURN(
      Reply reply,
      Send({.what = "read " + key,
            .method = "GET",
            .key = options_.prefix + key,
            .headers = {{"range", fmt::format("bytes={}-{}", offset, offset + n_bytes - 1)}},
            .most_bytes = n_bytes + kMaxTextBytes}));
  if (reply.body.size() > n_bytes) {
    return Unreachable("read " + key, "it sent more than the range that was asked for");
  }
  return std::move(reply.body);
}

absl::StatusOr<std::optional<uint64_t>> S3Client::Head(const std::string& key) {
  const absl::StatusOr<Reply> reply =
      Send({.what = "look for " + key, .method = "HEAD", .key = options_.prefix + key});
  if (absl::IsNotFound(reply.status())) return std::optional<uint64_t>();
  NERF_RETURN_IF_ERROR(reply.status());
  const auto length = reply->headers.find("content-length");
  uint64_t byte_size = 0;
  if (length == reply->headers.end() || !absl::SimpleAtoi(length->second, &byte_size)) {
    return Unreachable("look for " + key, "it does not say its size");
  }
  return std::optional(byte_size);
}

absl::Status S3Client::Delete(const std::string& key) {
  const absl::Status status =
      Send({.what = "delete " + key, .method = "DELETE", .key = options_.prefix + key}).status();
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::Status S3Client::Copy(const std::string& from, const std::string& to) {
  const std::string source = fmt::format("/{}/{}{}", options_.bucket, options_.prefix, from);
  return Send({.what = fmt::format("copy {} to {}", from, to),
               .method = "PUT",
               .key = options_.prefix + to,
               .headers = {{"x-amz-copy-source", EncodedPath(source)}}})
      .status();
}

absl::StatusOr<std::vector<S3Object>> S3Client::List(const std::string& start) {
  std::vector<S3Object> objects;
  std::map<std::string, std::string> query = {{"list-type", "2"},
                                              {"prefix", options_.prefix + start}};
  while (true) {
    NERF_ASSIGN_OR_RETURN(const Reply reply,
                          Send({.what = "list its objects", .method = "GET", .query = query}));
    for (const std::string_view entry : XmlElements(reply.body, "Contents")) {
      const auto key = XmlText(entry, "Key"), size = XmlText(entry, "Size");
      S3Object object;
      if (!key.has_value() || !key->starts_with(options_.prefix) || !size.has_value() ||
          !absl::SimpleAtoi(*size, &object.byte_size)) {
        return Unreachable("list its objects", "an entry has no key or size");
      }
      object.key = key->substr(options_.prefix.size());
      objects.push_back(std::move(object));
    }
    const auto next = XmlText(reply.body, "NextContinuationToken");
    if (XmlText(reply.body, "IsTruncated") != "true" || !next.has_value()) return objects;
    query["continuation-token"] = *next;
  }
}

S3Request S3Client::RequestOf(const std::string& method, const std::string& key) const {
  return {method, host_, fmt::format("/{}/{}{}", options_.bucket, options_.prefix, key)};
}

std::string S3Client::SignRead(const std::string& key) const {
  const S3Request request = RequestOf("GET", key);
  return fmt::format(
      "{}{}?{}", options_.endpoint, EncodedPath(request.path),
      SignedQuery(request, options_.keys, options_.region, clock_.WallNow(), kUrlLifetime));
}

std::string S3Client::SignWrite(const std::string& key, const std::string& sha256,
                                std::vector<std::string>* headers) const {
  S3Request request = RequestOf("PUT", key);
  request.payload_sha256 = sha256;
  *headers = SignedHeaders(request, options_.keys, options_.region, clock_.WallNow());
  return options_.endpoint + EncodedPath(request.path);
}

absl::StatusOr<size_t> S3Client::AbortLostUploads() {
  NERF_ASSIGN_OR_RETURN(const Reply reply,
                        Send({.what = "list its uploads",
                              .method = "GET",
                              .query = {{"prefix", options_.prefix}, {"uploads", ""}}}));
  size_t n_aborted = 0;
  for (const std::string_view entry : XmlElements(reply.body, "Upload")) {
    const auto key = XmlText(entry, "Key"), upload_id = XmlText(entry, "UploadId");
    if (!key.has_value() || !upload_id.has_value()) continue;
    {
      MutexLock lock(mu_);
      if (uploads_.contains(*upload_id)) continue;
    }
    NERF_RETURN_IF_ERROR(Send({.what = "discard the parts of " + *key,
                               .method = "DELETE",
                               .key = *key,
                               .query = {{"uploadId", *upload_id}}})
                             .status());
    ++n_aborted;
  }
  return n_aborted;
}

}  // namespace nerf
