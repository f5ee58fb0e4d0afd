#pragma once

#include <source_location>

namespace nerf::cuda_emulation {

// Where a function was called: a default argument of it, CallSite::current().
#ifdef __cpp_lib_source_location
using CallSite = std::source_location;
#else  // clang 14 lacks what libstdc++ makes it of
class CallSite {
 public:
  static constexpr CallSite current(const char* file = __builtin_FILE(),
                                    unsigned line = __builtin_LINE(),
                                    unsigned column = __builtin_COLUMN()) {
    return CallSite(file, line, column);
  }
  constexpr const char* file_name() const { return file_; }
  constexpr unsigned line() const { return line_; }
  constexpr unsigned column() const { return column_; }

 private:
  constexpr CallSite(const char* file, unsigned line, unsigned column)
      : file_(file), line_(line), column_(column) {}
  const char* file_;
  unsigned line_, column_;
};
#endif

}  // namespace nerf::cuda_emulation
