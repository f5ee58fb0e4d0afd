#include "server/queue/catalogs/scene_catalog.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/logging.h"
#include "common/status_macros.h"
#include "server/queue/kinds/kind_policy.h"
#include "server/queue/resources/request_check.h"
#include "server/queue/resources/resource_error.h"
#include "server/queue/state/quota.h"

namespace nerf {
namespace {

std::string FingerprintOf(const SceneSpec& spec) {
  Fingerprint fingerprint;
  fingerprint.Add("scene").Add(spec.id).Add(spec.display_name).Add(spec.files.size());
  for (const SceneFileRecord& file : spec.files) {
    fingerprint.Add(file.path).Add(file.blob.sha256).Add(file.blob.byte_size);
  }
  return fingerprint.Hex();
}

}  // namespace

absl::StatusOr<SceneRecord> SceneCatalog::Create(const SceneSpec& spec) {
  RequestCheck check;
  check.RequireId("parent", spec.project);
  check.RequireId("scene_id", spec.id, /*may_be_empty=*/true);
  check.RequireRequestId("request_id", spec.request_id);
  check.RequireDisplayName("scene.display_name", spec.display_name);
  check.Add(CheckManifest(spec.files));
  NERF_RETURN_IF_ERROR(check.Result());

  SceneRecord scene;
  scene.key = {spec.project, spec.id};
  scene.display_name = spec.display_name;
  scene.request_id = spec.request_id;
  scene.files = spec.files;
  std::sort(scene.files.begin(), scene.files.end(),
            [](const SceneFileRecord& a, const SceneFileRecord& b) { return a.path < b.path; });
  std::vector<BlobRef> blobs;
  for (const SceneFileRecord& file : scene.files) {
    scene.byte_size += file.blob.byte_size;
    blobs.push_back(file.blob);
  }
  // Called without the lock, because it reads the file system. Present blobs are not collected
  // meanwhile (BlobIndex).
  NERF_RETURN_IF_ERROR(state_.RequireBlobs(blobs));

  QueueLock lock(state_);
  // Without a list every project exists: who may use it was decided before.
  const std::set<std::string>& projects = state_.options.projects;
  if (!projects.empty() && !projects.contains(spec.project)) {
    return ResourceNotFound("projects/" + spec.project);
  }
  const ClaimKey request_key{ClaimKey::Kind::kRequest, {spec.project, spec.request_id}};
  state_.AwaitUnclaimed({request_key, {ClaimKey::Kind::kScene, scene.key}});
  scene.create_time = state_.clock.WallNow();
  RequestRecord request{RequestRecord::Kind::kScene, spec.project, spec.request_id, "",
                        FingerprintOf(spec),         state_.Age()};
  NERF_ASSIGN_OR_RETURN(const auto earlier, state_.requests().Find(request));
  if (earlier.has_value()) {
    const SceneRecord* const found = state_.FindScene({spec.project, *earlier});
    if (found == nullptr) return ResourceNotFound(SceneName({spec.project, *earlier}));
    return *found;
  }
  const auto is_taken = [&] {
    state_.mu.AssertHeld();
    return state_.IsSceneTaken(scene.key);
  };
  if (!spec.id.empty() && is_taken()) return ResourceExists(SceneName(scene.key));
  NERF_RETURN_IF_ERROR(CheckNewRecord(state_, spec.project, BytesOf(scene)));
  NERF_RETURN_IF_ERROR(CheckStoredBytes(state_, spec.project, 0));
  while (scene.key.id.empty() || (spec.id.empty() && is_taken())) {
    scene.key.id = NewShortId("s", state_.random);
  }
  scene.create_sequence = state_.TakeSequences();
  request.resource_id = scene.key.id;
  StoreWrite write;
  write.new_scenes.push_back(scene);
  std::vector<ClaimKey> claimed = {{ClaimKey::Kind::kScene, scene.key}};
  if (!request.request_id.empty()) {
    write.new_requests.push_back(request);
    claimed.push_back(request_key);
  }
  Claim claim(state_, std::move(claimed));
  NERF_RETURN_IF_ERROR(state_.Commit(std::move(write)));

  state_.AddScene(scene);
  state_.requests().Remember(request);
  LogInfo("scene created", {{"project", scene.key.project},
                            {"scene", scene.key.id},
                            {"files", scene.files.size()},
                            {"bytes", scene.byte_size}});
  return scene;
}

absl::StatusOr<SceneRecord> SceneCatalog::Get(const ResourceKey& key) {
  MutexLock lock(state_.mu);
  const SceneRecord* const found = state_.FindScene(key);
  if (found == nullptr) return ResourceNotFound(SceneName(key));
  return *found;
}

absl::StatusOr<Page<SceneRecord>> SceneCatalog::List(const PageRequest& request) {
  MutexLock lock(state_.mu);
  // Without the files.
  const auto summary_of = [](const SceneRecord& scene) {
    return SceneRecord{scene.key, scene.create_sequence, scene.display_name, scene.request_id,
                       {},        scene.byte_size,       scene.create_time};
  };
  return ListPage<SceneRecord>(*state_.token_sealer, "scenes", request, state_.scene_order(),
                               state_.scenes(), summary_of);
}

absl::Status SceneCatalog::Delete(const ResourceKey& key) {
  NERF_ASSIGN_OR_RETURN(const SceneRecord removed, Remove(key));
  // Called without the lock, because it changes every file.
  for (const SceneFileRecord& file : removed.files) state_.blobs.Release(file.blob);
  LogInfo("scene deleted", {{"project", key.project}, {"scene", key.id}});
  return absl::OkStatus();
}

absl::StatusOr<SceneRecord> SceneCatalog::Remove(const ResourceKey& key) {
  QueueLock lock(state_);
  state_.AwaitUnclaimed({{ClaimKey::Kind::kScene, key}});
  if (state_.FindScene(key) == nullptr) return ResourceNotFound(SceneName(key));
  const auto uses = [&](const Job& job) {
    return job.key.project == key.project && SceneReadBy(job) == key.id && !IsFinal(job.state);
  };
  if (const Job* const job = state_.AnyJobThat(uses)) {
    return StateConflict(fmt::format("{} is used by {}", SceneName(key), JobName(job->key)));
  }
  StoreWrite write;
  write.deleted_scenes.push_back(key);
  Claim claim(state_, {{ClaimKey::Kind::kScene, key}});
  NERF_RETURN_IF_ERROR(state_.Commit(std::move(write)));
  return state_.RemoveScene(key);
}

}  // namespace nerf
