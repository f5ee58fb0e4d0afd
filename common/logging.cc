#include "common/logging.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/edit_distance.h"
#include "common/error_reason.h"
#include "common/log_options.h"
#include "common/mutex.h"
#include "common/trace_context.h"

namespace nerf {
namespace {

constexpr char kTextPattern[] = "%Y-%m-%dT%H:%M:%S.%eZ %l %n %v";
constexpr char kJsonPattern[] =
    R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","program":"%n",%v})";

// Warnings and errors with the same message: so many are written in an interval, and then how many
// were not.
constexpr int kMaxRepeats = 20;
constexpr absl::Duration kRepeatInterval = absl::Seconds(10);
constexpr size_t kMaxOrigins = 4096;

// Whether lines are objects. Set before threads start.
bool& IsJson() {
  static bool is_json = false;
  return is_json;
}

std::shared_ptr<spdlog::logger> MakeLogger(std::string program, spdlog::level::level_enum level) {
  auto logger = std::make_shared<spdlog::logger>(std::move(program),
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern(IsJson() ? kJsonPattern : kTextPattern, spdlog::pattern_time_type::utc);
  logger->set_level(level);
  logger->flush_on(spdlog::level::debug);
  return logger;
}

// Until InitLogging is called, only warnings and errors are written.
std::shared_ptr<spdlog::logger>& Logger() {
  static auto& logger =
      *new std::shared_ptr<spdlog::logger>(MakeLogger("nerf", spdlog::level::warn));
  return logger;
}

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

bool IsBare(std::string_view value) {
  for (char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= 0x20 || byte >= 0x7f || c == '"' || c == '=' || c == '\\') return false;
  }
  return !value.empty();
}

// Counts warnings and errors by message. Thread-safe.
class RepeatLimit {
 public:
  // Whether a line is written, and how many before it were not.
  bool Allows(std::string_view message, int* n_left_out) {
    const absl::Time now = absl::Now();
    MutexLock lock(mu_);
    // Messages are literals of the program, except a few that name an error.
    if (counts_.size() > kMaxMessages) counts_.clear();
    Count& count = counts_[std::string(message)];
    if (now - count.begin >= kRepeatInterval || now < count.begin) {
      *n_left_out = count.n > kMaxRepeats ? count.n - kMaxRepeats : 0;
      count = {now, 1};
      return true;
    }
    return ++count.n <= kMaxRepeats;
  }

 private:
  static constexpr size_t kMaxMessages = 1000;
  struct Count {
    absl::Time begin = absl::InfinitePast();
    int n = 0;  // since begin
  };
  Mutex mu_;
  std::map<std::string, Count> counts_ ABSL_GUARDED_BY(mu_);
};

// The calls that made jobs. Thread-safe.
class JobOrigins {
 public:
  struct Origin {
    std::string request_id, trace_id;
  };
  using Key = std::pair<std::string, std::string>;  // project and job

  void Note(Key key, Origin origin) {
    MutexLock lock(mu_);
    if (origins_.insert_or_assign(key, std::move(origin)).second) order_.push_back(std::move(key));
    if (order_.size() <= kMaxOrigins) return;
    origins_.erase(order_.front());
    order_.pop_front();
  }

  std::optional<Origin> Find(std::initializer_list<LogField> fields) {
    Key key;
    for (const LogField& field : fields) {
      if (field.key == "project") key.first = field.value;
      if (field.key == "job") key.second = field.value;
    }
    if (key.second.empty()) return std::nullopt;
    MutexLock lock(mu_);
    const auto found = origins_.find(key);
    return found == origins_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  Mutex mu_;
  std::map<Key, Origin> origins_ ABSL_GUARDED_BY(mu_);
  std::deque<Key> order_ ABSL_GUARDED_BY(mu_);
};

RepeatLimit& Repeats() {
  static RepeatLimit& limit = *new RepeatLimit();
  return limit;
}

JobOrigins& Origins() {
  static JobOrigins& origins = *new JobOrigins();
  return origins;
}

// A JSON string. Bytes that are no UTF-8 become U+FFFD, so that every line can be parsed.
std::string JsonString(std::string_view text) {
  std::string quoted = "\"";
  for (size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const size_t n = byte < 0x80 ? 1 : byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
    bool valid = byte < 0x80 || (byte >= 0xc2 && byte <= 0xf4 && i + n <= text.size());
    for (size_t k = 1; valid && k < n; ++k) {
      valid = (static_cast<unsigned char>(text[i + k]) & 0xc0) == 0x80;
    }
    if (valid && n > 1) {
      const auto next = static_cast<unsigned char>(text[i + 1]);
      // Overlong forms, surrogates and numbers beyond Unicode.
      valid = !((byte == 0xe0 && next < 0xa0) || (byte == 0xed && next > 0x9f) ||
                (byte == 0xf0 && next < 0x90) || (byte == 0xf4 && next > 0x8f));
    }
    if (!valid) {
      quoted += "\xef\xbf\xbd";
      ++i;
      continue;
    }
    if (byte == '"' || byte == '\\') {
      quoted += '\\';
      quoted += text[i];
    } else if (byte < 0x20 || byte == 0x7f) {
      quoted += fmt::format("\\u{:04x}", byte);
    } else {
      quoted += text.substr(i, n);
    }
    i += n;
  }
  quoted += '"';
  return quoted;
}

std::string LineOf(std::string_view message, const std::vector<LogField>& fields) {
  std::string line;
  if (IsJson()) {
    line = fmt::format("\"message\":{}", JsonString(message));
    for (const LogField& field : fields) {
      line += fmt::format(",{}:{}", JsonString(field.key),
                          field.is_number ? field.value : JsonString(field.value));
    }
    return line;
  }
  line = LogValue(message);
  for (const LogField& field : fields) {
    line += fmt::format(" {}={}", field.key, LogValue(field.value));
  }
  return line;
}

}  // namespace

absl::Status SetLogFormat(std::string_view format) {
  if (format != "text" && format != "json") {
    constexpr std::string_view kFormats[] = {"text", "json"};
    return InvalidFieldsError({{"--log-format", NotOneOf(format, kFormats)}});
  }
  IsJson() = format == "json";
  Logger() = MakeLogger(Logger()->name(), Logger()->level());
  return absl::OkStatus();
}

void NoteJobOrigin(std::string_view project, std::string_view job, std::string_view request_id,
                   std::string_view traceparent) {
  const std::optional<TraceContext> context = ParseTraceparent(traceparent);
  if (!context.has_value() && request_id.empty()) return;
  Origins().Note({std::string(project), std::string(job)},
                 {std::string(request_id), context.has_value() ? context->trace_id : ""});
}

absl::Status InitLogging(std::string_view program, std::string_view level) {
  spdlog::level::level_enum spdlog_level;
  if (level == "debug") {
    spdlog_level = spdlog::level::debug;
  } else if (level == "info") {
    spdlog_level = spdlog::level::info;
  } else if (level == "warning") {
    spdlog_level = spdlog::level::warn;
  } else if (level == "error") {
    spdlog_level = spdlog::level::err;
  } else if (level == "off") {
    spdlog_level = spdlog::level::off;
  } else {
    constexpr std::string_view kLevels[] = {"debug", "info", "warning", "error", "off"};
    return InvalidFieldsError({{"--log-level", NotOneOf(level, kLevels)}});
  }
  Logger() = MakeLogger(std::string(program), spdlog_level);
  return absl::OkStatus();
}

std::string LogValue(std::string_view value) {
  if (IsBare(value)) return std::string(value);
  std::string quoted = "\"";
  for (size_t i = 0; i < value.size(); ++i) {
    const char c = value[i];
    const auto byte = static_cast<unsigned char>(c);
    const auto next = i + 1 < value.size() ? static_cast<unsigned char>(value[i + 1]) : 0;
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (c == '\n') {
      quoted += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      quoted += fmt::format("\\x{:02x}", byte);
    } else if (byte == 0xc2 && next >= 0x80 && next <= 0x9f) {
      // Some terminals read U+0080 to U+009F as escape sequences.
      quoted += fmt::format("\\u{:04x}", next);
      ++i;
    } else {
      quoted += c;
    }
  }
  quoted += '"';
  return quoted;
}

void Log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  spdlog::logger& logger = *Logger();
  if (!logger.should_log(ToSpdlog(level))) return;
  int n_left_out = 0;
  if (level >= LogLevel::kWarning && !Repeats().Allows(message, &n_left_out)) return;
  std::vector<LogField> all(fields);
  if (const auto origin = Origins().Find(fields); origin.has_value()) {
    all.emplace_back("request_id", origin->request_id);
    if (!origin->trace_id.empty()) all.emplace_back("trace_id", origin->trace_id);
  }
  if (n_left_out > 0) all.emplace_back("left_out", n_left_out);
  logger.log(ToSpdlog(level), LineOf(message, all));
}

}  // namespace nerf
