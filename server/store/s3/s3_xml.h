#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nerf {

// The little of XML that S3's answers need: elements without attributes that are not nested in
// their own kind. What is no such XML has no elements.

// The contents of all elements of that name, in order; views of `xml`.
std::vector<std::string_view> XmlElements(std::string_view xml, std::string_view name);
// The text of the first one, with its entities replaced; nullopt without one.
std::optional<std::string> XmlText(std::string_view xml, std::string_view name);
std::string XmlEscaped(std::string_view text);

}  // namespace nerf
