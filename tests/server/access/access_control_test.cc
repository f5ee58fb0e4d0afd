// The one decision: principals of each kind on resources of two projects.
#include "server/access/access_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/access_reason.h"
#include "common/error_reason.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

constexpr char kRead[] = "nerf.v1.JobService/GetJob";
constexpr char kChange[] = "nerf.v1.JobService/CancelJob";
constexpr char kServer[] = "nerf.v1.AdminService/ListWorkers";
constexpr char kWork[] = "nerf.v1.WorkerService/CommitCheckpoint";
constexpr char kToken[] = "nerf.v1.AdminService/CreateToken";

Principal Of(Role role, const std::string& project = "", const std::string& resource = "") {
  return {"someone", {{role, project, resource}}};
}

bool May(const Principal& principal, std::string_view method, const std::string& name = "") {
  const std::vector<ResourceRef> resources = {ResourceOf(name)};
  const absl::Status status = Authorize(principal, FindMethodPolicy(method), resources);
  EXPECT_TRUE(status.ok() || GetReason(status)->reason == reason::kAccessDenied) << status;
  return status.ok();
}

TEST(AccessControlTest, RolesReachTheirOwnProjectAlone) {
  const std::string mine = "projects/a/jobs/j", other = "projects/b/jobs/j";
  for (const Role role : {Role::kViewer, Role::kEditor, Role::kAdmin}) {
    EXPECT_TRUE(May(Of(role, "a"), kRead, mine));
    EXPECT_FALSE(May(Of(role, "a"), kRead, other));
    EXPECT_TRUE(May(Of(role), kRead, other));
    EXPECT_FALSE(May(Of(role, "a"), kServer));
    EXPECT_TRUE(May(Of(role), kServer));
  }
  EXPECT_FALSE(May(Of(Role::kViewer, "a"), kChange, mine));
  EXPECT_TRUE(May(Of(Role::kEditor, "a"), kChange, mine));
  EXPECT_FALSE(May(Of(Role::kEditor, "a"), kToken, "projects/a"));
  EXPECT_TRUE(May(Of(Role::kAdmin, "a"), kToken, "projects/a"));
  EXPECT_FALSE(May(Of(Role::kAdmin, "a"), kToken)) << "a token for every project";
}

TEST(AccessControlTest, RefusalSaysWhichRoleIsNeeded) {
  const ResourceRef mine = ResourceOf("projects/a/jobs/j"), other = ResourceOf("projects/b/jobs/j");
  const auto refusal = [](const Principal& principal, std::string_view method,
                          const ResourceRef& resource) {
    return Authorize(principal, FindMethodPolicy(method), {&resource, 1});
  };
  const absl::Status viewer = refusal(Of(Role::kViewer, "a"), kChange, mine);
  EXPECT_EQ(viewer.message(),
            "someone may not call nerf.v1.JobService/CancelJob: it needs the role editor");
  EXPECT_EQ(GetReason(viewer)->metadata.at("role"), "editor");
  EXPECT_EQ(refusal(Of(Role::kEditor, "a"), kChange, other).message(),
            "someone may not call nerf.v1.JobService/CancelJob on projects/b/jobs/j (or it might "
            "not exist): it needs the role editor");
  EXPECT_EQ(refusal(Of(Role::kAdmin, "a"), kServer, {}).message(),
            "someone may not call nerf.v1.AdminService/ListWorkers for every project: it needs the "
            "role viewer");
  EXPECT_EQ(GetReason(refusal(Of(Role::kAdmin), kWork, {}))->metadata.at("role"), "worker");
}

TEST(AccessControlTest, WorkersWorkAndOthersDoNot) {
  EXPECT_TRUE(May(Of(Role::kWorker), kWork));
  EXPECT_FALSE(May(Of(Role::kAdmin), kWork));
  EXPECT_FALSE(May(Of(Role::kWorker), kRead, "projects/a/jobs/j"));
  EXPECT_TRUE(May(Of(Role::kWorker), "google.bytestream.ByteStream/Read", "projects/a/blobs/x/1"));
}

TEST(AccessControlTest, GrantOfOneResourceReachesItAndWhatIsBelow) {
  const Principal share = Of(Role::kViewer, "a", "projects/a/jobs/j");
  EXPECT_TRUE(May(share, kRead, "projects/a/jobs/j"));
  EXPECT_TRUE(May(share, "nerf.v1.RenderService/RenderImage", "projects/a/jobs/j/checkpoints/5"));
  EXPECT_FALSE(May(share, kRead, "projects/a/jobs/j2"));
  EXPECT_FALSE(May(share, "nerf.v1.JobService/ListJobs", "projects/a"));
  EXPECT_FALSE(May(share, kChange, "projects/a/jobs/j"));
}

TEST(AccessControlTest, NamesOfNoProjectAreForEveryProjectsRolesAlone) {
  for (const char* name : {"", "x", "projects", "projects/", "projects//jobs/j", "../a",
                           "Projects/a/jobs/j", " projects/a/jobs/j"}) {
    EXPECT_FALSE(May(Of(Role::kAdmin, "a"), kRead, name)) << name;
    EXPECT_TRUE(May(Of(Role::kAdmin), kRead, name)) << name;
  }
  EXPECT_FALSE(May(Of(Role::kAdmin, "a"), kRead, "blobs/x/1")) << "of the default project";
  EXPECT_TRUE(May(Of(Role::kViewer, "default"), kRead, "blobs/x/1"));
}

TEST(AccessControlTest, WithoutPolicyOrGrantNobodyMayDoAnything) {
  EXPECT_FALSE(May(Of(Role::kAdmin), "nerf.v1.QuotaService/SetQuota"));
  for (const MethodPolicy& policy : MethodPolicies()) {
    EXPECT_EQ(May({"nobody", {}}, policy.method, "projects/a/x/y"), policy.scope == Scope::kCaller)
        << policy.method;
  }
}

// A request that has named nothing yet: whether it may name anything at all.
TEST(AccessControlTest, WithoutResourcesAnyGrantOfTheRoleOpensAStream) {
  const MethodPolicy* write = FindMethodPolicy("google.bytestream.ByteStream/Write");
  EXPECT_THAT(Authorize(Of(Role::kEditor, "a"), write, {}), IsOk());
  EXPECT_THAT(Authorize(Of(Role::kViewer, "a"), write, {}),
              FailsWith(absl::StatusCode::kPermissionDenied, reason::kAccessDenied));
}

TEST(AccessControlTest, ServerThatMayHaveBeenReplacedLetsNobodyIn) {
  class Everybody final : public PrincipalSource {
   public:
    absl::StatusOr<std::optional<Principal>> Identify(std::string_view) const override {
      return Of(Role::kAdmin);
    }
  } everybody;
  bool leads = true;
  const AccessControl access({&everybody}, [&] { return leads; });
  EXPECT_THAT(access.Authenticate("token"), IsOk());
  leads = false;
  EXPECT_THAT(access.Authenticate("token"),
              FailsWith(absl::StatusCode::kUnavailable, reason::kNotReady));
}

}  // namespace
}  // namespace nerf
