# Runs at installation, after install_places.cmake: installs the configuration. Keeps an existing file, which the
# operator may have changed.
if(NOT EXISTS "$ENV{DESTDIR}${voxeld_sysconfdir}/voxeld/voxeld.json")
  file(INSTALL "${voxeld_source}/config/voxeld.json" DESTINATION "${voxeld_sysconfdir}/voxeld")
endif()
