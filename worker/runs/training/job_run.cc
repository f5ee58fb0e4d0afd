#include "worker/runs/training/job_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/error_reason.h"
#include "common/logging.h"
#include "common/messages/rpc_status.h"
#include "common/messages/worker_limits.h"
#include "engine/base/protocol/failed_line.h"
#include "worker/base/cut_lists.h"
#include "worker/files/scene_folder.h"
#include "worker/runs/training/job_uploads.h"

namespace nerf {

namespace {

// What an engine may say of its training: its preview is named by this worker, and its figures do
// not pile up.
v1::Progress WithinBounds(v1::Progress progress) {
  progress.DiscardUnknownFields();
  progress.clear_preview_step();
  progress.clear_preview_image();
  progress.clear_psnr_preview();
  // In this order NaN becomes 0.
  progress.set_fraction(std::min(1.0, std::max(0.0, progress.fraction())));
  progress.set_eta_seconds(std::max(0.0, progress.eta_seconds()));
  google::protobuf::Map<std::string, double> figures;
  figures.swap(*progress.mutable_figures());
  for (const auto& [name, value] : figures) {
    if (progress.figures_size() == kMaxFigures) break;
    if (name.size() <= kMaxFigureNameLength && std::isfinite(value))
      (*progress.mutable_figures())[name] = value;
  }
  return progress;
}

}  // namespace

struct JobRun::FetchResult {
  CallResult result;
  JobFiles files;
};

JobRun::JobRun(JobRunOptions options, JobContext context, v1::DesiredJob grant, std::string folder)
    : options_(options),
      context_(std::move(context)),
      grant_(std::move(grant)),
      folder_(std::move(folder)),
      key_(fmt::format("{}@{}", grant_.job(), grant_.lease_epoch())),
      fetch_retry_(options_.retry),
      next_fetch_(context_.clock.Now()),
      next_commit_(context_.clock.Now()) {
  report_.set_job(grant_.job());
  report_.set_lease_epoch(grant_.lease_epoch());
  report_.set_phase(v1::JobReport::PREPARING);
  report_.set_part(grant_.part());
}

JobRun::~JobRun() {
  transfers_.request_stop();
  // Runs in the lane of downloads, after a download that may still be running. Removing a large
  // scene takes time.
  context_.tasks.Run(
      Lane::kFetch,
      [folder = folder_] {
        std::error_code ignored;
        std::filesystem::remove_all(folder, ignored);
      },
      [] {});
}

void JobRun::Start() { Fetch(); }

std::optional<std::string> JobRun::training_key() const {
  return stage_ == Stage::kTraining ? std::optional(key_) : std::nullopt;
}

bool JobRun::in_engine() const {
  return stage_ == Stage::kStarting || stage_ == Stage::kTraining || stage_ == Stage::kStopping;
}

bool JobRun::needs_alone() const {
  // A view would keep the other ranks waiting; rank 0 tells them so.
  if (grant_.gang().rank() > 0 && in_engine()) return true;
  return grant_.alone() && !any_commit_ && (stage_ == Stage::kWaiting || in_engine());
}

absl::Duration JobRun::allowed_silence() const {
  if (stage_ == Stage::kStarting) return options_.reading_silence;
  if (stage_ != Stage::kTraining) return absl::InfiniteDuration();
  // After the budget is spent the engine evaluates all test views, which can take minutes.
  return report_.progress().fraction() >= 1 ? options_.reading_silence : options_.training_silence;
}

void JobRun::Fetch() {
  fetch_in_flight_ = true;
  auto result = std::make_shared<FetchResult>();
  context_.tasks.Run(
      Lane::kFetch,
      [result, grant = grant_, folder = folder_, room = context_.room, &cache = context_.cache,
       stop = transfers_.get_token()] {
        absl::StatusOr<JobFiles> files = FetchJobFiles(grant, folder, cache, stop);
        result->result = ToCallResult(files.status());
        if (files.ok()) result->files = *std::move(files);
      },
      [self = weak_from_this(), result] {
        if (const auto run = self.lock()) run->OnFetched(*result);
      });
}

void JobRun::OnFetched(const FetchResult& result) {
  fetch_in_flight_ = false;
  if (stage_ != Stage::kFetching) return;
  if (result.result.ok()) {
    files_ = result.files;
    Enter(Stage::kWaiting);
    return;
  }
  LogWarning("cannot fetch the job's files", {{"job", name()}, {"error", result.result.message}});
  // What the server says is damaged stays so until somebody uploads it again.
  const bool corrupt = result.result.code == absl::StatusCode::kDataLoss &&
                       result.result.reason != reason::kBlobDamaged;
  // Folders of earlier jobs may still be removed. Otherwise another worker may have room.
  if (result.result.reason == reason::kWorkerExhausted &&
      ++fetches_without_room_ >= options_.max_fetches_without_room) {
    FinishWithoutRoom(result.result.message);
    return;
  }
  std::optional<absl::Duration> pause = fetch_retry_.After(result.result);
  if (corrupt && ++corrupt_fetches_ < options_.max_corrupt_fetches) {
    pause = options_.retry.first_pause;
  }
  if (pause.has_value()) {
    next_fetch_ = context_.clock.Now() + *pause;
    return;
  }
  FinishFailed(Prefixed("fetching the job's files", ToStatus(result.result)));
}

void JobRun::Train() {
  internal::WorkerRequest request;
  request.set_job(key_);
  internal::Train& train = *request.mutable_train();
  *train.mutable_origin() = grant_.origin();
  train.set_dataset(folder_ + "/scene");
  train.set_out(folder_ + "/out");
  *train.mutable_config() = grant_.config();
  train.set_resume(files_.resume);
  train.set_extend(grant_.extend());
  train.set_init(files_.init);
  train.mutable_merge()->Add(files_.merge.begin(), files_.merge.end());
  if (grant_.has_gang()) {
    train.mutable_ranks()->set_rank(grant_.gang().rank());
    train.mutable_ranks()->set_count(grant_.gang().n_ranks());
    if (!grant_.gang().one_host()) train.mutable_ranks()->set_interface(options_.gang_interface);
  }
  train.set_checkpoint_interval_seconds(absl::ToDoubleSeconds(options_.checkpoint_interval));
  train.set_preview_interval_seconds(absl::ToDoubleSeconds(options_.preview_interval));
  Enter(Stage::kStarting);
  context_.send_to_engine(request);
}

void JobRun::OnEngineMessage(const internal::EngineMessage& message) {
  if (!in_engine()) return;
  if (stop_ == Stop::kCancel || stop_ == Stop::kAbandon) return OnUnwanted(message);
  switch (message.message_case()) {
    case internal::EngineMessage::kStarted:
      return OnStarted(message.started());
    case internal::EngineMessage::kRankText:
      return OnRankText(message.rank_text());
    case internal::EngineMessage::kProgress:
      return ReportProgress(message.progress().progress());
    case internal::EngineMessage::kPreview:
      return OnPreview(message.preview());
    case internal::EngineMessage::kCheckpoint:
      return OnCheckpoint(message.checkpoint());
    case internal::EngineMessage::kStopped:
      return OnStopped();
    case internal::EngineMessage::kDone:
      return OnDone(message.done());
    case internal::EngineMessage::kFailed:
      return OnFailed(message.failed());
    case internal::EngineMessage::kRefused:
      return OnRefused(message.refused());
    default:
      break;  // not about a job
  }
}

void JobRun::OnUnwanted(const internal::EngineMessage& message) {
  if (message.has_stopped() || message.has_done() || message.has_failed() ||
      message.has_refused()) {
    StopNow(stop_);
  } else if (message.has_checkpoint()) {
    for (const std::string& path :
         {message.checkpoint().checkpoint(), message.checkpoint().model()}) {
      if (auto file = CheckInsideFolder(folder_ + "/out", path); file.ok()) RemoveFile(*file);
    }
  }
}

void JobRun::OnStarted(const internal::Started& started) {
  if (stage_ == Stage::kStarting) Enter(Stage::kTraining);
  v1::TrainingConfig& config = *report_.mutable_effective_config();
  config = started.config();
  config.DiscardUnknownFields();
  config.clear_init();
  if (grant_.config().has_init()) *config.mutable_init() = grant_.config().init();
  report_.set_phase(v1::JobReport::RUNNING);
  LogInfo("training", {{"job", name()},
                       {"step", started.step()},
                       {"flavor", started.flavor()},
                       {"train_views", started.train_views()},
                       {"test_views", started.test_views()}});
  context_.report_changed();
}

double JobRun::SecondsBefore() const {
  // Checkpoints hold the training time only if the budget is in seconds. In others it would make
  // equal states differ in bytes.
  const bool engine_knows = grant_.config().budget_case() == v1::TrainingConfig::kSeconds;
  return engine_knows ? 0 : grant_.resume().seconds() + grant_.merge_seconds();
}

void JobRun::OnRankText(const v1::RankText& text) {
  if (!grant_.has_gang()) return;
  if (text.text().size() > kMaxRankTextBytes || text.sequence() >= kMaxRankTexts) {
    return FinishFailed(absl::InternalError("the engine told the other ranks too much"));
  }
  rank_text_.emplace();
  rank_text_->set_job(name());
  rank_text_->set_lease_epoch(lease_epoch());
  rank_text_->set_rank(grant_.gang().rank());
  rank_text_->set_sequence(text.sequence());
  rank_text_->set_text(text.text());
  context_.report_changed();
}

void JobRun::OnRankTexts(const v1::RankTexts& texts) {
  if (!rank_text_.has_value() || texts.lease_epoch() != lease_epoch() ||
      texts.sequence() != rank_text_->sequence()) {
    return;
  }
  rank_text_.reset();
  if (!in_engine()) return;
  internal::WorkerRequest request;
  request.set_job(key_);
  *request.mutable_rank_texts() = texts;
  context_.send_to_engine(request);
}

void JobRun::ReportProgress(const v1::Progress& said) {
  v1::Progress* reported = report_.mutable_progress();
  v1::Progress next = WithinBounds(said);
  next.set_seconds(SecondsBefore() + next.seconds());
  if (reported->has_psnr_preview()) next.set_psnr_preview(reported->psnr_preview());
  if (reported->has_preview_step()) next.set_preview_step(reported->preview_step());
  if (reported->has_preview_image()) *next.mutable_preview_image() = reported->preview_image();
  // The last report is made of the summary, which has none of them.
  for (const auto& [name, value] : reported->figures()) {
    if (next.figures_size() == kMaxFigures) break;
    if (!next.figures().contains(name)) (*next.mutable_figures())[name] = value;
  }
  *reported = std::move(next);
  constexpr size_t kMaxRecent = 600;  // one a second
  recent_.push_back(*reported);
  if (recent_.size() > kMaxRecent) recent_.pop_front();
  context_.progress_changed();
}

v1::JobReport JobRun::FirstReport() const {
  v1::JobReport report = report_;
  for (const v1::Progress& progress : recent_) *report.add_recent() = progress;
  return report;
}

void JobRun::OnStopped() {
  if (stop_ == Stop::kRelease) {
    Finish(v1::JobReport::RELEASED);
  } else {
    FinishFailed(absl::InternalError("the engine stopped without being asked to"));
  }
}

void JobRun::OnDone(const internal::Done& done) {
  if (grant_.gang().rank() > 0) return Enter(Stage::kFollowed);
  ReportProgress(done.progress());
  if (!any_checkpoint_) {
    FinishFailed(absl::InternalError("the engine ended without a checkpoint"));
    return;
  }
  if (newest_refused_.has_value()) {
    FinishWithoutResult(*newest_refused_);
    return;
  }
  if (done.has_psnr()) report_.set_final_psnr(done.psnr());
  *report_.mutable_test_views() = done.test_views();
  CutTo(kMaxTestViewScores, report_.mutable_test_views());
  Finish(v1::JobReport::SUCCEEDED);
}

void JobRun::OnFailed(const internal::Failed& failed) {
  const absl::Status error = ErrorFromRpcStatus(failed.error());
  const std::optional<ErrorReason> why = GetReason(error);
  const std::string reason = why.has_value() ? why->reason : "";
  if (reason == protocol::kRankLost) return FinishBroken(failed);
  // A full disk of this machine is no fault of the job.
  if (reason == reason::kStoreReadOnly) return FinishWithoutRoom(std::string(error.message()));
  *report_.mutable_problems() = failed.problems();
  CutProblems(report_.mutable_problems());
  for (v1::SceneProblem& problem : *report_.mutable_problems())
    problem.set_message(WithoutFolder(problem.message(), folder_));
  FinishFailed(error);
}

void JobRun::OnRefused(const google::rpc::Status& error) {
  if (stop_ == Stop::kRelease) {
    // The engine has forgotten the job, so there is nothing to stop.
    Finish(v1::JobReport::RELEASED);
    return;
  }
  FinishFailed(ErrorFromRpcStatus(error));
}

void JobRun::OnEngineExit(const EngineExit& exit, bool shared) {
  if (!in_engine()) return;
  if (stop_ == Stop::kCancel || stop_ == Stop::kAbandon) {
    StopNow(stop_);
  } else if (stop_ == Stop::kRelease) {
    Finish(v1::JobReport::RELEASED);
  } else {
    FinishCrashed(exit.Describe(), shared);
  }
}

void JobRun::OnEngineHopeless(const std::string& why) {
  if (stage_ <= Stage::kWaiting) FinishCrashed(why, /*shared=*/false);
}

void JobRun::FinishBroken(const internal::Failed& failed) {
  LogWarning("the gang is broken", {{"job", name()}, {"error", failed.error().message()}});
  report_.set_release_reason(v1::JobReport::MEMBER_LOST);
  if (failed.has_lost_rank()) report_.set_lost_rank(failed.lost_rank());
  final_phase_ = v1::JobReport::RELEASED;
  broken_until_ = context_.clock.Now() + options_.gang_grace;
  commit_deadline_ = context_.clock.Now() + options_.last_commit_timeout;
  Enter(Stage::kCommitting);
}

void JobRun::FinishWithoutRoom(const std::string& why) {
  LogError("no room for the job's files, handing it back", {{"job", name()}, {"error", why}});
  *report_.mutable_error() =
      ToRpcStatus(absl::ResourceExhaustedError(WithoutPaths(WithoutFolder(why, folder_))));
  report_.set_release_reason(v1::JobReport::NO_ROOM);
  Finish(v1::JobReport::RELEASED);
}

void JobRun::FinishWithoutResult(const CallResult& refusal) {
  FinishFailed(Prefixed("the last checkpoint cannot be committed", ToStatus(refusal)));
}

void JobRun::FinishCrashed(const std::string& how, bool shared) {
  report_.set_shared_engine(shared);
  *report_.mutable_error() = ToRpcStatus(
      WithReason(absl::UnavailableError(fmt::format("the engine process ended: {}",
                                                    WithoutPaths(WithoutFolder(how, folder_)))),
                 reason::kEngineCrashed));
  Finish(v1::JobReport::ENGINE_CRASHED);
}

void JobRun::Cancel() {
  if (stage_ >= Stage::kFinal || stop_ == Stop::kCancel || stop_ == Stop::kAbandon) return;
  StopEngine(Stop::kCancel);
}

void JobRun::Release(bool in_hurry) {
  if (in_hurry && !std::exchange(in_hurry_, true) && stage_ == Stage::kCommitting &&
      final_phase_ == v1::JobReport::RELEASED) {
    commit_deadline_ = context_.clock.Now() + options_.last_commit_timeout;
  }
  if (stop_ != Stop::kNone || stage_ >= Stage::kCommitting) return;
  const bool trains = stage_ == Stage::kTraining || stage_ == Stage::kFollowed;
  if (grant_.gang().rank() > 0 && trains) {
    if (!leave_by_.has_value()) leave_by_ = context_.clock.Now() + options_.checkpoint_timeout;
    return;
  }
  StopEngine(Stop::kRelease);
}

void JobRun::Abandon() {
  if (stop_ == Stop::kAbandon) return;
  const bool already_stopping = stage_ == Stage::kStopping && stop_ == Stop::kCancel;
  if (already_stopping) {
    stop_ = Stop::kAbandon;
    return;
  }
  StopEngine(Stop::kAbandon);
}

void JobRun::StopEngine(Stop stop) {
  stop_ = stop;
  if (stop != Stop::kRelease) {
    transfers_.request_stop();
    pending_ = nullptr;
  }
  if (!in_engine()) {
    StopNow(stop);
    return;
  }
  // Before the first step there is nothing to write.
  const bool checkpoint = stop == Stop::kRelease && stage_ == Stage::kTraining;
  stop_deadline_ =
      context_.clock.Now() + (checkpoint ? options_.checkpoint_timeout : options_.discard_timeout);
  Enter(Stage::kStopping);
  internal::WorkerRequest request;
  request.set_job(key_);
  request.mutable_stop()->set_checkpoint(checkpoint);
  context_.send_to_engine(request);
}

void JobRun::StopNow(Stop stop) {
  switch (stop) {
    case Stop::kNone:
      break;
    case Stop::kCancel:
      report_.clear_error();
      final_phase_ = v1::JobReport::CANCELLED;
      Enter(Stage::kFinal);
      break;
    case Stop::kRelease:
      Finish(v1::JobReport::RELEASED);
      break;
    case Stop::kAbandon:
      Enter(Stage::kGone);
      break;
  }
}

void JobRun::Finish(v1::JobReport::Phase phase) {
  final_phase_ = phase;
  Enter(Stage::kCommitting);
  // A result and the checkpoint of a pause wait without limit. A job that did not succeed or whose
  // worker exits does not: it may run again.
  const bool without_limit =
      phase == v1::JobReport::SUCCEEDED ||
      (phase == v1::JobReport::RELEASED && stop_ == Stop::kRelease && !in_hurry_);
  commit_deadline_ = context_.clock.Now() +
                     (without_limit ? absl::InfiniteDuration() : options_.last_commit_timeout);
  if (!commit_in_flight_ && pending_ == nullptr) Enter(Stage::kFinal);
}

void JobRun::FinishFailed(const absl::Status& error) {
  *report_.mutable_error() = ToRpcStatus(WithoutFolder(error, folder_));
  const auto reason = GetReason(error);
  LogWarning("job failed", {{"job", name()},
                            {"reason", reason.has_value() ? reason->reason : ""},
                            {"error", std::string(error.message())}});
  Finish(v1::JobReport::FAILED);
}

void JobRun::Enter(Stage stage) {
  stage_ = stage;
  if (stage == Stage::kFinal) {
    transfers_.request_stop();
    pending_ = nullptr;
    report_.set_phase(final_phase_);
    LogInfo("job ended here",
            {{"job", name()}, {"phase", v1::JobReport::Phase_Name(final_phase_)}});
  }
  if (stage >= Stage::kFinal) context_.report_changed();
}

void JobRun::Tick() {
  const SteadyTime now = context_.clock.Now();
  if (stage_ == Stage::kFetching && !fetch_in_flight_ && now >= next_fetch_) Fetch();
  if (stage_ == Stage::kStopping && !killing_ && now >= stop_deadline_) {
    killing_ = true;
    LogWarning("the engine does not stop, killing it", {{"job", name()}});
    context_.kill_engine(EngineExit::Kind::kKilled);
  }
  if (leave_by_.has_value() && stop_ == Stop::kNone && stage_ < Stage::kCommitting &&
      now >= *leave_by_) {
    StopEngine(Stop::kRelease);
  }
  if (stage_ <= Stage::kCommitting) CommitNext();
  if (stage_ == Stage::kCommitting && now >= commit_deadline_) Enter(Stage::kFinal);
  if (stage_ == Stage::kCommitting && broken_until_.has_value() && now >= *broken_until_ &&
      !commit_in_flight_ && pending_ == nullptr) {
    Enter(Stage::kFinal);
  }
}

}  // namespace nerf
