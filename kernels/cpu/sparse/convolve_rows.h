// Sums of a few rows in registers, for one kind of vector. For each kind, convolve.c defines these, then includes this
// file:
//   KIND(name)  the name with the kind's suffix
//   VECTOR, LANES, LOAD, STORE, SPLAT  a vector of floats, and how it moves
//   FUSE(a, b, c)  a * b + c with one rounding, in each lane
//   TARGET  the attribute of functions with these vectors
//   MOST_ROWS(vectors)  how many rows of that number of vectors fit in registers
// Each channel has its own lane, so vectors change no sum.

// Callers inline this with constant `rows` and `vectors`, so its arrays are registers.
static inline __attribute__((always_inline)) TARGET void
KIND(convolve_rows)(const struct cpu_pairs *pairs, int32_t first, int32_t channel, const int rows, const int vectors) {
  const float *from[8], *weight = pairs->weight + channel;
  float *to[8];
  VECTOR sum[8][4], factor[4];
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++) {
    from[r] = pairs->in + (int64_t)pairs->input[first + r] * pairs->inputs;
    to[r] = pairs->out + (int64_t)pairs->row[first + r] * pairs->width + channel;
#pragma GCC unroll 4
    for (int64_t v = 0; v < vectors; v++) sum[r][v] = LOAD(to[r] + v * LANES);
  }
  for (int64_t c = 0; c < pairs->inputs; c++, weight += pairs->width) {
#pragma GCC unroll 4
    for (int64_t v = 0; v < vectors; v++) factor[v] = LOAD(weight + v * LANES);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
      VECTOR value = SPLAT(from[r] + c);
#pragma GCC unroll 4
      for (int64_t v = 0; v < vectors; v++) sum[r][v] = FUSE(value, factor[v], sum[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++) {
#pragma GCC unroll 4
    for (int64_t v = 0; v < vectors; v++) STORE(to[r] + v * LANES, sum[r][v]);
  }
}

// All pairs, for `vectors` vectors of channels.
static inline __attribute__((always_inline)) TARGET void KIND(convolve_channels)(const struct cpu_pairs *pairs,
                                                                                 int32_t channel, const int vectors) {
  const int most = MOST_ROWS(vectors);
  int32_t i = 0;
  for (; pairs->count - i >= most; i += most) KIND(convolve_rows)(pairs, i, channel, most, vectors);
  switch (pairs->count - i) {
    case 7: KIND(convolve_rows)(pairs, i, channel, 7, vectors); break;
    case 6: KIND(convolve_rows)(pairs, i, channel, 6, vectors); break;
    case 5: KIND(convolve_rows)(pairs, i, channel, 5, vectors); break;
    case 4: KIND(convolve_rows)(pairs, i, channel, 4, vectors); break;
    case 3: KIND(convolve_rows)(pairs, i, channel, 3, vectors); break;
    case 2: KIND(convolve_rows)(pairs, i, channel, 2, vectors); break;
    case 1: KIND(convolve_rows)(pairs, i, channel, 1, vectors); break;
    default: break;
  }
}

#undef KIND
#undef VECTOR
#undef LANES
#undef LOAD
#undef STORE
#undef SPLAT
#undef FUSE
#undef TARGET
#undef MOST_ROWS
