#include "server/rpc/convert/convert_scene.h"

#include <fmt/format.h>

#include <set>
#include <string>
#include <utility>

#include "common/error_reason.h"
#include "common/status_macros.h"
#include "server/queue/resources/request_check.h"
#include "server/queue/resources/resource_key.h"
#include "server/rpc/convert/convert_common.h"

namespace nerf {

void AddManifest(const std::vector<SceneFileRecord>& files,
                 google::protobuf::RepeatedPtrField<v1::SceneManifestEntry>* manifest) {
  for (const SceneFileRecord& file : files) {
    v1::SceneManifestEntry* entry = manifest->Add();
    entry->set_path(file.path);
    *entry->mutable_blob() = ToProto(file.blob);
  }
}

std::vector<SceneFileRecord> ParseManifest(
    const std::string& prefix, const google::protobuf::RepeatedPtrField<v1::SceneFile>& files,
    RequestCheck& check) {
  std::vector<SceneFileRecord> records;
  // Indexes of malformed blobs. The check of the manifest would report them a second time.
  std::set<std::string> reported;
  for (int i = 0; i < files.size(); ++i) {
    const std::string field = fmt::format("files[{}].blob", i);
    absl::StatusOr<BlobRef> blob = FromProto(prefix + field, files[i].blob());
    if (!blob.ok()) {
      check.Add(blob.status());
      reported.insert(field);
    }
    records.push_back({files[i].path(), blob.ok() ? *blob : BlobRef{}});
  }
  for (const Problem& problem : GetProblems(CheckManifest(records))) {
    const bool known = reported.contains(problem.field.substr(0, problem.field.find(".blob") + 5));
    if (!known) check.Add(prefix + problem.field, problem.message);
  }
  return records;
}

absl::Status CheckManifestSize(size_t byte_size) {
  if (byte_size <= kMaxManifestBytes) return absl::OkStatus();
  return WithReason(absl::ResourceExhaustedError(fmt::format(
                        "the manifest takes {} bytes of at most {}", byte_size, kMaxManifestBytes)),
                    reason::kSizeLimit);
}

absl::StatusOr<SceneSpec> FromProto(const v1::CreateSceneRequest& request) {
  RequestCheck check;
  SceneSpec spec;
  spec.project = TakeOr(ParseProjectName("parent", request.parent()), check);
  spec.id = request.scene_id();
  check.RequireId("scene_id", spec.id, /*may_be_empty=*/true);
  spec.request_id = request.request_id();
  check.RequireRequestId("request_id", spec.request_id);
  spec.display_name = request.scene().display_name();
  check.RequireDisplayName("scene.display_name", spec.display_name);
  spec.files = ParseManifest("scene.", request.scene().files(), check);
  NERF_RETURN_IF_ERROR(check.Result());
  NERF_RETURN_IF_ERROR(CheckManifestSize(request.scene().ByteSizeLong()));
  return spec;
}

}  // namespace nerf
