#include "client/calls/session.h"

#include <algorithm>
#include <ostream>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "client/calls/resource_ids.h"
#include "client/calls/server_wait.h"
#include "client/flags/access.h"
#include "client/flags/grants.h"
#include "client/flags/interrupt.h"
#include "client/flags/names.h"
#include "client/flags/text_format.h"
#include "client/kinds/job_words.h"
#include "client/show/error_printer.h"
#include "common/access_reason.h"
#include "common/edit_distance.h"
#include "common/process/exit_code.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_conversion.h"
#include "common/sleep.h"
#include "common/status_macros.h"
#include "fmt/format.h"
#include "nerf/v1/admin_service.grpc.pb.h"

namespace nerf {
namespace {

// The most time between attempts to connect.
constexpr absl::Duration kMaxReconnectPause = absl::Seconds(1);

// True for a field that comes from a file, not from a flag.
bool IsOfFile(const Problem& problem) {
  const std::string_view field = problem.field;
  return field.starts_with("files") || field.starts_with("camera.") || field == "upload";
}

// The last part of gRPC's chain of causes: "connection refused".
std::string InnermostCause(std::string_view words) {
  std::string cause(words.substr(words.rfind(": ") + 2));
  // OpenSSL's "error:0A000086:SSL routines::certificate verify failed".
  if (cause.starts_with("error:")) cause.erase(0, cause.rfind(':') + 1);
  if (cause.empty()) return std::string(words);
  cause[0] = absl::ascii_tolower(static_cast<unsigned char>(cause[0]));
  return cause;
}

// What to do about a connection that gRPC's words say failed.
std::string_view ConnectionAdvice(std::string_view words, bool uses_tls) {
  const auto says = [&](std::string_view part) { return words.find(part) != words.npos; };
  if (says("certificate verify failed")) {
    return "another CA signed the server's certificate: name that one with --ca FILE";
  }
  if (says("Hostname Verification Check failed")) {
    return "the server's certificate is for other names: use one of them in --server";
  }
  if (says("wrong version number")) {
    return "the server does not use TLS, which --ca asks for: nerfd needs --tls-cert and --tls-key";
  }
  if (says("failed to connect") && says("Socket closed")) {
    return uses_tls ? "if the server has a --client-ca, show a certificate of it with --tls-cert "
                      "and --tls-key"
                    : "if the server uses TLS, name its CA with --ca FILE, or --ca system";
  }
  return "start a server with `nerfd`, or name another with --server HOST:PORT";
}

// gRPC's UNAVAILABLE with a short message instead of its chain of causes. Others stay unchanged.
absl::Status InPlainWords(const absl::Status& status, const std::string& address) {
  const std::string words(status.message());
  const auto says = [&](std::string_view part) { return words.find(part) != words.npos; };
  if (says("failed to connect")) {
    return absl::UnavailableError(
        fmt::format("cannot reach {}: {}", address,
                    says(": ") && !words.ends_with(": ") ? InnermostCause(words) : words));
  }
  if (says("DNS resolution failed")) {
    return absl::UnavailableError(
        fmt::format("cannot reach {}: its host name cannot be resolved", address));
  }
  for (const char* part : {"Socket closed", "Connection reset", "Broken pipe", "GOAWAY"}) {
    if (says(part)) {
      return absl::UnavailableError(fmt::format("the connection to {} broke", address));
    }
  }
  return status;
}

}  // namespace

Session::Session(const GlobalFlags& flags, const Io& io)
    : flags_(flags), io_(io), start_(io.clock->Now()) {}

Printer Session::printer() const {
  return {*io_.out, flags_.output, flags_.color, io_.clock->WallNow()};
}

std::stop_token Session::stop() const { return io_.interrupt->token(); }

const std::shared_ptr<grpc::Channel>& Session::channel() {
  if (channel_ != nullptr) return channel_;
  ChannelOptions options;
  options.address = ConnectTarget(flags_);
  options.max_reconnect_backoff = kMaxReconnectPause;
  if (UsesTls(flags_.tls)) {
    auto credentials = ClientTls(flags_.tls);
    tls_status_ = credentials.status();
    if (credentials.ok()) options.credentials = *std::move(credentials);
  }
  channel_ = MakeChannel(options);
  return channel_;
}

absl::StatusOr<std::string> Session::token() {
  MutexLock lock(mutex_);
  if (!token_.has_value() || (token_->ok() && (*token_)->empty())) token_ = ResolveToken(flags_);
  return *token_;
}

absl::Duration Session::TimeLeft(absl::Duration limit) const {
  if (flags_.timeout == absl::InfiniteDuration()) return limit;
  return std::clamp(flags_.timeout - (io_.clock->Now() - start_), absl::ZeroDuration(), limit);
}

absl::Status Session::TimeIsOver(std::string_view what) const {
  return absl::DeadlineExceededError(
      fmt::format("--timeout of {} ran out {}", absl::FormatDuration(flags_.timeout), what));
}

absl::Duration Session::WorkLimit() const {
  return flags_.timeout == absl::InfiniteDuration() ? kWorkTimeout : absl::InfiniteDuration();
}

absl::Status Session::CallWith(absl::Duration limit,
                               const std::function<grpc::Status(grpc::ClientContext*)>& call) {
  if (limit < kCallTimeout) return CallOnce(limit, call);
  return RideOut([&] { return CallOnce(limit, call); });
}

absl::Status Session::RideOut(const std::function<absl::Status()>& call) {
  ServerWait wait(*this);
  while (true) {
    const absl::Status status = call();
    if (status.ok()) {
      NoteAnswer();
      return status;
    }
    const bool again = wait.MayTryAgain(status);
    if (io_.interrupt->requested()) return absl::CancelledError("interrupted");
    if (!again) return status;
    ++n_repeats_;
  }
}

void Session::SayAway(const absl::Status& status) {
  if (said_away_.exchange(true)) return;
  const absl::Status words =
      GetReason(status).has_value() ? status : InPlainWords(status, flags_.server);
  Say(fmt::format("waiting for the server: {}",
                  PlainText({words.message().data(), words.message().size()})));
}

absl::Status Session::CallOnce(absl::Duration limit,
                               const std::function<grpc::Status(grpc::ClientContext*)>& call) {
  if (io_.interrupt->requested()) return absl::CancelledError("interrupted");
  NERF_RETURN_IF_ERROR(tls_status_);
  NERF_ASSIGN_OR_RETURN(const std::string shown, token());
  const absl::Duration allowed = TimeLeft(limit);
  grpc::ClientContext context;
  PrepareCall(allowed, shown, &context);
  absl::Status status;
  {
    const std::stop_callback cancel(stop(), [&context] { context.TryCancel(); });
    status = FromGrpcStatus(call(&context));
  }
  if (status.ok()) return status;
  if (io_.interrupt->requested()) return absl::CancelledError("interrupted");
  status = CancelledAsUnavailable(std::move(status));
  // gRPC's own message does not say which limit it was.
  if (absl::IsDeadlineExceeded(status) && !GetReason(status).has_value()) {
    if (allowed < limit) return TimeIsOver(fmt::format("before {} answered", flags_.server));
    return absl::DeadlineExceededError(
        fmt::format("{} gave no answer within {}", flags_.server, absl::FormatDuration(allowed)));
  }
  return status;
}

BlobClient Session::Blobs(std::string_view resource) {
  BlobClientOptions options;
  options.time_left = [this] { return TimeLeft(); };
  options.token = token().value_or("");
  options.project = flags_.project;
  constexpr std::string_view kPrefix = "projects/";
  if (resource.starts_with(kPrefix)) {
    options.project = resource.substr(kPrefix.size());
    options.project = options.project.substr(0, options.project.find('/'));
  }
  // Servers before projects had tokens know no other names.
  if (options.project == "default") options.project.clear();
  return BlobClient(channel(), std::move(options));
}

bool Session::Sleep(absl::Duration duration) const {
  const absl::Duration allowed = TimeLeft(duration);
  return SleepUnlessStopped(allowed, stop()) && allowed == duration;
}

void Session::Say(std::string_view line) const {
  if (flags_.quiet) return;
  *io_.err << (json_progress() ? LineJson("note", line) : std::string(line)) << '\n' << std::flush;
}

void Session::SayError(std::string_view line) const {
  constexpr std::string_view kProgram = "nerfctl: ";
  if (!json_progress()) {
    *io_.err << line << '\n';
  } else if (line.starts_with(kProgram)) {
    *io_.err << LineJson("error", line.substr(kProgram.size())) << '\n';
  } else {
    *io_.err << LineJson("note", line.substr(std::min(line.find_first_not_of(' '), line.size())))
             << '\n';
  }
}

std::string Session::Runnable(std::string_view text) const {
  constexpr std::string_view kProgram = "nerfctl ";
  std::string result;
  for (size_t i = 0; i < text.size();) {
    const bool is_command = text.substr(i).starts_with(kProgram) &&
                            (i == 0 || text[i - 1] == '(' || text[i - 1] == '`');
    if (!is_command) {
      result += text[i++];
      continue;
    }
    result += kProgram;
    i += kProgram.size();
    const bool has_project = text.substr(i).starts_with("--project ");
    for (const std::string& flag : flags_.typed) {
      if (!has_project || !flag.starts_with("--project ")) result += flag + " ";
    }
  }
  return result;
}

void Session::SayNext(std::string_view command) const {
  if (flags_.output != OutputFormat::kTable || flags_.no_hints) return;
  Say("next: " + Runnable(command));
}

void Session::SayWhatExists(const ErrorReason& why) {
  const auto resource = why.metadata.find("resource");
  if (resource == why.metadata.end()) return;
  const std::string command = Runnable(PlainText(ListingCommand(resource->second)));
  if (command.empty()) return;
  if (why.reason == reason::kAlreadyExists) {
    SayError(
        fmt::format("  `{}` lists the ids in use; without --id the server makes one", command));
  } else if (why.reason == reason::kResourceNotFound && !SayIfJob(resource->second)) {
    std::string nearest;
    if (const auto kind = KindOf(resource->second); kind.has_value()) {
      nearest = NearestWord(ShortName(resource->second), ListShortIds(*this, *kind));
    }
    SayError(nearest.empty() ? fmt::format("  `{}` lists what there is", command)
                             : fmt::format("  did you mean {}? `{}` lists what there is",
                                           PlainText(nearest), command));
  }
}

void Session::SayGrants(const ErrorReason& why) {
  const auto stub = Stub<v1::AdminService>();
  const auto access =
      Call(*stub, &v1::AdminService::Stub::GetAccess, v1::GetAccessRequest(), absl::Seconds(5));
  if (!access.ok() || access->grants().empty()) return;
  // Another project helps a token that may do it there.
  const auto role = why.metadata.find("role");
  const bool may_elsewhere = role == why.metadata.end() || HasRole(*access, role->second);
  SayError(fmt::format("  the token is {}; {}`nerfctl login` keeps another token",
                       GrantsText(*access),
                       may_elsewhere ? "--project names another project, and " : ""));
}

bool Session::SayIfJob(const std::string& model) {
  const std::optional<v1::Job> job = JobNamedLike(*this, model);
  if (!job.has_value()) return false;
  const std::string id = PlainText(ShortName(job->name()));
  if (job->training_status().checkpoints().empty() && IsFinal(job->state())) {
    SayError(fmt::format("  {} is a job that ended without a checkpoint", id));
  } else if (job->training_status().checkpoints().empty()) {
    SayError(Runnable(fmt::format(
        "  {0} is a job without a checkpoint yet; `nerfctl job watch {0}` follows it", id)));
  } else {
    SayError(Runnable(fmt::format(
        "  {0} is a job: name its newest checkpoint, {1}, or make a model of it first, with "
        "`nerfctl model promote {0} --id {0}`",
        id, PlainText(ShortName(job->training_status().checkpoints().rbegin()->name())))));
  }
  return true;
}

void Session::ShowError(const absl::Status& status) const {
  if (json_progress()) {
    *io_.err << ErrorJson(status) << '\n';
  } else {
    PrintError(status, flags_.project, *io_.err);
  }
}

int Session::Fail(const absl::Status& status) {
  if (absl::IsCancelled(status) && io_.interrupt->requested()) {
    SayError("nerfctl: interrupted");
    return io_.interrupt->exit_code();
  }
  const std::optional<ErrorReason> why = GetReason(status);
  // UNAVAILABLE without a reason comes from gRPC: no server answered.
  if (absl::IsUnavailable(status) && !why.has_value()) {
    ShowError(InPlainWords(status, flags_.server));
    const std::string_view words(status.message().data(), status.message().size());
    SayError(fmt::format("  {}", ConnectionAdvice(words, UsesTls(flags_.tls))));
    return ExitCodeFor(status.code());
  }
  // The deadline of a transfer, which gRPC may report slightly before our clock does.
  const bool is_of_grpc =
      absl::IsDeadlineExceeded(status) && status.message() == "Deadline Exceeded";
  ShowError(is_of_grpc && TimeLeft() < absl::Milliseconds(100)
                ? TimeIsOver("before everything was transferred")
                : status);
  if (why.has_value()) SayWhatExists(*why);
  if (why.has_value() && why->reason == reason::kStateConflict) {
    const std::string name(SubjectOf({status.message().data(), status.message().size()}));
    if (KindOf(name) == ResourceKind::kJob) {
      SayError(Runnable(fmt::format("  `nerfctl job show {}` shows where it stands",
                                    PlainText(ShortName(name)))));
    }
  }
  if (absl::IsPermissionDenied(status) && why.has_value() && why->reason == reason::kAccessDenied) {
    SayGrants(*why);
  }
  if (absl::IsUnauthenticated(status) && why.has_value() && why->reason.starts_with("TOKEN_")) {
    SayError("  `nerfctl login` keeps a token; a server's admin.token is in its data folder");
  }
  // A wrong field comes from a flag or from a file.
  if (why.has_value() && why->reason == reason::kFieldInvalid) {
    const std::vector<Problem> problems = GetProblems(status);
    const bool of_files =
        !problems.empty() && std::all_of(problems.begin(), problems.end(), IsOfFile);
    return of_files ? kBadData : kUsage;
  }
  // DATA_LOSS concerns the server's data, not the caller's.
  return absl::IsDataLoss(status) ? kBug : ExitCodeFor(status.code());
}

int Session::FailUsage(const absl::Status& status) const {
  if (json_progress()) {
    *io_.err << ErrorJson(status) << '\n';
  } else {
    PrintUsageError(status, flags_.command, *io_.err);
  }
  return kUsage;
}

absl::Status CancelledAsUnavailable(absl::Status status) {
  if (!absl::IsCancelled(status) || GetReason(status).has_value()) return status;
  return absl::UnavailableError("the server dropped the call; it is probably shutting down");
}

}  // namespace nerf
