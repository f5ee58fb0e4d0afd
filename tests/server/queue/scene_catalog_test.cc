#include "server/queue/catalogs/scene_catalog.h"

#include <set>
#include <string>

#include "tests/testing/queue_harness.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using absl::StatusCode;

std::vector<SceneFileRecord> Files(const std::vector<std::string>& paths) {
  std::vector<SceneFileRecord> files;
  for (const std::string& path : paths) files.push_back({path, QueueHarness::Blob(path)});
  return files;
}

std::string Deep(size_t n_parts) {
  std::string path = "f";
  for (size_t i = 1; i < n_parts; ++i) path = "d/" + path;
  return path;
}

TEST(ManifestTest, OrdinaryPathsPass) {
  EXPECT_THAT(CheckManifest(Files({"transforms_train.json", "train/r_0.png", "a/b/c d.jpg",
                                   "ordner/gr\xc3\xbc\xc3\x9f.png", "..a", "a..b/c", ".hidden",
                                   "CON", "a:b", Deep(16), std::string(255, 'x')})),
              IsOk());
}

TEST(ManifestTest, HostilePathsAreEachRefusedByName) {
  const std::vector<std::string> hostile = {
      "",
      "/etc/passwd",
      "//x",
      "..",
      "../x",
      "a/../../x",
      "a/..",
      ".",
      "./a",
      "a/./b",
      "a//b",
      "a/",
      "..\\x",
      "a\\..\\b",
      "C:\\x",
      "\\\\host\\share",
      std::string("a\0b", 3),
      std::string("a.png\0.json", 11),
      "a\nb",
      "a\tb",
      "\x1b[2J",
      "a\x7f",
      "\xff\xfe",
      "a\xc0\xae\xc0\xae/b",  // overlong '..'
      "a\xe0\x80\xaf",        // overlong '/'
      "a\xed\xa0\x80",        // surrogate
      "a\xf4\x90\x80\x80",    // beyond Unicode
      "a\xc3",                // cut short
      "a\xc2\x85",            // C1 control
      std::string(513, 'x'),
      std::string(256, 'x'),
      "d/" + std::string(256, 'x'),
      Deep(17),
      std::string(512, '/'),
  };
  for (const std::string& path : hostile) {
    const absl::Status status = CheckManifest({{path, QueueHarness::Blob("x")}});
    EXPECT_THAT(status, FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid)) << path;
    const auto problems = GetProblems(status);
    ASSERT_EQ(problems.size(), 1u) << path;
    EXPECT_EQ(problems[0].field, "files[0].path");
    EXPECT_LT(problems[0].message.size(), 500u);
  }
}

TEST(ManifestTest, EveryProblemIsListed) {
  auto files = Files({"ok", "../x", "a", "a/b", "ok"});
  files[0].blob.sha256 = "../../etc";
  files[2].blob.byte_size = kMaxSceneFileSize + 1;
  std::vector<std::string> fields;
  for (const auto& violation : GetProblems(CheckManifest(files))) {
    fields.push_back(violation.field);
  }
  EXPECT_THAT(fields, testing::UnorderedElementsAre("files[0].blob.sha256", "files[1].path",
                                                    "files[2].blob.size_bytes", "files[3].path",
                                                    "files[4].path"));
}

TEST(ManifestTest, CountsAreCapped) {
  EXPECT_THAT(CheckManifest({}), StatusIs(StatusCode::kInvalidArgument, "files"));
  std::vector<SceneFileRecord> many(kMaxSceneFiles + 1, {"../a", QueueHarness::Blob("a")});
  EXPECT_THAT(CheckManifest(many), StatusIs(StatusCode::kInvalidArgument, "20000"));
  many.pop_back();
  EXPECT_EQ(GetProblems(CheckManifest(many)).size(), 100u);
}

class SceneCatalogTest : public testing::Test {
 protected:
  QueueHarness harness_;
  SceneSpec Spec(const std::string& id = "") {
    return {"default", id, "", "my scene", Files({"b.png", "a.json"})};
  }
};

TEST_F(SceneCatalogTest, SceneIsStoredSortedAndSurvivesARestart) {
  const auto scene = harness_.scenes->Create(Spec());
  ASSERT_THAT(scene, IsOk());
  EXPECT_EQ(scene->files[0].path, "a.json");
  EXPECT_EQ(scene->byte_size, 11u);
  harness_.Restart();
  EXPECT_THAT(harness_.scenes->Get(scene->key), IsOkAndHolds(*scene));
  EXPECT_TRUE(harness_.scenes->List({"default", 0, ""})->records[0].files.empty());
}

TEST_F(SceneCatalogTest, MissingBlobsAreNamedAndNothingIsStored) {
  harness_.blobs.missing.insert(QueueHarness::Blob("b.png").sha256);
  const auto scene = harness_.scenes->Create(Spec("scene"));
  EXPECT_THAT(scene, FailsWith(StatusCode::kFailedPrecondition, reason::kBlobsMissing));
  EXPECT_THAT(scene, StatusIs(StatusCode::kFailedPrecondition,
                              "blobs/" + QueueHarness::Blob("b.png").sha256 + "/5"));
  EXPECT_THAT(harness_.scenes->Get({"default", "scene"}),
              FailsWith(StatusCode::kNotFound, reason::kResourceNotFound));
}

TEST_F(SceneCatalogTest, RepeatedRequestGivesTheSameSceneAndAnotherBodyIsRefused) {
  SceneSpec spec = Spec();
  spec.request_id = kRequestA;
  const auto first = harness_.scenes->Create(spec);
  EXPECT_EQ(harness_.scenes->Create(spec)->key, first->key);
  spec.files.pop_back();
  EXPECT_THAT(harness_.scenes->Create(spec),
              FailsWith(StatusCode::kAlreadyExists, reason::kRequestIdReused));
  ASSERT_THAT(harness_.scenes->Create(Spec("named")), IsOk());
  EXPECT_THAT(harness_.scenes->Create(Spec("named")),
              FailsWith(StatusCode::kAlreadyExists, reason::kAlreadyExists));
}

TEST_F(SceneCatalogTest, SceneInUseCannotBeDeleted) {
  ASSERT_THAT(harness_.scenes->Create(Spec("scene")), IsOk());
  const LeaseRef lease = harness_.Running("one");
  EXPECT_THAT(harness_.scenes->Delete({"default", "scene"}),
              FailsWith(StatusCode::kFailedPrecondition, reason::kStateConflict));
  ASSERT_THAT(harness_.leases->Finish(lease, {}), IsOk());
  EXPECT_THAT(harness_.scenes->Delete({"default", "scene"}), IsOk());
  EXPECT_THAT(harness_.scenes->Delete({"default", "scene"}), StatusIs(StatusCode::kNotFound));
  harness_.Restart();
  EXPECT_EQ(harness_.StateOf("one"), JobState::kSucceeded) << "jobs of the scene remain";
}

TEST_F(SceneCatalogTest, BlobsAreReachableAsLongAsTheSceneAndThenLetGoOf) {
  ASSERT_THAT(harness_.scenes->Create(Spec("scene")), IsOk());
  const std::set<std::string> reachable = harness_.state->ReachableBlobs();
  EXPECT_TRUE(reachable.contains(QueueHarness::Blob("a.json").sha256));
  EXPECT_THAT(harness_.blobs.released, testing::IsEmpty());
  ASSERT_THAT(harness_.scenes->Delete({"default", "scene"}), IsOk());
  EXPECT_TRUE(harness_.state->ReachableBlobs().empty());
  EXPECT_EQ(harness_.blobs.released, reachable);
}

}  // namespace
}  // namespace nerf
