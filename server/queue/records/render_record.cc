#include "common/status_macros.h"
#include "server/queue/kinds/render_work.h"
#include "server/queue/records/basic_messages.h"
#include "server/queue/records/kind_record.h"

namespace nerf {
namespace {

void FillRender(const Job& job, bool whole, v1::Job* proto) {
  v1::RenderSpec& spec = *proto->mutable_render();
  spec = *job.render;
  if (!whole) spec.clear_path();
  v1::RenderStatus& status = *proto->mutable_render_status();
  status.set_frame_count(FramesOf(job.render->path()));
  status.set_frames_done(job.progress.frames_done());
  for (size_t i = 0; whole && i < job.render_work.frames.size(); ++i) {
    const FrameRecord& record = job.render_work.frames[i];
    if (record.images.empty()) continue;
    v1::RenderedFrame* frame = status.add_frames();
    frame->set_index(static_cast<uint32_t>(i));
    for (const BlobRef& image : record.images) *frame->add_images() = ToProto(image);
    frame->set_far(record.far);
  }
  if (job.render_work.movie.has_value())
    *status.mutable_movie_blob() = ToProto(*job.render_work.movie);
}

void StoreRender(const Job& job, internal::JobRecord* record) {
  internal::RenderRecord& render = *record->mutable_render();
  for (const RenderPart& part : job.render_work.parts) {
    internal::RenderRecord::Part& stored = *render.add_parts();
    stored.set_worker(part.worker);
    stored.set_epoch(part.epoch);
    stored.set_done(part.done);
  }
  render.set_has_frames(!job.render_work.frames.empty());
}

absl::Status LoadRender(const internal::JobRecord& stored, Job* job) {
  const v1::RenderStatus& status = stored.job().render_status();
  job->render = stored.job().render();
  const uint32_t n_frames = FramesOf(job->render->path());
  if (n_frames > kMaxPathFrames) return CorruptRecord(JobName(job->key), "path");
  RenderWork& work = job->render_work;
  for (const internal::RenderRecord::Part& part : stored.render().parts())
    work.parts.push_back({part.worker(), part.epoch(), part.done()});
  if (work.parts.size() != PartsOf(*job->render)) return CorruptRecord(JobName(job->key), "parts");
  if (stored.render().has_frames()) work.frames.resize(n_frames);
  for (const v1::RenderedFrame& proto : status.frames()) {
    if (proto.index() >= work.frames.size()) return CorruptRecord(JobName(job->key), "frames");
    FrameRecord& frame = work.frames[proto.index()];
    for (const v1::BlobRef& image : proto.images()) frame.images.push_back(ToBlobRef(image));
    frame.far = proto.far();
  }
  if (status.has_movie_blob()) work.movie = ToBlobRef(status.movie_blob());
  if (status.frames_done() > 0) job->progress.set_frames_done(status.frames_done());
  return absl::OkStatus();
}

}  // namespace

const KindRecord kRenderRecord = {v1::Job::kRender, FillRender, StoreRender, LoadRender};

}  // namespace nerf
