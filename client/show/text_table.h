#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace nerf {

// A table of left-aligned columns, two blanks between them, no blanks at line ends. Cells are made
// safe for terminals.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header);

  // Requires: as many cells as the header has. Empty cells print as "-".
  void AddRow(std::vector<std::string> cells);

  void Print(std::ostream& out) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// "key:  value" lines with the values in one column. Pairs with an empty value are left out.
class TextFields {
 public:
  void Add(std::string key, std::string value);
  void Print(std::ostream& out) const;

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
};

}  // namespace nerf
