#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/files/file_io.h"
#include "common/files/sha256.h"
#include "common/mutex.h"
#include "worker/base/server_link.h"
#include "worker/files/blob_cache.h"

namespace nerf {

inline v1::BlobRef BlobRefOf(std::string_view bytes) {
  v1::BlobRef blob;
  blob.set_sha256(Sha256Hex(bytes));
  blob.set_size_bytes(static_cast<double>(bytes.size()));
  return blob;
}

// The server's side of a worker, in memory: stream, commits and blobs. Used by tests of the agent
// and of the cache. Thread-safe.
class FakeServer final : public ServerLink, public BlobTransport {
 public:
  // ---- What tests set and read.

  // Stores a blob for workers to fetch.
  v1::BlobRef AddBlob(const std::string& bytes) {
    MutexLock lock(mu_);
    const v1::BlobRef blob = BlobRefOf(bytes);
    blobs_[blob.sha256()] = bytes;
    return blob;
  }
  // Replaces the bytes stored under a digest.
  void CorruptBlob(const v1::BlobRef& blob, const std::string& bytes) {
    MutexLock lock(mu_);
    blobs_[blob.sha256()] = bytes;
  }
  // What the server says when it is told of wrong bytes, and of which blobs it was.
  void SetCheckResult(const absl::Status& status) {
    MutexLock lock(mu_);
    check_result_ = status;
  }
  std::vector<std::string> checks() const {
    MutexLock lock(mu_);
    return checks_;
  }
  std::optional<std::string> Blob(const std::string& sha256) const {
    MutexLock lock(mu_);
    const auto it = blobs_.find(sha256);
    return it == blobs_.end() ? std::nullopt : std::optional(it->second);
  }
  // While away, every call fails with UNAVAILABLE. An open stream ends.
  void SetAway(bool away) {
    std::optional<Listener> open;
    {
      MutexLock lock(mu_);
      away_ = away;
      if (away) open = std::exchange(listener_, std::nullopt);
    }
    if (open.has_value()) open->on_closed({absl::StatusCode::kUnavailable, "away", ""});
  }
  // The result of every commit, until set to OK again.
  void SetCommitResult(CallResult result) {
    MutexLock lock(mu_);
    commit_result_ = std::move(result);
  }
  void SetOpenResult(CallResult result) {
    MutexLock lock(mu_);
    open_result_ = std::move(result);
  }
  void Send(const v1::SynchronizeResponse& message) {
    std::optional<Listener> open;
    {
      MutexLock lock(mu_);
      open = listener_;
    }
    if (open.has_value()) open->on_message(message);
  }
  std::vector<v1::SynchronizeRequest> messages() const {
    MutexLock lock(mu_);
    return messages_;
  }
  // The report of the newest message with one.
  std::optional<v1::JobReport> last_report() const {
    MutexLock lock(mu_);
    if (messages_.empty() || !messages_.back().has_job()) return std::nullopt;
    return messages_.back().job();
  }
  v1::JobReport::Phase phase() const {
    const auto report = last_report();
    return report.has_value() ? report->phase() : v1::JobReport::PHASE_UNSPECIFIED;
  }
  std::vector<v1::CommitCheckpointRequest> commits() const {
    MutexLock lock(mu_);
    return commits_;
  }
  std::vector<v1::CommitFramesRequest> frame_commits() const {
    MutexLock lock(mu_);
    return frame_commits_;
  }
  std::vector<v1::CommitPosesRequest> pose_commits() const {
    MutexLock lock(mu_);
    return pose_commits_;
  }
  int streams() const {
    MutexLock lock(mu_);
    return streams_;
  }
  int reads() const {
    MutexLock lock(mu_);
    return reads_;
  }
  bool open() const {
    MutexLock lock(mu_);
    return listener_.has_value();
  }

  // ---- ServerLink.
  void Open(Listener listener) override {
    CallResult failure;
    {
      MutexLock lock(mu_);
      ++streams_;
      failure = open_result_;
      if (failure.ok() && away_) failure = {absl::StatusCode::kUnavailable, "away", ""};
      if (failure.ok()) {
        listener_ = std::move(listener);
        return;
      }
    }
    listener.on_closed(failure);
  }
  void Write(v1::SynchronizeRequest message) override {
    std::optional<Listener> open;
    {
      MutexLock lock(mu_);
      open = listener_;
      if (open.has_value()) messages_.push_back(std::move(message));
    }
    if (open.has_value()) open->on_written();
  }
  void Close() override {
    std::optional<Listener> open;
    {
      MutexLock lock(mu_);
      open = std::exchange(listener_, std::nullopt);
    }
    if (open.has_value()) open->on_closed({absl::StatusCode::kCancelled, "closed", ""});
  }
  CallResult Commit(const v1::CommitCheckpointRequest& request, std::stop_token stop) override {
    MutexLock lock(mu_);
    if (away_) return {absl::StatusCode::kUnavailable, "away", ""};
    if (!commit_result_.ok()) return commit_result_;
    commits_.push_back(request);
    return {};
  }

  CallResult CommitFrames(const v1::CommitFramesRequest& request,
                          std::stop_token /*stop*/) override {
    MutexLock lock(mu_);
    if (away_) return {absl::StatusCode::kUnavailable, "away", ""};
    if (!commit_result_.ok()) return commit_result_;
    frame_commits_.push_back(request);
    return {};
  }

  CallResult CommitPoses(const v1::CommitPosesRequest& request, std::stop_token /*stop*/) override {
    MutexLock lock(mu_);
    if (away_) return {absl::StatusCode::kUnavailable, "away", ""};
    if (!commit_result_.ok()) return commit_result_;
    pose_commits_.push_back(request);
    return {};
  }

  // ---- BlobTransport.
  absl::Status Read(const v1::BlobRef& blob, const ReadChunk& sink, std::stop_token stop) override {
    std::string bytes;
    {
      MutexLock lock(mu_);
      ++reads_;
      if (away_) return absl::UnavailableError("away");
      const auto it = blobs_.find(blob.sha256());
      if (it == blobs_.end()) return absl::NotFoundError("no such blob");
      bytes = it->second;
    }
    // In pieces, as over the network.
    for (size_t i = 0; i < bytes.size(); i += 7) {
      if (absl::Status status = sink(std::string_view(bytes).substr(i, 7)); !status.ok()) {
        return status;
      }
    }
    return absl::OkStatus();
  }
  absl::Status Upload(const std::string& path, const v1::BlobRef& blob,
                      std::stop_token stop) override {
    auto content = ReadFile(path, 1 << 20);
    if (!content.ok()) return content.status();
    MutexLock lock(mu_);
    if (away_) return absl::UnavailableError("away");
    blobs_[blob.sha256()] = *std::move(content);
    return absl::OkStatus();
  }
  absl::Status Check(const v1::BlobRef& blob, std::stop_token /*stop*/) override {
    MutexLock lock(mu_);
    checks_.push_back(blob.sha256());
    return check_result_;
  }

 private:
  mutable Mutex mu_;
  bool away_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status check_result_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> checks_ ABSL_GUARDED_BY(mu_);
  CallResult commit_result_ ABSL_GUARDED_BY(mu_), open_result_ ABSL_GUARDED_BY(mu_);
  std::optional<Listener> listener_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, std::string> blobs_ ABSL_GUARDED_BY(mu_);
  std::vector<v1::SynchronizeRequest> messages_ ABSL_GUARDED_BY(mu_);
  std::vector<v1::CommitCheckpointRequest> commits_ ABSL_GUARDED_BY(mu_);
  std::vector<v1::CommitFramesRequest> frame_commits_ ABSL_GUARDED_BY(mu_);
  std::vector<v1::CommitPosesRequest> pose_commits_ ABSL_GUARDED_BY(mu_);
  int streams_ ABSL_GUARDED_BY(mu_) = 0, reads_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace nerf
