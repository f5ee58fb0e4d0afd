# Batches: a target's sources compiled as a few files that include them, so that headers are read a
# few times instead of once a source.
#   nerf_batches(out target count source...)   sets out to what the target compiles: the batches, or
#                                              the sources themselves where NERF_BATCHES is off or
#                                              count is 0 (an empty count is 1)
# Which batch holds a source follows from its name alone, so that a new file leaves the others where
# they are. Sources outside the source tree, and those with properties of their own, stay alone.
# tests/check_thread_safety.py compiles each source by itself all the same.
function(nerf_batches out target count)
  if("${count}" STREQUAL "")
    set(count 1)
  endif()
  set(compiled)
  foreach(source IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH source NORMALIZE)
    get_source_file_property(options "${source}" COMPILE_OPTIONS)
    cmake_path(IS_PREFIX CMAKE_BINARY_DIR "${source}" generated)
    if(NOT NERF_BATCHES OR count EQUAL 0 OR NOT source MATCHES "\\.cc$" OR generated OR options)
      list(APPEND compiled "${source}")
      continue()
    endif()
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${CMAKE_SOURCE_DIR}" OUTPUT_VARIABLE name)
    string(MD5 hash "${name}")
    string(SUBSTRING "${hash}" 0 4 hash)
    math(EXPR batch "0x${hash} % ${count}")
    list(APPEND batch_${batch} "${name}")
  endforeach()
  foreach(batch RANGE ${count})
    set(text)
    foreach(name IN LISTS batch_${batch})
      string(APPEND text "#include \"${name}\"\n")
    endforeach()
    if(text)
      set(file "${CMAKE_BINARY_DIR}/batches/${target}_${batch}.cc")
      # A class of a .cc file may hold members of its unnamed namespace; gcc takes an included file
      # for a header and warns.
      if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
        set_source_files_properties("${file}" PROPERTIES COMPILE_OPTIONS -Wno-subobject-linkage)
      endif()
      file(CONFIGURE OUTPUT "${file}" CONTENT "${text}" @ONLY)  # written only where it changed
      list(APPEND compiled "${file}")
    endif()
  endforeach()
  set(${out} ${compiled} PARENT_SCOPE)
endfunction()
