// nerf-worker: trains and renders for a nerfd. See docs/inside/design.md.
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "common/clock.h"
#include "common/edit_distance.h"
#include "common/error_reason.h"
#include "common/files/flag_file.h"
#include "common/files/places.h"
#include "common/ids.h"
#include "common/log_options.h"
#include "common/logging.h"
#include "common/process/exit_code.h"
#include "common/process/last_resort.h"
#include "common/process/local_server.h"
#include "common/process/server_address.h"
#include "common/rpc/channel.h"
#include "common/rpc/tls.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "worker/agent.h"
#include "worker/base/liveness.h"
#include "worker/base/mailbox.h"
#include "worker/base/task_runner.h"
#include "worker/base/worker_lock.h"
#include "worker/engine/engine_process.h"
#include "worker/engine/engine_trial.h"
#include "worker/files/blob_cache.h"
#include "worker/grpc_server_link.h"
#include "worker/runs/pose/pose_program.h"
#include "worker/runs/render/movie_maker.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxCacheBytes = uint64_t{8} << 30;

struct Flags {
  std::string server;
  std::string device = "cpu";
  std::string cache_dir;
  std::string token_file;
  TlsFiles tls;
  bool insecure = false;
  bool no_sandbox = false;
  std::vector<std::string> engine_reads;
  uint64_t engine_memory = 0;
  std::string engine;
  std::string log_level = "info";
  std::string log_format = "text";
  int threads = 0;
  std::string gang_interface;
  std::string jobs = "all";          // poses, no-poses
  std::string exit_when_idle = "0";  // 0: never
  bool asks_alive = false;
  bool tries_engine = false;
};

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown";
}

bool IsDevice(const std::string& device) {
  if (device == "cpu") return true;
  if (device.compare(0, 5, "cuda:") != 0 || device.size() < 6 || device.size() > 8) return false;
  return device.find_first_not_of("0123456789", 5) == std::string::npos;
}

// Whether the engine can train together with others (docs/inside/ranks.md).
bool HasGangLibrary(const std::string& engine) {
  std::error_code error;
  const fs::path program = fs::canonical(engine, error);
  return fs::exists(program.parent_path().parent_path() / "lib/libnerf_gloo.so", error);
}

// Prints on stderr why the worker ends.
int Fail(const CallResult& result) {
  std::fprintf(stderr, "nerf-worker: %s\n", result.message.c_str());
  if (result.code == absl::StatusCode::kUnauthenticated) {
    std::fprintf(stderr,
                 "nerf-worker: workers need the token of the server's worker.token file; "
                 "name a copy with --token-file\n");
  }
  return ExitCodeFor(result.code);
}

int FailUsage(const std::string& why) {
  std::fprintf(stderr, "nerf-worker: %s\n  run `nerf-worker --help` for usage\n", why.c_str());
  return kUsage;
}

// Waits for SIGTERM and SIGINT on its own thread: the first begins a shutdown, the second ends the
// process at once.
class SignalWatcher {
 public:
  // Construct before any thread starts: threads inherit the signal mask.
  SignalWatcher() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGTERM);
    sigaddset(&signals_, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
    signal(SIGPIPE, SIG_IGN);
  }

  void Start(Mailbox& mailbox) {
    std::thread([this, &mailbox] {
      int signal_number = 0;
      sigwait(&signals_, &signal_number);
      requested_ = true;
      mailbox.Post([] {});
      sigwait(&signals_, &signal_number);
      _exit(128 + signal_number);
    }).detach();
  }

  bool requested() const { return requested_; }

 private:
  sigset_t signals_;
  std::atomic<bool> requested_ = false;
};

// How to reach the server. For a nerfd of this user on this machine it finds the token and, if
// nerfd serves TLS, its socket. Errors: FIELD_INVALID when a token would travel unencrypted; those
// of ClientTls, and of FlagFileError for the token.
absl::StatusOr<ChannelOptions> Connection(Flags* flags) {
  ChannelOptions options;
  options.address = flags->server;
  if (const auto data_dir = FindLocalServer(flags->server); data_dir.ok()) {
    const std::string token = *data_dir + "/worker.token", socket = *data_dir + "/nerfd.sock";
    if (flags->token_file.empty() && access(token.c_str(), R_OK) == 0) flags->token_file = token;
    if (!UsesTls(flags->tls) && access(socket.c_str(), R_OK | W_OK) == 0) {
      options.address = "unix:" + socket;
    }
  }
  if (UsesTls(flags->tls)) {
    NERF_ASSIGN_OR_RETURN(options.credentials, ClientTls(flags->tls));
  } else if (!flags->token_file.empty() && !flags->insecure &&
             !IsLoopbackAddress(options.address)) {
    return InvalidFieldsError(
        {{"", "the token would travel to " + flags->server +
                  " unencrypted: name the server's CA with --ca (or --ca system), or say "
                  "--insecure"}});
  }
  if (!flags->token_file.empty()) {
    const absl::Status token = ReadTokenFile(flags->token_file).status();
    if (!token.ok()) return FlagFileError("--token-file", token);
  }
  return options;
}

// How to start an engine.
EngineProcessOptions EngineOptions(const Flags& flags) {
  EngineProcessOptions options{flags.engine, {"serve", "--device", flags.device}};
  if (flags.threads > 0) {
    options.arguments.insert(options.arguments.end(), {"--threads", std::to_string(flags.threads)});
  }
  if (flags.log_format != "text") {
    options.arguments.insert(options.arguments.begin(), {"--log-format", flags.log_format});
  }
  options.sandbox.enabled = !flags.no_sandbox;
  options.sandbox.gpu = flags.device != "cpu";
  options.sandbox.read_paths = flags.engine_reads;
  options.sandbox.max_data_bytes = flags.engine_memory;
  return options;
}

// How to run nerf-engine for one thing.
EngineProgramOptions EngineProgram(const Flags& flags) {
  EngineProgramOptions options;
  options.engine = flags.engine;
  options.threads = flags.threads;
  options.sandboxed = !flags.no_sandbox;
  options.read_paths = flags.engine_reads;
  options.max_data_bytes = flags.engine_memory;
  return options;
}

// How to find the poses of photographs.
PoseProgramOptions PoseProgram(const Flags& flags) {
  PoseProgramOptions options = FindPosePrograms();
  static_cast<EngineProgramOptions&>(options) = EngineProgram(flags);
  return options;
}

// Offers to pose, if COLMAP is there.
void AddPoses(const Flags& flags, AgentOptions* options) {
  options->pose = PoseProgram(flags);
  const auto tools = AskPoseTools(options->pose);
  if (tools.ok()) {
    options->features.insert(options->features.end(), {"colmap", "pose-options", "pose-masks"});
    options->colmap_version = tools->colmap;
    options->ffmpeg_version = tools->ffmpeg;
  } else if (!absl::IsUnimplemented(tools.status()) || flags.jobs == "poses") {
    LogWarning("COLMAP cannot be used, so this worker takes no pose jobs",
               {{"error", tools.status().ToString()}});
  }
}

// What the worker reports to the server about itself.
AgentOptions DescribeWorker(const Flags& flags, const std::string& worker_id,
                            const std::string& session_id) {
  AgentOptions options;
  options.worker_id = worker_id;
  options.session_id = session_id;
  options.device = flags.device;
  options.version = NERF_VERSION;
  options.host = HostName();
  options.cache_dir = flags.cache_dir;
  options.explain_no_engine = [engine = EngineOptions(flags)] { return ExplainSandbox(engine); };
  if (flags.jobs != "no-poses") AddPoses(flags, &options);
  if (flags.jobs == "poses") {
    options.features.push_back("poses-only");
    return options;
  }
  options.features.insert(options.features.end(),
                          {"render", "style", "style-2", "views", "export", "export-2", "export-3",
                           "export-4", "export-5", "extend"});
  options.exporting = EngineProgram(flags);
  options.part.max_data_bytes = flags.engine_memory;
  if (CanMakeMovies(flags.cache_dir, flags.engine_memory)) options.features.push_back("ffmpeg");
  if (HasGangLibrary(flags.engine)) {
    options.features.push_back(flags.device == "cpu" ? "ranks" : "ranks-cuda");
  }
  if (!flags.gang_interface.empty()) options.features.push_back("ranks-network");
  options.job.gang_interface = flags.gang_interface;
  return options;
}

// Says whether the engine starts, as nerf-worker would start it. Returns the exit code.
int TryOnce(const Flags& flags) {
  const EngineProcessOptions options = EngineOptions(flags);
  const absl::StatusOr<EngineTrial> trial = TryEngine(options);
  if (!trial.ok()) return Fail(ToCallResult(trial.status()));
  const std::string where = flags.no_sandbox ? "without a sandbox" : "in the engine's sandbox";
  if (trial->works) {
    std::printf("%s works %s\n", flags.device.c_str(), where.c_str());
    return kOk;
  }
  const std::string why = ExplainSandbox(options);
  std::printf("%s: %s\n", flags.device.c_str(),
              why.empty() ? "the engine does not start; see its message above" : why.c_str());
  return kWrongState;
}

// Works until a signal, an idle time of `exit_when_idle` (0: never) or an error. Returns the exit
// code.
int Run(Flags flags, absl::Duration exit_when_idle) {
  // Static: the signal thread outlives this function.
  static SignalWatcher* const signals = new SignalWatcher;
  static Mailbox* const mailbox = new Mailbox;
  RealClock clock;
  SystemRandom random;

  // What flags name, before the cache folder is made.
  const absl::StatusOr<ChannelOptions> connection = Connection(&flags);
  if (!GetProblems(connection.status()).empty()) {
    return FailUsage(std::string(connection.status().message()));
  }
  if (!connection.ok()) return Fail(ToCallResult(connection.status()));
  std::error_code error;
  if (!fs::is_regular_file(flags.engine, error) || access(flags.engine.c_str(), X_OK) != 0) {
    return Fail({absl::StatusCode::kNotFound, "--engine: cannot run " + flags.engine, ""});
  }
  const absl::StatusOr<WorkerLock> lock = WorkerLock::Acquire(flags.cache_dir, random);
  if (!lock.ok()) return Fail(ToCallResult(lock.status()));
  const std::string blobs_dir = flags.cache_dir + "/blobs";
  fs::create_directories(blobs_dir, error);
  if (error) return Fail({absl::StatusCode::kInternal, blobs_dir + ": " + error.message(), ""});
  signals->Start(*mailbox);

  EngineProcessLauncher engines(EngineOptions(flags));
  const auto channel = MakeChannel(*connection);
  GrpcBlobTransport blobs(channel, flags.token_file, lock->worker_id());
  GrpcServerLink server(channel, flags.token_file, lock->worker_key());
  BlobCache cache(blobs_dir, kMaxCacheBytes, blobs);
  ThreadTaskRunner tasks(*mailbox);

  const AgentOptions options =
      DescribeWorker(flags, lock->worker_id(), /*session_id=*/NewUuid4(random));
  LogInfo("worker starts", {{"worker", options.worker_id},
                            {"server", flags.server},
                            {"device", flags.device},
                            {"cache_dir", flags.cache_dir}});
  CallResult result;
  {
    Agent agent(options, {.clock = clock,
                          .random = random,
                          .mailbox = *mailbox,
                          .tasks = tasks,
                          .cache = cache,
                          .blobs = blobs,
                          .server = server,
                          .engines = engines});
    Liveness liveness(flags.cache_dir, &clock);
    IdleLimit idle_limit(exit_when_idle, &clock);
    result = RunAgent(agent, *mailbox, [&] {
      liveness.Beat(Liveness::BootTime());
      return signals->requested() || idle_limit.Reached(agent.idle());
    });
  }
  if (!result.ok()) return Fail(result);
  LogInfo("worker ends");
  return kOk;
}

void AddFlags(CLI::App& app, Flags* flags) {
  app.add_option("--server", flags->server,
                 "Address of the server, host:port or unix:PATH; of replicas: IP:PORT,IP:PORT")
      ->envname("NERF_WORKER_SERVER");
  app.add_option("--device", flags->device, "cpu or cuda:N")
      ->envname("NERF_WORKER_DEVICE")
      ->check([](const std::string& value) {
        if (IsDevice(value)) return std::string();
        const std::vector<std::string> known = {"cpu", "cuda:0"};
        return "'" + value + "' is neither cpu nor cuda:N" + DidYouMean(value, known);
      })
      ->capture_default_str();
  app.add_option("--cache-dir", flags->cache_dir, "Folder for downloaded files and the worker's id")
      ->envname("NERF_WORKER_CACHE_DIR")
      ->capture_default_str();
  app.add_option("--token-file", flags->token_file, "File with the server's worker token")
      ->envname("NERF_WORKER_TOKEN_FILE");
  app.add_option("--ca", flags->tls.ca, "Use TLS, and trust this CA: a file in PEM, or system")
      ->envname("NERF_WORKER_CA");
  app.add_option("--tls-cert", flags->tls.cert, "Certificate to show to the server")
      ->envname("NERF_WORKER_TLS_CERT");
  app.add_option("--tls-key", flags->tls.key, "Key of that certificate")
      ->envname("NERF_WORKER_TLS_KEY");
  app.add_flag("--insecure", flags->insecure, "Send the token without TLS to another machine, too")
      ->envname("NERF_WORKER_INSECURE");
  app.add_option("--engine", flags->engine, "The nerf-engine program")
      ->envname("NERF_WORKER_ENGINE")
      ->capture_default_str();
  app.add_flag("--no-engine-sandbox", flags->no_sandbox,
               "Let the engine reach files and network as this program does")
      ->envname("NERF_WORKER_NO_ENGINE_SANDBOX");
  app.add_option("--engine-reads", flags->engine_reads,
                 "A folder or file that the engine may read, too, or a device of /dev that it may "
                 "use; repeatable")
      ->envname("NERF_WORKER_ENGINE_READS")
      ->delimiter(':');
  app.add_option("--engine-memory", flags->engine_memory,
                 "Memory that an engine, and each program that a job starts, may allocate, as in "
                 "8GiB; 0: any. For engines on the CPU: CUDA reserves more than it uses")
      ->envname("NERF_WORKER_ENGINE_MEMORY")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      ->capture_default_str();
  app.add_option("--threads", flags->threads, "Threads of the engine; 0: one for each core")
      ->envname("NERF_WORKER_THREADS")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option("--gang-interface", flags->gang_interface,
                 "Also train jobs together with workers of other hosts, over this network "
                 "interface; what they send is not encrypted")
      ->envname("NERF_WORKER_GANG_INTERFACE");
  app.add_option("--jobs", flags->jobs,
                 "Which jobs to take: all, poses (pose jobs alone) or no-poses (all others)")
      ->envname("NERF_WORKER_JOBS")
      ->check(CLI::IsMember({"all", "poses", "no-poses"}))
      ->capture_default_str();
  app.add_option("--exit-when-idle", flags->exit_when_idle,
                 "End after this time without a job or a request, as in 60s; 0: never")
      ->envname("NERF_WORKER_EXIT_WHEN_IDLE")
      ->capture_default_str();
  app.add_flag("--alive", flags->asks_alive,
               "Start nothing: say whether the worker of --cache-dir is alive, for probes");
  app.add_flag("--try-engine", flags->tries_engine,
               "Only start the engine once, and say whether --device works in its sandbox");
  app.add_option("--log-level", flags->log_level, "debug, info, warning, error or off")
      ->envname("NERF_WORKER_LOG_LEVEL")
      ->capture_default_str();
  app.add_option("--log-format", flags->log_format, "text, or json: one object per line")
      ->envname("NERF_WORKER_LOG_FORMAT")
      ->capture_default_str();
}

int Main(int argc, char** argv) {
  Flags flags;
  flags.cache_dir = DefaultCacheDir();
  flags.engine = ProgramBesideThis("nerf-engine");
  CLI::App app("Trains and renders for a nerfd server.", "nerf-worker");
  app.set_version_flag("-v,--version", "nerf-worker " NERF_VERSION);
  AddFlags(app, &flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help and --version
    std::fprintf(stderr, "%s", UsageErrorLines(app, e).c_str());
    return kUsage;
  }
  if (absl::Status status = InitLogging("nerf-worker", flags.log_level); !status.ok()) {
    return FailUsage(std::string(status.message()));
  }
  if (absl::Status status = SetLogFormat(flags.log_format); !status.ok()) {
    return FailUsage(std::string(status.message()));
  }
  absl::Duration exit_when_idle;
  if (!absl::ParseDuration(flags.exit_when_idle, &exit_when_idle) ||
      exit_when_idle < absl::ZeroDuration()) {
    return FailUsage("--exit-when-idle: '" + flags.exit_when_idle +
                     "' is not a duration such as 60s");
  }
  if (flags.asks_alive) {
    const absl::Status alive = Liveness::Check(flags.cache_dir, Liveness::BootTime());
    return alive.ok() ? kOk : Fail(ToCallResult(alive));
  }
  if (flags.tries_engine) return TryOnce(flags);
  if (flags.server.empty()) {
    return FailUsage("--server is required, as in --server 127.0.0.1:50051");
  }
  if (absl::Status status = CheckServerAddress(flags.server); !status.ok()) {
    return FailUsage(std::string(status.message()));
  }
  std::error_code error;
  flags.cache_dir = fs::absolute(flags.cache_dir, error).lexically_normal().string();
  return Run(flags, exit_when_idle);
}

}  // namespace
}  // namespace nerf

int main(int argc, char** argv) {
  // gRPC's own log lines repeat what the worker logs. The variable shows them.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  return nerf::WithLastResort("nerf-worker", [&] { return nerf::Main(argc, argv); });
}
