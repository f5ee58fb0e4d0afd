#include "server/access/method_policy.h"

#include <algorithm>
#include <array>
#include <string>

namespace nerf {
namespace {

constexpr Roles Set(std::initializer_list<Role> roles) {
  Roles set = 0;
  for (const Role role : roles) set |= static_cast<Roles>(role);
  return set;
}

constexpr Roles kReaders = Set({Role::kViewer, Role::kEditor, Role::kAdmin});
constexpr Roles kWriters = Set({Role::kEditor, Role::kAdmin});
constexpr Roles kAdmins = Set({Role::kAdmin});
constexpr Roles kWorkers = Set({Role::kWorker});
constexpr Roles kEverybody = kReaders | kWorkers;

constexpr ResourceField kName{"name"};
constexpr ResourceField kParent{"parent", EmptyField::kDefaultProject};

constexpr MethodPolicy Reads(std::string_view method, ResourceField field) {
  return {method, kReaders, Scope::kProject, false, {field}};
}
constexpr MethodPolicy Changes(std::string_view method, ResourceField field) {
  return {method, kWriters, Scope::kProject, true, {field}};
}

constexpr std::array kPolicies = {
    Changes("nerf.v1.SceneService/CreateScene", kParent),
    Reads("nerf.v1.SceneService/GetScene", kName),
    Reads("nerf.v1.SceneService/ListScenes", kParent),
    Changes("nerf.v1.SceneService/DeleteScene", kName),
    Reads("nerf.v1.SceneService/ValidateScene", kName),
    Reads("nerf.v1.SceneService/DescribeScene", kName),

    MethodPolicy{"nerf.v1.BlobService/FindMissingBlobs",
                 kWriters | kWorkers,
                 Scope::kProject,
                 false,
                 {kParent}},
    MethodPolicy{"nerf.v1.BlobService/CheckBlob", kEverybody, Scope::kProject, false, {kParent}},
    MethodPolicy{"nerf.v1.BlobService/SignBlobUrl", kEverybody, Scope::kProject, false, {kParent}},
    MethodPolicy{"nerf.v1.BlobService/AdoptBlob", kWorkers, Scope::kServer},
    MethodPolicy{"google.bytestream.ByteStream/Read",
                 kEverybody,
                 Scope::kProject,
                 false,
                 {{"resource_name"}}},
    MethodPolicy{"google.bytestream.ByteStream/Write",
                 kWriters | kWorkers,
                 Scope::kProject,
                 false,
                 {{"resource_name"}}},
    MethodPolicy{"google.bytestream.ByteStream/QueryWriteStatus",
                 kWriters | kWorkers,
                 Scope::kProject,
                 false,
                 {{"resource_name"}}},

    MethodPolicy{"nerf.v1.JobService/CreateJob",
                 kWriters,
                 Scope::kProject,
                 true,
                 {kParent,
                  {"job.training.scene"},
                  {"job.training.pose_job"},
                  // The server's choice among the models of the parent, or none.
                  {"job.training.config.init.model", EmptyField::kNothing, {"auto", "none"}},
                  {"job.training.config.init.checkpoint"},
                  {"job.render.model"},
                  {"job.render.checkpoint"},
                  {"job.pose.scene"},
                  {"job.pose.into"},
                  {"job.export.model"},
                  {"job.export.checkpoint"}}},
    Reads("nerf.v1.JobService/GetJob", kName),
    Reads("nerf.v1.JobService/ListJobs", kParent),
    Changes("nerf.v1.JobService/UpdateJob", {"job.name"}),
    Changes("nerf.v1.JobService/PauseJob", kName),
    Changes("nerf.v1.JobService/ResumeJob", kName),
    Changes("nerf.v1.JobService/RetryJob", kName),
    Changes("nerf.v1.JobService/ExtendJob", kName),
    Changes("nerf.v1.JobService/CancelJob", kName),
    Changes("nerf.v1.JobService/DeleteJob", kName),
    Reads("nerf.v1.JobService/WatchJob", kName),
    Reads("nerf.v1.JobService/ListJobMetrics", kName),
    Reads("nerf.v1.JobService/WatchJobs", kParent),

    Reads("nerf.v1.ModelService/ListCheckpoints", kParent),
    Changes("nerf.v1.ModelService/PromoteCheckpoint", kName),
    Reads("nerf.v1.ModelService/GetModel", kName),
    Reads("nerf.v1.ModelService/ListModels", kParent),
    Changes("nerf.v1.ModelService/UpdateModel", {"model.name"}),
    Changes("nerf.v1.ModelService/DeleteModel", kName),
    MethodPolicy{"nerf.v1.ModelService/CreateShare",
                 kWriters,
                 Scope::kProject,
                 true,
                 {{"parent"}, {"share.export_job"}}},
    MethodPolicy{"nerf.v1.ModelService/ListShares", kWriters, Scope::kProject, false, {{"parent"}}},
    Changes("nerf.v1.ModelService/RevokeShare", kName),

    MethodPolicy{"nerf.v1.RenderService/RenderImage",
                 kReaders,
                 Scope::kProject,
                 false,
                 {{"model"}, {"checkpoint"}, {"training_job"}}},
    Reads("nerf.v1.RenderService/ExpandCameraPath", kParent),

    MethodPolicy{"nerf.v1.ViewService/StreamViews",
                 kReaders,
                 Scope::kProject,
                 false,
                 {{"model"}, {"checkpoint"}, {"training_job"}}},
    Reads("nerf.v1.ViewService/UpdateView", kName),

    MethodPolicy{"nerf.v1.AdminService/ListWorkers", kReaders, Scope::kServer},
    MethodPolicy{"nerf.v1.AdminService/DrainWorker", kAdmins, Scope::kServer, true, {}, "name"},
    MethodPolicy{"nerf.v1.AdminService/UndrainWorker", kAdmins, Scope::kServer, true, {}, "name"},
    MethodPolicy{"nerf.v1.AdminService/ListProjects", kAdmins, Scope::kServer},
    Reads("nerf.v1.AdminService/GetProject", kName),
    // Quotas protect the server, so a project's own admins do not set them.
    MethodPolicy{
        "nerf.v1.AdminService/UpdateProject", kAdmins, Scope::kServer, true, {}, "project.name"},
    MethodPolicy{
        "nerf.v1.AdminService/BackupStore", kAdmins, Scope::kServer, true, {}, "backup_id"},
    MethodPolicy{"nerf.v1.AdminService/GetAccess", kEverybody, Scope::kCaller},
    MethodPolicy{"nerf.v1.AdminService/CreateToken",
                 kAdmins,
                 Scope::kProject,
                 true,
                 {{"token.project", EmptyField::kEveryProject}}},
    MethodPolicy{"nerf.v1.AdminService/ListTokens",
                 kAdmins,
                 Scope::kProject,
                 false,
                 {{"project", EmptyField::kEveryProject}}},
    // Only the handler knows which project a token belongs to.
    MethodPolicy{"nerf.v1.AdminService/DeleteToken", kAdmins, Scope::kProject, true, {}, "name"},

    MethodPolicy{"nerf.v1.WorkerService/Synchronize", kWorkers, Scope::kServer},
    MethodPolicy{"nerf.v1.WorkerService/CommitCheckpoint", kWorkers, Scope::kServer},
    MethodPolicy{"nerf.v1.WorkerService/CommitFrames", kWorkers, Scope::kServer},
    MethodPolicy{"nerf.v1.WorkerService/CommitPoses", kWorkers, Scope::kServer},
};

}  // namespace

const MethodPolicy* FindMethodPolicy(std::string_view method) {
  const auto found =
      std::find_if(kPolicies.begin(), kPolicies.end(),
                   [&](const MethodPolicy& policy) { return policy.method == method; });
  return found == kPolicies.end() ? nullptr : &*found;
}

std::span<const MethodPolicy> MethodPolicies() { return kPolicies; }

ResourceRef ResourceOf(std::string_view name) {
  constexpr std::string_view kProjects = "projects/";
  if (name.starts_with(kProjects)) {
    const std::string_view rest = name.substr(kProjects.size());
    return {std::string(rest.substr(0, rest.find('/'))), std::string(name)};
  }
  if (name.starts_with("blobs/") || name.starts_with("uploads/")) {
    return {"default", std::string(name)};
  }
  return {"", std::string(name)};
}

}  // namespace nerf
