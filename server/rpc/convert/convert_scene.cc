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

v1::Scene ToProto(const SceneRecord& scene) {
  v1::Scene proto;
  proto.set_name(SceneName(scene.key));
  proto.set_display_name(scene.display_name);
  for (const SceneFileRecord& file : scene.files) {
    v1::SceneFile* added = proto.add_files();
    added->set_path(file.path);
    *added->mutable_blob() = ToProto(file.blob);
  }
  proto.set_size_bytes(static_cast<double>(scene.byte_size));
  *proto.mutable_create_time() = ToProto(scene.create_time);
  return proto;
}

void AddManifest(const SceneRecord& scene,
                 google::protobuf::RepeatedPtrField<v1::SceneManifestEntry>* files) {
  for (const SceneFileRecord& file : scene.files) {
    v1::SceneManifestEntry* entry = files->Add();
    entry->set_path(file.path);
    *entry->mutable_blob() = ToProto(file.blob);
  }
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

  // Indexes of malformed blobs. The check of the manifest would report them a second time.
  std::set<std::string> reported;
  for (int i = 0; i < request.scene().files_size(); ++i) {
    const v1::SceneFile& file = request.scene().files(i);
    const std::string field = fmt::format("files[{}].blob", i);
    absl::StatusOr<BlobRef> blob = FromProto("scene." + field, file.blob());
    if (!blob.ok()) {
      check.Add(blob.status());
      reported.insert(field);
    }
    spec.files.push_back({file.path(), blob.ok() ? *blob : BlobRef{}});
  }
  for (const FieldViolation& violation : GetFieldViolations(CheckManifest(spec.files))) {
    const bool known =
        reported.contains(violation.field.substr(0, violation.field.find(".blob") + 5));
    if (!known) check.Require(false, "scene." + violation.field, violation.description);
  }
  NERF_RETURN_IF_ERROR(check.Result());
  if (request.scene().ByteSizeLong() > kMaxManifestBytes) {
    return WithReason(absl::ResourceExhaustedError(
                          fmt::format("the manifest takes {} bytes of at most {}",
                                      request.scene().ByteSizeLong(), kMaxManifestBytes)),
                      reason::kSizeLimit);
  }
  return spec;
}

}  // namespace nerf
