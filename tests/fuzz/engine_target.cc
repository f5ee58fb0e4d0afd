#include <algorithm>
#include <string>
#include <vector>

#include "common/messages/deterministic_bytes.h"
#include "engine/base/protocol/message_splitter.h"
#include "engine/program/serve/request_check.h"
#include "nerf/internal/engine.pb.h"
#include "tests/engine/program/commands/worker_messages.h"
#include "tests/fuzz/fuzz_target.h"

namespace nerf {
namespace {

std::vector<std::string> EngineSeeds() {
  std::string stream;
  for (const internal::WorkerRequest& request :
       {StopMessage("j"), CancelMessage("r"), CheckMessage("c", "/data"), ValidRender("r")})
    stream += Delimited(request.SerializeAsString());
  internal::EngineMessage message;
  message.set_job("j");
  message.mutable_progress()->mutable_progress()->set_step(7);
  return {'\x01' + stream, '\xff' + stream, '\x05' + Delimited(message.SerializeAsString()),
          std::string("\x03\x80\x80\x80\x80\x01", 6)};
}

struct Stream {
  std::vector<std::string> messages;
  size_t n_too_long = 0;

  bool operator==(const Stream&) const = default;
};

// What comes out of the bytes where they arrive `at_once` at a time.
Stream Split(std::string_view bytes, size_t at_once) {
  MessageSplitter splitter;
  Stream stream;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(at_once, bytes.size()))) {
    splitter.Add(
        bytes.substr(0, at_once),
        [&](const std::string& message) { stream.messages.push_back(message); },
        [&] { ++stream.n_too_long; });
  }
  return stream;
}

// The first byte says how many bytes arrive at once.
std::string CheckStream(std::string_view input) {
  if (input.empty()) return "";
  const size_t at_once = std::max<size_t>(1, static_cast<uint8_t>(input[0]));
  input.remove_prefix(1);
  const Stream stream = Split(input, at_once);
  if (stream != Split(input, std::max<size_t>(1, input.size()))) return "cuts change the messages";
  for (const std::string& message : stream.messages) {
    internal::WorkerRequest request;
    if (request.ParseFromString(message)) CheckRequest(request).IgnoreError();
    internal::EngineMessage said;
    if (said.ParseFromString(message)) DeterministicBytes(said);
  }
  return "";
}

}  // namespace

const FuzzTarget kEngineTarget = {"engine", EngineSeeds, CheckStream};

}  // namespace nerf
