# Run at installation, after cmake/install.cmake has set voxeld_source, voxeld_binary, voxeld_bindir and voxeld_sysconfdir: installs the
# configuration, which lies in /etc if the prefix is /usr, and the service, which names the places of the program and of the configuration.
set(prefix ${CMAKE_INSTALL_PREFIX})
cmake_path(ABSOLUTE_PATH prefix NORMALIZE)
string(REGEX REPLACE "/$" "" prefix "${prefix}")
cmake_path(ABSOLUTE_PATH voxeld_bindir BASE_DIRECTORY "${prefix}")
if(prefix STREQUAL "/usr")
  set(etc_above "/")
else()
  set(etc_above "${prefix}")
endif()
cmake_path(ABSOLUTE_PATH voxeld_sysconfdir BASE_DIRECTORY "${etc_above}")

# A file that its operator may have changed is left as it is.
if(NOT EXISTS "$ENV{DESTDIR}${voxeld_sysconfdir}/voxeld/voxeld.json")
  file(INSTALL "${voxeld_source}/config/voxeld.json" DESTINATION "${voxeld_sysconfdir}/voxeld")
endif()

set(VOXELD_PROGRAM "${voxeld_bindir}/voxeld")
set(VOXELD_CONFIG "${voxeld_sysconfdir}/voxeld/voxeld.json")
if(DEFINED ENV{VOXELD_INSTALLED_PREFIX})
  string(REPLACE "${prefix}/" "$ENV{VOXELD_INSTALLED_PREFIX}/" VOXELD_PROGRAM "${VOXELD_PROGRAM}")
  string(REPLACE "${prefix}/" "$ENV{VOXELD_INSTALLED_PREFIX}/" VOXELD_CONFIG "${VOXELD_CONFIG}")
endif()
configure_file("${voxeld_source}/packaging/voxeld.service.in" "${voxeld_binary}/generated/voxeld.service" @ONLY)
file(INSTALL "${voxeld_binary}/generated/voxeld.service" DESTINATION "${prefix}/lib/systemd/system")
file(INSTALL "${voxeld_source}/packaging/voxeld.sysusers" DESTINATION "${prefix}/lib/sysusers.d" RENAME voxeld.conf)
