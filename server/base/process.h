// What the operating system says of this process, for the process_... metrics of Prometheus. Any thread.
#ifndef VOXELD_PROCESS_H
#define VOXELD_PROCESS_H

// Each is 0 if the system does not tell.
double process_cpu_seconds(void);
double process_resident_bytes(void);
double process_virtual_bytes(void);
double process_open_files(void);
double process_max_files(void);

#endif
