#include "server/main/clockwork.h"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <utility>

#include "common/clock.h"
#include "common/logging.h"
#include "common/rpc/tls.h"
#include "server/queue/upkeep/retention.h"
#include "server/rpc/services/queue_metrics.h"

namespace nerf {
namespace {

constexpr absl::Duration kTickInterval = absl::Milliseconds(250);
constexpr int kTicksPerGauges = 4;
constexpr int kTicksPerProbe = 8;
constexpr int kTicksPerTrim = 8;
constexpr int kTicksPerCertificate = 40;
// A job in training leaves about 70 MB of old checkpoints every 30 s.
constexpr absl::Duration kCollectInterval = absl::Minutes(2);

// Small buffers of many messages leave holes all over the heap, which glibc keeps. A trim takes a
// millisecond for every few MB, so little is left alone.
void ReturnFreeMemory() {
  constexpr size_t kWorthIt = size_t{48} << 20;
  if (mallinfo2().fordblks > kWorthIt) malloc_trim(kWorthIt / 4);
}

}  // namespace

Clockwork::Clockwork(const Parts& parts)
    : parts_(parts),
      ticker_([this] { RunTicks(); }),
      collector_([this] { RunCollector(); }),
      scrubber_([this] { RunScrubber(); }),
      mover_([this] { RunMover(); }) {}

Clockwork::~Clockwork() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
  }
  wake_.NotifyAll();
  ticker_.join();
  collector_.join();
  scrubber_.join();
  mover_.join();
}

bool Clockwork::Sleep(absl::Duration duration) {
  RealClock clock;
  const SteadyTime end = clock.Now() + duration;
  MutexLock lock(mu_);
  while (!stopping_ && clock.Now() < end) wake_.WaitFor(mu_, end - clock.Now());
  return !stopping_;
}

void Clockwork::RunTicks() {
  int ticks = 0;
  do {
    parts_.clock->Tick(parts_.state->StoreHangs());
    parts_.leases->ExpireLeases();
    FollowStore();
    parts_.rpc->Tick();
    if (ticks % kTicksPerTrim == 0) ReturnFreeMemory();
    if (ticks % kTicksPerCertificate == 0) PublishCertificate();
    if (ticks++ % kTicksPerGauges == 0) {
      parts_.upkeep->Tick();
      PublishGauges();
      if (parts_.jwt_keys != nullptr) parts_.jwt_keys->Reload();
    }
  } while (Sleep(kTickInterval));
}

void Clockwork::SetServing(bool serving) {
  MutexLock lock(mu_);
  serving_ = serving;
  ShowHealth();
}

void Clockwork::ShowHealth() {
  if (!serving_.has_value()) return;
  const bool ready = *serving_ && !read_only_;
  parts_.rpc->SetServing(ready);
  if (parts_.health != nullptr) parts_.health->SetReady(ready);
}

void Clockwork::FollowStore() {
  const bool read_only = parts_.store->read_only();
  bool changed = false;
  {
    MutexLock lock(mu_);
    changed = read_only != std::exchange(read_only_, read_only);
    if (changed) ShowHealth();
  }
  if (changed) {
    ticks_read_only_ = 0;
    if (read_only) {
      LogWarning("the store is read-only; reads go on");
    } else {
      LogInfo("the store can be written again");
    }
  }
  parts_.metrics->SetStoreReadOnly(read_only);
  // Only a read-only store that does not hang is tried.
  if (read_only && ++ticks_read_only_ % kTicksPerProbe == 0 && !parts_.state->StoreHangs()) {
    parts_.state->StoreAge();
  }
}

void Clockwork::PublishGauges() {
  nerf::PublishGauges(parts_.queue->Stats(), *parts_.workers->List(), parts_.blobs->Stats(),
                      parts_.metrics);
}

void Clockwork::PublishCertificate() {
  if (parts_.certificate.empty()) return;
  const absl::StatusOr<absl::Time> expiry = CertificateExpiry(parts_.certificate);
  if (expiry.ok()) {
    parts_.metrics->SetCertificateExpiry(absl::ToDoubleSeconds(*expiry - absl::UnixEpoch()));
    warned_of_certificate_ = false;
  } else if (!std::exchange(warned_of_certificate_, true)) {
    LogWarning("the certificate cannot be read",
               {{"error", std::string(expiry.status().message())}});
  }
}

void Clockwork::RunScrubber() {
  constexpr absl::Duration kScrubTick = absl::Seconds(1);
  while (Sleep(kScrubTick)) parts_.scrubber->Tick();
}

void Clockwork::RunMover() {
  constexpr int kMoverNice = 10;  // digests take whole cores
  if (parts_.moving == nullptr) return;
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kMoverNice);
  parts_.moving->MoveAll([this](absl::Duration pause) { return Sleep(pause); });
}

void Clockwork::RunCollector() {
  Retention retention(parts_.state);
  parts_.admin->CountStoredBytes();
  while (Sleep(kCollectInterval)) {
    if (absl::Status status = retention.Sweep(); !status.ok()) {
      LogError("old requests and events could not be dropped", {{"error", status.ToString()}});
    }
    if (absl::Status status = parts_.retention->Sweep(); !status.ok()) {
      LogError("old resources could not be deleted", {{"error", status.ToString()}});
    }
    parts_.admin->CountStoredBytes();
    const absl::StatusOr<size_t> n_files = parts_.blobs->Collect(parts_.state->ReachableBlobs());
    if (!n_files.ok()) {
      LogError("blobs could not be collected", {{"error", n_files.status().ToString()}});
    } else if (*n_files > 0) {
      LogInfo("blobs collected", {{"files", *n_files}});
    }
  }
}

}  // namespace nerf
