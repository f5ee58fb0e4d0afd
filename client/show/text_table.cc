#include "client/show/text_table.h"

#include <algorithm>

#include "client/flags/text_format.h"

namespace nerf {

TextTable::TextTable(std::vector<std::string> header) { rows_.push_back(std::move(header)); }

void TextTable::AddRow(std::vector<std::string> cells) {
  cells.resize(rows_[0].size());
  for (std::string& cell : cells) cell = cell.empty() ? "-" : PlainText(cell);
  rows_.push_back(std::move(cells));
}

void TextTable::Print(std::ostream& out) const {
  std::vector<size_t> widths(rows_[0].size(), 0);
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], DisplayWidth(row[i]));
  }
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) {
      out << row[i];
      if (i + 1 < row.size()) out << std::string(widths[i] - DisplayWidth(row[i]) + 2, ' ');
    }
    out << '\n';
  }
}

void TextFields::Add(std::string key, std::string value) {
  if (!value.empty()) fields_.emplace_back(std::move(key), PlainText(value));
}

void TextFields::Print(std::ostream& out) const {
  size_t width = 0;
  for (const auto& [key, value] : fields_) width = std::max(width, key.size());
  for (const auto& [key, value] : fields_) {
    out << key << ':' << std::string(width - key.size() + 2, ' ') << value << '\n';
  }
}

}  // namespace nerf
