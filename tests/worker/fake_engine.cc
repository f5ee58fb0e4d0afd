// A stand-in for `nerf-engine serve`: speaks docs/inside/protocol.md on file descriptor 3 and
// misbehaves on request. Used by engine_process_test and agent_engine_test.
//   --step-ms=N            a step takes N ms (default 5)
//   --checkpoint-every=N   steps between checkpoints (default 10)
//   --crash-at=N           raise SIGSEGV at step N     --exit-at=N   exit with code 3 at step N
//   --hang-at=N            be silent from step N on    --ignore-stop
//   --exit-at-start        exit with code 4 before hello
//   --hostile              garbage, overlong lines, unknown types, foreign paths before each step
//   --flood=N              N lines right after hello
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
#include <nlohmann/json.hpp>
#include <string>

namespace {

using Json = nlohmann::json;

constexpr int kFd = 3;

std::map<std::string, std::string> knobs;

int Knob(const std::string& name, int otherwise) {
  const auto it = knobs.find(name);
  return it == knobs.end() ? otherwise : std::atoi(it->second.c_str());
}

void SendText(const std::string& text) {
  size_t sent = 0;
  while (sent < text.size()) {
    const ssize_t n = send(kFd, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (n < 0) _exit(0);
    sent += static_cast<size_t>(n);
  }
}

void SendMessage(const Json& message) { SendText(message.dump() + "\n"); }

void WriteTo(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

struct Job {
  std::string key, out;
  int step = 0, steps = 0;
  bool training = false, hanging = false;
};

void Checkpoint(const Job& job) {
  const std::string base = job.out + "/step" + std::to_string(job.step);
  WriteTo(base + ".checkpoint", "checkpoint of step " + std::to_string(job.step));
  WriteTo(base + ".model", "model of step " + std::to_string(job.step));
  SendMessage({{"type", "checkpoint"},
               {"job", job.key},
               {"step", job.step},
               {"checkpoint", base + ".checkpoint"},
               {"model", base + ".model"},
               {"tensors", Json::array({{{"name", "grid"}, {"dtype", "F16"}, {"shape", {4, 2}}}})},
               {"psnr", nullptr}});
}

Json Counters(const Job& job) {
  return {{"job", job.key},
          {"step", job.step},
          {"samples", job.step * 100.0},
          {"rays", job.step * 10.0},
          {"loss", 0.5},
          {"psnr_train", 20.0},
          {"samples_per_second", 1e5},
          {"seconds", job.step * 0.01},
          {"fraction", double(job.step) / job.steps}};
}

void BeHostile(const Job& job) {
  SendText("no json at all\n{\"type\":\n[1,2]\n\n{\"type\":\"progress\",\"step\":-1}\n");
  SendText(std::string("\xff\xfe\x00 binary", 10) + "\n");
  SendText(std::string(3 << 20, 'x') + "\n");
  SendMessage({{"type", "sudo"}, {"job", job.key}});
  SendMessage({{"type", "done"},
               {"job", "projects/default/jobs/other@1"},
               {"step", 1},
               {"samples", 1},
               {"seconds", 1}});
  SendMessage({{"type", "preview"}, {"job", job.key}, {"step", 1}, {"image", "/etc/passwd"}});
  SendMessage({{"type", "checkpoint"},
               {"job", job.key},
               {"step", 1},
               {"checkpoint", job.out + "/../scene/transforms.json"},
               {"model", "/etc/passwd"}});
  SendMessage({{"type", "rendered"},
               {"id", "r1"},
               {"files", {{"rgb", "/etc/passwd"}}},
               {"width", 1},
               {"height", 1}});
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

void Train(const Json& message, Job* job) {
  *job = {message["job"], message["out"], 0, message["budget"]["amount"].get<int>(), true};
  if (message.contains("resume")) {
    std::string words;
    std::ifstream resume(message["resume"].get<std::string>());
    while (resume >> words) job->step = std::atoi(words.c_str());
  }
  SendMessage({{"type", "started"},
               {"job", job->key},
               {"config",
                {{"method", message["method"]},
                 {"seed", message["seed"]},
                 {"budget", message["budget"]},
                 {"background", "white"},
                 {"test_every", 8},
                 {"settings", {{"ema_decay", "0.95"}}}}},
               {"scene", {{"flavor", "blender"}, {"train", 1}, {"test", 0}}},
               {"step", job->step}});
}

void Stop(const Json& message, Job* job) {
  if (knobs.contains("ignore-stop")) return;
  if (!job->training) {
    SendMessage({{"type", "error"}, {"job", message["job"]}, {"code", "NOT_FOUND"}});
    return;
  }
  if (message["mode"] == "checkpoint") Checkpoint(*job);
  job->training = false;
  SendMessage({{"type", "stopped"}, {"job", job->key}, {"step", job->step}});
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

void Answer(const Json& message, Job* job) {
  const std::string type = message["type"];
  if (type == "train") {
    Train(message, job);
  } else if (type == "stop") {
    Stop(message, job);
  } else if (type == "render") {
    const std::string path = message["out"].get<std::string>() + "/rgb_0000.png";
    WriteTo(path, message.contains("file") ? "of file" : "of job");
    SendMessage({{"type", "rendered"},
                 {"id", message["id"]},
                 {"files", {{"rgb", path}}},
                 {"width", 4},
                 {"height", 3},
                 {"step", job->step},
                 {"seconds", 0.1}});
  } else if (type == "check") {
    SendMessage({{"type", "checked"},
                 {"id", message["id"]},
                 {"ok", true},
                 {"summary", knobs.contains("snoop") ? Snoop(message["dataset"]) : "fine"},
                 {"problems", Json::array()},
                 {"warnings", Json::array({"a warning"})}});
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
  Json progress = Counters(*job);
  progress["type"] = "progress";
  SendMessage(progress);
  if (job->step == 2) {
    WriteTo(job->out + "/preview.png", "preview");
    SendMessage({{"type", "preview"},
                 {"job", job->key},
                 {"step", job->step},
                 {"psnr", 21.5},
                 {"image", job->out + "/preview.png"}});
  }
  if (job->step % Knob("checkpoint-every", 10) == 0 || job->step == job->steps) Checkpoint(*job);
  if (job->step >= job->steps) {
    job->training = false;
    Json done = Counters(*job);
    done["type"] = "done";
    done["psnr"] = 30.25;
    SendMessage(done);
  }
}

}  // namespace

int main(int argc, char** argv) {
  ReadKnobs(argc, argv);
  if (knobs.contains("exit-at-start")) return 4;
  SendMessage({{"type", "hello"},
               {"version", "fake"},
               {"device", "cpu"},
               {"description", "fake device"},
               {"threads", 1},
               {"methods", Json::array({"ngp"})}});
  for (int i = 0; i < Knob("flood", 0); ++i) SendText(std::string(1000, 'f') + "\n");

  Job job;
  std::string incoming;
  while (true) {
    const bool steps = job.training && !job.hanging;
    pollfd fd = {kFd, POLLIN, 0};
    poll(&fd, 1, steps ? Knob("step-ms", 5) : -1);
    if (fd.revents != 0) {
      char buffer[65536];
      const ssize_t n = recv(kFd, buffer, sizeof(buffer), 0);
      if (n <= 0) return 0;
      incoming.append(buffer, static_cast<size_t>(n));
    }
    for (size_t end; (end = incoming.find('\n')) != std::string::npos;) {
      const Json message = Json::parse(incoming.substr(0, end));
      incoming.erase(0, end + 1);
      Answer(message, &job);
    }
    if (job.training && !job.hanging) Step(&job);
  }
}
