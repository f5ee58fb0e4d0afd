#include "common/logging.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

#include "common/error_reason.h"

namespace nerf {
namespace {

constexpr char kPattern[] = "%Y-%m-%dT%H:%M:%S.%eZ %l %n %v";

std::shared_ptr<spdlog::logger> MakeLogger(std::string program, spdlog::level::level_enum level) {
  auto logger = std::make_shared<spdlog::logger>(std::move(program),
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern(kPattern, spdlog::pattern_time_type::utc);
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

}  // namespace

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
    return InvalidFieldsError(
        {{"log level", fmt::format("must be debug, info, warning, error or off, not {}", level)}});
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
  std::string line = fmt::format("{}", LogValue(message));
  for (const LogField& field : fields) {
    line += fmt::format(" {}={}", field.key, LogValue(field.value));
  }
  logger.log(ToSpdlog(level), line);
}

}  // namespace nerf
