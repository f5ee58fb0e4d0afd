#include "server/store/s3/s3_xml.h"

#include <array>
#include <utility>

namespace nerf {
namespace {

constexpr std::array<std::pair<std::string_view, char>, 5> kEntities = {
    {{"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}, {"&amp;", '&'}}};

}  // namespace

std::vector<std::string_view> XmlElements(std::string_view xml, std::string_view name) {
  const std::string begin = "<" + std::string(name) + ">", end = "</" + std::string(name) + ">";
  std::vector<std::string_view> elements;
  while (true) {
    const size_t open = xml.find(begin);
    if (open == std::string_view::npos) return elements;
    xml.remove_prefix(open + begin.size());
    const size_t close = xml.find(end);
    if (close == std::string_view::npos) return elements;
    elements.push_back(xml.substr(0, close));
    xml.remove_prefix(close + end.size());
  }
}

std::optional<std::string> XmlText(std::string_view xml, std::string_view name) {
  const std::vector<std::string_view> elements = XmlElements(xml, name);
  if (elements.empty()) return std::nullopt;
  std::string text;
  for (std::string_view rest = elements[0]; !rest.empty();) {
    bool is_entity = false;
    for (const auto& [entity, character] : kEntities) {
      if (!rest.starts_with(entity)) continue;
      text += character;
      rest.remove_prefix(entity.size());
      is_entity = true;
      break;
    }
    if (is_entity) continue;
    text += rest[0];
    rest.remove_prefix(1);
  }
  return text;
}

std::string XmlEscaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    std::string_view as(&c, 1);
    for (const auto& [entity, character] : kEntities) {
      if (character == c) as = entity;
    }
    escaped += as;
  }
  return escaped;
}

}  // namespace nerf
