# One set of sources in flavours: `plain` for production, `asan` (ASan and UBSan) and `tsan` for tests. Targets are NAME
# in the plain flavour, FLAVOUR-NAME in others, and link libraries of their flavour. Programs of the flavour `faults`,
# whose CUDA calls fail on request, link the plain libraries.

set(voxeld_warnings -Wall -Wextra -Wpedantic)
if(VOXELD_WERROR)
  list(APPEND voxeld_warnings -Werror)
endif()

# Some distributions set _FORTIFY_SOURCE, usually to 3. The plain flavour keeps their value, else sets 2.
include(CheckCSourceCompiles)
set(CMAKE_REQUIRED_FLAGS -O2)
check_c_source_compiles("#ifndef _FORTIFY_SOURCE
#error
#endif
int main(void) { return 0; }" VOXELD_FORTIFIED)
unset(CMAKE_REQUIRED_FLAGS)

# -fPIE: position-independent, without the cost of replaceable functions (-fPIC).
# -ffp-contract=off: results are specified to the bit, and a fused multiply-add rounds once instead of twice.
set(voxeld_compile_all -fPIE -ffp-contract=off -fno-omit-frame-pointer)
# A failed assertion must not end the service.
set(voxeld_compile_plain -DNDEBUG -fstack-protector-strong)
if(NOT VOXELD_FORTIFIED)
  list(APPEND voxeld_compile_plain -D_FORTIFY_SOURCE=2)
endif()
# -g1: lines for reports; compiles a fifth faster than -g.
set(voxeld_compile_asan -U_FORTIFY_SOURCE -O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all)
set(voxeld_compile_tsan -U_FORTIFY_SOURCE -O1 -g1 -fsanitize=thread)
set(voxeld_compile_faults ${voxeld_compile_plain})
set(voxeld_link_plain -Wl,-z,relro,-z,now)
set(voxeld_link_asan -fsanitize=address,undefined)
set(voxeld_link_tsan -fsanitize=thread)
set(voxeld_link_faults ${voxeld_link_plain})

# The target of NAME in FLAVOUR. Names that are not the project's stay.
function(voxeld_target_name NAME FLAVOUR RESULT)
  set(target ${NAME})
  set(names "^(kernels|api|server|voxeld|sensor|c_client|test_.*)$")
  if(FLAVOUR STREQUAL faults)
    set(names "^voxeld$")
  endif()
  if(NOT FLAVOUR STREQUAL plain AND NAME MATCHES "${names}")
    set(target ${FLAVOUR}-${NAME})
  endif()
  set(${RESULT} ${target} PARENT_SCOPE)
endfunction()

function(voxeld_configure TARGET FLAVOUR LIBRARIES)
  target_include_directories(${TARGET} PUBLIC ${CMAKE_SOURCE_DIR})
  target_compile_definitions(${TARGET} PRIVATE _GNU_SOURCE VOXELD_VERSION="${PROJECT_VERSION}")
  set(flags ${voxeld_warnings} ${voxeld_compile_all} ${voxeld_compile_${FLAVOUR}})
  target_compile_options(${TARGET} PRIVATE "$<$<COMPILE_LANGUAGE:C>:${flags}>")
  foreach(library IN LISTS LIBRARIES)
    voxeld_target_name(${library} ${FLAVOUR} library)
    target_link_libraries(${TARGET} PUBLIC ${library})
  endforeach()
endfunction()

# The same bits as the CPU: no fused multiply-add, IEEE division, subnormals kept. -objtemp: else objects contain a
# process id, and no two builds are equal.
function(voxeld_configure_cuda TARGET)
  target_include_directories(${TARGET} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_options(${TARGET} PRIVATE
    "$<$<COMPILE_LANGUAGE:CUDA>:-objtemp;-Xcompiler=-Wall,-Wextra,-fPIE,-ffp-contract=off>"
    "$<$<COMPILE_LANGUAGE:CUDA>:-fmad=false;-prec-div=true;-ftz=false>")
  set_target_properties(${TARGET} PROPERTIES CUDA_STANDARD 17 CUDA_RUNTIME_LIBRARY Static)
endfunction()

# Adds the CUDA backend, if there is a toolkit, to the library `kernels`; asan and tsan get a stand-in. CHECK: path of
# check.cu.
function(voxeld_add_cuda FLAVOUR CHECK)
  voxeld_target_name(kernels ${FLAVOUR} target)
  if(FLAVOUR MATCHES "^(asan|tsan)$")
    target_sources(${target} PRIVATE tests/support/standin/cuda_standin.c tests/support/standin/inject.c)
    target_link_options(${target} PUBLIC -Wl,--wrap=cpu_sample_points)
  elseif(VOXELD_CUDA_FOUND)
    target_sources(${target} PRIVATE ${CHECK} $<TARGET_OBJECTS:kernels-cuda>)
    voxeld_configure_cuda(${target})
    # So that the program needs no shared libraries of C++ and GCC.
    target_link_options(${target} PUBLIC -static-libstdc++ -static-libgcc)
  else()
    return()
  endif()
  target_compile_definitions(${target} PRIVATE VOXELD_CUDA)
endfunction()

function(voxeld_library NAME FLAVOUR)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "SOURCES;LIBRARIES")
  voxeld_target_name(${NAME} ${FLAVOUR} target)
  add_library(${target} STATIC ${arg_SOURCES})
  add_dependencies(${target} resources)
  voxeld_configure(${target} ${FLAVOUR} "${arg_LIBRARIES}")
endfunction()

# The program is build/bin/NAME or build/DIRECTORY/NAME; in other flavours than plain, in a folder FLAVOUR there.
function(voxeld_program NAME FLAVOUR)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "DIRECTORY" "SOURCES;LIBRARIES")
  voxeld_target_name(${NAME} ${FLAVOUR} target)
  set(directory ${CMAKE_BINARY_DIR}/bin)
  if(arg_DIRECTORY)
    set(directory ${CMAKE_BINARY_DIR}/${arg_DIRECTORY})
  endif()
  if(NOT FLAVOUR STREQUAL plain)
    string(APPEND directory /${FLAVOUR})
  endif()
  add_executable(${target} ${arg_SOURCES})
  voxeld_configure(${target} ${FLAVOUR} "${arg_LIBRARIES}")
  target_link_options(${target} PRIVATE -pie ${voxeld_link_${FLAVOUR}})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${NAME} RUNTIME_OUTPUT_DIRECTORY ${directory})
endfunction()
