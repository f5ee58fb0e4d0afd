#include "tests/torture/cut_check.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "common/files/sha256.h"
#include "server/queue/catalogs/scene_catalog.h"
#include "server/queue/state/job_queue.h"
#include "server/store/backup.h"
#include "server/store/folder_blob_store.h"
#include "server/store/sqlite_access_store.h"
#include "server/store/sqlite_store.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_random.h"
#include "tests/torture/row_model.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;

// Every file below blobs/ is whole.
std::string CheckBlobFiles(const std::string& folder) {
  for (const auto& entry : fs::recursive_directory_iterator(folder + "/blobs")) {
    if (!entry.is_regular_file()) continue;
    const auto digest = Sha256OfFile(entry.path().string());
    if (!digest.ok() || *digest != entry.path().filename().string()) {
      return "a blob's file is not what its name says: " + entry.path().string();
    }
  }
  return "";
}

// Goes on with each unfinished upload. What arrived may be gone or spoiled; then the upload is
// refused once and can be sent again.
std::string FinishUploads(BlobStore& blobs, const StoryRecord& record) {
  for (const UnfinishedUpload& upload : blobs.ListUploads()) {
    const size_t dot = upload.name.rfind('.');
    const std::string id = upload.name.substr(0, dot), sha256 = upload.name.substr(dot + 1);
    const auto content = record.contents.find(sha256);
    if (content == record.contents.end()) continue;
    const BlobRef blob{sha256, content->second.size()};
    absl::Status status;
    for (int attempt = 0; attempt < 2; ++attempt) {
      const auto begun = blobs.GetUpload(id, blob);
      if (!begun.ok()) return "an upload has no state: " + begun.status().ToString();
      if (begun->committed_size > blob.byte_size) return "an upload is longer than its blob";
      status = blobs
                   .Append(id, blob, begun->committed_size,
                           content->second.substr(begun->committed_size))
                   .status();
      if (status.ok()) status = blobs.Finish(id, blob).status();
      if (status.ok()) break;
    }
    if (!status.ok()) return "an upload cannot be finished: " + status.ToString();
    if (!blobs.Read(blob, 0, blob.byte_size).ok()) return "a finished upload is not there";
  }
  return "";
}

// Creates a job, and opens the store again.
std::string Continue(const std::string& folder, BlobStore& blobs, FakeRandom& random) {
  FakeClock clock;
  for (const bool creates : {true, false}) {
    auto store = SqliteStore::Open(folder + "/queue.db", random, {.reserve_bytes = 4096});
    if (!store.ok()) return "does not open a second time: " + store.status().ToString();
    auto state = QueueState::Open(
        {}, {.clock = &clock, .random = &random, .store = store->get(), .blobs = &blobs});
    if (!state.ok()) return "has no queue the second time: " + state.status().ToString();
    JobQueue queue(state->get());
    const ResourceKey key{"default", "after-the-cut"};
    if (!creates) {
      const auto found = queue.Get(key);
      return found.ok() ? "" : "lost a job after the cut: " + found.status().ToString();
    }
    SceneCatalog scenes(state->get());
    const auto blob = blobs.Put("after the cut");
    if (!blob.ok()) return "stores no blob: " + blob.status().ToString();
    SceneSpec spec_of_scene{"default", "after-the-cut", "", "", {}};
    spec_of_scene.files.push_back({"a.png", *blob});
    const auto scene = scenes.Create(spec_of_scene);
    if (!scene.ok()) return "takes no scene: " + scene.status().ToString();
    JobSpec spec;
    spec.project = "default";
    spec.id = key.id;
    spec.training.scene = "after-the-cut";
    spec.training.config.set_method("ngp");
    const auto job = queue.Create(spec);
    if (!job.ok()) return "takes no job: " + job.status().ToString();
  }
  return "";
}

}  // namespace

void CutCheck::Advance(size_t place) {
  place_ = place;
  // A mark at a place is of what was told once the operations before it had been done.
  const auto passed = [&](const auto& marks, size_t* n, const auto& take) {
    for (; *n < marks.size() && marks[*n].place <= place; ++*n) take(marks[*n]);
  };
  while (n_states_ < record_.states.size() && record_.states[n_states_].began <= place) {
    ++n_states_;
  }
  for (size_t i = last_acknowledged_; i < n_states_; ++i) {
    if (record_.states[i].acknowledged <= place) last_acknowledged_ = i;
  }
  passed(record_.claims, &n_claims_, [&](const JobClaim& claim) {
    JobTold& told = jobs_[claim.job];
    told.epoch = std::max(told.epoch, claim.epoch);
    told.step = std::max(told.step, claim.step);
    if (claim.end.has_value()) told.end = claim.end;
    told.deleting |= claim.deleting;
    told.deleted |= claim.deleted;
  });
  passed(record_.blobs, &n_blobs_, [&](const BlobMark& mark) {
    if (mark.is_there) {
      blobs_[mark.blob.sha256] = mark.blob;
    } else {
      blobs_.erase(mark.blob.sha256);
    }
  });
  passed(record_.tokens, &n_tokens_,
         [&](const NameMark& mark) { tokens_[mark.name] = mark.presence; });
  passed(record_.backups, &n_backups_,
         [&](const NameMark& mark) { backups_[mark.name] = mark.presence; });
}

std::string CutCheck::Check(const std::string& folder, bool goes_on) const {
  FakeClock clock;
  FakeRandom ids(place_);
  // As nerfd's start (server/main/store_setup.cc).
  if (!fs::exists(folder + "/queue.db") && fs::exists(folder + "/queue.db.commits")) {
    return "queue.db is missing beside queue.db.commits";
  }
  const auto has_blobs = HasBlobFiles(folder);
  if (!has_blobs.ok()) return has_blobs.status().ToString();
  if (!fs::exists(folder + "/queue.db") && *has_blobs) return "queue.db is missing beside blobs";
  auto blobs =
      FolderBlobStore::Open(folder, {.min_free_bytes = 0, .client_reserve_bytes = 0}, &clock);
  if (!blobs.ok()) return "the blobs do not open: " + blobs.status().ToString();
  auto store = SqliteStore::Open(folder + "/queue.db", ids, {.reserve_bytes = 4096});
  if (!store.ok()) return "the store does not open: " + store.status().ToString();
  const auto digest = RowModel::DigestOf(**store);
  if (!digest.ok()) return "the store cannot be read: " + digest.status().ToString();
  bool is_known = false;
  for (size_t i = last_acknowledged_; i < n_states_; ++i) {
    is_known |= record_.states[i].digest == *digest && record_.states[i].refused > place_;
  }
  if (!is_known) {
    for (size_t i = 0; i < record_.states.size(); ++i) {
      if (record_.states[i].digest != *digest) continue;
      return fmt::format("the store has the rows of commit {}; acknowledged: {} of {} begun", i,
                         last_acknowledged_, n_states_);
    }
    return fmt::format("the store has the rows of no commit; acknowledged: {} of {} begun",
                       last_acknowledged_, n_states_);
  }
  {
    auto access = SqliteAccessStore::Open(folder + "/access.db");
    if (!access.ok()) return "access.db does not open: " + access.status().ToString();
    const auto stored = (*access)->Load();
    if (!stored.ok()) return "access.db cannot be read: " + stored.status().ToString();
    std::set<std::string> ids_there;
    for (const TokenRecord& token : stored->tokens) ids_there.insert(token.id);
    for (const auto& [id, presence] : tokens_) {
      if (presence == Presence::kUnknown) continue;
      if (ids_there.contains(id) != (presence == Presence::kThere)) {
        return fmt::format("token {} is {}", id,
                           presence == Presence::kThere ? "lost" : "there again");
      }
    }
  }
  auto state = QueueState::Open(
      {}, {.clock = &clock, .random = &ids, .store = store->get(), .blobs = blobs->get()});
  if (!state.ok()) return "the queue does not open: " + state.status().ToString();
  std::vector<BlobRef> named;
  (*state)->VisitNamedBlobs(
      [&](const std::string&, const BlobRef& blob) { named.push_back(blob); });
  const std::vector<BlobRef> missing = (*blobs)->FindMissing(named);
  if (record_.has_blobs && !missing.empty()) {
    return "a blob that the store names is missing: " + missing[0].sha256;
  }
  JobQueue queue(state->get());
  for (const auto& [id, told] : jobs_) {
    const auto job = queue.Get({"default", id});
    if (told.deleted) {
      if (job.ok()) return id + " was deleted and is there";
      continue;
    }
    if (!job.ok()) {
      // Its deletion may have been committed without having been told.
      if (told.deleting && absl::IsNotFound(job.status())) continue;
      return id + " is lost: " + job.status().ToString();
    }
    const uint32_t step = job->checkpoints.empty() ? 0 : job->checkpoints.back().step;
    if (job->lease.epoch < told.epoch) return id + " forgot a lease";
    if (step < told.step) return fmt::format("{} has step {}, not {}", id, step, told.step);
    if (told.end.has_value() && job->state != *told.end) return id + " has another end";
  }
  if (std::string wrong = CheckBlobFiles(folder); !wrong.empty()) return wrong;
  for (const auto& [sha256, blob] : blobs_) {
    if (!(*blobs)->HasDigest(sha256)) return "an acknowledged blob is lost: " + sha256;
  }
  if (!blobs_.empty()) {
    const BlobRef& blob = blobs_.begin()->second;
    const auto content = (*blobs)->Read(blob, 0, blob.byte_size);
    if (!content.ok()) return "a blob cannot be read: " + content.status().ToString();
  }
  for (const auto& [id, presence] : backups_) {
    if (presence != Presence::kThere) continue;
    const absl::Status whole = CheckBackup(folder + "/backups/" + id, folder + "/no-folder", false);
    if (!whole.ok()) return "backup " + id + " is lost: " + whole.ToString();
  }
  if (!goes_on) return "";
  if (std::string wrong = FinishUploads(**blobs, record_); !wrong.empty()) return wrong;
  state->reset();
  store->reset();
  return Continue(folder, **blobs, ids);
}

}  // namespace nerf
