#include "engine/scene/posing/pose_files.h"
#include "engine/scene/posing/pose_picture.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/files/atomic_file.h"
#include "common/status_macros.h"
#include "engine/scene/pictures/image_io.h"
#include "engine/scene/posing/photographs/film.h"

namespace nerf {

int StagesOfReading(const PhotoSources& sources) { return sources.films.empty() ? 1 : 2; }

absl::StatusOr<std::vector<Photo>> ReadPictures(const PhotoSources& sources, const WorkFolder& work,
                                                const PoseOptions& options, PoseStages* stages) {
  std::vector<PhotoSources::Picture> pictures = sources.pictures;
  const size_t n_films = sources.films.size();
  const auto advance = [stages](size_t done, size_t of) {
    stages->Advance(static_cast<int>(done), static_cast<int>(of));
  };
  const size_t n_frames = n_films * static_cast<size_t>(options.film_frames);
  if (n_films > 0 && pictures.size() + n_frames > kMaxPictures) {
    return absl::InvalidArgumentError(
        absl::StrCat(n_films, " films of ", options.film_frames, " frames and ", pictures.size(),
                     " photographs; at most ", kMaxPictures, " pictures: ask for fewer frames"));
  }
  if (n_films > 0) stages->Begin("reading films", "frames");
  for (size_t i = 0; i < n_films; ++i) {
    const std::string frames = work / absl::StrCat("film_", i);
    NERF_RETURN_IF_ERROR(MakeFolder(frames));
    FilmOptions film;
    film.ffmpeg = options.ffmpeg;
    film.ffprobe = options.ffprobe;
    film.n_frames = options.film_frames;
    film.max_pixels /= static_cast<double>(n_films);
    std::error_code error;
    const std::filesystem::space_info space = std::filesystem::space(frames, error);
    // Half, since those that are taken are copied.
    if (!error) film.max_bytes = static_cast<double>(space.available) / 2;
    film.pool = options.pool;
    film.stop = options.stop;
    film.on_progress = [&, i](size_t done, size_t of) { advance(i * of + done, n_films * of); };
    NERF_ASSIGN_OR_RETURN(const auto taken, FramesOfFilm(sources.films[i], frames, film));
    pictures.insert(pictures.end(), taken.begin(), taken.end());
  }
  NERF_RETURN_IF_ERROR(MakeFolder(work / "images"));
  stages->Begin("reading photographs", "photographs");
  PrepareOptions prepare{options.pool, options.stop, advance, "", options.max_memory_bytes};
  if (std::any_of(pictures.begin(), pictures.end(),
                  [](const auto& p) { return !p.mask.empty(); })) {
    prepare.masks = work / "masks";
    NERF_RETURN_IF_ERROR(MakeFolder(prepare.masks));
  }
  NERF_ASSIGN_OR_RETURN(std::vector<Photo> photos,
                        PreparePhotos(pictures, work / "images", prepare));
  for (size_t i = 0; i < n_films; ++i) {
    std::error_code ignored;
    std::filesystem::remove_all(work / absl::StrCat("film_", i), ignored);
  }
  return photos;
}

absl::Status WriteReportFiles(const PoseReport& report, const PosedModel& model,
                              const WorkFolder& work, const std::string& out) {
  // The report goes to whoever sent the photographs: it names no folder of this machine.
  const std::string name = std::filesystem::path(out).filename().string();
  NERF_RETURN_IF_ERROR(
      WriteFileAtomically(work / "pose.json", PoseReportJson(report, name) + "\n"));
  NERF_RETURN_IF_ERROR(
      WriteFileAtomically(work / "pose.txt", PoseReportText(report) + PosedListText(report)));
  return WritePng(work / "pose.png", PictureFromAbove(report, model));
}

}  // namespace nerf
