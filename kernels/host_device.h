// VX_SHARED marks the small functions that both backends run: plain inline C here, host and device code under nvcc.
#ifndef VOXELD_HOST_DEVICE_H
#define VOXELD_HOST_DEVICE_H

#ifdef __CUDACC__
#define VX_SHARED static inline __host__ __device__
#else
#define VX_SHARED static inline
#endif

#endif
