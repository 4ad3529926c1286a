# cpack reads this before each kind of package.
if(NOT DEFINED ENV{SOURCE_DATE_EPOCH}) # time of all packed files: the commit's, else now
  execute_process(COMMAND git log -1 --format=%ct WORKING_DIRECTORY ${CMAKE_CURRENT_LIST_DIR}
                  OUTPUT_VARIABLE time OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT time)
    string(TIMESTAMP time %s)
  endif()
  set(ENV{SOURCE_DATE_EPOCH} ${time})
endif()
if(CPACK_GENERATOR STREQUAL DEB)
  set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/package_debian.cmake)
  if(CPACK_DEBIAN_PACKAGE_ARCHITECTURE) # for dpkg-shlibdeps
    set(ENV{DEB_HOST_ARCH} ${CPACK_DEBIAN_PACKAGE_ARCHITECTURE})
  endif()
  unset(ENV{VOXELD_INSTALLED_PREFIX})
else() # may be unpacked anywhere: the paths in voxeld.service have the most likely prefix
  set(ENV{VOXELD_INSTALLED_PREFIX} /usr/local)
endif()
