#include "engine/methods/autograd/op_profile.h"

#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <set>

#include "fmt/format.h"
#include "fmt/ranges.h"

namespace nerf::autograd {
namespace {

namespace profiler = torch::autograd::profiler;

// Newer versions count nanoseconds.
template <typename Event>
double BeginOf(const Event& event) {
  if constexpr (requires { event.startNs(); }) {
    return 1e-3 * static_cast<double>(event.startNs());
  } else {
    return static_cast<double>(event.startUs());
  }
}
template <typename Event>
double DurationOf(const Event& event) {
  if constexpr (requires { event.durationNs(); }) {
    return 1e-3 * static_cast<double>(event.durationNs());
  } else {
    return static_cast<double>(event.durationUs());
  }
}

const char* CategoryOf(uint8_t scope) {
  switch (static_cast<at::RecordScope>(scope)) {
    case at::RecordScope::USER_SCOPE:
      return "phase";
    case at::RecordScope::BACKWARD_FUNCTION:
      return "backward";
    default:
      return "operation";
  }
}

std::string Escaped(const std::string& name) {
  std::string text;
  for (const char c : name) {
    if (c == '"' || c == '\\') text += '\\';
    text += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return text;
}

std::string ShapesOf(const profiler::KinetoEvent& event) {
  if (!event.hasShapes()) return "";
  std::string text;
  for (const std::vector<int64_t>& shape : event.shapes())
    text += fmt::format("{}[{}]", text.empty() ? "" : " ", fmt::join(shape, ", "));
  return text;
}

}  // namespace

OpProfile::~OpProfile() {
  if (!recording_) return;
  try {
    profiler::disableProfiler();  // a step has thrown
  } catch (const std::exception&) {
    // Nothing else is left to do with it.
  }
}

void OpProfile::BeginStep() {
  if (n_left_ == 0) return;
  const profiler::ProfilerConfig config(profiler::ProfilerState::KINETO,
                                        /*report_input_shapes=*/true);
  const std::set<profiler::ActivityType> activities = {profiler::ActivityType::CPU};
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(config, activities);
  recording_ = true;
}

void OpProfile::EndStep() {
  if (!recording_) return;
  recording_ = false;
  --n_left_;
  const auto result = profiler::disableProfiler();
  for (const profiler::KinetoEvent& event : result->events())
    events_.push_back({event.name(), ShapesOf(event), CategoryOf(event.scope()),
                       event.startThreadId(), BeginOf(event), DurationOf(event)});
}

std::string OpProfile::ToJson() const {
  std::vector<const Event*> order;
  for (const Event& event : events_) order.push_back(&event);
  std::stable_sort(order.begin(), order.end(),
                   [](const Event* a, const Event* b) { return a->begin < b->begin; });
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  for (const Event* event : order) {
    text += fmt::format(
        "{}\n{{\"name\":\"{}\",\"cat\":\"{}\",\"ph\":\"X\",\"pid\":1,\"tid\":{},\"ts\":{:.3f},"
        "\"dur\":{:.3f},\"args\":{{\"shapes\":\"{}\"}}}}",
        event == order.front() ? "" : ",", Escaped(event->name), event->category, event->thread,
        event->begin - order.front()->begin, event->microseconds, event->shapes);
  }
  return text + "\n]}\n";
}

}  // namespace nerf::autograd
