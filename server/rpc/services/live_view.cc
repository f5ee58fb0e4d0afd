#include "server/rpc/services/live_view.h"

#include <utility>

#include "common/error_reason.h"
#include "common/rpc/status_conversion.h"
#include "common/status_macros.h"
#include "server/rpc/convert/convert_common.h"
#include "server/rpc/convert/render_request.h"
#include "server/rpc/convert/view_request.h"

namespace nerf {
namespace {

constexpr char kStreamViewsMethod[] = "nerf.v1.ViewService/StreamViews";
constexpr uint32_t kMovingQuality = 40, kStillQuality = 75;
constexpr absl::Duration kWeightsInterval = absl::Seconds(1);
// A resting view of a training takes at most a fifth of the time.
constexpr int kRestPerFrame = 4;
// A frame of a training that takes longer shows weights of the past: it is given up.
constexpr absl::Duration kMaxTrainingFrame = absl::Seconds(2);
constexpr absl::Duration kStallLimit = absl::Seconds(5);
// Failures in a row before the stream ends, with growing pauses of some 9 s in all. A lost worker
// counts for four: the view may be what ends it.
constexpr int kMaxFailures = 8;
constexpr int kFailuresOfLoss = 4;
constexpr absl::Duration kRetryPause = absl::Milliseconds(250);

v1::StreamViewsRequest WithoutView(v1::StreamViewsRequest request) {
  request.clear_view();
  return request;
}

std::string SourceName(const v1::StreamViewsRequest& source) {
  if (source.has_model()) return source.model();
  return source.has_checkpoint() ? source.checkpoint() : source.training_job();
}

// Tells two sets of weights apart: the file's digest, or the name of the job in training.
std::string WeightsOf(const v1::RenderTask& task) {
  return task.has_file() ? task.file().sha256() : task.job();
}

bool HasReason(const absl::Status& status, std::string_view reason) {
  const auto found = GetReason(status);
  return found.has_value() && found->reason == reason;
}

}  // namespace

LiveView::LiveView(const ServiceContext& services, LiveViews* views, CallContext* context,
                   const v1::StreamViewsRequest& request)
    : services_(services),
      views_(*views),
      context_(context),
      source_(WithoutView(request)),
      pacer_(FramesPerSecond(request),
             request.has_training_job() ? kMaxTrainingFrame : absl::InfiniteDuration()),
      view_(request.view()) {}

LiveView* LiveView::Begin(const ServiceContext& services, LiveViews* views, CallContext* context,
                          const v1::StreamViewsRequest& request) {
  std::shared_ptr<LiveView> view(new LiveView(services, views, context, request));
  {
    MutexLock lock(view->mu_);
    view->self_ = view;
  }
  const auto principal = services.authorizer.Check(kStreamViewsMethod, *context, request);
  const absl::Status status = principal.ok() ? CheckLiveRequest(request) : principal.status();
  if (!status.ok()) {
    view->End(status);
    return view.get();
  }
  view->token_ = Authorizer::TokenOf(*context);
  services.live_calls.Add(view);
  services.executor.Post(Lane::kQuick, [view] { view->Open(); });
  return view.get();
}

void LiveView::Open() {
  const auto name = views_.Add(ProjectOf(source_), SourceName(source_), weak_from_this());
  if (!name.ok()) return End(name.status());
  v1::StreamViewsResponse response;
  response.mutable_scene()->set_name(*name);
  response.mutable_scene()->set_target_fps(FramesPerSecond(source_));
  bool is_ended = false;
  {
    MutexLock lock(mu_);
    is_ended = is_ended_;
    if (!is_ended) {
      name_ = *name;
      updated_ = services_.clock.Now();
      pacer_.Begin(view_.width(), view_.height());
      BeginWrite(std::move(response));
    }
  }
  if (is_ended) return views_.Remove(*name);
  StartWrite(&response_);
  AuthorizeAgainLater();
  if (source_.has_training_job()) LookForWeightsLater();
  Pump();
}

void LiveView::Update(const v1::View& view, double sequence) {
  std::optional<uint64_t> interrupted;
  {
    MutexLock lock(mu_);
    if (is_ended_ || sequence <= sequence_) return;
    sequence_ = sequence;
    view_ = view;
    updated_ = services_.clock.Now();
    pacer_.Move(view.width(), view.height(), *updated_);
    if (order_.has_value() && !order_->plan.moving && !order_->is_interrupted) {
      order_->is_interrupted = true;
      interrupted = order_->number;
    }
  }
  if (interrupted.has_value()) {
    services_.broker.Cancel(*interrupted, absl::CancelledError("the camera has moved"));
  }
  Pump();
}

void LiveView::Pump() {
  bool writes = false;
  std::optional<Order> order;
  {
    MutexLock lock(mu_);
    if (is_ended_ || name_.empty()) return;
    if (!is_writing_ && waiting_.has_value()) {
      BeginWrite(*std::exchange(waiting_, std::nullopt));
      writes = true;
    }
    order = NextOrder();
  }
  if (writes) StartWrite(&response_);
  if (order.has_value()) Start(*std::move(order));
}

std::optional<LiveView::Order> LiveView::NextOrder() {
  if (order_.has_value() || waiting_.has_value() || pauses_) return std::nullopt;
  const SteadyTime now = services_.clock.Now();
  const ViewPacer::Decision decision = pacer_.Decide(now);
  if (decision.again.has_value() && pump_due_ != decision.again) {
    pump_due_ = decision.again;
    services_.executor.PostAfter(*decision.again - now, [weak = weak_from_this()] {
      const auto view = weak.lock();
      if (view == nullptr) return;
      {
        MutexLock lock(view->mu_);
        view->pump_due_.reset();
      }
      view->Pump();
    });
  }
  if (!decision.plan.has_value()) return std::nullopt;
  Order order;
  order.id = ++n_orders_;
  order.plan = *decision.plan;
  order.view = view_;
  order.sequence = sequence_;
  order.begin = now;
  order.asked = updated_.value_or(now);
  order_ = order;
  return order;
}

absl::StatusOr<BrokerRequest> LiveView::MakeRequest(Order* order) {
  std::string name;
  {
    MutexLock lock(mu_);
    name = name_;
  }
  const FramePlan& plan = order->plan;
  NERF_ASSIGN_OR_RETURN(
      BrokerRequest request,
      PrepareRender(services_, FrameRequest(source_, order->view, plan.width, plan.height)));
  v1::RenderTask& task = *request.message.mutable_render();
  task.mutable_live()->set_jpeg_quality(plan.moving ? kMovingQuality : kStillQuality);
  task.mutable_live()->set_moving(plan.moving);
  order->weights = WeightsOf(task);
  NERF_ASSIGN_OR_RETURN(request.worker,
                        views_.Assign(name, request.worker, order->weights, request.feature));
  request.timeout = services_.times.request_timeout;
  return request;
}

void LiveView::Start(Order order) {
  absl::StatusOr<BrokerRequest> request = MakeRequest(&order);
  if (!request.ok()) return OnReply(order.id, request.status());
  const bool is_training = !request->message.render().job().empty();
  {
    MutexLock lock(mu_);
    if (order_.has_value() && order_->id == order.id) order_->weights = order.weights;
    // A training that has ended takes its time for the full size.
    pacer_.LimitRest(is_training ? kMaxTrainingFrame : absl::InfiniteDuration());
  }
  // The broker may call back before it returns the number.
  const auto number = services_.broker.Start(
      *std::move(request),
      [view = shared_from_this(), id = order.id](absl::StatusOr<BrokerReply> reply) {
        view->services_.executor.Post(
            Lane::kQuick, [view, id, reply = std::move(reply)] { view->OnReply(id, reply); });
      });
  if (!number.ok()) return OnReply(order.id, number.status());
  bool is_obsolete = false;
  {
    MutexLock lock(mu_);
    const bool is_open = order_.has_value() && order_->id == order.id;
    if (is_open) order_->number = *number;
    is_obsolete = is_ended_ || (is_open && order_->is_interrupted);
  }
  if (is_obsolete) {
    services_.broker.Cancel(*number, absl::CancelledError("the frame is not wanted any more"));
  } else if (is_training) {
    services_.executor.PostAfter(kMaxTrainingFrame, [weak = weak_from_this(), id = order.id] {
      if (const auto view = weak.lock()) view->DropFrame(id);
    });
  }
}

void LiveView::DropFrame(uint64_t id) {
  std::optional<uint64_t> number;
  {
    MutexLock lock(mu_);
    if (is_ended_ || !order_.has_value() || order_->id != id || order_->is_interrupted) return;
    pacer_.Drop(order_->plan, kMaxTrainingFrame);
    renew_due_ = services_.clock.Now() + kRestPerFrame * kMaxTrainingFrame;
    order_->is_interrupted = true;
    number = order_->number;
  }
  if (!number.has_value()) return;
  services_.broker.Cancel(*number, absl::CancelledError("the frame is out of date"));
}

void LiveView::OnReply(uint64_t id, const absl::StatusOr<BrokerReply>& reply) {
  Order order;
  {
    MutexLock lock(mu_);
    if (is_ended_ || !order_.has_value() || order_->id != id) return;
    order = *std::exchange(order_, std::nullopt);
  }
  if (order.is_interrupted) return Pump();
  if (!reply.ok()) return OnFailure(reply.status());
  OnFrame(order, *reply);
}

void LiveView::OnFrame(const Order& order, const BrokerReply& reply) {
  v1::RenderImageResponse image;
  if (!image.ParseFromString(reply.bytes) || image.images_size() != 1) {
    return End(absl::InternalError("worker " + reply.worker + " sent no frame"));
  }
  v1::StreamViewsResponse response;
  v1::ViewFrame* frame = response.mutable_frame();
  frame->set_sequence(order.sequence);
  frame->set_content(std::move(*image.mutable_images(0)->mutable_content()));
  frame->set_channel(image.images(0).channel());
  frame->set_width(image.width());
  frame->set_height(image.height());
  frame->set_stride(1 / order.plan.share);
  frame->set_moving(order.plan.moving);
  frame->set_step(image.step());
  frame->set_far(image.far());
  frame->set_render_seconds(image.seconds());
  frame->set_worker(WorkerName(reply.worker));
  const SteadyTime now = services_.clock.Now();
  const double latency = absl::ToDoubleSeconds(now - order.asked);
  frame->set_latency_seconds(latency);
  views_.metrics().FrameSent(order.plan.moving, latency);
  {
    MutexLock lock(mu_);
    const bool is_current = order.sequence == sequence_;
    pacer_.Finish(order.plan, is_current, absl::Seconds(image.seconds()), now - order.begin);
    if (is_current) updated_.reset();
    renew_due_ = now + kRestPerFrame * absl::Seconds(image.seconds());
    n_failures_ = 0;
    shown_weights_ = order.weights;
    waiting_ = std::move(response);
  }
  Pump();
}

void LiveView::OnFailure(const absl::Status& status) {
  const bool is_lost = HasReason(status, reason::kWorkerLost);
  std::string name;
  int n_failures = 0;
  {
    MutexLock lock(mu_);
    n_failures = n_failures_ += is_lost ? kFailuresOfLoss : 1;
    // Before the first frame the caller learns at once what is missing.
    const bool is_passing =
        HasReason(status, reason::kStateConflict) || HasReason(status, reason::kNoWorker);
    const bool may_pass = is_lost || (is_passing && !shown_weights_.empty());
    if (may_pass && n_failures <= kMaxFailures) {
      name = name_;
      pauses_ = true;
    }
  }
  if (name.empty()) return End(status);
  views_.Unassign(name);
  services_.executor.PostAfter(n_failures * kRetryPause, [weak = weak_from_this()] {
    const auto view = weak.lock();
    if (view == nullptr) return;
    {
      MutexLock lock(view->mu_);
      view->pauses_ = false;
    }
    view->Pump();
  });
}

void LiveView::LookForWeightsLater() {
  services_.executor.PostAfter(kWeightsInterval, [weak = weak_from_this()] {
    const auto view = weak.lock();
    if (view == nullptr) return;
    {
      MutexLock lock(view->mu_);
      if (view->is_ended_) return;
    }
    view->LookForWeights();
    view->LookForWeightsLater();
  });
}

void LiveView::LookForWeights() {
  v1::View view;
  {
    MutexLock lock(mu_);
    if (!pacer_.IsComplete() || services_.clock.Now() < renew_due_) return;
    view = view_;
  }
  const auto request = PrepareRender(services_, FrameRequest(source_, view, 1, 1));
  if (!request.ok()) return;
  const v1::RenderTask& task = request->message.render();
  {
    MutexLock lock(mu_);
    // The weights of a job in training change all the time.
    const bool is_new = !task.job().empty() || WeightsOf(task) != shown_weights_;
    if (!is_new || !pacer_.IsComplete()) return;
    pacer_.Renew();
  }
  Pump();
}

void LiveView::AuthorizeAgainLater() {
  services_.executor.PostAfter(services_.times.bookmark_interval, [weak = weak_from_this()] {
    const auto view = weak.lock();
    if (view == nullptr) return;
    const absl::Status allowed = view->services_.authorizer.CheckAgain(view->token_);
    if (!allowed.ok()) return view->End(allowed);
    {
      MutexLock lock(view->mu_);
      if (view->is_ended_) return;
    }
    view->AuthorizeAgainLater();
  });
}

void LiveView::BeginWrite(v1::StreamViewsResponse response) {
  response_ = std::move(response);
  is_writing_ = true;
  stall_ =
      services_.executor.PostAfter(kStallLimit, [weak = weak_from_this(), n_write = ++n_writes_] {
        if (const auto view = weak.lock()) view->BreakOff(n_write);
      });
}

void LiveView::BreakOff(uint64_t n_write) {
  {
    MutexLock lock(mu_);
    if (is_ended_ || !is_writing_ || n_writes_ != n_write) return;
    is_ended_ = is_breaking_off_ = true;
    end_status_ = absl::CancelledError("the caller has read nothing for 5 seconds");
  }
  // Ends the write. It may call back on this thread, so no lock is held; the context lives until
  // Finish, which waits for is_breaking_off_.
  context_->TryCancel();
  absl::Status status;
  {
    MutexLock lock(mu_);
    is_breaking_off_ = false;
    if (is_writing_) return;  // OnWriteDone finishes
    status = end_status_;
  }
  Finish(ToGrpcStatus(status));
}

void LiveView::OnWriteDone(bool ok) {
  std::optional<absl::Status> end;
  {
    MutexLock lock(mu_);
    is_writing_ = false;
    services_.executor.Drop(stall_);
    if (is_breaking_off_) return;  // BreakOff finishes
    if (is_ended_) end = end_status_;
  }
  if (end.has_value()) return Finish(ToGrpcStatus(*end));
  if (!ok) return End(absl::CancelledError("the caller closed the stream"));
  services_.executor.Post(Lane::kQuick, [view = shared_from_this()] { view->Pump(); });
}

void LiveView::End(const absl::Status& status) {
  std::optional<uint64_t> number;
  bool finishes = false;
  {
    MutexLock lock(mu_);
    if (is_ended_) return;
    is_ended_ = true;
    end_status_ = status;
    if (order_.has_value()) number = order_->number;
    finishes = !is_writing_;  // else OnWriteDone does
  }
  if (number.has_value()) {
    services_.broker.Cancel(*number, absl::CancelledError("the caller closed the stream"));
  }
  if (finishes) Finish(ToGrpcStatus(status));
}

void LiveView::OnCancel() { End(absl::CancelledError("the caller closed the stream")); }

void LiveView::OnDone() {
  std::shared_ptr<LiveView> self;
  std::string name;
  {
    MutexLock lock(mu_);
    name = name_;
    self.swap(self_);
  }
  if (!name.empty()) views_.Remove(name);
}

}  // namespace nerf
