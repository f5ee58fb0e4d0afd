#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/view_style.h"
#include "engine/protocol/progress.h"

// The messages between nerf-worker and `nerf-engine serve`. docs/inside/protocol.md says what each
// means and when it is sent; worker_request.h and engine_message.h read and write them.
namespace nerf::protocol {

// A longer job or id is not repeated in an answer, so that each answer fits a line.
inline constexpr size_t kMaxNameBytes = 1024;
// More test views than these have no scores in an answer, for the same reason.
inline constexpr size_t kMaxTestViewScores = 4096;

// ---- Parts of messages.

struct Budget {
  std::string kind;  // steps, samples or seconds
  double amount = 0;
};

// The config of a training, as text. The receiver checks the words. What is unset is the default.
struct Config {
  std::string method;
  std::optional<uint32_t> seed;
  std::optional<Budget> budget;
  std::string background;  // auto, white, black or random
  std::optional<uint32_t> test_every;
  std::map<std::string, std::string> settings;
};

// A problem of a data set: the file, the field in it if any, and what is wrong.
struct Problem {
  std::string file, field, message;
};

// Name, type ("F16") and shape of a tensor in a model file.
struct Tensor {
  std::string name, dtype;
  std::vector<uint32_t> shape;
};

// Why something failed. reason is one of nerf::reason, or the name of the code.
// The reason of `failed` when another rank does not answer.
inline constexpr std::string_view kRankLost = "RANK_LOST";
struct Error {
  absl::StatusCode code = absl::StatusCode::kUnknown;
  std::string reason, message;
};

// ---- Worker to engine.

inline constexpr double kMaxIntervalSeconds = 1e9;

// The place of an engine among those that train one job together (docs/run/gangs.md).
struct RankPlace {
  uint32_t rank = 0, n_ranks = 1;
  std::string interface;  // of the network between them; empty: loopback
};
struct Train {
  std::string job;
  std::string request_id, traceparent;  // of the call that made the job, for logs; may be empty
  std::string dataset, out;             // folders
  Config config;
  std::string resume, init;  // files; empty: none
  // With `resume`: the training goes on to the budget of `config`, not that of the checkpoint.
  bool extend = false;
  // Models of the training's parts: they are merged, in place of training.
  std::vector<std::string> merge = {};
  double checkpoint_interval_seconds = kMaxIntervalSeconds;
  double preview_interval_seconds = 10;
  std::optional<RankPlace> ranks = {};
};
// What all ranks have told by their texts of that number.
struct RankTexts {
  std::string job;
  uint32_t sequence = 0;
  std::vector<std::string> texts;  // by rank; any bytes
};
struct Stop {
  std::string job;
  bool checkpoint = false;  // write one before ending
};
// One view. Of `file` and `job` one is set.
struct Render {
  std::string id;
  std::string file;    // model or checkpoint
  std::string job;     // the one in training: its current weights
  std::string camera;  // text of a camera file with one frame; empty: an orbit
  int orbit_index = 0, orbit_count = 0;
  std::string path = "orbit";                   // a name of PathKind (engine/path)
  bool full_size = false;                       // views of a path are not reduced
  int width = 0, height = 0;                    // pixels; 0: from the camera
  std::vector<std::string> channels = {"rgb"};  // and rgba, depth, opacity
  ViewStyle style;                              // the receiver checks it
  bool jpeg = false, exr = false;               // else PNG
  int jpeg_quality = 90;                        // 1 to 100
  // A frame of a live view: interrupts other renders; JPEG in every channel; of a job in training,
  // weights that are up to a second old.
  bool live = false;
  bool moving = false;  // one ray for each pixel, whatever the model's setting
  std::string out;      // folder
};
struct Check {
  std::string id, dataset;
  // A folder: list the views there too (scene_views.h), without decoding the pictures. Empty: no.
  std::string out = {};
  std::optional<uint32_t> test_every = {};  // as in Config; for `out`
};
struct Cancel {
  std::string id;
};
using WorkerRequest = std::variant<Train, RankTexts, Stop, Render, Check, Cancel>;

// ---- Engine to worker.

struct Hello {
  std::string version, device, description;
  uint32_t threads = 0;
  std::vector<std::string> methods;      // that train on the device
  std::vector<std::string> merges = {};  // those of them whose parts' models it merges
  bool writes_nanovdb = false;           // its `export`
};
struct Started {
  std::string job;
  Config config;  // every field is set, and every setting
  std::string flavor;
  uint32_t train_views = 0, test_views = 0;
  std::vector<std::string> warnings;
  uint32_t step = 0;  // where it goes on from
};
struct Progress {
  std::string job;
  TrainProgress progress;
};
struct Preview {
  std::string job;
  uint32_t step = 0;
  std::optional<double> psnr;  // dB
  std::string image;           // PNG file
};
struct Checkpoint {
  std::string job;
  uint32_t step = 0;
  std::string checkpoint, model;  // files
  std::vector<Tensor> tensors;    // of the model
  std::optional<double> psnr;     // dB, of the preview view; unset without test views
};
struct Stopped {
  std::string job;
  uint32_t step = 0;
};
// PSNR in dB of a test view, by the path of its picture.
struct TestViewScore {
  std::string file;
  double psnr = 0;
};
struct Done {
  std::string job;
  TrainSummary summary;
  std::vector<TestViewScore> test_views = {};  // at most kMaxTestViewScores
};
struct Failed {
  std::string job;
  Error error;
  std::vector<Problem> problems;
  std::optional<uint32_t> lost_rank = {};  // with kRankLost, where it is known
};
// What this engine's rank tells all others; `rank_texts` answers.
struct RankText {
  std::string job;
  uint32_t sequence = 0;
  std::string text;  // any bytes
};
struct Working {
  std::string id;
};
struct Rendered {
  std::string id;
  std::map<std::string, std::string> files;  // by channel
  uint32_t width = 0, height = 0;
  double far = 0;  // scene units that the brightest depth stands for; 0 without depth
  uint32_t step = 0;
  double seconds = 0;
  std::string path = "";                     // that the view lies on; empty for a camera's
  uint32_t full_width = 0, full_height = 0;  // before the view was reduced; 0: it was not
  // Share of the view that two training views show; unset if these are not stored.
  std::optional<double> seen_twice = {};
  bool far_from_cameras = false;  // of the training; false if these are not stored
};
struct Checked {
  std::string id;
  bool ok = false;
  std::string summary;
  std::vector<Problem> problems;
  std::vector<std::string> warnings;
  std::string views = {};  // file of a check with `out` that found no problem
};
// A request was refused.
struct Refused {
  std::string id, job;  // empty where not known
  Error error;
};
using EngineMessage = std::variant<Hello, RankText, Started, Progress, Preview, Checkpoint, Stopped,
                                   Done, Failed, Working, Rendered, Checked, Refused>;

}  // namespace nerf::protocol
