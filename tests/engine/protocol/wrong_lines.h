#pragma once

#include <string>
#include <vector>

namespace nerf::protocol {

// A line that is refused, and words of the error.
struct WrongLine {
  std::string line, words;
};

// Lines that are no message in either direction, then `of_one_direction`.
inline std::vector<WrongLine> WrongLines(const std::vector<WrongLine>& of_one_direction) {
  std::vector<WrongLine> lines = {{"", "JSON"},
                                  {"[]", "object"},
                                  {"{\"type\":", "JSON"},
                                  {"\xff\xfe", "JSON"},
                                  {std::string(100'000, '['), "nests"},
                                  {R"({"job":"j"})", "type"},
                                  {R"({"type":3})", "type"}};
  lines.insert(lines.end(), of_one_direction.begin(), of_one_direction.end());
  return lines;
}

}  // namespace nerf::protocol
