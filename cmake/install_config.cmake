# Run at installation, after cmake/install_places.cmake: the configuration. A file that its operator may have changed is left as it is.
if(NOT EXISTS "$ENV{DESTDIR}${voxeld_sysconfdir}/voxeld/voxeld.json")
  file(INSTALL "${voxeld_source}/config/voxeld.json" DESTINATION "${voxeld_sysconfdir}/voxeld")
endif()
