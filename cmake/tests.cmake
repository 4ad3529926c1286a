# What ctest runs. A test is named [FLAVOUR.]LABEL.FILE; its labels are LABEL and, if it is not plain, FLAVOUR:
#   ctest --test-dir build -L http
#   ctest --test-dir build -L 'asan|tsan'
#   ctest --test-dir build -R unit.params
# The environment has the paths of the programs under test. Exit code 77: skipped. Python keeps its compiled files,
# outside the source tree, because tests start Python very often.
enable_testing()

# Long tests, roughly the longest last. ctest starts the longest first, so that none runs alone at the end.
set(longest fault.shutdown asan.fault.shutdown fault.models tsan.fault.placement asan.fault.models
    clients.c tsan.fault.models fault.uploads asan.fault.abuse fault.abuse asan.fault.uploads tsan.fault.uploads
    fault.families clients.examples tsan.fault.devices asan.fault.families browser.image
    tsan.fault.regions tsan.fault.deadlines tsan.fault.shutdown browser.status browser.docs fuzz.openapi docs.alerts
    fault.oom platform.in asan.fault.deadlines browser.detections deploy.debian oracle.wires deploy.container
    browser.stream cuda.emulated_1 cuda.emulated_2 browser.page browser.view platform.arm64)

# A test takes two places of ctest -j; ./dev gives four for each processor. A test that mostly waits for timeouts, and
# uses less than 40 % of a processor, takes one.
set(waiting "^((asan\\.|tsan\\.)?fault\\.(clients|encodings|events|gate|models|sessions|shutdown|tls|uploads)|\
(asan\\.)?fault\\.(abuse|families)|fault\\.(framing|model_reloads|oom|soak)|\
clients\\.(command_line_streams|command_line_watch|live_poses))$")

function(voxeld_test NAME FLAVOUR LABEL TIMEOUT)
  set(labels ${LABEL})
  set(voxeld ${CMAKE_BINARY_DIR}/bin/voxeld)
  if(NOT FLAVOUR STREQUAL plain)
    set(NAME ${FLAVOUR}.${NAME})
    list(APPEND labels ${FLAVOUR})
    set(voxeld ${CMAKE_BINARY_DIR}/bin/${FLAVOUR}/voxeld)
  endif()
  add_test(NAME ${NAME} COMMAND ${ARGN} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set(environment
    VOXELD_BIN=${voxeld}
    VOXEL_SCAN=${CMAKE_BINARY_DIR}/bin/voxel-scan
    VOXEL_BENCH=${CMAKE_BINARY_DIR}/bin/voxel-bench
    VOXELD_VENV=${CMAKE_BINARY_DIR}/venv
    VOXELD_ONNXRUNTIME_STANDIN=${CMAKE_BINARY_DIR}/tests/libonnxruntime_standin.so
    VOXELD_OOM_LIBRARY=${CMAKE_BINARY_DIR}/tests/liboom.so
    VOXELD_HANG_LIBRARY=${CMAKE_BINARY_DIR}/tests/libhang.so
    VOXELD_ENCODE_LIBRARY=${CMAKE_BINARY_DIR}/tests/libencode.so
    VOXELD_SPARSE_LIBRARY=${CMAKE_BINARY_DIR}/tests/libsparse.so
    VOXELD_TRAPS=${CMAKE_BINARY_DIR}/tests/traps
    PYTHONPATH=${CMAKE_SOURCE_DIR}/tests/support:${CMAKE_SOURCE_DIR}/api/python
    PYTHONDONTWRITEBYTECODE=
    PYTHONPYCACHEPREFIX=${CMAKE_BINARY_DIR}/pycache
    LC_ALL=C.UTF-8
    ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1
    UBSAN_OPTIONS=print_stacktrace=1
    TSAN_OPTIONS=halt_on_error=1)
  set(places 2)
  if(NAME MATCHES "${waiting}")
    set(places 1)
  endif()
  set_tests_properties(${NAME} PROPERTIES PROCESSORS ${places}
    LABELS "${labels}" TIMEOUT ${TIMEOUT} SKIP_RETURN_CODE 77 ENVIRONMENT "${environment}")
  list(FIND longest ${NAME} place)
  math(EXPR cost "${place} + 1")
  if(cost GREATER 0)
    set_tests_properties(${NAME} PROPERTIES COST ${cost})
  endif()
endfunction()

# Tests without TSan: http tests, most of which send one request at a time; fault tests of what the I/O thread does
# alone; and fault.memory, since TSan adds memory of its own.
set(without_tsan
    "^(http\\..*|fault\\.(abuse|encodings|families|foreign|framing|idle|infer|memory|neighbours|parameters|proxies))$")

# The flavours of fault tests and of server/'s unit tests. In a build with sanitizers these tests do not run plain.
set(sanitized ${flavours})
if(VOXELD_SANITIZERS)
  list(REMOVE_ITEM sanitized plain)
endif()

# But these run plain too, since they skip some parts under sanitizers.
set(plain_too "^fault\\.(abuse|files|idle|memory|oom|shutdown)$")

# Adds a test for each file that matches PATTERN, in each of FLAVOURS: the command, with the file's path at its end.
function(voxeld_script_tests LABEL PATTERN TIMEOUT FLAVOURS)
  file(GLOB scripts CONFIGURE_DEPENDS ${PATTERN})
  foreach(script IN LISTS scripts)
    cmake_path(GET script STEM name)
    string(REGEX REPLACE "[.]test_" "." name ${LABEL}.${name})
    set(own ${FLAVOURS})
    if(name MATCHES "${plain_too}")
      list(APPEND own plain)
      list(REMOVE_DUPLICATES own)
    endif()
    foreach(flavour IN LISTS own)
      if(NOT flavour STREQUAL tsan OR NOT name MATCHES "${without_tsan}")
        voxeld_test(${name} ${flavour} ${LABEL} ${TIMEOUT} ${ARGN} ${script})
      endif()
    endforeach()
  endforeach()
endfunction()

# Unit tests and daemons load the stand-in in place of ONNX Runtime.
add_library(onnxruntime_standin MODULE tests/support/standin/onnxruntime.c)
target_include_directories(onnxruntime_standin PRIVATE ${CMAKE_SOURCE_DIR})
target_compile_definitions(onnxruntime_standin PRIVATE _GNU_SOURCE)
target_compile_options(onnxruntime_standin PRIVATE ${voxeld_warnings})
set_target_properties(onnxruntime_standin PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)

# unit: a cmocka program for each file; the target `units` builds all. Code outside of server/ has no threads
# (docs.layers checks this), so its tests have no tsan flavour. They run plain, since only the plain flavour has vectors
# in loops.
if(NOT VOXELD_TESTS STREQUAL DAEMON)
  pkg_check_modules(cmocka REQUIRED IMPORTED_TARGET cmocka)
  add_custom_target(units)
  add_dependencies(units onnxruntime_standin)
  set(test_versions_sources tests/library/rehearsal.c)
  foreach(source IN LISTS unit_sources)
    cmake_path(GET source STEM stem)
    string(REGEX REPLACE "^test_" "unit." name ${stem})
    set(own ${sanitized})
    if(NOT source MATCHES "/tests/unit/server/")
      set(own ${flavours})
      list(REMOVE_ITEM own tsan)
    endif()
    foreach(flavour IN LISTS own)
      voxeld_program(${stem} ${flavour} DIRECTORY tests SOURCES ${source} ${${stem}_sources}
                     LIBRARIES server PkgConfig::cmocka)
      voxeld_target_name(${stem} ${flavour} target)
      add_dependencies(units ${target})
      voxeld_test(${name} ${flavour} unit 300 ${target})
    endforeach()
  endforeach()
endif()

# The other tests run programs of this machine; tests/platform/arm64 compares a cross-build with them.
if(CMAKE_CROSSCOMPILING OR VOXELD_TESTS STREQUAL UNITS)
  return()
endif()
set(PYTHON ${CMAKE_BINARY_DIR}/venv/bin/python) # made by ./dev test

# Preloaded into daemons: `oom` by fault.oom, `hang` by fault.files and fault.shutdown.
foreach(name oom hang)
  add_library(${name} MODULE tests/fault/${name}.c)
  target_compile_definitions(${name} PRIVATE _GNU_SOURCE)
  target_compile_options(${name} PRIVATE ${voxeld_warnings})
  set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endforeach()

voxeld_script_tests(http "tests/http/test_*.py" 600 "${flavours}" ${PYTHON})
voxeld_script_tests(fault "tests/fault/test_*.py" 900 "${sanitized}" ${PYTHON})
foreach(flavour IN LISTS sanitized) # short, to test its code
  voxeld_test(fault.soak ${flavour} fault 600 ${PYTHON} tests/measure/load/soak 0.05 --seed 1 --largest 4000
              --processes 3 --threads 3)
endforeach()
# fault.neighbours expects an answer for a polite client among slow clients, on a machine that other tests do not fill:
# it takes as many places as two other tests.
foreach(flavour "" asan. tsan.)
  if(TEST ${flavour}fault.neighbours)
    set_tests_properties(${flavour}fault.neighbours PROPERTIES PROCESSORS 4)
  endif()
endforeach()
if(VOXELD_TESTS STREQUAL DAEMON)
  return()
endif()
find_program(BATS bats REQUIRED)
find_program(CLANG clang REQUIRED)

# For oracle.encode: the encoder of pillars.
add_library(encode MODULE kernels/cpu/encode/encode.c kernels/error.c kernels/stop.c)
target_include_directories(encode PRIVATE ${CMAKE_SOURCE_DIR})
target_compile_options(encode PRIVATE ${voxeld_warnings} -O3 -ffp-contract=off)
set_target_properties(encode PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)

# For oracle.sparse: sparse convolution.
file(GLOB cpu_sparse_sources CONFIGURE_DEPENDS kernels/cpu/sparse/*.c)
add_library(sparse MODULE tests/support/sparse_library.c ${cpu_sparse_sources} kernels/cpu/base/arena.c
            kernels/sparse.c kernels/error.c kernels/stop.c kernels/parallel_for.c)
target_include_directories(sparse PRIVATE ${CMAKE_SOURCE_DIR})
target_compile_definitions(sparse PRIVATE _GNU_SOURCE)
target_compile_options(sparse PRIVATE ${voxeld_warnings} -O3 -fno-trapping-math -ffp-contract=off)
set_target_properties(sparse PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)

# For docs.libmicrohttpd: asks this machine's library.
file(GLOB trap_sources CONFIGURE_DEPENDS tests/library/*traps.c tests/library/stage.c)
voxeld_program(traps plain DIRECTORY tests SOURCES ${trap_sources} LIBRARIES server)

if(VOXELD_CUDA_FOUND)
  voxeld_test(fault.devices faults fault 900 ${PYTHON} tests/fault/test_devices.py)
  voxeld_test(cuda.faults plain cuda 600 ${CMAKE_BINARY_DIR}/bin/faults/cuda-faults)
  voxeld_test(cuda.exhaustive plain cuda 1800 ${CMAKE_BINARY_DIR}/bin/cuda-exhaustive)
  voxeld_test(cuda.equal plain cuda 900 ${CMAKE_BINARY_DIR}/bin/cuda-equal --jobs 200)
  include(cmake/emulated.cmake)
endif()
voxeld_script_tests(oracle "tests/oracle/test_*.py" 1200 plain ${PYTHON})
voxeld_script_tests(docs "tests/docs/test_*.py" 300 plain ${PYTHON})
voxeld_script_tests(tools "tests/tools/test_*.py" 300 plain ${PYTHON})
voxeld_test(docs.platforms plain docs 60 ${PYTHON} tests/platform/table --check)
voxeld_script_tests(browser "tests/browser/test_*.py" 900 plain ${PYTHON})
voxeld_script_tests(deploy "tests/deploy/*.bats" 900 plain ${BATS})
voxeld_script_tests(deploy "tests/deploy/test_*.py" 900 plain ${PYTHON})
# The servers of these two tests must answer checks within a second.
set_tests_properties(deploy.balancer deploy.balanced_streams PROPERTIES PROCESSORS 4)
# Both skip their first case if something is missing.
set_tests_properties(deploy.install deploy.debian PROPERTIES SKIP_REGULAR_EXPRESSION "ok 1 [^\n]*# skip")

# platform: file systems of other releases of Debian, and a cross-build. They need the network.
voxeld_script_tests(platform "tests/platform/*.bats" 900 plain ${BATS})
voxeld_test(platform.arm64 plain platform 1500 tests/platform/arm64)
set_tests_properties(platform.in PROPERTIES SKIP_REGULAR_EXPRESSION "ok 1 [^\n]*# skip")

# clients: the C client's example and test program, plain and under ASan. Without libcurl, clients.c, c_detect and
# c_streams are skipped.
pkg_check_modules(libcurl IMPORTED_TARGET libcurl)
set(client_flavours ${flavours})
list(REMOVE_ITEM client_flavours tsan)
set(client_programs) # for clients.c, c_detect and c_streams; empty: not built
if(libcurl_FOUND)
  set(folder)
  if(asan IN_LIST client_flavours)
    set(folder asan/)
  endif()
  set(client_programs VOXELD_C_CLIENT=${CMAKE_BINARY_DIR}/tests/${folder}c_client
      VOXELD_SENSOR=${CMAKE_BINARY_DIR}/bin/${folder}sensor)
  voxeld_program(gpu-client plain SOURCES tests/measure/load/gpu_client.c
                 LIBRARIES PkgConfig::libcurl PkgConfig::jansson PkgConfig::zlib ${CMAKE_DL_LIBS})
  target_include_directories(gpu-client PRIVATE api/c)
  foreach(flavour IN LISTS client_flavours)
    voxeld_program(sensor ${flavour} SOURCES api/c/sensor.c LIBRARIES PkgConfig::libcurl PkgConfig::jansson
                   PkgConfig::zlib)
    voxeld_program(c_client ${flavour} DIRECTORY tests SOURCES tests/clients/c_client.c
                   LIBRARIES PkgConfig::libcurl PkgConfig::jansson PkgConfig::zlib)
    foreach(name sensor c_client)
      voxeld_target_name(${name} ${flavour} target)
      target_include_directories(${target} PRIVATE api/c)
    endforeach()
  endforeach()
endif()
voxeld_script_tests(clients "tests/clients/test_*.py" 600 plain ${PYTHON})
set_property(TEST clients.c clients.c_detect clients.c_streams APPEND PROPERTY ENVIRONMENT ${client_programs})
# ./dev mutate finds them by the second label.
set_property(TEST clients.c clients.c_detect clients.c_streams PROPERTY LABELS clients c_client)
set_tests_properties(clients.torch PROPERTIES LABELS torch) # tests/gpu/run runs it too
if(TEST oracle.scans) # all its tests need real scans
  set_tests_properties(oracle.scans PROPERTIES LABELS "oracle;scans" SKIP_REGULAR_EXPRESSION "OK \\(skipped=")
endif()

# fuzz.openapi: requests made from api/openapi.yaml.
voxeld_script_tests(fuzz "tests/fuzz/test_*.py" 600 plain ${PYTHON})

# fuzz: libFuzzer drivers for the parsers and writers of api/, and for parts of server/. The lists fuzz_NAME_sources and
# fuzz_NAME_libraries have what a driver needs besides api/ and kernels/*.c. clang builds the drivers, which share
# objects. Seeds: tests/fuzz/corpus/NAME, words: tests/fuzz/NAME.dict; new inputs go into build/fuzz/NAME.
file(GLOB drivers CONFIGURE_DEPENDS tests/fuzz/fuzz_*.c)
file(GLOB shared_kernels_sources CONFIGURE_DEPENDS kernels/*.c) # without the backends
list(REMOVE_ITEM shared_kernels_sources ${CMAKE_SOURCE_DIR}/kernels/backends.c)
set(fuzzed_sources ${shared_kernels_sources} ${api_sources})
file(GLOB fuzz_http_sources CONFIGURE_DEPENDS tests/fuzz/http_*.c)
list(APPEND fuzz_http_sources ${kernels_sources} ${server_sources})
list(REMOVE_ITEM fuzz_http_sources ${shared_kernels_sources})
set(fuzz_http_libraries -L${libmicrohttpd_LIBDIR} -lmicrohttpd -L${gnutls_LIBDIR} -lgnutls -pthread)
set(fuzz_regions_sources ${CMAKE_SOURCE_DIR}/server/jobs/regions.c
  ${CMAKE_SOURCE_DIR}/server/jobs/objects.c ${CMAKE_SOURCE_DIR}/server/jobs/pins.c
  ${CMAKE_SOURCE_DIR}/server/clients/access.c ${CMAKE_SOURCE_DIR}/server/clients/clients.c
  ${CMAKE_SOURCE_DIR}/server/clients/tls.c ${CMAKE_SOURCE_DIR}/server/clients/tokens.c
  ${CMAKE_SOURCE_DIR}/server/base/log.c)
set(fuzz_regions_libraries -L${gnutls_LIBDIR} -lgnutls)
set(fuzz_cloudini_sources ${CMAKE_SOURCE_DIR}/tests/fuzz/packed_files.c)
set(fuzz_compressed_sources ${fuzz_cloudini_sources})
set(fuzz_tokens_sources ${CMAKE_SOURCE_DIR}/server/clients/tokens.c)
set(fuzz_tokens_libraries -L${gnutls_LIBDIR} -lgnutls)

# Paths of the objects of the given sources.
function(voxeld_fuzz_objects RESULT)
  set(objects ${ARGN})
  list(TRANSFORM objects REPLACE "^${CMAKE_SOURCE_DIR}/" "")
  list(TRANSFORM objects PREPEND ${CMAKE_BINARY_DIR}/fuzz-objects/)
  list(TRANSFORM objects APPEND .o)
  set(${RESULT} ${objects} PARENT_SCOPE)
endfunction()

set(all_fuzz_sources ${drivers} ${fuzzed_sources} ${CMAKE_BINARY_DIR}/generated/resources.c)
foreach(driver IN LISTS drivers)
  cmake_path(GET driver STEM stem)
  list(APPEND all_fuzz_sources ${${stem}_sources})
endforeach()
list(REMOVE_DUPLICATES all_fuzz_sources)
foreach(source IN LISTS all_fuzz_sources)
  voxeld_fuzz_objects(object ${source})
  cmake_path(GET object PARENT_PATH folder)
  set(optimization -O1)
  if(source MATCHES "^${CMAKE_SOURCE_DIR}/(kernels|server)/")
    set(optimization -O0) # compiles in half the time, and little of this code runs
  endif()
  file(MAKE_DIRECTORY ${folder})
  add_custom_command(
    OUTPUT ${object}
    COMMAND ${CLANG} -std=c17 -D_GNU_SOURCE -DVOXELD_VERSION="${PROJECT_VERSION}" -I${CMAKE_SOURCE_DIR}
            -gline-tables-only ${optimization} -ffp-contract=off
            -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
            -MMD -MF ${object}.d -c ${source} -o ${object}
    DEPENDS ${source}
    DEPFILE ${object}.d
    COMMENT "Building ${object}"
    VERBATIM)
endforeach()

foreach(driver IN LISTS drivers)
  cmake_path(GET driver STEM stem)
  string(REGEX REPLACE "^fuzz_" "" name ${stem})
  set(program ${CMAKE_BINARY_DIR}/tests/${stem})
  set(sources ${driver} ${fuzzed_sources} ${${stem}_sources} ${CMAKE_BINARY_DIR}/generated/resources.c)
  set(words)
  if(EXISTS ${CMAKE_SOURCE_DIR}/tests/fuzz/${name}.dict)
    set(words -dict=${CMAKE_SOURCE_DIR}/tests/fuzz/${name}.dict)
  endif()
  voxeld_fuzz_objects(objects ${sources})
  add_custom_command(
    OUTPUT ${program}
    COMMAND ${CLANG} -fsanitize=fuzzer,address,undefined ${objects} -o ${program}
            -L${jansson_LIBDIR} -ljansson -L${zlib_LIBDIR} -lz -L${libzstd_LIBDIR} -lzstd -L${liblz4_LIBDIR} -llz4
            ${${stem}_libraries} -lm
    DEPENDS ${objects}
    COMMENT "Linking ${stem}"
    VERBATIM)
  add_custom_target(${stem} ALL DEPENDS ${program})
  add_dependencies(${stem} resources)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz/${name})
  voxeld_test(fuzz.${name} plain fuzz 120 ${program} -seed=1 -max_total_time=2 -max_len=4096 -timeout=10
    -error_exitcode=1 -verbosity=0 -print_final_stats=1 -artifact_prefix=${CMAKE_BINARY_DIR}/fuzz/
    ${words} ${CMAKE_BINARY_DIR}/fuzz/${name}
    ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${name})
endforeach()
