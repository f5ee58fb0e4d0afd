#include "engine/base/trace.h"

#include <cstdio>
#include <utility>

#include "engine/base/check.h"

namespace nerf {
namespace {

thread_local TraceRecording* current = nullptr;

}  // namespace

TraceRecording::TraceRecording(Now now, size_t max_spans)
    : now_(std::move(now)), start_(now_()), max_spans_(max_spans) {
  NERF_CHECK(current == nullptr);
  current = this;
}

TraceRecording::~TraceRecording() { current = nullptr; }

std::string TraceRecording::ToJson() const {
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  for (const Span& span : spans_) {
    char event[160];
    std::snprintf(event, sizeof(event),
                  "%s\n{\"name\":\"%s\",\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":%.3f,\"dur\":%.3f}",
                  &span == spans_.data() ? "" : ",", span.name, 1e6 * (span.begin - start_),
                  1e6 * span.seconds);
    text += event;
  }
  return text + "\n]}\n";
}

TraceSpan::TraceSpan(const char* name) : recording_(current), name_(name) {
  if (recording_ != nullptr) begin_ = recording_->now_();
}

TraceSpan::~TraceSpan() {
  if (recording_ == nullptr) return;
  const double seconds = recording_->now_() - begin_;
  if (recording_->spans_.size() < recording_->max_spans_) {
    recording_->spans_.push_back({name_, begin_, seconds});
  } else {
    ++recording_->n_dropped_;
  }
}

}  // namespace nerf
