# One target per folder. Functions:
#   nerf_may_include(word...)   what a folder may include; read by tests/check_includes.py
#   nerf_library(name SRCS ... [DEPS ...] [PRIVATE_DEPS ...])
#                               static library nerf_<name>, alias nerf::<name>
#   nerf_binary(name SRCS ... DEPS ...)                   executable in build/<preset>/bin
#   nerf_bench(name SRCS ... DEPS ...)   executable in build/<preset>/bench, unknown to ctest
#   nerf_test(name SRCS ... DEPS ... [LABELS ...] [TIMEOUT s])   GoogleTest binary, one ctest entry
# A test labeled `tsan` also runs under ThreadSanitizer. It must run no code of gRPC, LibTorch or
# prometheus-cpp: Debian's builds synchronize where ThreadSanitizer cannot see it.
include(GNUInstallDirs)

# Preset tsan builds only the tests labeled tsan.
add_custom_target(tsan_tests)

# Words: a folder of this repository ("common", "engine/base") or a library ("absl", "json"). CMake
# ignores it; the include check parses it.
function(nerf_may_include)
endfunction()

function(nerf_library name)
  cmake_parse_arguments(arg "" "" "SRCS;DEPS;PRIVATE_DEPS" ${ARGN})
  if(arg_SRCS)
    add_library(nerf_${name} STATIC ${arg_SRCS})
    target_link_libraries(nerf_${name} PUBLIC nerf::options ${arg_DEPS} PRIVATE ${arg_PRIVATE_DEPS})
  else()
    add_library(nerf_${name} INTERFACE)
    target_link_libraries(nerf_${name} INTERFACE nerf::options ${arg_DEPS})
  endif()
  add_library(nerf::${name} ALIAS nerf_${name})
endfunction()

function(nerf_binary name)
  cmake_parse_arguments(arg "" "" "SRCS;DEPS" ${ARGN})
  add_executable(${name} ${arg_SRCS})
  target_link_libraries(${name} PRIVATE nerf::options ${arg_DEPS})
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()

function(nerf_bench name)
  cmake_parse_arguments(arg "" "" "SRCS;DEPS" ${ARGN})
  add_executable(${name} ${arg_SRCS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bench")
  target_link_libraries(${name} PRIVATE nerf::options ${arg_DEPS})
endfunction()

function(nerf_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SRCS;DEPS;LABELS" ${ARGN})
  add_executable(${name} ${arg_SRCS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  target_link_libraries(${name} PRIVATE nerf::options nerf::testing_paths ${arg_DEPS} GTest::gmock GTest::gtest_main)
  # Compiles in 70% of the time; these tests wait for the service, whose code is optimized.
  if(CMAKE_CURRENT_SOURCE_DIR MATCHES "/tests/(client|server|worker|e2e)")
    target_compile_options(${name} PRIVATE -O0)
  endif()
  add_test(NAME ${name} COMMAND ${name})
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  if(NERF_SANITIZE)
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 4")  # what sanitized code takes longer, with room
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT})
  if("tsan" IN_LIST arg_LABELS)
    add_dependencies(tsan_tests ${name})
  endif()
endfunction()
