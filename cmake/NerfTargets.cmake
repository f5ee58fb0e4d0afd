# One target per folder. Functions:
#   nerf_may_include(word...)   what a folder may include; read by tests/check_includes.py
#   nerf_library(name SRCS ... [DEPS ...] [PRIVATE_DEPS ...] [BATCHES n])
#                               static library nerf_<name>, alias nerf::<name>; its sources compiled
#                               in n batches (1 unless named; 0 a source at a time)
#   nerf_binary(name SRCS ... DEPS ...)                   executable in build/<preset>/bin
#   nerf_bench(name SRCS ... DEPS ...)   executable in build/<preset>/bench, unknown to ctest
#   nerf_test(name SRCS ... DEPS ... [LABELS ...] [TIMEOUT s] [BATCHES n] [SHARDS n] [SERIAL]
#             [WAITS])          GoogleTest binary with as many ctest entries as it has shards (1
#                               unless named); nothing runs beside a SERIAL one: it measures
#                               time, or needs all cores
# A test labeled `tsan` also runs under ThreadSanitizer. It must run no code of gRPC, LibTorch or
# prometheus-cpp: Debian's builds synchronize where ThreadSanitizer cannot see it.
include(GNUInstallDirs)

# Preset tsan builds only the tests labeled tsan; scripts/test.sh only those labeled gpu where it
# compiles for CUDA.
add_custom_target(tsan_tests)
add_custom_target(gpu_tests)

# Words: a folder of this repository ("common", "engine/base") or a library ("absl", "json"). CMake
# ignores it; the include check parses it.
function(nerf_may_include)
endfunction()

function(nerf_library name)
  cmake_parse_arguments(arg "" "BATCHES" "SRCS;DEPS;PRIVATE_DEPS" ${ARGN})
  if(arg_SRCS)
    nerf_batches(sources nerf_${name} "${arg_BATCHES}" ${arg_SRCS})
    add_library(nerf_${name} STATIC ${sources})
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

# WAITS: it waits for processes and timers more than it computes. ctest counts others as two, so
# that `ctest -j 4` on two cores runs two that compute, or four that wait.
function(nerf_test name)
  cmake_parse_arguments(arg "SERIAL;WAITS" "TIMEOUT;BATCHES;SHARDS" "SRCS;DEPS;LABELS" ${ARGN})
  nerf_batches(sources ${name} "${arg_BATCHES}" ${arg_SRCS})
  add_executable(${name} ${sources})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  target_link_libraries(${name}
    PRIVATE nerf::options nerf::testing_paths ${arg_DEPS} GTest::gmock GTest::gtest_main)
  # Compiles in 70% of the time; these tests wait for the service, whose code is optimized.
  if(CMAKE_CURRENT_SOURCE_DIR MATCHES "/tests/(client|server|worker|e2e)")
    target_compile_options(${name} PRIVATE -O0)
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  if(NERF_SANITIZE)
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 4")  # what sanitized code takes longer, with room
  endif()
  set(processors 2)
  set(cost 0)
  if("e2e" IN_LIST arg_LABELS)
    set(cost 60)  # the longest begin first, also where no run has been timed
  endif()
  if(arg_WAITS)
    set(processors 1)
  endif()
  if(NOT arg_SHARDS)
    set(arg_SHARDS 1)
  endif()
  foreach(shard RANGE 1 ${arg_SHARDS})
    if(arg_SHARDS EQUAL 1)
      set(entry ${name})
      set(environment)
    else()
      math(EXPR index "${shard} - 1")
      set(entry ${name}_${shard})
      set(environment "GTEST_TOTAL_SHARDS=${arg_SHARDS};GTEST_SHARD_INDEX=${index}")
    endif()
    add_test(NAME ${entry} COMMAND ${name})
    set_tests_properties(${entry} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT}
      ENVIRONMENT "${environment}" RUN_SERIAL ${arg_SERIAL} PROCESSORS ${processors} COST ${cost})
  endforeach()
  foreach(label tsan gpu)
    if(label IN_LIST arg_LABELS)
      add_dependencies(${label}_tests ${name})
    endif()
  endforeach()
endfunction()
