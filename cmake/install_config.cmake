# Run at installation, after cmake/install_places.cmake: installs the configuration. An existing file is left as it is,
# since the operator may have changed it.
if(NOT EXISTS "$ENV{DESTDIR}${voxeld_sysconfdir}/voxeld/voxeld.json")
  file(INSTALL "${voxeld_source}/config/voxeld.json" DESTINATION "${voxeld_sysconfdir}/voxeld")
endif()
