#pragma once

#include <fmt/format.h>

#include <cmath>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

#include "absl/status/status.h"

namespace nerf {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// One key=value of a log line. The value is whatever fmt can print.
struct LogField {
  template <typename Value>
  LogField(std::string_view key, const Value& value)
      : key(key), value(fmt::to_string(value)), is_number(IsNumber(value)) {}

  std::string_view key;
  std::string value;
  bool is_number;  // one that JSON can write, or a bool

 private:
  template <typename Value>
  static bool IsNumber(const Value& value) {
    if constexpr (std::is_floating_point_v<Value>) {
      return std::isfinite(value);
    } else {
      return std::is_integral_v<Value> && !std::is_same_v<Value, char>;
    }
  }
};

// Sends log lines of this process to stderr, each as
//   2026-11-20T10:02:11.412Z info nerfd "job created" job=j-7f3k2c81 project=default
// `level` is debug, info, warning, error or off; InvalidArgument for every other word. Call once at
// the start of main; before that, only warnings and errors are written.
absl::Status InitLogging(std::string_view program, std::string_view level);

// Writes one line. Values with spaces, quotes or control characters are quoted and escaped, so that
// no input can forge a line. Thread-safe.
void Log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields = {});

inline void LogInfo(std::string_view message, std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kInfo, message, fields);
}
inline void LogWarning(std::string_view message, std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kWarning, message, fields);
}
inline void LogError(std::string_view message, std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kError, message, fields);
}

// `value` as written in a log line: unchanged if harmless, otherwise quoted and escaped.
std::string LogValue(std::string_view value);

}  // namespace nerf
