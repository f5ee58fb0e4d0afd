#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace nerf {

// A record of what a thread does, as spans of time: the phases of training steps. While a recording
// lives, every TraceSpan of the thread that made it is recorded; without one a span costs a look at
// a variable. Not thread-safe: other threads' spans are not recorded.
class TraceRecording {
 public:
  // Seconds on a clock that never goes back.
  using Now = std::function<double()>;
  // Records at most max_spans; later ones are dropped and counted.
  explicit TraceRecording(Now now, size_t max_spans = 2'000'000);
  ~TraceRecording();
  TraceRecording(const TraceRecording&) = delete;
  TraceRecording& operator=(const TraceRecording&) = delete;

  // The spans that have ended, as an object of Chrome's trace event format: chrome://tracing and
  // Perfetto show it. Times begin at 0 when the recording does.
  std::string ToJson() const;
  size_t n_dropped() const { return n_dropped_; }

 private:
  friend class TraceSpan;
  struct Span {
    const char* name;
    double begin, seconds;
  };

  const Now now_;
  const double start_;
  const size_t max_spans_;
  std::vector<Span> spans_;
  size_t n_dropped_ = 0;
};

// From its construction to its destruction. name: a literal of letters, digits and spaces.
class TraceSpan {
 public:
  explicit TraceSpan(const char* name);
  ~TraceSpan();
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  TraceRecording* const recording_;
  const char* const name_;
  double begin_ = 0;
};

}  // namespace nerf
