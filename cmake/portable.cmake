# VOXELD_PORTABLE: installs the daemon's libraries, except libc, in lib/voxeld, with their licences. The daemon then
# runs with the glibc of the build or newer. The libraries are Debian's files, unchanged.
#
# A library does not look for libraries beside itself. So the program names all of them, and its RUNPATH finds them; the
# loader loads each library once.
set(portable_libraries microhttpd jansson z zstd lz4 gnutls nettle hogweed gmp p11-kit idn2 unistring tasn1 ffi)

# SONAME of a library file, its package and version.
function(voxeld_read_library FILE SONAME PACKAGE VERSION)
  execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${FILE} OUTPUT_VARIABLE headers COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCH "SONAME +([^\n]+)" found "${headers}")
  set(${SONAME} ${CMAKE_MATCH_1} PARENT_SCOPE)
  cmake_path(GET FILE FILENAME name) # dpkg may know another path, through a link such as /lib
  execute_process(COMMAND dpkg-query -S */${name} OUTPUT_VARIABLE owner COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE ": .*" "" owner "${owner}")
  execute_process(COMMAND dpkg-query -W -f "\${Version}" ${owner} OUTPUT_VARIABLE version COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE ":.*" "" owner "${owner}")
  set(${PACKAGE} ${owner} PARENT_SCOPE)
  set(${VERSION} ${version} PARENT_SCOPE)
endfunction()

# Installs the package's licence, and the texts that the licence names.
function(voxeld_install_licence PACKAGE)
  set(folder ${CMAKE_INSTALL_DOCDIR}/libraries)
  file(REAL_PATH /usr/share/doc/${PACKAGE}/copyright licence)
  install(FILES ${licence} DESTINATION ${folder} RENAME ${PACKAGE} COMPONENT daemon)
  file(READ ${licence} words)
  string(REGEX MATCHALL "/usr/share/common-licenses/[A-Za-z]+(-[0-9.]*[0-9])?" texts "${words}")
  list(REMOVE_DUPLICATES texts)
  foreach(text IN LISTS texts)
    file(REAL_PATH ${text} file)
    cmake_path(GET text FILENAME name)
    install(FILES ${file} DESTINATION ${folder} RENAME ${name} COMPONENT daemon)
  endforeach()
endfunction()

set(listed "The libraries in lib/voxeld are from these packages of Debian, built on ${distribution_PRETTY_NAME}.
Their licences are the files beside this one, by package; their sources are at
https://snapshot.debian.org, by package and version.

")
foreach(name IN LISTS portable_libraries)
  find_library(portable_${name} ${name} REQUIRED)
  file(REAL_PATH ${portable_${name}} file)
  voxeld_read_library(${file} soname package version)
  string(APPEND listed "${soname}  ${package} ${version}\n")
  install(FILES ${file} DESTINATION lib/voxeld RENAME ${soname} COMPONENT daemon)
  voxeld_install_licence(${package})
  target_link_libraries(voxeld PRIVATE ${file})
endforeach()
file(CONFIGURE OUTPUT generated/libraries.txt CONTENT "${listed}" @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/generated/libraries.txt DESTINATION ${CMAKE_INSTALL_DOCDIR}/libraries RENAME README
        COMPONENT daemon)

target_link_options(voxeld PRIVATE -Wl,--no-as-needed,--enable-new-dtags)
set_target_properties(voxeld PROPERTIES
  BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN/../lib/voxeld")
