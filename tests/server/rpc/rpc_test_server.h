#pragma once

#include <grpcpp/channel.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/error_reason.h"
#include "common/ids.h"
#include "common/rpc/blob_client.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_conversion.h"
#include "google/bytestream/bytestream.grpc.pb.h"
#include "nerf/v1/admin_service.grpc.pb.h"
#include "nerf/v1/blob_service.grpc.pb.h"
#include "nerf/v1/job_service.grpc.pb.h"
#include "nerf/v1/model_service.grpc.pb.h"
#include "nerf/v1/render_service.grpc.pb.h"
#include "nerf/v1/scene_service.grpc.pb.h"
#include "nerf/v1/worker_service.grpc.pb.h"
#include "server/access/access_control.h"
#include "server/access/blob_owners.h"
#include "server/access/token_registry.h"
#include "server/access/worker_keys.h"
#include "server/metrics/server_metrics.h"
#include "server/queue/catalogs/model_catalog.h"
#include "server/queue/catalogs/scene_catalog.h"
#include "server/queue/kinds/kind_policy.h"
#include "server/queue/leases/lease_table.h"
#include "server/queue/leases/worker_table.h"
#include "server/queue/state/job_queue.h"
#include "server/queue/state/queue_state.h"
#include "server/queue/upkeep/job_upkeep.h"
#include "server/queue/upkeep/queue_admin.h"
#include "server/rpc/services/owned_blobs.h"
#include "server/rpc/services/queue_metrics.h"
#include "server/rpc/services/rpc_server.h"
#include "server/store/blob_store.h"
#include "server/store/sqlite_store.h"
#include "tests/testing/fake_access_store.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/forwarding_job_store.h"
#include "tests/testing/temp_dir.h"
#include "tests/testing/token_channel.h"

namespace nerf {

// nerfd without its main(), in process, for tests of the services: real queue, real stores in a
// temporary folder, gRPC over an in-process channel, and a fake clock.
class RpcTestServer {
 public:
  static constexpr char kToken[] = "worker-token-of-the-test";
  static constexpr char kAdminToken[] = "admin-token-of-the-test";

  // In process, or on a loopback socket for tests of the transport.
  explicit RpcTestServer(bool over_socket = false,
                         std::shared_ptr<grpc::ServerCredentials> credentials = nullptr)
      : over_socket_(over_socket), credentials_(std::move(credentials)) {
    Start();
  }
  ~RpcTestServer() { Stop(); }

  // Times on the machine's clock are short.
  static ServiceTimes DefaultTimes() {
    ServiceTimes times;
    times.bookmark_interval = absl::Milliseconds(100);
    return times;
  }

  // Starts with other times.
  void Restart(const ServiceTimes& times) {
    Stop();
    times_ = times;
    Start();
  }

  void Start() {
    metrics = std::make_unique<ServerMetrics>(BuildInfo{"0", "test", "none", "1"});
    observer_ = std::make_unique<QueueMetrics>(metrics.get());
    BlobStoreOptions blob_options;
    blob_options.on_deleted = [this](const std::string& sha256) { blob_owners->Forget(sha256); };
    blobs = *BlobStore::Open(dir.path(), blob_options, &clock);
    sqlite_store_ = *SqliteStore::Open(dir / "queue.db", random);
    store_ = std::make_unique<OwnershipStore>(sqlite_store_.get(), this);
    QueueOptions options;
    options.lease_ttl = times_.lease_ttl;
    options.projects = {"default", "lab", "mine"};
    state_ = *QueueState::Open(options, {.clock = &clock,
                                         .random = &random,
                                         .store = store_.get(),
                                         .blobs = blobs.get(),
                                         .observer = observer_.get()});
    workers = std::make_unique<WorkerTable>(&clock, times_.lease_ttl);
    queue = std::make_unique<JobQueue>(state_.get());
    leases = std::make_unique<LeaseTable>(state_.get(), workers.get());
    scenes_ = std::make_unique<SceneCatalog>(state_.get());
    models_ = std::make_unique<ModelCatalog>(state_.get());
    admin = std::make_unique<QueueAdmin>(state_.get(), workers.get());
    upkeep = std::make_unique<JobUpkeep>(state_.get(), workers.get());
    const StoredAccess stored = *access_store_.Load();
    tokens = std::make_unique<TokenRegistry>(&access_store_, stored.tokens, &clock, &random,
                                             &BlobsOfShare);
    tokens->AddFixed(kToken, {"worker.token", {{Role::kWorker}}});
    tokens->AddFixed(kAdminToken, {"admin.token", {{Role::kAdmin}}});
    access_ = std::make_unique<AccessControl>(std::vector<const PrincipalSource*>{tokens.get()});
    worker_keys = std::make_unique<WorkerKeys>(&access_store_, stored.worker_keys, &clock);
    blob_owners = std::make_unique<BlobOwners>();
    TakeUpStoredBlobs(*state_, *admin, *blobs, blob_owners.get());
    RpcServerOptions rpc_options;
    rpc_options.times = times_;
    rpc_options.credentials = credentials_;
    if (over_socket_) rpc_options.listen = "127.0.0.1:0";
    rpc = *RpcServer::Start(
        rpc_options, {&clock, &random, queue.get(), leases.get(), scenes_.get(), models_.get(),
                      workers.get(), blobs.get(), metrics.get(), access_.get(), tokens.get(),
                      worker_keys.get(), blob_owners.get(),
                      [](const std::string& id) -> absl::StatusOr<BackupSummary> {
                        return BackupSummary{.path = id};
                      },
                      admin.get()});
    const std::string address = "127.0.0.1:" + std::to_string(rpc->port());
    channel = over_socket_ ? TokenChannel(address, kAdminToken)
                           : rpc->InProcessChannel(TokenInterceptors(kAdminToken));
    bare_channel = over_socket_ ? MakeChannel({.address = address}) : rpc->InProcessChannel();
    scene_stub = v1::SceneService::NewStub(channel);
    blob_stub = v1::BlobService::NewStub(channel);
    bytes_stub = google::bytestream::ByteStream::NewStub(channel);
    job_stub = v1::JobService::NewStub(channel);
    model_stub = v1::ModelService::NewStub(channel);
    render_stub = v1::RenderService::NewStub(channel);
    admin_stub = v1::AdminService::NewStub(channel);
    worker_stub = v1::WorkerService::NewStub(channel);
  }

  void Stop() {
    rpc.reset();
    worker_keys.reset();
    access_.reset();
    tokens.reset();
    upkeep.reset();
    admin.reset();
    workers.reset();
    models_.reset();
    scenes_.reset();
    leases.reset();
    queue.reset();
    state_.reset();
    store_.reset();
    sqlite_store_.reset();
    blobs.reset();
  }

  // A unary call with a deadline and, unless empty, that token in place of the channel's.
  template <typename Stub, typename Request, typename Response>
  static absl::Status Call(
      Stub& stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
      const Request& request, Response* response, const std::string& token = "") {
    grpc::ClientContext context;
    PrepareCall(absl::Seconds(20), token, &context);
    return FromGrpcStatus((stub.*method)(&context, request, response));
  }

  // A blob of the default project.
  v1::BlobRef Put(const std::string& content) {
    const v1::BlobRef blob = Make(content);
    blob_owners->Add("default", blob.sha256());
    return blob;
  }
  // A blob that a worker has uploaded.
  v1::BlobRef Make(const std::string& content) {
    const BlobRef blob = *blobs->Put(content);
    v1::BlobRef proto;
    proto.set_sha256(blob.sha256);
    proto.set_size_bytes(static_cast<double>(blob.byte_size));
    return proto;
  }

  // Creates a scene of one small file. Returns its name.
  std::string CreateScene(const std::string& id = "") {
    v1::CreateSceneRequest request;
    request.set_scene_id(id);
    v1::SceneFile* file = request.mutable_scene()->add_files();
    file->set_path("transforms.json");
    *file->mutable_blob() = Put("{}");
    v1::Scene scene;
    const absl::Status status =
        Call(*scene_stub, &v1::SceneService::Stub::CreateScene, request, &scene);
    EXPECT_TRUE(status.ok()) << status;
    return scene.name();
  }

  using Jobs = v1::JobService::Stub;
  // A call of JobService that answers with a job.
  template <typename Request>
  absl::StatusOr<v1::Job> CallJob(grpc::Status (Jobs::*method)(grpc::ClientContext*, const Request&,
                                                               v1::Job*),
                                  const Request& request) {
    v1::Job job;
    const absl::Status status = Call(*job_stub, method, request, &job);
    if (!status.ok()) return status;
    return job;
  }
  // The same with a request of the job's name alone.
  template <typename Request>
  absl::StatusOr<v1::Job> CallJob(grpc::Status (Jobs::*method)(grpc::ClientContext*, const Request&,
                                                               v1::Job*),
                                  const std::string& name) {
    Request request;
    request.set_name(name);
    return CallJob(method, request);
  }
  absl::StatusOr<v1::Job> Create(const v1::CreateJobRequest& request) {
    return CallJob(&Jobs::CreateJob, request);
  }
  // The fields that a refusal names.
  static std::vector<std::string> FieldsOf(const absl::Status& status) {
    std::vector<std::string> fields;
    for (const Problem& violation : GetProblems(status)) {
      fields.push_back(violation.field);
    }
    return fields;
  }
  std::vector<std::string> WrongFields(const v1::CreateJobRequest& request) {
    return FieldsOf(Create(request).status());
  }

  // Creates a training.
  v1::Job CreateJob(const std::string& scene, const std::string& id = "",
                    const std::string& method = "") {
    v1::CreateJobRequest request;
    request.set_job_id(id);
    v1::TrainingSpec& training = *request.mutable_job()->mutable_training();
    training.set_scene(scene);
    training.mutable_config()->set_steps(100);
    training.mutable_config()->set_method(method);
    return Checked(Create(request));
  }
  v1::Job GetJob(const std::string& name) { return Checked(CallJob(&Jobs::GetJob, name)); }
  absl::StatusOr<v1::Job> CancelJob(const std::string& name) {
    return CallJob(&Jobs::CancelJob, name);
  }
  absl::Status DeleteJob(const std::string& name) {
    v1::DeleteJobRequest request;
    request.set_name(name);
    google::protobuf::Empty nothing;
    return Call(*job_stub, &Jobs::DeleteJob, request, &nothing);
  }
  v1::ListJobsResponse ListJobs(const std::string& filter = "") {
    v1::ListJobsRequest request;
    request.set_filter(filter);
    v1::ListJobsResponse list;
    const absl::Status status = Call(*job_stub, &Jobs::ListJobs, request, &list);
    EXPECT_TRUE(status.ok()) << status;
    return list;
  }

  // The periodic work.
  void Tick() {
    leases->ExpireLeases();
    upkeep->Tick();
    rpc->Tick();
  }

  TempDir dir;
  FakeClock clock;
  SystemRandom random;
  std::unique_ptr<ServerMetrics> metrics;
  std::unique_ptr<BlobStore> blobs;
  std::unique_ptr<JobQueue> queue;
  std::unique_ptr<LeaseTable> leases;
  std::unique_ptr<WorkerTable> workers;
  std::unique_ptr<QueueAdmin> admin;
  std::unique_ptr<JobUpkeep> upkeep;
  std::unique_ptr<RpcServer> rpc;
  std::unique_ptr<TokenRegistry> tokens;
  std::unique_ptr<WorkerKeys> worker_keys;
  std::unique_ptr<BlobOwners> blob_owners;
  std::shared_ptr<grpc::Channel> channel;       // of an admin
  std::shared_ptr<grpc::Channel> bare_channel;  // without a token
  std::unique_ptr<v1::SceneService::Stub> scene_stub;
  std::unique_ptr<v1::BlobService::Stub> blob_stub;
  std::unique_ptr<google::bytestream::ByteStream::Stub> bytes_stub;
  std::unique_ptr<Jobs> job_stub;
  std::unique_ptr<v1::ModelService::Stub> model_stub;
  std::unique_ptr<v1::RenderService::Stub> render_stub;
  std::unique_ptr<v1::AdminService::Stub> admin_stub;
  std::unique_ptr<v1::WorkerService::Stub> worker_stub;

 private:
  // Whoever learns of a commit may read what it names: it is the project's before that.
  class OwnershipStore final : public ForwardingJobStore {
   public:
    OwnershipStore(JobStore* store, RpcTestServer* server)
        : ForwardingJobStore(store), server_(*server) {}

    absl::Status Commit(const StoreWrite& write) override {
      for (const JobWrite& write_of_job : write.jobs) {
        for (const BlobRef& blob : BlobsOf(write_of_job.job)) Check(write_of_job.job.key, blob);
      }
      for (const SceneRecord& scene : write.new_scenes) {
        for (const SceneFileRecord& file : scene.files) Check(scene.key, file.blob);
      }
      return ForwardingJobStore::Commit(write);
    }

   private:
    void Check(const ResourceKey& key, const BlobRef& blob) {
      EXPECT_TRUE(server_.blob_owners->Owns(key.project, blob.sha256))
          << key.id << " names " << BlobName(blob);
    }

    RpcTestServer& server_;
  };

  static v1::Job Checked(absl::StatusOr<v1::Job> job) {
    EXPECT_TRUE(job.ok()) << job.status();
    return job.ok() ? *job : v1::Job();
  }

  const bool over_socket_;
  const std::shared_ptr<grpc::ServerCredentials> credentials_;
  ServiceTimes times_ = DefaultTimes();
  FakeAccessStore access_store_;
  std::unique_ptr<AccessControl> access_;
  std::unique_ptr<QueueMetrics> observer_;
  std::unique_ptr<SqliteStore> sqlite_store_;
  std::unique_ptr<OwnershipStore> store_;
  std::unique_ptr<QueueState> state_;
  std::unique_ptr<SceneCatalog> scenes_;
  std::unique_ptr<ModelCatalog> models_;
};

}  // namespace nerf
