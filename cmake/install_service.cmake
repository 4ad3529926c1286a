# Run at installation, after cmake/install_places.cmake: installs the service, which names the places of the program and
# of the configuration.
set(VOXELD_PROGRAM "${voxeld_bindir}/voxeld")
set(VOXELD_CONFIG "${voxeld_sysconfdir}/voxeld/voxeld.json")
if(DEFINED ENV{VOXELD_INSTALLED_PREFIX})
  string(REPLACE "${prefix}/" "$ENV{VOXELD_INSTALLED_PREFIX}/" VOXELD_PROGRAM "${VOXELD_PROGRAM}")
  string(REPLACE "${prefix}/" "$ENV{VOXELD_INSTALLED_PREFIX}/" VOXELD_CONFIG "${VOXELD_CONFIG}")
endif()
configure_file("${voxeld_source}/packaging/voxeld.service.in" "${voxeld_binary}/generated/voxeld.service" @ONLY)
file(INSTALL "${voxeld_binary}/generated/voxeld.service" DESTINATION "${prefix}/lib/systemd/system")
file(INSTALL "${voxeld_source}/packaging/voxeld.sysusers" DESTINATION "${prefix}/lib/sysusers.d" RENAME voxeld.conf)
