# Compiles files into a program:
#   nerf_embed(<variable> <function> <header> <folder> <name>...)
# sets <variable> to a source, written at build time, that defines nerf::<function>(), which
# <header> declares: std::span<const EmbeddedFile> (common/files/embedded_file.h). As a script
# (cmake -P) it writes that source: -DOUTPUT= -DFUNCTION= -DHEADER= -DFOLDER= -DNAMES=a;b
if(CMAKE_SCRIPT_MODE_FILE)
  set(arrays)
  set(rows)
  set(n 0)
  foreach(name IN LISTS NAMES)
    file(READ "${FOLDER}/${name}" hex HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    string(APPEND arrays "constexpr unsigned char kFile${n}[] = {${bytes}0};\n")
    string(APPEND rows
      "      EmbeddedFile{\"${name}\","
      " {reinterpret_cast<const char*>(kFile${n}), sizeof(kFile${n}) - 1}},\n")
    math(EXPR n "${n} + 1")
  endforeach()
  file(WRITE "${OUTPUT}" "// Written by cmake/NerfEmbed.cmake.
#include \"${HEADER}\"

#include <array>

namespace nerf {
namespace {
${arrays}}  // namespace

std::span<const EmbeddedFile> ${FUNCTION}() {
  static const std::array<EmbeddedFile, ${n}> files = {{
${rows}  }};
  return files;
}
}  // namespace nerf
")
  return()
endif()

set(NERF_EMBED_SCRIPT "${CMAKE_CURRENT_LIST_FILE}")
function(nerf_embed variable function header folder)
  set(output "${CMAKE_CURRENT_BINARY_DIR}/${variable}.cc")
  list(TRANSFORM ARGN PREPEND "${folder}/" OUTPUT_VARIABLE files)
  add_custom_command(
    OUTPUT "${output}"
    COMMAND "${CMAKE_COMMAND}" "-DOUTPUT=${output}" "-DFUNCTION=${function}" "-DHEADER=${header}"
            "-DFOLDER=${folder}" "-DNAMES=${ARGN}" -P "${NERF_EMBED_SCRIPT}"
    DEPENDS ${files} "${NERF_EMBED_SCRIPT}" VERBATIM)
  set(${variable} "${output}" PARENT_SCOPE)
endfunction()
