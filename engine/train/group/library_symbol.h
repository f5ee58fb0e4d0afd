#pragma once

#include <string>

namespace nerf {

// The function `symbol` of a library of this program, ../lib/`name` relative to the program's
// folder, which is opened here and never closed: its threads live as long as the process. Null
// where there is none; *error then says why, with the library's path.
void* LibrarySymbol(const char* name, const char* symbol, std::string* error);

}  // namespace nerf
