#include "server/store/s3/s3_blob_store.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/error_reason.h"
#include "common/files/atomic_file.h"
#include "common/files/file_io.h"
#include "common/files/sha256.h"
#include "common/logging.h"
#include "common/status_macros.h"

namespace nerf {
namespace {

constexpr std::string_view kBlobs = "blobs/", kDamaged = "damaged/";
constexpr uint64_t kReadAhead = uint64_t{1} << 20;
constexpr absl::Duration kCompareInterval = absl::Hours(24);

std::string BlobKey(const std::string& sha256) { return std::string(kBlobs) + sha256; }
std::string DamagedKey(const std::string& sha256) { return std::string(kDamaged) + sha256; }

absl::Status MakeFolderOfS3(const std::string& path) {
  if (mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) {
    return ErrnoToStatus(errno, "create folder " + path);
  }
  return absl::OkStatus();
}

}  // namespace

// Reads ahead, because a request costs milliseconds.
class S3BlobStore::ObjectSource final : public BlobSource {
 public:
  ObjectSource(S3BlobStore* store, const BlobRef& blob, uint64_t generation)
      : store_(*store), blob_(blob), generation_(generation) {}

  absl::StatusOr<std::string> ReadAt(uint64_t offset, uint64_t n_bytes) override {
    const bool is_here = offset >= at_ && offset + n_bytes <= at_ + ahead_.size();
    if (!is_here) {
      const uint64_t n_wanted = std::min(std::max(n_bytes, kReadAhead), blob_.byte_size - offset);
      auto got = store_.client_.Get(BlobKey(blob_.sha256), offset, n_wanted);
      if (absl::IsNotFound(got.status())) {
        store_.NoteLost(blob_.sha256, generation_);
        return BlobNotFoundError(blob_);
      }
      NERF_RETURN_IF_ERROR(got.status());
      ahead_ = *std::move(got);
      at_ = offset;
    }
    return ahead_.substr(offset - at_, n_bytes);
  }
  FileStamp stamp() const override { return {generation_, blob_.byte_size, 0}; }
  void MoveAside() override { store_.MoveAside(blob_.sha256, generation_); }

 private:
  S3BlobStore& store_;
  const BlobRef blob_;
  const uint64_t generation_;
  std::string ahead_;
  uint64_t at_ = 0;  // offset of ahead_
};

class S3BlobStore::Turn {
 public:
  Turn(S3BlobStore& store, std::string sha256) : store_(store), sha256_(std::move(sha256)) {
    MutexLock lock(store_.mu_);
    while (!store_.in_turn_.insert(sha256_).second) store_.turn_ended_.Wait(store_.mu_);
  }
  ~Turn() {
    MutexLock lock(store_.mu_);
    store_.in_turn_.erase(sha256_);
    store_.turn_ended_.NotifyAll();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  S3BlobStore& store_;
  const std::string sha256_;
};

S3BlobStore::S3BlobStore(std::string root, const S3Options& s3, const BlobStoreOptions& options,
                         const Clock* clock, RandomSource* random)
    : root_(std::move(root)),
      url_(fmt::format("s3://{}/{}", s3.bucket, s3.prefix)),
      signs_urls_(s3.signs_urls),
      options_(options),
      clock_(*clock),
      client_(s3, &signing_clock_, random) {}

absl::StatusOr<std::unique_ptr<S3BlobStore>> S3BlobStore::Open(const std::string& root,
                                                               const S3Options& s3,
                                                               const BlobStoreOptions& options,
                                                               const Clock* clock,
                                                               RandomSource* random) {
  auto store = std::unique_ptr<S3BlobStore>(new S3BlobStore(root, s3, options, clock, random));
  for (const std::string& folder : {root, root + "/uploads"}) {
    NERF_RETURN_IF_ERROR(MakeFolderOfS3(folder));
  }
  store->age_ = std::make_unique<StoreAge>(root, clock);
  store->uploads_ = std::make_unique<UploadFolder>(root + "/uploads", options, store->age_.get());
  MutexLock lock(store->collect_mu_);
  NERF_RETURN_IF_ERROR(store->Compare());
  store->compared_at_ = clock->Now();
  const BlobStoreStats stats = store->Stats();
  LogInfo("opened the blobs of a bucket",
          {{"url", store->url_}, {"blobs", stats.n_blobs}, {"bytes", stats.byte_size}});
  return store;
}

absl::Status S3BlobStore::Compare() {
  NERF_ASSIGN_OR_RETURN(const std::vector<S3Object> objects, client_.List(""));
  {
    MutexLock lock(mu_);
    const SteadyTime now = clock_.Now();
    for (const bool damaged : {false, true}) {
      const std::string_view start = damaged ? kDamaged : kBlobs;
      for (const S3Object& object : objects) {
        if (!object.key.starts_with(start)) continue;
        const std::string sha256 = object.key.substr(start.size());
        const bool is_known =
            entries_.contains(sha256) || in_turn_.contains(sha256) || undeleted_.contains(sha256);
        if (!IsSha256Hex(sha256) || is_known) continue;
        const Entry entry = {object.byte_size, next_generation_++, damaged, now};
        Count(entry, /*added=*/true);
        entries_[sha256] = entry;
      }
    }
  }
  // What an upload that was cut by a crash has left. Not every server lists it.
  const absl::StatusOr<size_t> n_aborted = client_.AbortLostUploads();
  if (!n_aborted.ok()) {
    LogWarning("parts of lost uploads may be left in the bucket",
               {{"error", std::string(n_aborted.status().message())}});
  } else if (*n_aborted > 0) {
    LogInfo("discarded lost uploads of the bucket", {{"uploads", *n_aborted}});
  }
  return absl::OkStatus();
}

void S3BlobStore::Count(const Entry& entry, bool added) {
  if (entry.damaged) return;
  n_blobs_ += added ? 1 : -1;
  byte_size_ += added ? entry.byte_size : -entry.byte_size;
}

bool S3BlobStore::TouchLocked(const BlobRef& blob) {
  const auto found = entries_.find(blob.sha256);
  if (found == entries_.end() || found->second.damaged ||
      found->second.byte_size != blob.byte_size) {
    return false;
  }
  found->second.touched = clock_.Now();
  MutexLock lock(release_mu_);
  released_.erase(blob.sha256);
  return true;
}

bool S3BlobStore::Touch(const BlobRef& blob) {
  MutexLock lock(mu_);
  return TouchLocked(blob);
}

UploadFolder::IsPresent S3BlobStore::EndsUpload(const BlobRef& blob, PresentBlob present) {
  return [this, blob, present] { return present == PresentBlob::kCompletesUpload && Touch(blob); };
}

absl::StatusOr<UploadStatus> S3BlobStore::GetUpload(const std::string& upload_id,
                                                    const BlobRef& blob, PresentBlob present) {
  return uploads_->Get(upload_id, blob, EndsUpload(blob, present));
}

absl::StatusOr<UploadStatus> S3BlobStore::Append(const std::string& upload_id, const BlobRef& blob,
                                                 uint64_t offset, std::string_view chunk,
                                                 Uploader uploader, PresentBlob present) {
  return uploads_->Append(upload_id, blob, offset, chunk, uploader, EndsUpload(blob, present));
}

absl::StatusOr<Stored> S3BlobStore::Finish(const std::string& upload_id, const BlobRef& blob,
                                           Uploader /*uploader*/, PresentBlob present) {
  return uploads_->Finish(upload_id, blob, EndsUpload(blob, present),
                          [&](const std::string& path) { return StoreFile(path, blob); });
}

std::vector<UnfinishedUpload> S3BlobStore::ListUploads() { return uploads_->List(); }

absl::StatusOr<BlobRef> S3BlobStore::Put(std::string_view content, Uploader uploader) {
  const BlobRef blob{Sha256Hex(content), content.size()};
  NERF_RETURN_IF_ERROR(uploads_->CheckBlob(blob));
  if (Touch(blob)) return blob;
  const auto move_in = [&](const std::string& path) { return StoreFile(path, blob); };
  NERF_RETURN_IF_ERROR(uploads_->Put(blob, content, uploader, move_in).status());
  return blob;
}

absl::StatusOr<Stored> S3BlobStore::StoreFile(const std::string& path, const BlobRef& blob) {
  const Turn turn(*this, blob.sha256);
  if (Touch(blob)) return Stored::kWasPresent;  // another upload of it was faster
  NERF_RETURN_IF_ERROR(client_.PutFile(BlobKey(blob.sha256), path, blob.byte_size, blob.sha256));
  NoteStored(blob);
  return Stored::kNew;
}

void S3BlobStore::NoteStored(const BlobRef& blob) {
  bool was_damaged = false;
  {
    MutexLock lock(mu_);
    const auto replaced = entries_.find(blob.sha256);
    if (replaced != entries_.end()) {
      was_damaged = replaced->second.damaged;
      Count(replaced->second, /*added=*/false);
    }
    const Entry entry = {blob.byte_size, next_generation_++, /*damaged=*/false, clock_.Now()};
    Count(entry, /*added=*/true);
    entries_[blob.sha256] = entry;
    undeleted_.erase(blob.sha256);
  }
  // Where this fails it stays until Collect of the next process.
  if (was_damaged) DeleteObject(DamagedKey(blob.sha256)).IgnoreError();
}

absl::StatusOr<SignedUrl> S3BlobStore::SignRead(const BlobRef& blob) {
  if (!signs_urls_) return SignedUrl();
  NERF_RETURN_IF_ERROR(uploads_->CheckBlob(blob));
  NERF_RETURN_IF_ERROR(FindReadable(blob).status());
  return SignedUrl{client_.SignRead(BlobKey(blob.sha256))};
}

absl::StatusOr<SignedUrl> S3BlobStore::SignWrite(const BlobRef& blob) {
  NERF_RETURN_IF_ERROR(uploads_->CheckBlob(blob));
  if (!signs_urls_) return SignedUrl();
  SignedUrl to;
  to.url = client_.SignWrite(BlobKey(blob.sha256), blob.sha256, &to.headers);
  return to;
}

absl::StatusOr<Stored> S3BlobStore::Adopt(const BlobRef& blob) {
  NERF_RETURN_IF_ERROR(uploads_->CheckBlob(blob));
  const Turn turn(*this, blob.sha256);
  if (Touch(blob)) return Stored::kWasPresent;
  NERF_ASSIGN_OR_RETURN(const std::optional<uint64_t> byte_size,
                        client_.Head(BlobKey(blob.sha256)));
  if (byte_size != blob.byte_size) return BlobNotFoundError(blob);
  NoteStored(blob);
  return Stored::kNew;
}

bool S3BlobStore::Has(const BlobRef& blob) { return Touch(blob); }

bool S3BlobStore::HasDigest(const std::string& sha256) {
  MutexLock lock(mu_);
  const auto found = entries_.find(sha256);
  return found != entries_.end() && !found->second.damaged;
}

std::vector<BlobRef> S3BlobStore::FindToUpload(std::span<const BlobRef> blobs) {
  MutexLock lock(mu_);
  std::set<BlobRef> missing;
  for (const BlobRef& blob : blobs) {
    if (!TouchLocked(blob)) missing.insert(blob);
  }
  return {missing.begin(), missing.end()};
}

std::vector<BlobRef> S3BlobStore::FindMissing(std::span<const BlobRef> blobs) {
  return FindToUpload(blobs);
}

void S3BlobStore::Release(const BlobRef& blob) {
  if (!IsSha256Hex(blob.sha256)) return;
  MutexLock lock(release_mu_);
  released_[blob.sha256] = clock_.Now();
}

absl::StatusOr<uint64_t> S3BlobStore::FindReadable(const BlobRef& blob) {
  MutexLock lock(mu_);
  const auto found = entries_.find(blob.sha256);
  if (found == entries_.end()) return BlobNotFoundError(blob);
  if (found->second.damaged) return DamagedBlobError(blob);
  if (found->second.byte_size != blob.byte_size) return BlobNotFoundError(blob);
  return found->second.generation;
}

absl::StatusOr<std::unique_ptr<BlobReader>> S3BlobStore::OpenRead(const BlobRef& blob,
                                                                  uint64_t offset, uint64_t limit) {
  NERF_RETURN_IF_ERROR(uploads_->CheckBlob(blob));
  NERF_ASSIGN_OR_RETURN(const uint64_t generation, FindReadable(blob));
  NERF_ASSIGN_OR_RETURN(const uint64_t end, EndOfRange(blob, offset, limit));
  return std::make_unique<BlobReader>(std::make_unique<ObjectSource>(this, blob, generation),
                                      &verified_, blob, offset, end);
}

void S3BlobStore::NoteLost(const std::string& sha256, uint64_t generation) {
  MutexLock lock(mu_);
  const auto found = entries_.find(sha256);
  if (found == entries_.end() || found->second.generation != generation) return;
  LogError("a blob is not in the bucket any more; upload it again", {{"sha256", sha256}});
  Count(found->second, /*added=*/false);
  entries_.erase(found);
}

void S3BlobStore::MoveAside(const std::string& sha256, uint64_t generation) {
  const Turn turn(*this, sha256);
  {
    MutexLock lock(mu_);
    const auto found = entries_.find(sha256);
    if (found == entries_.end() || found->second.generation != generation ||
        found->second.damaged) {
      return;
    }
    Count(found->second, /*added=*/false);
    found->second.damaged = true;
  }
  LogError("a blob is damaged in the bucket and counts as missing; upload it again",
           {{"sha256", sha256}});
  if (options_.on_damaged) options_.on_damaged(sha256);
  absl::Status moved = client_.Copy(BlobKey(sha256), DamagedKey(sha256));
  if (moved.ok()) moved = DeleteObject(BlobKey(sha256));
  // A later process then finds the damage again.
  if (!moved.ok()) LogWarning("it was not moved aside", {{"error", std::string(moved.message())}});
}

absl::Status S3BlobStore::Delete(const BlobRef& blob) {
  NERF_RETURN_IF_ERROR(uploads_->CheckBlob(blob));
  return DeleteIf(blob.sha256, [](const Entry&) { return true; }).status();
}

absl::Status S3BlobStore::CheckMayDelete() const {
  if (!options_.may_delete || options_.may_delete()) return absl::OkStatus();
  return WithReason(absl::UnavailableError("another nerfd may write to the bucket by now"),
                    reason::kNotReady);
}

absl::Status S3BlobStore::DeleteObject(const std::string& key) {
  NERF_RETURN_IF_ERROR(CheckMayDelete());
  return client_.Delete(key);
}

absl::StatusOr<bool> S3BlobStore::DeleteIf(const std::string& sha256,
                                           const std::function<bool(const Entry&)>& may_go) {
  NERF_RETURN_IF_ERROR(CheckMayDelete());
  const Turn turn(*this, sha256);
  bool is_damaged = false;
  {
    MutexLock lock(mu_);
    const auto found = entries_.find(sha256);
    if (found == entries_.end() || !may_go(found->second)) return false;
    is_damaged = found->second.damaged;
    Count(found->second, /*added=*/false);
    entries_.erase(found);
    undeleted_.insert(sha256);
  }
  if (options_.on_deleted) options_.on_deleted(sha256);
  NERF_RETURN_IF_ERROR(DeleteObject(BlobKey(sha256)));
  if (is_damaged) NERF_RETURN_IF_ERROR(DeleteObject(DamagedKey(sha256)));
  MutexLock lock(mu_);
  undeleted_.erase(sha256);
  return true;
}

absl::StatusOr<size_t> S3BlobStore::Collect(const std::set<std::string>& reachable) {
  MutexLock one_at_a_time(collect_mu_);
  age_->Save();
  const SteadyTime now = clock_.Now();
  std::vector<std::string> candidates, undeleted;
  {
    MutexLock lock(mu_);
    MutexLock release_lock(release_mu_);
    for (const auto& [sha256, released_at] : std::exchange(released_, {})) {
      const auto found = entries_.find(sha256);
      if (found == entries_.end()) continue;
      found->second.touched = released_at + (options_.release_grace - options_.collect_grace);
    }
    for (const auto& [sha256, entry] : entries_) {
      if (!reachable.contains(sha256)) candidates.push_back(sha256);
    }
    undeleted.assign(undeleted_.begin(), undeleted_.end());
  }
  size_t n_deleted = 0;
  for (const std::string& sha256 : candidates) {
    NERF_ASSIGN_OR_RETURN(const bool deleted, DeleteIf(sha256, [&](const Entry& entry) {
                            return entry.damaged || now - entry.touched >= options_.collect_grace;
                          }));
    n_deleted += deleted ? 1 : 0;
  }
  for (const std::string& sha256 : undeleted) {
    const Turn turn(*this, sha256);
    {
      MutexLock lock(mu_);
      if (!undeleted_.contains(sha256)) continue;  // stored again
    }
    NERF_RETURN_IF_ERROR(DeleteObject(BlobKey(sha256)));
    NERF_RETURN_IF_ERROR(DeleteObject(DamagedKey(sha256)));
    MutexLock lock(mu_);
    undeleted_.erase(sha256);
    ++n_deleted;
  }
  NERF_ASSIGN_OR_RETURN(const size_t n_uploads,
                        uploads_->DeleteIdle(age_->Now() - options_.collect_grace));
  if (now - *compared_at_ >= kCompareInterval) {
    NERF_RETURN_IF_ERROR(Compare());
    compared_at_ = now;
  }
  return n_deleted + n_uploads;
}

absl::StatusOr<BlobStoreStats> S3BlobStore::LinkAll(const std::string& folder,
                                                    const std::function<absl::Status()>& first) {
  MutexLock no_collection(collect_mu_);
  NERF_RETURN_IF_ERROR(first());
  NERF_RETURN_IF_ERROR(MakeFolderOfS3(folder));
  NERF_RETURN_IF_ERROR(
      WriteFileAtomically(fmt::format("{}/{}", folder, kElsewhereFile), url_ + "\n", 0644));
  return BlobStoreStats{};
}

BlobStoreStats S3BlobStore::Stats() {
  BlobStoreStats stats;
  struct statvfs disk;
  if (statvfs(root_.c_str(), &disk) == 0) {
    stats.free_bytes = uint64_t{disk.f_bavail} * disk.f_frsize;
  }
  MutexLock lock(mu_);
  stats.n_blobs = n_blobs_;
  stats.byte_size = byte_size_;
  return stats;
}

std::vector<BlobRef> S3BlobStore::ListFolder(int folder) {
  const std::string digits = fmt::format("{:02x}", folder);
  std::vector<BlobRef> blobs;
  MutexLock lock(mu_);
  for (auto it = entries_.lower_bound(digits);
       it != entries_.end() && it->first.starts_with(digits); ++it) {
    if (!it->second.damaged) blobs.push_back({it->first, it->second.byte_size});
  }
  return blobs;
}

absl::StatusOr<S3Options> ParseS3Options(const std::string& url, const std::string& endpoint,
                                         const std::function<std::string(const char*)>& variable) {
  constexpr std::string_view kScheme = "s3://";
  constexpr std::string_view kBucketCharacters = "abcdefghijklmnopqrstuvwxyz0123456789.-";
  constexpr std::string_view kPrefixCharacters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/";
  const auto bad = [](std::string_view flag, std::string_view text, std::string_view what) {
    return absl::InvalidArgumentError(fmt::format("{}: '{}' {}", flag, text, what));
  };
  if (!url.starts_with(kScheme)) {
    return bad("--blobs", url, "is not of the form s3://BUCKET/PREFIX");
  }
  S3Options options;
  options.bucket = url.substr(kScheme.size());
  if (const size_t slash = options.bucket.find('/'); slash != std::string::npos) {
    options.prefix = options.bucket.substr(slash + 1);
    options.bucket.resize(slash);
  }
  if (options.bucket.size() < 3 || options.bucket.size() > 63 ||
      options.bucket.find_first_not_of(kBucketCharacters) != std::string::npos) {
    return bad("--blobs", url, "names no bucket: 3 to 63 of a-z, 0-9, '.' and '-'");
  }
  if (!options.prefix.empty() && options.prefix.back() != '/') options.prefix += '/';
  if (options.prefix.find_first_not_of(kPrefixCharacters) != std::string::npos ||
      options.prefix.starts_with('/') || options.prefix.find("//") != std::string::npos ||
      options.prefix.size() > 512) {
    return bad("--blobs", url, "has a bad prefix: A-Z, a-z, 0-9, '.', '_', '-' and single '/'");
  }
  if (std::string region = variable("AWS_REGION"); !region.empty()) options.region = region;
  options.endpoint =
      endpoint.empty() ? fmt::format("https://s3.{}.amazonaws.com", options.region) : endpoint;
  const size_t host = options.endpoint.find("://");
  const bool is_http =
      options.endpoint.starts_with("https://") || options.endpoint.starts_with("http://");
  if (!is_http || host + 3 == options.endpoint.size() ||
      options.endpoint.find_first_of("/?#@ ", host + 3) != std::string::npos) {
    return bad("--s3-endpoint", options.endpoint, "is not of the form https://HOST:PORT");
  }
  options.keys = {variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY"),
                  variable("AWS_SESSION_TOKEN")};
  for (const auto& [name, value] : {std::pair("AWS_ACCESS_KEY_ID", options.keys.access_key),
                                    std::pair("AWS_SECRET_ACCESS_KEY", options.keys.secret_key)}) {
    if (value.empty()) {
      return absl::InvalidArgumentError(
          fmt::format("--blobs: the variable {} with the key of S3 is not set", name));
    }
  }
  return options;
}

}  // namespace nerf
