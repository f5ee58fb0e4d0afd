#include "server/rpc/services/rpc_server.h"

#include <google/protobuf/descriptor.h>
#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <atomic>
#include <chrono>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "common/logging.h"
#include "common/rpc/channel.h"
#include "common/status_macros.h"
#include "server/metrics/rpc_metrics.h"
#include "server/rpc/connections/call_guard.h"
#include "server/rpc/connections/call_interceptor.h"
#include "server/rpc/connections/call_origins.h"
#include "server/rpc/connections/connection_acceptor.h"
#include "server/rpc/connections/connection_table.h"
#include "server/rpc/connections/token_gate.h"
#include "server/rpc/services/services.h"
#include "server/rpc/workers/worker_service.h"

namespace nerf {
namespace {

constexpr int kMaxConcurrentStreams = 100;  // per connection
constexpr int kMaxMetadataBytes = 8 << 10;
// Clients ping every 30 s; a client that pings more often than this is disconnected.
constexpr int kMinPingIntervalMs = 10'000;
constexpr int kKeepaliveMs = 30'000;
constexpr int kKeepaliveTimeoutMs = 10'000;
// From a connection's first byte to the end of its handshake.
constexpr int kHandshakeTimeoutMs = 10'000;
// A connection without calls is closed; clients connect again by themselves.
constexpr int kMaxConnectionIdleMs = 5 * 60 * 1000;

// What gRPC reads of a connection before it looks at others: calls of a flood, parts of messages.
constexpr int kMaxReadBytes = 64 << 10;

constexpr const char* kServices[] = {
    "nerf.v1.SceneService", "nerf.v1.BlobService",   "google.bytestream.ByteStream",
    "nerf.v1.JobService",   "nerf.v1.ModelService",  "nerf.v1.RenderService",
    "nerf.v1.AdminService", "nerf.v1.WorkerService", "nerf.v1.ViewService"};

RpcType TypeOf(const google::protobuf::MethodDescriptor& method) {
  if (method.client_streaming()) {
    return method.server_streaming() ? RpcType::kBidiStream : RpcType::kClientStream;
  }
  return method.server_streaming() ? RpcType::kServerStream : RpcType::kUnary;
}

void AddMethods(RpcMetrics* metrics) {
  for (const char* name : kServices) {
    const auto* service =
        google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(name);
    for (int i = 0; service != nullptr && i < service->method_count(); ++i) {
      metrics->AddMethod(TypeOf(*service->method(i)), name, service->method(i)->name());
    }
  }
}

// Writes gRPC's log lines in our format. The caller reports a failure to listen, so its lines are
// logged at debug level.
void LogLineOfGrpc(gpr_log_func_args* line) {
  const bool is_of_listening = std::string_view(line->file).ends_with("chttp2_server.cc");
  Log(line->severity == GPR_LOG_SEVERITY_ERROR && !is_of_listening ? LogLevel::kWarning
                                                                   : LogLevel::kDebug,
      "gRPC log", {{"message", line->message}});
}

// Runs once per process, because gRPC's switches are global.
void PrepareGrpc() {
  static const bool enabled = [] {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    gpr_set_log_function(LogLineOfGrpc);
    // Debian's absl, which gRPC locks with, looks for deadlocks at each lock: 6% of a busy server.
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
    return true;
  }();
  static_cast<void>(enabled);
}

}  // namespace

struct RpcServer::State {
  State(const RpcServerOptions& options, const Dependencies& d)
      : connections(options.max_held_bytes, d.clock),
        call_guard(&connections, d.clock),
        authorizer(
            d.access, [metrics = d.metrics](std::string_view why) { metrics->AuthFailed(why); },
            [this](const grpc::CallbackServerContext& call, const Principal& principal) {
              origins.SetPrincipal(&call, principal.name);
              if (const auto known = ConnectionTable::ParsePeer(call.peer())) {
                connections.ShowedToken(*known);
              }
            }),
        gate(std::make_shared<TokenGate>(
            [this](std::string_view authorization) { return authorizer.CheckToken(authorization); },
            [this](const absl::Status& refusal) {
              call_guard.Refused();
              authorizer.Counted(refusal).IgnoreError();
            })),
        rpc_metrics(*d.metrics->registry()),
        random(*d.random),
        executor(std::make_unique<Executor>(options.threads)),
        broker(d.workers, executor.get(), d.random),
        context{*d.clock,       *d.queue,   *d.leases,     *d.scenes,  *d.models,
                *d.workers,     *d.blobs,   *d.metrics,    authorizer, *executor,
                broker,         live_calls, options.times, *d.tokens,  *d.worker_keys,
                *d.blob_owners, d.backup,   d.admin,       &origins},
        workers(&context) {
    for (const auto make :
         {MakeSceneService, MakeBlobService, MakeByteStreamService, MakeJobService,
          MakeModelService, MakeRenderService, MakeAdminService}) {
      services.push_back(make(&context));
    }
    services.push_back(MakeViewService(&context, d.random));
  }

  absl::Status Serve(const RpcServerOptions& options) {
    const std::string& listen = options.listen;
    PrepareGrpc();
    AddMethods(&rpc_metrics);
    grpc::ServerBuilder builder;
    builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
    builder.SetMaxSendMessageSize(kMaxMessageBytes);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxConcurrentStreams);
    builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                               kMinPingIntervalMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
    // A second server on the same port must fail, not share it.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeTimeoutMs);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kMaxConnectionIdleMs);
    builder.AddChannelArgument(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, kMaxReadBytes);
    builder.AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 1);
    // The last resort: beyond it gRPC closes idle connections and ends streams, whoever's they are.
    builder.SetResourceQuota(
        grpc::ResourceQuota("nerfd").Resize(static_cast<size_t>(options.max_buffer_bytes)));
    if (!listen.empty()) {
      NERF_RETURN_IF_ERROR(Listen(options, listen, options.credentials, builder));
      port = entrances.back().acceptor->port();
    }
    if (!options.local_listen.empty()) {
      NERF_RETURN_IF_ERROR(Listen(options, options.local_listen, /*credentials=*/nullptr, builder));
    }
    builder.RegisterService(&workers);
    for (const auto& service : services) builder.RegisterService(service.get());
    std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> factories;
    factories.push_back(std::make_unique<CallInterceptorFactory>(&rpc_metrics, &random, &origins,
                                                                 &connections, &call_guard));
    builder.SetContextAllocator(call_guard.MakeCounter());
    builder.experimental().SetInterceptorCreators(std::move(factories));
    server = builder.BuildAndStart();
    if (server == nullptr) return absl::InternalError("gRPC did not start");
    for (Entrance& entrance : entrances) {
      entrance.acceptor->Start([this, to_grpc = entrance.to_grpc.get()](int listener, int socket) {
        connections.Add(socket);
        ShedSoon();
        grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
        connection.listener_fd = listener;
        connection.fd = socket;
        to_grpc->HandleNewConnection(&connection);
      });
    }
    return absl::OkStatus();
  }

  void Shed() {
    if (connections.fills()) call_guard.Look();
    connections.Shed();
    ShedSoon();
  }

  // While connections fill, or may.
  void ShedSoon() {
    if (!connections.fills() && !connections.has_crowd()) return;
    if (sheds_soon.exchange(true)) return;
    executor->PostAfter(ConnectionTable::kSoon, [this] {
      sheds_soon = false;
      Shed();
    });
  }

  // Without credentials in plaintext.
  absl::Status Listen(const RpcServerOptions& options, const std::string& listen,
                      std::shared_ptr<grpc::ServerCredentials> credentials,
                      grpc::ServerBuilder& builder) {
    // No stranger comes by a path.
    const bool has_strangers = listen != options.local_listen;
    NERF_ASSIGN_OR_RETURN(
        auto acceptor,
        ConnectionAcceptor::Listen(
            {.listen = listen,
             .max_descriptor = options.max_descriptor,
             .is_crowded = [this] { return call_guard.is_crowded() || connections.is_closing(); },
             .is_full = [this] { return connections.is_full() || call_guard.is_wasted(); },
             .must_wait =
                 [this, has_strangers] {
                   return has_strangers && connections.NextStrangerMustWait();
                 }}));
    auto to_grpc = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        TokenGate::Guard(gate, std::move(credentials)));
    entrances.push_back({std::move(to_grpc), std::move(acceptor)});
    return absl::OkStatus();
  }

  // Order matters: members that calls use outlive the executor that runs the calls.
  ConnectionTable connections;
  CallGuard call_guard;
  std::atomic<bool> sheds_soon{false};
  const Authorizer authorizer;
  const std::shared_ptr<TokenGate> gate;
  RpcMetrics rpc_metrics;
  RandomSource& random;
  CallOrigins origins;
  LiveCalls live_calls;
  std::unique_ptr<Executor> executor;
  RequestBroker broker;
  const ServiceContext context;
  WorkerService workers;
  std::vector<std::unique_ptr<grpc::Service>> services;  // for clients
  int port = 0;
  // A listening address and where its connections go.
  struct Entrance {
    std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> to_grpc;
    std::unique_ptr<ConnectionAcceptor> acceptor;  // ends before it
  };
  std::unique_ptr<grpc::Server> server;
  std::vector<Entrance> entrances;
  bool is_shut_down = false;
};

RpcServer::RpcServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(const RpcServerOptions& options,
                                                            const Dependencies& dependencies) {
  auto state = std::make_unique<State>(options, dependencies);
  NERF_RETURN_IF_ERROR(state->Serve(options));
  std::unique_ptr<RpcServer> server(new RpcServer(std::move(state)));
  server->SetServing(true);
  return server;
}

RpcServer::~RpcServer() {
  Shutdown(absl::ZeroDuration());
  state_->server.reset();
  // The executor first: its tasks use everything else.
  state_->executor.reset();
}

absl::Status RpcServer::CheckToken(std::string_view authorization) const {
  return state_->authorizer.Counted(state_->authorizer.CheckToken(authorization));
}

int RpcServer::port() const { return state_->port; }

std::shared_ptr<grpc::Channel> RpcServer::InProcessChannel(
    std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>>
        interceptors) {
  return state_->server->experimental().InProcessChannelWithInterceptors(grpc::ChannelArguments(),
                                                                         std::move(interceptors));
}

Executor& RpcServer::executor() { return *state_->executor; }

void RpcServer::SetServing(bool serving) {
  grpc::HealthCheckServiceInterface* health = state_->server->GetHealthCheckService();
  if (health == nullptr) return;
  health->SetServingStatus(serving);
  health->SetServingStatus("liveness", true);
  for (const char* service : kServices) health->SetServingStatus(service, serving);
}

void RpcServer::Tick() {
  state_->Shed();
  state_->workers.Tick();
}

void RpcServer::Shutdown(absl::Duration grace) {
  if (std::exchange(state_->is_shut_down, true)) return;
  for (State::Entrance& entrance : state_->entrances) entrance.acceptor->Stop();
  state_->live_calls.EndAll();
  state_->server->Shutdown(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(grace));
  state_->server->Wait();
}

}  // namespace nerf
