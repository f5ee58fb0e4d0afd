#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/mutex.h"
#include "server/store/s3/s3_signer.h"

namespace nerf {

struct S3Options {
  std::string endpoint;  // "https://s3.example.com:9000", without a path
  std::string bucket;
  std::string prefix = {};  // of every key: empty, or ends with "/"
  std::string region = "us-east-1";
  S3Keys keys;
  uint64_t part_bytes = uint64_t{16} << 20;  // larger objects are put in parts of this size
  // Tries of a request, and the pauses between them: drawn from 0 to a bound, which doubles.
  int max_attempts = 6;
  absl::Duration first_pause = absl::Milliseconds(200);
  absl::Duration max_pause = absl::Seconds(5);
  // Whether readers and workers get URLs of the endpoint, which they have to reach.
  bool signs_urls = false;
  // A request that moves less than a kilobyte a second for this long is given up.
  absl::Duration stall_limit = absl::Seconds(20);
  std::function<void(absl::Duration)> sleep = {};  // empty: the thread sleeps
};

struct S3Object {
  std::string key;  // without the prefix
  uint64_t byte_size = 0;
};

// Objects of one bucket by path-style URLs. Requests are tried again after 5xx, 429, timeouts and
// broken connections. Every body is signed with its digest. Thread-safe; calls block. `clock` and
// `random` outlive it.
//
// Common errors: Unavailable STORE_READ_ONLY with the request, S3's code and its words.
class S3Client {
 public:
  S3Client(S3Options options, const Clock* clock, RandomSource* random);
  ~S3Client();

  // Stores a file of that size, in parts if it is large; `sha256` is the digest of all of it, which
  // is compared. What fails leaves no object, and no parts if the server can be reached. DataLoss
  // for a large file with another digest; the server refuses a small one.
  absl::Status PutFile(const std::string& key, const std::string& path, uint64_t byte_size,
                       const std::string& sha256);
  // `n_bytes` bytes from `offset`; fewer at the end of the object. NotFound.
  absl::StatusOr<std::string> Get(const std::string& key, uint64_t offset, uint64_t n_bytes);
  // The object's size; nullopt where there is none.
  absl::StatusOr<std::optional<uint64_t>> Head(const std::string& key);
  // Deleting what is not there is OK.
  absl::Status Delete(const std::string& key);
  // Within the server. NotFound.
  absl::Status Copy(const std::string& from, const std::string& to);
  // All objects whose keys begin with `start`.
  absl::StatusOr<std::vector<S3Object>> List(const std::string& start);
  // A URL by which an object is read without a key, for some minutes.
  std::string SignRead(const std::string& key) const;
  // URL and header lines by which the bytes of that digest, and no others, are put in one request,
  // for some minutes: by the lines, because not every server compares the digest of a signed URL.
  std::string SignWrite(const std::string& key, const std::string& sha256,
                        std::vector<std::string>* headers) const;
  // Discards the parts of every upload that was not completed, but those of this client. Returns
  // how many uploads that were.
  absl::StatusOr<size_t> AbortLostUploads();

 private:
  struct Call;
  struct Reply;
  class Handles;

  absl::StatusOr<Reply> Send(const Call& call);
  absl::StatusOr<Reply> SendOnce(const Call& call, bool* may_pass);
  // Without a query.
  S3Request RequestOf(const std::string& method, const std::string& key) const;
  absl::Status PutParts(const std::string& key, int fd, uint64_t byte_size,
                        const std::string& sha256, const std::string& upload_id);

  const S3Options options_;
  const std::string host_;
  const Clock& clock_;
  RandomSource& random_;
  const std::unique_ptr<Handles> handles_;
  Mutex mu_;
  std::map<std::string, int> uploads_ ABSL_GUARDED_BY(mu_);  // ids of those in progress
};

}  // namespace nerf
