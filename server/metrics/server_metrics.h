#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace prometheus {
class Collectable;
class Registry;
}  // namespace prometheus

namespace nerf {

// Labels of nerfd_build_info.
struct BuildInfo {
  std::string version;
  std::string revision;
  std::string cuda;  // "none" in builds without CUDA
  std::string grpc;  // version of the library
};

// The nerfd_* families. Series with known labels exist from the start, at 0, so that a rate over
// them is never empty. No label holds a job, a path or a peer; labels with values from outside are
// capped. Thread-safe, and fast enough to call while holding locks.
class ServerMetrics {
 public:
  explicit ServerMetrics(const BuildInfo& build);
  ~ServerMetrics();

  // rpc_metrics.h adds its families here.
  const std::shared_ptr<prometheus::Registry>& registry() const { return registry_; }
  // The registry, for MetricsText.
  std::shared_ptr<prometheus::Collectable> collectable() const;

  // Jobs. `result` is succeeded, failed or cancelled; `reason` is empty unless failed.
  void JobCreated(std::string_view project);
  void JobFinished(std::string_view project, std::string_view result, std::string_view reason);
  void AttemptEnded(std::string_view result);
  // A job was placed on a worker after it had waited this long.
  void JobLeftQueue(double seconds);
  void LeaseExpired();
  void WriteFenced(std::string_view rpc);
  void StoreCommitted(double seconds);
  void StoreCommitFailed();

  // A job that a worker had begun ended so long after that; `kind` is training, render, pose or
  // export.
  void JobRan(std::string_view kind, std::string_view result, double seconds);
  // How fast an ended pose job matched pairs of photographs. 0: not known.
  void PosesMatched(double matches_per_second);

  // Gauges, set periodically. Jobs by (project, state); a series that is missing later becomes 0.
  void SetJobs(const std::map<std::pair<std::string, std::string>, size_t>& jobs);
  void SetPoseJobs(const std::map<std::string, size_t>& by_state);
  void SetQueue(size_t n_queued, double oldest_age_seconds);
  void SetLeases(size_t n_leases);
  void SetWorkers(const std::map<std::string, size_t>& by_state);
  void SetWatchers(size_t n_watchers);
  // A watch was ended because its reader stood still.
  void WatcherEvicted();
  // A reader that waited for an event of a job got it this long after it.
  void WatchEventTaken(double delay_seconds);
  // A watch could not be told every event. `kind` is live or resumed.
  void WatchGap(std::string_view kind);
  // A call was refused for its token or rights; `reason` is that of the error.
  void AuthFailed(std::string_view reason);
  // When the server's own certificate expires, in seconds since 1970.
  void SetCertificateExpiry(double unix_seconds);
  void SetStoreReadOnly(bool read_only);
  // Whether this nerfd leads, and the last term that it knows of; 0 without replicas.
  void SetLeader(bool leads, uint64_t term);
  void SetBlobStore(uint64_t byte_size, uint64_t free_bytes);

  // Blobs.
  void BlobReceived(size_t bytes);
  void BlobSent(size_t bytes);
  void BlobUploadFailed(std::string_view reason);
  // A stored blob was found damaged.
  void BlobDamaged();

  // What a worker measured since its last message.
  struct TrainReport {
    double steps = 0;
    double rays = 0;
    double step_seconds = 0;  // mean of those steps
    double loss = 0;
    double psnr = 0;      // dB
    double unix_now = 0;  // seconds
    std::optional<double> stall_fraction = {};
    bool commits = true;  // the worker also commits the job's checkpoints
  };
  void TrainReported(std::string_view worker, std::string_view device, const TrainReport& report);
  // Does nothing for a worker that has reported no training since WorkerIsSilent.
  void CheckpointCommitted(std::string_view worker, std::string_view device, double unix_now);

  // The last readings of a worker's GPU. An unset field keeps its value.
  struct GpuReadings {
    std::optional<double> utilization = {};  // 0 to 1
    std::optional<double> memory_used_bytes = {}, memory_size_bytes = {};
    std::optional<double> temperature_celsius = {};
    std::optional<double> power_watts = {};
    bool operator==(const GpuReadings&) const = default;
  };
  void GpuReported(std::string_view worker, std::string_view device, const GpuReadings& readings);
  // The worker stopped training: removes its training and GPU gauges. Counters stay.
  void WorkerIsSilent(std::string_view worker, std::string_view device);

  // `kind` is image; `result` is ok or the error's reason.
  void RenderFinished(std::string_view kind, std::string_view result, double seconds);

 private:
  struct Families;
  const std::shared_ptr<prometheus::Registry> registry_;
  const std::unique_ptr<Families> families_;
};

}  // namespace nerf
