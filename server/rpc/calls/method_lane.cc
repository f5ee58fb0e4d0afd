#include "server/rpc/calls/method_lane.h"

namespace nerf {

Lane LaneOf(std::string_view method) {
  const std::string_view name = method.substr(method.find('/') + 1);
  if (name == "ListJobMetrics") return Lane::kRead;  // of the store, for a job that has ended
  if (name.starts_with("Get") || name.starts_with("List")) return Lane::kQuick;
  // Nothing of these is stored.
  if (name == "UpdateView" || name == "SignBlobUrl") return Lane::kQuick;
  // It takes long and holds up nothing else there.
  if (name == "BackupStore") return Lane::kUpload;
  if (name == "FindMissingBlobs" || name == "CheckBlob" || name == "BatchReadBlobs") {
    return Lane::kRead;
  }
  // They wait for the upload's chunk that is being written.
  if (name == "QueryWriteStatus" || name == "AdoptBlob" || name == "BatchUpdateBlobs") {
    return Lane::kUpload;
  }
  return Lane::kCommit;
}

}  // namespace nerf
