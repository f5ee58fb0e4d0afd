#include "worker/runs/render/movie_run.h"

#include "common/status_macros.h"
#include "worker/files/scene_folder.h"
#include "worker/runs/render/movie_maker.h"

namespace nerf {

void MovieRun::Make() {
  in_background_ = true;
  report_.set_phase(v1::JobReport::RUNNING);
  InBackground(
      Lane::kFetch,
      [request = NewCommit(), movie = grant_.movie(), folder = folder_,
       max_data_bytes = options_.max_data_bytes, room = context_.room, &cache = context_.cache,
       &blobs = context_.blobs, &server = context_.server,
       stop = stop_.get_token()]() mutable -> CallResult {
        const std::string path = folder + (movie.alpha() ? "/movie.webm" : "/movie.mp4");
        const auto make = [&]() -> absl::StatusOr<v1::BlobRef> {
          NERF_RETURN_IF_ERROR(MakeFolders(folder));
          NERF_RETURN_IF_ERROR(MakeMovie(movie, path, max_data_bytes, cache, stop));
          return UploadOwnFile(blobs, path, stop);
        };
        const auto blob = make();
        if (!blob.ok()) return ToCallResult(blob.status());
        *request.mutable_movie() = *blob;
        return server.CommitFrames(request, stop);
      },
      [this](const CallResult& result) {
        in_background_ = false;
        if (result.ok()) return Finish(v1::JobReport::SUCCEEDED);
        if (const auto pause = PauseAfter(result); pause.has_value()) {
          next_try_ = context_.clock.Now() + *pause;
        }
      });
}

void MovieRun::Tick() {
  if (stage_ == Stage::kFetching && !in_background_ && context_.clock.Now() >= next_try_) Make();
}

}  // namespace nerf
