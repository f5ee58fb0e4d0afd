// A stand-in for `nerf-engine serve`: speaks docs/inside/protocol.md on file descriptor 3 and
// misbehaves on request. Used by engine_process_test and agent_engine_test.
//   --step-ms=N            a step takes N ms (default 5)
//   --checkpoint-every=N   steps between checkpoints (default 10)
//   --crash-at=N           raise SIGSEGV at step N     --exit-at=N   exit with code 3 at step N
//   --hang-at=N            be silent from step N on    --ignore-stop
//   --exit-at-start        exit with code 4 before hello
//   --hostile              garbage, overlong messages, unknown kinds, foreign paths before each
//   step
//   --hostile-end          a length of more than 32 bits after `done`, and `done` again
//   --flood=N              N messages right after hello
//   --snoop                leave traces at each check, and say which ones it finds
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "engine/base/protocol/message_splitter.h"
#include "nerf/internal/engine.pb.h"

namespace {

using nerf::Delimited;
using nerf::internal::EngineMessage;
using nerf::internal::WorkerRequest;

constexpr int kFd = 3;

std::map<std::string, std::string> knobs;

int Knob(const std::string& name, int otherwise) {
  const auto it = knobs.find(name);
  return it == knobs.end() ? otherwise : std::atoi(it->second.c_str());
}

void SendBytes(const std::string& bytes) {
  size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t n = send(kFd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n < 0) _exit(0);
    sent += static_cast<size_t>(n);
  }
}

void SendMessage(const EngineMessage& message) {
  SendBytes(Delimited(message.SerializeAsString()));
}

void WriteTo(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

struct Job {
  std::string key, out;
  int step = 0, steps = 0;
  bool training = false, hanging = false;
};

EngineMessage AboutJob(const std::string& key) {
  EngineMessage message;
  message.set_job(key);
  return message;
}

EngineMessage AnswerTo(const std::string& id) {
  EngineMessage message;
  message.set_id(id);
  return message;
}

void Checkpoint(const Job& job) {
  const std::string base = job.out + "/step" + std::to_string(job.step);
  WriteTo(base + ".checkpoint", "checkpoint of step " + std::to_string(job.step));
  WriteTo(base + ".model", "model of step " + std::to_string(job.step));
  EngineMessage message = AboutJob(job.key);
  nerf::internal::SavedState& saved = *message.mutable_checkpoint();
  saved.set_step(job.step);
  saved.set_checkpoint(base + ".checkpoint");
  saved.set_model(base + ".model");
  nerf::v1::TensorSpec* tensor = saved.add_tensors();
  tensor->set_name("grid");
  tensor->set_dtype("F16");
  for (const uint32_t size : {4, 2}) tensor->add_shape(size);
  SendMessage(message);
}

nerf::v1::Progress Counters(const Job& job) {
  nerf::v1::Progress progress;
  progress.set_step(job.step);
  progress.set_samples(job.step * 100.0);
  progress.set_rays(job.step * 10.0);
  progress.set_loss(0.5);
  progress.set_psnr_train(20);
  progress.set_samples_per_second(1e5);
  progress.set_seconds(job.step * 0.01);
  progress.set_fraction(double(job.step) / job.steps);
  return progress;
}

void BeHostile(const Job& job) {
  SendBytes(Delimited("no message at all") + Delimited("") + Delimited("{\"progress\":{}}"));
  SendBytes(Delimited(std::string("\xff\xfe\x00 binary", 10)));
  SendBytes(Delimited(std::string(3 << 20, 'x')));
  SendBytes(Delimited(std::string(1 << 20, '\0')));
  SendMessage(AboutJob(job.key));  // says nothing
  EngineMessage newer = AboutJob(job.key);
  // Field 1000 of a message, as a newer engine might send it.
  newer.GetReflection()->MutableUnknownFields(&newer)->AddLengthDelimited(1000, "sudo");
  SendMessage(newer);
  EngineMessage done = AboutJob("projects/default/jobs/other@1");
  done.mutable_done()->mutable_progress()->set_step(1);
  SendMessage(done);
  EngineMessage preview = AboutJob(job.key);
  preview.mutable_preview()->set_step(1);
  preview.mutable_preview()->set_image("/etc/passwd");
  SendMessage(preview);
  EngineMessage checkpoint = AboutJob(job.key);
  checkpoint.mutable_checkpoint()->set_step(1);
  checkpoint.mutable_checkpoint()->set_checkpoint(job.out + "/../scene/transforms.json");
  checkpoint.mutable_checkpoint()->set_model("/etc/passwd");
  SendMessage(checkpoint);
  EngineMessage rendered = AnswerTo("r1");
  rendered.mutable_rendered()->mutable_response()->add_images();
  rendered.mutable_rendered()->add_files("/etc/passwd");
  SendMessage(rendered);
  EngineMessage checked = AnswerTo("r1");
  checked.mutable_checked()->mutable_response()->set_ok(true);
  checked.mutable_checked()->set_views("/etc/passwd");
  SendMessage(checked);
}

void ReadKnobs(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t equals = argument.find('=');
    if (argument.compare(0, 2, "--") != 0) continue;
    knobs[argument.substr(2, equals == std::string::npos ? equals : equals - 2)] =
        equals == std::string::npos ? "1" : argument.substr(equals + 1);
  }
}

void Train(const WorkerRequest& request, Job* job) {
  const nerf::internal::Train& train = request.train();
  *job = {request.job(), train.out(), 0, static_cast<int>(train.config().steps()), true};
  if (!train.resume().empty()) {
    std::string words;
    std::ifstream resume(train.resume());
    while (resume >> words) job->step = std::atoi(words.c_str());
  }
  EngineMessage message = AboutJob(job->key);
  nerf::internal::Started& started = *message.mutable_started();
  *started.mutable_config() = train.config();
  started.mutable_config()->set_background(nerf::v1::TrainingConfig::WHITE);
  started.mutable_config()->set_test_every(8);
  (*started.mutable_config()->mutable_settings())["ema_decay"] = "0.95";
  started.set_flavor("blender");
  started.set_train_views(1);
  started.set_step(job->step);
  SendMessage(message);
}

void Stop(const WorkerRequest& request, Job* job) {
  if (knobs.contains("ignore-stop")) return;
  if (!job->training) {
    EngineMessage message = AboutJob(request.job());
    message.mutable_refused()->set_code(5);
    SendMessage(message);
    return;
  }
  if (request.stop().checkpoint()) Checkpoint(*job);
  job->training = false;
  EngineMessage message = AboutJob(job->key);
  message.mutable_stopped()->set_step(job->step);
  SendMessage(message);
}

// Leaves traces in its memory and wherever it can write, and says which ones it finds: in memory,
// in its own room and in all folders.
std::string Snoop(const std::string& dataset) {
  namespace fs = std::filesystem;
  static int n_remembered = 0;
  const fs::path room = fs::path(dataset).parent_path().parent_path().parent_path();
  const auto count = [](const fs::path& folder) {
    int n_traces = 0;
    std::error_code error;
    for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
         it.increment(error)) {
      n_traces += it->path().filename() == "trace" ? 1 : 0;
    }
    return n_traces;
  };
  std::string in_memory_files = room.parent_path().string();
  for (char& c : in_memory_files) c = c == '/' ? '-' : c;
  in_memory_files = "/dev/shm/trace" + in_memory_files;
  // The sandbox hides the room itself.
  const int n_in_room = count(room / "requests") + count(room / "jobs");
  const int n_in_all = count(room.parent_path()) + (fs::exists(in_memory_files) ? 1 : 0);
  const std::string found = std::to_string(getpid()) + " " + std::to_string(n_remembered) + " " +
                            std::to_string(n_in_room) + " " + std::to_string(n_in_all);
  ++n_remembered;
  WriteTo(in_memory_files, "x");
  for (const char* name : {"/requests/trace", "/jobs/trace"}) WriteTo(room.string() + name, "x");
  return found;
}

void Answer(const WorkerRequest& request, Job* job) {
  EngineMessage message = AnswerTo(request.id());
  if (request.has_train()) {
    Train(request, job);
  } else if (request.has_stop()) {
    Stop(request, job);
  } else if (request.has_render()) {
    const std::string path = request.render().out() + "/rgb_0000.png";
    WriteTo(path, request.render().file().empty() ? "of job" : "of file");
    nerf::v1::RenderImageResponse& response = *message.mutable_rendered()->mutable_response();
    response.add_images()->set_channel(nerf::v1::RGB);
    message.mutable_rendered()->add_files(path);
    response.set_width(4);
    response.set_height(3);
    response.set_step(job->step);
    response.set_seconds(0.1);
    SendMessage(message);
  } else if (request.has_check()) {
    nerf::v1::ValidateSceneResponse& response = *message.mutable_checked()->mutable_response();
    response.set_ok(true);
    response.set_summary(knobs.contains("snoop") ? Snoop(request.check().dataset()) : "fine");
    response.add_warnings("a warning");
    SendMessage(message);
  }
}

// One training step with its messages. May end the process, or set `hanging`.
void Step(Job* job) {
  if (knobs.contains("hostile")) BeHostile(*job);
  if (job->step < job->steps) ++job->step;  // else it was resumed from its last step
  if (job->step == Knob("crash-at", -1)) {
    signal(SIGSEGV, SIG_DFL);  // sanitizers would turn it into an exit code
    raise(SIGSEGV);
  }
  if (job->step == Knob("exit-at", -1)) exit(3);
  if (job->step == Knob("hang-at", -1)) job->hanging = true;
  EngineMessage progress = AboutJob(job->key);
  *progress.mutable_progress()->mutable_progress() = Counters(*job);
  SendMessage(progress);
  if (job->step == 2) {
    WriteTo(job->out + "/preview.png", "preview");
    EngineMessage preview = AboutJob(job->key);
    preview.mutable_preview()->set_step(job->step);
    preview.mutable_preview()->set_psnr(21.5);
    preview.mutable_preview()->set_image(job->out + "/preview.png");
    SendMessage(preview);
  }
  if (job->step % Knob("checkpoint-every", 10) == 0 || job->step == job->steps) Checkpoint(*job);
  if (job->step >= job->steps) {
    job->training = false;
    EngineMessage done = AboutJob(job->key);
    *done.mutable_done()->mutable_progress() = Counters(*job);
    done.mutable_done()->set_psnr(30.25);
    const std::string bytes = Delimited(done.SerializeAsString());
    SendBytes(knobs.contains("hostile-end") ? bytes + "\xff\xff\xff\xff\xff\x01" + bytes : bytes);
  }
}

}  // namespace

int main(int argc, char** argv) {
  ReadKnobs(argc, argv);
  if (knobs.contains("exit-at-start")) return 4;
  EngineMessage message;
  nerf::internal::Hello& hello = *message.mutable_hello();
  hello.set_version("fake");
  hello.set_device("cpu");
  hello.set_description("fake device");
  hello.set_threads(1);
  hello.add_methods("ngp");
  SendMessage(message);
  for (int i = 0; i < Knob("flood", 0); ++i) SendBytes(Delimited(std::string(1000, 'f')));

  Job job;
  nerf::MessageSplitter incoming;
  while (true) {
    const bool steps = job.training && !job.hanging;
    pollfd fd = {kFd, POLLIN, 0};
    poll(&fd, 1, steps ? Knob("step-ms", 5) : -1);
    if (fd.revents != 0) {
      char buffer[65536];
      const ssize_t n = recv(kFd, buffer, sizeof(buffer), 0);
      if (n <= 0) return 0;
      const auto answer = [&](const std::string& bytes) {
        WorkerRequest request;
        if (!request.ParseFromString(bytes)) _exit(5);
        Answer(request, &job);
      };
      incoming.Add({buffer, static_cast<size_t>(n)}, answer, [] { _exit(5); });
    }
    if (job.training && !job.hanging) Step(&job);
  }
}
