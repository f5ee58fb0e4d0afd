// Normal use of every service: stored data is returned, requests may be repeated, pages follow each
// other.
#include <gmock/gmock.h>
#include <google/protobuf/unknown_field_set.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "common/error_reason.h"
#include "common/files/sha256.h"
#include "common/messages/blob_ref.h"
#include "engine/base/method_list/method_descriptions.h"
#include "tests/server/rpc/fake_worker.h"
#include "tests/server/rpc/rpc_test_server.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using absl::StatusCode;

constexpr char kServicesUuid[] = "0b5e4a2e-3c1d-4f6a-9b7e-1a2b3c4d5e6f";
constexpr char kOtherUuid[] = "1b5e4a2e-3c1d-4f6a-9b7e-1a2b3c4d5e6f";

class ServicesTest : public testing::Test {
 protected:
  using Jobs = RpcTestServer::Jobs;

  absl::Status Create(const v1::CreateJobRequest& request, v1::Job* job) {
    return RpcTestServer::Call(*server_.job_stub, &Jobs::CreateJob, request, job);
  }

  // Sends `content` in chunks from `offset`; ends with finish_write when `finish`.
  absl::Status Upload(const std::string& uuid, const v1::BlobRef& blob, const std::string& content,
                      size_t offset, size_t end, bool finish, int64_t* committed) {
    grpc::ClientContext context;
    PrepareCall(absl::Seconds(20), "", &context);
    google::bytestream::WriteResponse response;
    const auto writer = server_.bytes_stub->Write(&context, &response);
    google::bytestream::WriteRequest request;
    request.set_resource_name("uploads/" + uuid + "/" + BlobResourceName(blob));
    do {
      const size_t n = std::min<size_t>(64 << 10, end - offset);
      request.set_write_offset(static_cast<int64_t>(offset));
      request.set_data(content.substr(offset, n));
      offset += n;
      request.set_finish_write(finish && offset == end);
      if (!writer->Write(request)) break;
      request.clear_resource_name();
    } while (offset < end);
    writer->WritesDone();
    const absl::Status status = FromGrpcStatus(writer->Finish());
    *committed = response.committed_size();
    return status;
  }

  absl::StatusOr<std::string> ReadBlob(const v1::BlobRef& blob, int64_t offset = 0,
                                       int64_t limit = 0) {
    grpc::ClientContext context;
    PrepareCall(absl::Seconds(20), "", &context);
    google::bytestream::ReadRequest request;
    request.set_resource_name(BlobResourceName(blob));
    request.set_read_offset(offset);
    request.set_read_limit(limit);
    const auto reader = server_.bytes_stub->Read(&context, request);
    std::string bytes;
    google::bytestream::ReadResponse response;
    while (reader->Read(&response)) bytes += response.data();
    const absl::Status status = FromGrpcStatus(reader->Finish());
    if (!status.ok()) return status;
    return bytes;
  }

  RpcTestServer server_;
};

TEST_F(ServicesTest, CutUploadGoesOnFromTheCommittedSizeAndReadsBackWhole) {
  std::string content(300'000, '\0');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 7);
  const v1::BlobRef blob = BlobOfBytes(content);
  int64_t committed = 0;
  ASSERT_THAT(Upload(kServicesUuid, blob, content, 0, 200'000, false, &committed), IsOk());
  EXPECT_EQ(committed, 200'000);

  google::bytestream::QueryWriteStatusRequest query;
  query.set_resource_name("uploads/" + std::string(kServicesUuid) + "/" + BlobResourceName(blob));
  google::bytestream::QueryWriteStatusResponse upload;
  const auto ask = [&] {
    return RpcTestServer::Call(*server_.bytes_stub,
                               &google::bytestream::ByteStream::Stub::QueryWriteStatus, query,
                               &upload);
  };
  ASSERT_THAT(ask(), IsOk());
  EXPECT_EQ(upload.committed_size(), 200'000);
  EXPECT_FALSE(upload.complete());
  EXPECT_THAT(ReadBlob(blob), FailsWith(StatusCode::kNotFound, reason::kResourceNotFound));

  ASSERT_THAT(Upload(kServicesUuid, blob, content, 200'000, content.size(), true, &committed),
              IsOk());
  EXPECT_EQ(committed, 300'000);
  ASSERT_THAT(ask(), IsOk());
  EXPECT_TRUE(upload.complete());
  EXPECT_THAT(ReadBlob(blob), IsOkAndHolds(content));
  EXPECT_THAT(ReadBlob(blob, 299'990), IsOkAndHolds(content.substr(299'990)));
  EXPECT_THAT(ReadBlob(blob, 100, 70'000), IsOkAndHolds(content.substr(100, 70'000)));
  EXPECT_THAT(ReadBlob(blob, 300'000), IsOkAndHolds(std::string()));
}

TEST_F(ServicesTest, CorruptUploadStoresNothingAndTheSameIdMayStartAnew) {
  const std::string content = "good bytes";
  const v1::BlobRef blob = BlobOfBytes(content);
  int64_t committed = 0;
  EXPECT_THAT(Upload(kServicesUuid, blob, "evil bytes", 0, 10, true, &committed),
              FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));
  EXPECT_THAT(ReadBlob(blob), FailsWith(StatusCode::kNotFound, reason::kResourceNotFound));
  EXPECT_THAT(Upload(kServicesUuid, blob, content, 0, 10, true, &committed), IsOk());
  EXPECT_THAT(ReadBlob(blob), IsOkAndHolds(content));
}

TEST_F(ServicesTest, UploadOfABlobThatIsPresentSucceedsAtOnce) {
  const v1::BlobRef blob = server_.Put("there already");
  int64_t committed = 0;
  EXPECT_THAT(Upload(kOtherUuid, blob, "there already", 0, 5, false, &committed), IsOk());
  EXPECT_EQ(committed, 13);
  int64_t empty_committed = -1;
  EXPECT_THAT(Upload(kServicesUuid, BlobOfBytes(""), "", 0, 0, true, &empty_committed), IsOk());
  EXPECT_EQ(empty_committed, 0);
}

TEST_F(ServicesTest, DamagedBlobIsReadByNobodyAndHealedByTheNextUpload) {
  std::string content(300'000, '\0');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 7);
  const auto lost = FailsWith(StatusCode::kDataLoss, reason::kBlobDamaged);
  v1::CheckBlobRequest check;
  v1::CheckBlobResponse checked;
  v1::FindMissingBlobsRequest find;
  *find.add_blobs() = *check.mutable_blob() = server_.Put(content);
  const v1::BlobRef& blob = check.blob();
  // Found by a read of the whole, of a part, and by a report.
  const std::vector<std::function<absl::Status()>> readers = {
      [&] { return ReadBlob(blob).status(); }, [&] { return ReadBlob(blob, 10, 20).status(); },
      [&] {
        return RpcTestServer::Call(*server_.blob_stub, &v1::BlobService::Stub::CheckBlob, check,
                                   &checked);
      }};
  for (const auto& read : readers) {
    ASSERT_THAT(read(), IsOk());
    std::fstream file(server_.dir / ("blobs/" + blob.sha256().substr(0, 2) + "/" + blob.sha256()),
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(200'000);
    file.put('#');
    file.close();
    EXPECT_THAT(read(), lost);
    for (const auto& any : readers) EXPECT_FALSE(any().ok());
    v1::FindMissingBlobsResponse missing;
    ASSERT_THAT(RpcTestServer::Call(*server_.blob_stub, &v1::BlobService::Stub::FindMissingBlobs,
                                    find, &missing),
                IsOk());
    EXPECT_EQ(missing.missing_size(), 1);
    int64_t committed = 0;
    ASSERT_THAT(Upload(kServicesUuid, blob, content, 0, content.size(), true, &committed), IsOk());
    EXPECT_THAT(ReadBlob(blob), IsOkAndHolds(content));
  }
}

TEST_F(ServicesTest, FindMissingBlobsNamesThoseAlone) {
  v1::FindMissingBlobsRequest request;
  *request.add_blobs() = server_.Put("here");
  *request.add_blobs() = BlobOfBytes("not here");
  v1::FindMissingBlobsResponse response;
  ASSERT_THAT(RpcTestServer::Call(*server_.blob_stub, &v1::BlobService::Stub::FindMissingBlobs,
                                  request, &response),
              IsOk());
  ASSERT_EQ(response.missing_size(), 1);
  EXPECT_EQ(response.missing(0).sha256(), Sha256Hex("not here"));
  EXPECT_EQ(response.missing(0).size_bytes(), 8);
}

TEST_F(ServicesTest, SceneIsCreatedOnceReadListedAndDeleted) {
  v1::CreateSceneRequest request;
  request.set_scene_id("lego");
  request.set_request_id(kServicesUuid);
  request.mutable_scene()->set_display_name("A bulldozer");
  for (const char* path : {"b.png", "a/a.png"}) {
    v1::SceneFile* file = request.mutable_scene()->add_files();
    file->set_path(path);
    *file->mutable_blob() = server_.Put(path);
  }
  v1::Scene scene, again, got;
  ASSERT_THAT(RpcTestServer::Call(*server_.scene_stub, &v1::SceneService::Stub::CreateScene,
                                  request, &scene),
              IsOk());
  EXPECT_EQ(scene.name(), "projects/default/scenes/lego");
  EXPECT_EQ(scene.size_bytes(), 12);
  ASSERT_EQ(scene.files_size(), 2);
  EXPECT_EQ(scene.files(0).path(), "a/a.png");
  ASSERT_THAT(RpcTestServer::Call(*server_.scene_stub, &v1::SceneService::Stub::CreateScene,
                                  request, &again),
              IsOk());
  EXPECT_EQ(again.SerializeAsString(), scene.SerializeAsString());
  request.mutable_scene()->set_display_name("Another");
  EXPECT_THAT(RpcTestServer::Call(*server_.scene_stub, &v1::SceneService::Stub::CreateScene,
                                  request, &again),
              FailsWith(StatusCode::kAlreadyExists, reason::kRequestIdReused));

  v1::GetSceneRequest get;
  get.set_name(scene.name());
  ASSERT_THAT(
      RpcTestServer::Call(*server_.scene_stub, &v1::SceneService::Stub::GetScene, get, &got),
      IsOk());
  EXPECT_EQ(got.SerializeAsString(), scene.SerializeAsString());
  v1::ListScenesResponse list;
  ASSERT_THAT(RpcTestServer::Call(*server_.scene_stub, &v1::SceneService::Stub::ListScenes,
                                  v1::ListScenesRequest(), &list),
              IsOk());
  ASSERT_EQ(list.scenes_size(), 1);
  EXPECT_EQ(list.scenes(0).files_size(), 0);

  v1::DeleteSceneRequest remove;
  remove.set_name(scene.name());
  google::protobuf::Empty empty;
  ASSERT_THAT(RpcTestServer::Call(*server_.scene_stub, &v1::SceneService::Stub::DeleteScene, remove,
                                  &empty),
              IsOk());
  EXPECT_THAT(
      RpcTestServer::Call(*server_.scene_stub, &v1::SceneService::Stub::GetScene, get, &got),
      FailsWith(StatusCode::kNotFound, reason::kResourceNotFound));
}

TEST_F(ServicesTest, JobEchoesItsConfigAndEveryDefault) {
  v1::CreateJobRequest request;
  request.mutable_job()->set_display_name("night run");
  v1::TrainingSpec& wanted = *request.mutable_job()->mutable_training();
  wanted.set_scene(server_.CreateScene());
  wanted.mutable_config()->set_seed(7);
  wanted.mutable_config()->set_seconds(12.5);
  wanted.mutable_config()->set_background(v1::TrainingConfig::WHITE);
  wanted.mutable_config()->set_test_every(0);
  (*wanted.mutable_config()->mutable_settings())["learning_rate"] = "0.005";
  v1::Job job;
  ASSERT_THAT(Create(request, &job), IsOk());
  EXPECT_EQ(job.state(), v1::Job::QUEUED);
  EXPECT_EQ(job.display_name(), "night run");
  EXPECT_EQ(job.training().config().SerializeAsString(), wanted.config().SerializeAsString());
  const v1::TrainingConfig& effective = job.training_status().effective_config();
  EXPECT_EQ(effective.method(), "ngp");
  EXPECT_EQ(effective.seed(), 7u);
  EXPECT_EQ(effective.seconds(), 12.5);
  EXPECT_EQ(effective.background(), v1::TrainingConfig::WHITE);
  EXPECT_TRUE(effective.has_test_every());
  EXPECT_EQ(effective.test_every(), 0u);
  EXPECT_EQ(effective.settings().size(), ConfigSettings(TrainConfig()).size());
  EXPECT_EQ(effective.settings().at("learning_rate").substr(0, 5), "0.005");
  EXPECT_EQ(job.attempt(), 0u);
  EXPECT_FALSE(job.has_start_time());
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(server_.GetJob(job.name()), job));
}

TEST_F(ServicesTest, ValidateOnlyChecksAndCreatesNothing) {
  v1::CreateJobRequest request;
  request.mutable_job()->mutable_training()->set_scene(server_.CreateScene());
  request.set_validate_only(true);
  v1::Job job;
  ASSERT_THAT(Create(request, &job), IsOk());
  EXPECT_EQ(job.training_status().effective_config().samples(), 40e6);
  EXPECT_EQ(server_.ListJobs().jobs_size(), 0);
}

TEST_F(ServicesTest, ValidateOnlyWithoutASceneChecksTheRest) {
  const std::string scene = server_.CreateScene();
  v1::CreateJobRequest request;
  request.set_job_id("taken");
  v1::TrainingSpec& training = *request.mutable_job()->mutable_training();
  training.set_scene(scene);
  v1::Job job;
  ASSERT_THAT(Create(request, &job), IsOk());
  request.set_validate_only(true);
  training.clear_scene();
  EXPECT_THAT(Create(request, &job), FailsWith(StatusCode::kAlreadyExists, reason::kAlreadyExists));
  request.set_job_id("free");
  training.mutable_config()->mutable_init()->set_model("projects/default/models/none");
  EXPECT_THAT(Create(request, &job), FailsWith(StatusCode::kNotFound, reason::kResourceNotFound));
  training.mutable_config()->clear_init();
  ASSERT_THAT(Create(request, &job), IsOk());
  EXPECT_EQ(job.training().scene(), "");
  request.set_validate_only(false);
  EXPECT_THAT(Create(request, &job),
              FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));
}

TEST_F(ServicesTest, EffectiveBackgroundIsSpelledOut) {
  v1::CreateJobRequest request;
  request.mutable_job()->mutable_training()->set_scene(server_.CreateScene());
  v1::Job job;
  ASSERT_THAT(Create(request, &job), IsOk());
  EXPECT_EQ(job.training_status().effective_config().background(), v1::TrainingConfig::AUTO);
  request.mutable_job()->mutable_training()->mutable_config()->set_background(
      v1::TrainingConfig::AUTO);
  ASSERT_THAT(Create(request, &job), IsOk());
  EXPECT_EQ(job.training_status().effective_config().background(), v1::TrainingConfig::AUTO);
}

TEST_F(ServicesTest, RepeatedRequestReturnsTheSameJobAlsoAfterARestart) {
  v1::CreateJobRequest request;
  request.mutable_job()->mutable_training()->set_scene(server_.CreateScene());
  request.set_request_id(kServicesUuid);
  v1::Job first, second;
  ASSERT_THAT(Create(request, &first), IsOk());
  server_.Stop();
  server_.Start();
  ASSERT_THAT(Create(request, &second), IsOk());
  EXPECT_EQ(second.name(), first.name());
  request.mutable_job()->mutable_training()->mutable_config()->set_seed(9);
  EXPECT_THAT(Create(request, &second),
              FailsWith(StatusCode::kAlreadyExists, reason::kRequestIdReused));
}

TEST_F(ServicesTest, PagesFollowEachOtherNewestFirstAndTokensBelongToTheirList) {
  const std::string scene = server_.CreateScene();
  std::vector<std::string> created;
  for (int i = 0; i < 7; ++i) created.push_back(server_.CreateJob(scene).name());
  std::vector<std::string> listed;
  v1::ListJobsRequest request;
  request.set_page_size(3);
  v1::ListJobsResponse page;
  std::vector<int> sizes;
  std::string some_token;
  do {
    ASSERT_THAT(RpcTestServer::Call(*server_.job_stub, &Jobs::ListJobs, request, &page), IsOk());
    sizes.push_back(page.jobs_size());
    for (const auto& job : page.jobs()) listed.push_back(job.name());
    if (!page.next_page_token().empty()) some_token = page.next_page_token();
    request.set_page_token(page.next_page_token());
  } while (!page.next_page_token().empty() && sizes.size() < 10);
  EXPECT_THAT(sizes, testing::ElementsAre(3, 3, 1));
  EXPECT_EQ(listed, std::vector<std::string>(created.rbegin(), created.rend()));

  v1::ListScenesRequest scenes;
  scenes.set_page_token(some_token);
  v1::ListScenesResponse ignored;
  EXPECT_THAT(RpcTestServer::Call(*server_.scene_stub, &v1::SceneService::Stub::ListScenes, scenes,
                                  &ignored),
              FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));
  v1::ListJobsRequest elsewhere;
  elsewhere.set_parent("projects/other");
  elsewhere.set_page_token(some_token);
  EXPECT_THAT(RpcTestServer::Call(*server_.job_stub, &Jobs::ListJobs, elsewhere, &page),
              FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));
}

TEST_F(ServicesTest, UpdateChangesTheFieldsOfTheMaskAndComparesTheEtag) {
  const v1::Job job = server_.CreateJob(server_.CreateScene());
  v1::UpdateJobRequest request;
  *request.mutable_job() = job;
  request.mutable_job()->set_priority(5);
  request.mutable_job()->set_display_name("not in the mask");
  (*request.mutable_job()->mutable_labels())["team"] = "blue";
  request.mutable_update_mask()->add_paths("priority");
  request.mutable_update_mask()->add_paths("labels.team");
  const auto updated = server_.CallJob(&Jobs::UpdateJob, request);
  ASSERT_THAT(updated, IsOk());
  EXPECT_EQ(updated->priority(), 5);
  EXPECT_EQ(updated->labels().at("team"), "blue");
  EXPECT_EQ(updated->display_name(), job.display_name());
  EXPECT_NE(updated->etag(), job.etag());
  EXPECT_THAT(server_.CallJob(&Jobs::UpdateJob, request),
              FailsWith(StatusCode::kAborted, reason::kEtagMismatch));
}

TEST_F(ServicesTest, ListShowsWhatTheFilterMatches) {
  const std::string scene = server_.CreateScene();
  const v1::Job queued = server_.CreateJob(scene);
  const v1::Job other = server_.CreateJob(scene);
  ASSERT_THAT(server_.CancelJob(other.name()), IsOk());
  const v1::ListJobsResponse list = server_.ListJobs("state = QUEUED");
  ASSERT_EQ(list.jobs_size(), 1);
  EXPECT_EQ(list.jobs(0).name(), queued.name());
}

TEST_F(ServicesTest, RetryOfACancelledJobIsANewJobOfTheSameConfig) {
  const v1::Job job = server_.CreateJob(server_.CreateScene());
  ASSERT_THAT(server_.CancelJob(job.name()), IsOk());
  v1::RetryJobRequest request;
  request.set_name(job.name());
  request.set_request_id(kServicesUuid);
  const auto first = server_.CallJob(&Jobs::RetryJob, request);
  const auto second = server_.CallJob(&Jobs::RetryJob, request);
  ASSERT_THAT(first, IsOk());
  ASSERT_THAT(second, IsOk());
  EXPECT_EQ(first->name(), second->name());
  EXPECT_NE(first->name(), job.name());
  EXPECT_EQ(first->training_status().retry_of(), job.name());
  EXPECT_EQ(first->state(), v1::Job::QUEUED);
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(first->training().config(),
                                                                 job.training().config()));
}

TEST_F(ServicesTest, CancelOfAQueuedJobIsFinalAndRepeatable) {
  const v1::Job job = server_.CreateJob(server_.CreateScene());
  for (int i = 0; i < 2; ++i) {
    const auto cancelled = server_.CancelJob(job.name());
    ASSERT_THAT(cancelled, IsOk());
    EXPECT_EQ(cancelled->state(), v1::Job::CANCELLED);
    EXPECT_TRUE(cancelled->has_end_time());
  }
}

// Without this check a job that starts from a model of other shapes would fail on the worker.
class InitTest : public ServicesTest {
 protected:
  // Trains a job whose model file holds the tensors of `config` and promotes it as "base".
  void MakeModel(const TrainConfig& config) {
    const v1::Job job = server_.CreateJob(server_.CreateScene("base-scene"), "base-job");
    FakeWorker worker(server_.channel, RpcTestServer::kToken, "w-1");
    const auto grant = worker.TakeJob();
    ASSERT_TRUE(grant.has_value());
    v1::CommitCheckpointRequest commit;
    commit.set_job(job.name());
    commit.set_lease_epoch(grant->lease_epoch());
    commit.set_step(10);
    *commit.mutable_checkpoint_blob() = server_.Make("checkpoint");
    *commit.mutable_model_blob() = server_.Make("model");
    for (const TensorShape& tensor : FieldTensorShapes(config)) {
      v1::TensorSpec* added = commit.add_tensors();
      added->set_name(tensor.name);
      added->set_dtype(tensor.dtype);
      for (const uint32_t size : tensor.shape) added->add_shape(size);
    }
    ASSERT_THAT(worker.Commit(commit), IsOk());
    worker.SendReport(FakeWorker::Report(*grant, v1::JobReport::SUCCEEDED, 10));
    ASSERT_TRUE(worker.WaitForAcknowledgement(job.name()));
    v1::PromoteCheckpointRequest promote;
    promote.set_name(job.name() + "/checkpoints/10");
    promote.set_model_id("base");
    promote.set_request_id(kServicesUuid);
    ASSERT_THAT(RpcTestServer::Call(*server_.model_stub, &v1::ModelService::Stub::PromoteCheckpoint,
                                    promote, &model_),
                IsOk());
  }
  v1::Model model_;
};

TEST_F(InitTest, ShapesOfModelAndConfigMustFitBeforeTheJobIsAccepted) {
  MakeModel(TrainConfig());
  v1::CreateJobRequest request;
  v1::TrainingSpec& training = *request.mutable_job()->mutable_training();
  training.set_scene("projects/default/scenes/base-scene");
  v1::TrainingConfig& config = *training.mutable_config();
  v1::Job job;
  config.mutable_init()->set_model(model_.name());
  ASSERT_THAT(Create(request, &job), IsOk());
  EXPECT_EQ(job.training_status().effective_config().init().model(), model_.name());
  EXPECT_EQ(job.training_status().effective_config().init().scope(), "all");
  config.mutable_init()->set_checkpoint("projects/default/jobs/base-job/checkpoints/10");
  ASSERT_THAT(Create(request, &job), IsOk());

  (*config.mutable_settings())["log2_hashmap_size"] = "14";
  ASSERT_THAT(Create(request, &job), IsOk()) << "a hash table shrinks";
  (*config.mutable_settings())["n_features_per_level"] = "2";
  EXPECT_THAT(Create(request, &job),
              FailsWith(StatusCode::kFailedPrecondition, reason::kInitMismatch));
  request.set_validate_only(true);
  EXPECT_THAT(Create(request, &job),
              FailsWith(StatusCode::kFailedPrecondition, reason::kInitMismatch));
}

TEST_F(InitTest, TheServerChoosesTheStartOfAJobThatAsksForIt) {
  v1::CreateJobRequest request;
  v1::TrainingSpec& training = *request.mutable_job()->mutable_training();
  training.mutable_config()->mutable_init()->set_model("auto");
  training.set_scene(server_.CreateScene("empty-project"));
  request.set_validate_only(true);
  v1::Job job;
  ASSERT_THAT(Create(request, &job), IsOk());
  EXPECT_FALSE(job.training_status().effective_config().has_init());
  EXPECT_EQ(job.training_status().init_reason(), "from scratch: the project has no models");

  MakeModel(TrainConfig());
  training.set_scene("projects/default/scenes/base-scene");
  ASSERT_THAT(Create(request, &job), IsOk());
  EXPECT_EQ(job.training_status().effective_config().init().model(), model_.name());
  request.set_validate_only(false);
  request.set_request_id(kOtherUuid);
  ASSERT_THAT(Create(request, &job), IsOk());
  EXPECT_EQ(job.training().config().init().model(), "auto") << "as it was asked for";
  EXPECT_EQ(job.training_status().effective_config().init().model(), model_.name());
  EXPECT_EQ(job.training_status().effective_config().init().scope(), "all");
  EXPECT_THAT(job.training_status().init_reason(),
              testing::StartsWith("trained on the same capture"));
  v1::DeleteModelRequest remove;
  remove.set_name(model_.name());
  google::protobuf::Empty empty;
  EXPECT_THAT(RpcTestServer::Call(*server_.model_stub, &v1::ModelService::Stub::DeleteModel, remove,
                                  &empty),
              FailsWith(StatusCode::kFailedPrecondition, reason::kStateConflict));

  // A job that does not ask has no reason, and other shapes do not fit.
  request.clear_request_id();
  training.mutable_config()->mutable_init()->set_model(model_.name());
  v1::Job named;
  ASSERT_THAT(Create(request, &named), IsOk());
  EXPECT_EQ(named.training_status().init_reason(), "");
  training.mutable_config()->mutable_init()->set_model("auto");
  (*training.mutable_config()->mutable_settings())["n_features_per_level"] = "2";
  v1::Job scratch;
  ASSERT_THAT(Create(request, &scratch), IsOk());
  EXPECT_FALSE(scratch.training_status().effective_config().has_init());
  EXPECT_THAT(scratch.training_status().init_reason(),
              testing::HasSubstr("of 1 model, none can be taken over: base"));
}

TEST_F(InitTest, ARepeatedRequestKeepsItsChoice) {
  MakeModel(TrainConfig());
  v1::CreateJobRequest request;
  v1::TrainingSpec& training = *request.mutable_job()->mutable_training();
  training.mutable_config()->mutable_init()->set_model("auto");
  training.set_scene("projects/default/scenes/base-scene");
  request.set_request_id(kOtherUuid);
  v1::Job first, again;
  ASSERT_THAT(Create(request, &first), IsOk());
  ASSERT_THAT(server_.CancelJob(first.name()), IsOk());
  v1::DeleteModelRequest remove;
  remove.set_name(model_.name());
  google::protobuf::Empty empty;
  ASSERT_THAT(RpcTestServer::Call(*server_.model_stub, &v1::ModelService::Stub::DeleteModel, remove,
                                  &empty),
              IsOk());
  server_.Restart(RpcTestServer::DefaultTimes());
  ASSERT_THAT(Create(request, &again), IsOk());
  EXPECT_EQ(again.name(), first.name());
  EXPECT_EQ(again.training_status().effective_config().init().model(), model_.name());
  EXPECT_EQ(again.training_status().init_reason(), first.training_status().init_reason());
  training.mutable_config()->mutable_init()->set_model(model_.name());
  EXPECT_THAT(Create(request, &again),
              FailsWith(StatusCode::kAlreadyExists, reason::kRequestIdReused));
}

TEST_F(InitTest, ModelsOfOtherProjectsAreNotChosen) {
  MakeModel(TrainConfig());
  v1::CreateJobRequest request;
  request.set_parent("projects/lab");
  request.set_validate_only(true);
  request.mutable_job()->mutable_training()->mutable_config()->mutable_init()->set_model("auto");
  v1::Job job;
  ASSERT_THAT(Create(request, &job), IsOk());
  EXPECT_EQ(job.training_status().init_reason(), "from scratch: the project has no models");
}

TEST_F(InitTest, ModelIsReadListedAndKeptWhileAJobStartsFromIt) {
  MakeModel(TrainConfig());
  EXPECT_EQ(model_.training_job(), "projects/default/jobs/base-job");
  EXPECT_EQ(model_.checkpoint(), model_.training_job() + "/checkpoints/10");
  EXPECT_GT(model_.tensors_size(), 0);
  v1::GetModelRequest get;
  get.set_name(model_.name());
  v1::Model got;
  ASSERT_THAT(
      RpcTestServer::Call(*server_.model_stub, &v1::ModelService::Stub::GetModel, get, &got),
      IsOk());
  EXPECT_EQ(got.SerializeAsString(), model_.SerializeAsString());
  v1::ListModelsResponse models;
  ASSERT_THAT(RpcTestServer::Call(*server_.model_stub, &v1::ModelService::Stub::ListModels,
                                  v1::ListModelsRequest(), &models),
              IsOk());
  EXPECT_EQ(models.models_size(), 1);

  v1::ListCheckpointsRequest list;
  list.set_parent(model_.training_job());
  v1::ListCheckpointsResponse checkpoints;
  ASSERT_THAT(RpcTestServer::Call(*server_.model_stub, &v1::ModelService::Stub::ListCheckpoints,
                                  list, &checkpoints),
              IsOk());
  ASSERT_EQ(checkpoints.checkpoints_size(), 1);
  EXPECT_EQ(checkpoints.checkpoints(0).name(), model_.checkpoint());

  v1::CreateJobRequest request;
  v1::TrainingSpec& training = *request.mutable_job()->mutable_training();
  training.set_scene("projects/default/scenes/base-scene");
  training.mutable_config()->mutable_init()->set_model(model_.name());
  request.set_request_id(kOtherUuid);
  v1::Job job;
  ASSERT_THAT(Create(request, &job), IsOk());
  v1::DeleteModelRequest remove;
  remove.set_name(model_.name());
  google::protobuf::Empty empty;
  EXPECT_THAT(RpcTestServer::Call(*server_.model_stub, &v1::ModelService::Stub::DeleteModel, remove,
                                  &empty),
              FailsWith(StatusCode::kFailedPrecondition, reason::kStateConflict));
  ASSERT_THAT(server_.CancelJob(job.name()), IsOk());
  EXPECT_THAT(RpcTestServer::Call(*server_.model_stub, &v1::ModelService::Stub::DeleteModel, remove,
                                  &empty),
              IsOk());
  v1::Job again;
  ASSERT_THAT(Create(request, &again), IsOk()) << "a repeated request gets the earlier response";
  EXPECT_EQ(again.name(), job.name());
}

// Unknown fields may be as large as a message. If they were kept, every response with the job would
// exceed the limit, also the list of all jobs.
TEST_F(ServicesTest, UnknownFieldsOfAConfigAreNotKept) {
  v1::CreateJobRequest request;
  v1::TrainingSpec& training = *request.mutable_job()->mutable_training();
  training.set_scene(server_.CreateScene());
  v1::TrainingConfig& config = *training.mutable_config();
  config.set_steps(100);
  for (int i = 0; i < 3; ++i) {
    config.GetReflection()->MutableUnknownFields(&config)->AddLengthDelimited(
        1000 + i, std::string(1 << 20, 'x'));
  }
  v1::Job job;
  ASSERT_THAT(Create(request, &job), IsOk());
  EXPECT_LT(job.ByteSizeLong(), 10'000u);
  EXPECT_EQ(job.training().config().steps(), 100u);
  EXPECT_LT(server_.ListJobs().ByteSizeLong(), 10'000u);
}

TEST_F(ServicesTest, CheckpointsArePagedOldestFirst) {
  const v1::Job job = server_.CreateJob(server_.CreateScene());
  FakeWorker worker(server_.channel, RpcTestServer::kToken, "w-1");
  const auto grant = worker.TakeJob();
  ASSERT_TRUE(grant.has_value());
  for (uint32_t step : {10, 20, 30}) {
    v1::CommitCheckpointRequest commit;
    commit.set_job(job.name());
    commit.set_lease_epoch(grant->lease_epoch());
    commit.set_step(step);
    *commit.mutable_checkpoint_blob() = server_.Make("c" + std::to_string(step));
    *commit.mutable_model_blob() = server_.Make("m" + std::to_string(step));
    ASSERT_THAT(worker.Commit(commit), IsOk());
  }
  v1::ListCheckpointsRequest request;
  request.set_parent(job.name());
  request.set_page_size(2);
  v1::ListCheckpointsResponse page;
  ASSERT_THAT(RpcTestServer::Call(*server_.model_stub, &v1::ModelService::Stub::ListCheckpoints,
                                  request, &page),
              IsOk());
  ASSERT_EQ(page.checkpoints_size(), 2);
  EXPECT_EQ(page.checkpoints(0).step(), 10u);
  request.set_page_token(page.next_page_token());
  ASSERT_THAT(RpcTestServer::Call(*server_.model_stub, &v1::ModelService::Stub::ListCheckpoints,
                                  request, &page),
              IsOk());
  ASSERT_EQ(page.checkpoints_size(), 1);
  EXPECT_EQ(page.checkpoints(0).step(), 30u);
  EXPECT_EQ(page.next_page_token(), "");
}

TEST_F(ServicesTest, WorkersArePagedByName) {
  std::vector<std::unique_ptr<FakeWorker>> workers;
  for (const char* id : {"w-b", "w-a", "w-c"}) {
    workers.push_back(std::make_unique<FakeWorker>(server_.channel, RpcTestServer::kToken, id));
    workers.back()->Hello();
    ASSERT_TRUE(workers.back()->WaitFor([](const auto& m) { return m.has_heartbeat_interval(); }));
  }
  v1::ListWorkersRequest request;
  request.set_page_size(2);
  v1::ListWorkersResponse page;
  std::vector<std::string> names;
  do {
    ASSERT_THAT(RpcTestServer::Call(*server_.admin_stub, &v1::AdminService::Stub::ListWorkers,
                                    request, &page),
                IsOk());
    for (const v1::Worker& worker : page.workers()) {
      names.push_back(worker.name());
      EXPECT_EQ(worker.state(), v1::Worker::IDLE);
    }
    request.set_page_token(page.next_page_token());
  } while (!page.next_page_token().empty() && names.size() < 10);
  EXPECT_THAT(names, testing::ElementsAre("workers/w-a", "workers/w-b", "workers/w-c"));
}

}  // namespace
}  // namespace nerf
