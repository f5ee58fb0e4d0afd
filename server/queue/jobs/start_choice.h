#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "server/queue/jobs/job.h"
#include "server/queue/jobs/model_record.h"
#include "server/queue/resources/scene_record.h"

namespace nerf {

// nerf-engine writes it where photographs were added to a scene
// (engine/scene/read/placement_file.h).
inline constexpr std::string_view kPlacementFile = "placement.json";

// A model that a new job may start from, and what is known of its training.
struct StartCandidate {
  const ModelRecord* model = nullptr;  // of a job's last checkpoint, if no model was made of it
  const Job* job = nullptr;            // that trained it; null when it was deleted
  const SceneRecord* scene = nullptr;  // of that job; null when it is not known any more
};

// What a job asks that leaves its start to the server. Pointers hold during the call.
struct StartQuestion {
  const SceneRecord* scene = nullptr;  // of the new job; null when it is still to be made
  // Only a model of a scene that the job's continues, with more photographs, will do.
  bool must_continue = false;
  // The new job's scene will be `scene` with more photographs.
  bool scene_grows = false;
  std::vector<StartCandidate> candidates;  // models of the job's project, newest first
};

struct StartAnswer {
  const ModelRecord* model = nullptr;  // one of the candidates; null: from scratch
  std::string reason;                  // one line, for people
};

// The scene's file of that path; null without it.
inline const SceneFileRecord* FindSceneFile(const SceneRecord& scene, std::string_view path) {
  const auto found = std::lower_bound(
      scene.files.begin(), scene.files.end(), path,
      [](const SceneFileRecord& file, std::string_view wanted) { return file.path < wanted; });
  return found != scene.files.end() && found->path == path ? &*found : nullptr;
}

// Whether the job's scene may be another one with more photographs: it says where it lies, or is
// still to grow.
inline bool MayContinue(const StartQuestion& question) {
  return question.scene != nullptr &&
         (question.scene_grows || FindSceneFile(*question.scene, kPlacementFile) != nullptr);
}

using StartChooser = std::function<StartAnswer(const StartQuestion& question)>;

// At most so many candidates, the newest: a choice holds the queue's lock.
inline constexpr size_t kMaxStartCandidates = 1000;
// Jobs of all projects that are looked at for them, since the queue waits meanwhile.
inline constexpr size_t kMaxStartJobsSeen = 10'000;

}  // namespace nerf
