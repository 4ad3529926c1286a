// VX_SHARED marks functions that both backends run.
#ifndef VOXELD_HOST_DEVICE_H
#define VOXELD_HOST_DEVICE_H

#ifdef __CUDACC__
#define VX_SHARED static inline __host__ __device__
#else
#define VX_SHARED static inline
#endif

#endif
