#include "common/rpc/signed_transfer.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace nerf {
namespace {

constexpr long kConnectSeconds = 5;
constexpr long kStallSeconds = 20;  // below a kilobyte a second
constexpr absl::Duration kUnreachablePause = absl::Minutes(5);
constexpr size_t kSourceBytes = size_t{256} << 10;

// In nanoseconds since 1970; a change of the clock costs some tries at most.
std::atomic<int64_t> unreachable_until = 0;

struct SignedTransfer {
  const std::function<absl::Status(std::string_view)>* sink = nullptr;
  const std::function<absl::StatusOr<std::string>(uint64_t, size_t)>* source = nullptr;
  const std::stop_token* stop = nullptr;
  CURL* handle = nullptr;
  std::string chunk = {};  // of the source, of which n_used bytes are sent
  size_t n_used = 0;
  uint64_t offset = 0, byte_size = 0;  // of the source
  absl::Status status = {};            // of sink or source
};

size_t TakeSigned(char* bytes, size_t, size_t n, void* transfer) {
  auto& to = *static_cast<SignedTransfer*>(transfer);
  long code = 0;
  curl_easy_getinfo(to.handle, CURLINFO_RESPONSE_CODE, &code);
  if (to.sink == nullptr || code != 200) return n;  // words that nobody reads
  to.status = (*to.sink)(std::string_view(bytes, n));
  return to.status.ok() ? n : 0;
}

size_t GiveSigned(char* bytes, size_t, size_t n, void* transfer) {
  auto& from = *static_cast<SignedTransfer*>(transfer);
  if (from.n_used == from.chunk.size()) {
    const uint64_t left = from.byte_size - from.offset;
    if (left == 0) return 0;
    absl::StatusOr<std::string> chunk =
        (*from.source)(from.offset, std::min<uint64_t>(left, kSourceBytes));
    if (chunk.ok() && chunk->empty()) {
      chunk = absl::InvalidArgumentError(
          fmt::format("content ends at byte {} of {}", from.offset, from.byte_size));
    }
    if (!chunk.ok()) {
      from.status = chunk.status();
      return CURL_READFUNC_ABORT;
    }
    from.chunk = *std::move(chunk);
    from.offset += from.chunk.size();
    from.n_used = 0;
  }
  n = std::min(n, from.chunk.size() - from.n_used);
  std::memcpy(bytes, from.chunk.data() + from.n_used, n);
  from.n_used += n;
  return n;
}

int EndSignedIfStopped(void* transfer, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<SignedTransfer*>(transfer)->stop->stop_requested() ? 1 : 0;
}

absl::Status Perform(const std::string& url, curl_slist* lines, SignedTransfer& transfer) {
  static const CURLcode initialized = curl_global_init(CURL_GLOBAL_DEFAULT);
  const std::unique_ptr<CURL, void (*)(CURL*)> handle(
      initialized == CURLE_OK ? curl_easy_init() : nullptr, &curl_easy_cleanup);
  if (handle == nullptr) return absl::UnavailableError("libcurl does not start");
  transfer.handle = handle.get();
  std::array<char, CURL_ERROR_SIZE> words{};
  const auto set = [&](CURLoption option, auto value) {
    curl_easy_setopt(handle.get(), option, value);
  };
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_PATH_AS_IS, 1L);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_HTTPHEADER, lines);
  set(CURLOPT_ERRORBUFFER, words.data());
  set(CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  set(CURLOPT_LOW_SPEED_LIMIT, 1024L);
  set(CURLOPT_LOW_SPEED_TIME, kStallSeconds);
  set(CURLOPT_BUFFERSIZE, static_cast<long>(kSourceBytes));
  set(CURLOPT_UPLOAD_BUFFERSIZE, static_cast<long>(kSourceBytes));
  set(CURLOPT_WRITEFUNCTION, &TakeSigned);
  set(CURLOPT_WRITEDATA, &transfer);
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, &EndSignedIfStopped);
  set(CURLOPT_XFERINFODATA, &transfer);
  if (transfer.source != nullptr) {
    set(CURLOPT_UPLOAD, 1L);
    set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(transfer.byte_size));
    set(CURLOPT_READFUNCTION, &GiveSigned);
    set(CURLOPT_READDATA, &transfer);
  }
  const CURLcode code = curl_easy_perform(handle.get());
  if (transfer.stop->stop_requested()) return absl::CancelledError("transfer stopped");
  if (!transfer.status.ok()) return transfer.status;
  if (code != CURLE_OK) {
    double connect_seconds = 0;
    curl_easy_getinfo(handle.get(), CURLINFO_CONNECT_TIME, &connect_seconds);
    if (connect_seconds == 0) {
      unreachable_until = absl::ToUnixNanos(absl::Now() + kUnreachablePause);
    }
    return absl::UnavailableError(words[0] != '\0' ? words.data() : curl_easy_strerror(code));
  }
  long status = 0;
  curl_easy_getinfo(handle.get(), CURLINFO_RESPONSE_CODE, &status);
  if (status / 100 == 2) return absl::OkStatus();
  return absl::UnavailableError(fmt::format("the blob store answers {}", status));
}

}  // namespace

absl::Status ReadSigned(const std::string& url,
                        const std::function<absl::Status(std::string_view bytes)>& sink,
                        const std::stop_token& stop) {
  SignedTransfer transfer{.sink = &sink, .stop = &stop};
  return Perform(url, nullptr, transfer);
}

absl::Status WriteSigned(
    const std::string& url, const std::vector<std::string>& headers, uint64_t byte_size,
    const std::function<absl::StatusOr<std::string>(uint64_t offset, size_t max_bytes)>& source,
    const std::stop_token& stop) {
  // No "Expect: 100-continue", which costs a second with servers that do not answer it.
  curl_slist* lines = curl_slist_append(nullptr, "Expect:");
  for (const std::string& header : headers) lines = curl_slist_append(lines, header.c_str());
  SignedTransfer transfer{.source = &source, .stop = &stop, .byte_size = byte_size};
  const absl::Status status = Perform(url, lines, transfer);
  curl_slist_free_all(lines);
  return status;
}

bool MayReachSigned() { return absl::ToUnixNanos(absl::Now()) >= unreachable_until; }

}  // namespace nerf
