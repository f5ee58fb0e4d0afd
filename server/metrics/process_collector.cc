#include "server/metrics/process_collector.h"

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

namespace nerf {
namespace {

prometheus::MetricFamily OneValue(const char* name, const char* help, prometheus::MetricType type,
                                  double value) {
  prometheus::MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = type;
  prometheus::ClientMetric metric;
  if (type == prometheus::MetricType::Counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
  family.metric.push_back(metric);
  return family;
}

struct ProcessStat {
  double cpu_seconds = 0;
  double resident_bytes = 0;
  double start_seconds_after_boot = 0;
};

std::optional<ProcessStat> ReadStat() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  // The second field is the program's name in parentheses, which may hold anything.
  const size_t end_of_name = line.rfind(')');
  if (end_of_name == std::string::npos) return std::nullopt;
  std::istringstream rest(line.substr(end_of_name + 1));
  std::vector<std::string> fields;  // from field 3 of proc(5)
  for (std::string field; rest >> field;) fields.push_back(field);
  if (fields.size() < 22) return std::nullopt;
  const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  const auto number = [&](size_t field) { return std::strtod(fields[field - 3].c_str(), nullptr); };
  return ProcessStat{(number(14) + number(15)) / ticks,
                     number(24) * static_cast<double>(sysconf(_SC_PAGESIZE)), number(22) / ticks};
}

std::optional<double> ReadBootTime() {
  std::ifstream file("/proc/stat");
  for (std::string key; file >> key;) {
    if (key == "btime") {
      double seconds = 0;
      if (file >> seconds) return seconds;
      return std::nullopt;
    }
    std::string ignored;
    std::getline(file, ignored);
  }
  return std::nullopt;
}

class ProcessCollector final : public prometheus::Collectable {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override;
};

std::vector<prometheus::MetricFamily> ProcessCollector::Collect() const {
  using prometheus::MetricType;
  std::vector<prometheus::MetricFamily> families;
  if (const auto stat = ReadStat(); stat.has_value()) {
    families.push_back(OneValue("process_cpu_seconds_total",
                                "Processor time of this process, user and system.",
                                MetricType::Counter, stat->cpu_seconds));
    families.push_back(OneValue("process_resident_memory_bytes", "Memory of this process in RAM.",
                                MetricType::Gauge, stat->resident_bytes));
    if (const auto boot = ReadBootTime(); boot.has_value()) {
      families.push_back(OneValue("process_start_time_seconds",
                                  "Unix time at which this process started.", MetricType::Gauge,
                                  *boot + stat->start_seconds_after_boot));
    }
  }
  std::error_code error;
  double open_fds = 0;
  for (std::filesystem::directory_iterator it("/proc/self/fd", error), end; !error && it != end;
       it.increment(error)) {
    ++open_fds;
  }
  if (open_fds > 0) {
    // Without the one that the listing itself uses.
    families.push_back(
        OneValue("process_open_fds", "Open file descriptors.", MetricType::Gauge, open_fds - 1));
  }
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    families.push_back(OneValue("process_max_fds", "Limit of open file descriptors.",
                                MetricType::Gauge, static_cast<double>(limit.rlim_cur)));
  }
  return families;
}

}  // namespace

std::shared_ptr<prometheus::Collectable> MakeProcessCollector() {
  return std::make_shared<ProcessCollector>();
}

}  // namespace nerf
