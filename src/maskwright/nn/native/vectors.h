// Vectors of 16 float32 numbers, small matrix products and memory, for the C++ files of this folder.
//
// The multiplications are inline assembly, because GCC 12 copies the sums of such loops between registers.

#pragma once

#include <immintrin.h>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

using V = __m512;

constexpr int QUERIES = 6;  // rows of a small product that are computed together

static inline V set(float x) { return _mm512_set1_ps(x); }

// e^x for x <= 0, relative error below 2e-7: 2^n times a polynomial on [-ln 2 / 2, ln 2 / 2]. Not a number stays one.
static inline V exponential(V x) {
  x = _mm512_max_ps(set(-110.0f), x);
  V n = _mm512_roundscale_ps(_mm512_mul_ps(x, set(1.44269504f)), 0);
  V r = _mm512_fnmadd_ps(n, set(0.693145752f), x);
  r = _mm512_fnmadd_ps(n, set(1.42860677e-6f), r);
  V p = set(1.0f / 720);
  for (float c : {1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f}) p = _mm512_fmadd_ps(p, r, set(c));
  return _mm512_scalef_ps(p, n);
}

// The first `count` of 16 elements.
static inline __mmask16 first(int64_t count) { return count >= 16 ? 0xffff : count <= 0 ? 0 : (1 << count) - 1; }

// Replace scores by e^(scale (score - largest)) and return their sum. seen: scores that count, the others become 0;
// width: of the row, a multiple of 16; high: scale times the largest score.
static inline float softmax(float* scores, int seen, int width, float scale, float& high) {
  V most = set(-INFINITY), total = _mm512_setzero_ps();
  for (int k = 0; k < width; k += 16)
    most = _mm512_mask_max_ps(most, first(seen - k), most, _mm512_loadu_ps(scores + k));
  high = _mm512_reduce_max_ps(most) * scale;
  for (int k = 0; k < width; k += 16) {
    V e = exponential(_mm512_fmsub_ps(_mm512_loadu_ps(scores + k), set(scale), set(high)));
    e = _mm512_maskz_mov_ps(first(seen - k), e);
    total = _mm512_add_ps(total, e);
    _mm512_storeu_ps(scores + k, e);
  }
  return _mm512_reduce_add_ps(total);
}

// Of the layer norm of a row: the mean, and the inverse standard deviation. size: a multiple of 16.
struct Moments {
  float mean, by;
};
static inline Moments moments(const float* x, int64_t size, float eps) {
  V sum = _mm512_setzero_ps(), squares = _mm512_setzero_ps();
  for (int64_t k = 0; k < size; k += 16) sum = _mm512_add_ps(sum, _mm512_loadu_ps(x + k));
  const float mean = _mm512_reduce_add_ps(sum) / size;
  for (int64_t k = 0; k < size; k += 16) {
    V d = _mm512_sub_ps(_mm512_loadu_ps(x + k), set(mean));
    squares = _mm512_fmadd_ps(d, d, squares);
  }
  return {mean, 1.0f / std::sqrt(_mm512_reduce_add_ps(squares) / size + eps)};
}

// Transpose 16 x 16 numbers; rows after the first `rows` are 0.
static inline void transpose(const float* from, int64_t stride, int rows, float* to, int64_t to_stride) {
  V r[16], t[16];
  for (int i = 0; i < 16; i++) r[i] = i < rows ? _mm512_loadu_ps(from + i * stride) : _mm512_setzero_ps();
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4)
    for (int k = 0; k < 2; k++) {
      __m512d a = _mm512_castps_pd(t[i + k]), b = _mm512_castps_pd(t[i + 2 + k]);
      r[i + 2 * k] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
      r[i + 2 * k + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
    }
  for (int i = 0; i < 16; i += 8)
    for (int k = 0; k < 4; k++) {
      t[i + k] = _mm512_shuffle_f32x4(r[i + k], r[i + 4 + k], 0x88);
      t[i + 4 + k] = _mm512_shuffle_f32x4(r[i + k], r[i + 4 + k], 0xdd);
    }
  for (int k = 0; k < 4; k++)
    for (int j = 0; j < 2; j++) {
      _mm512_storeu_ps(to + (4 * j + k) * to_stride, _mm512_shuffle_f32x4(t[4 * j + k], t[8 + 4 * j + k], 0x88));
      _mm512_storeu_ps(to + (8 + 4 * j + k) * to_stride, _mm512_shuffle_f32x4(t[4 * j + k], t[8 + 4 * j + k], 0xdd));
    }
}

// to[i, 16 v ..] = sum over k of a[i, k] * b[k, 16 v ..], of `size` k; with ADDS added to what is there. a is
// [rows, size], or with TRANSPOSED [size, rows]; a_stride: from one of its rows to the next.
template <int ROWS, int VECTORS, bool TRANSPOSED, bool ADDS>
__attribute__((noinline)) static void small_product(const float* a, int64_t a_stride, const float* b, int64_t b_stride,
                                                    int size, float* to, int64_t to_stride) {
  const int64_t by_row = TRANSPOSED ? 1 : a_stride, by_k = TRANSPOSED ? a_stride : 1;
  V sums[ROWS][VECTORS];
#pragma GCC unroll 8
  for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++) sums[i][v] = ADDS ? _mm512_loadu_ps(to + i * to_stride + 16 * v) : _mm512_setzero_ps();
  for (int k = 0; k < size; k++, a += by_k, b += b_stride) {
    V w[VECTORS];
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++) w[v] = _mm512_loadu_ps(b + 16 * v);
#pragma GCC unroll 8
    for (int i = 0; i < ROWS; i++) {
      V x = set(a[i * by_row]);
#pragma GCC unroll 4
      for (int v = 0; v < VECTORS; v++) asm("vfmadd231ps %2, %1, %0" : "+v"(sums[i][v]) : "v"(x), "v"(w[v]));
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++) _mm512_storeu_ps(to + i * to_stride + 16 * v, sums[i][v]);
}

template <int VECTORS, bool TRANSPOSED = false, bool ADDS = false, int ROWS = QUERIES>
static inline void few_rows(int rows, const float* a, int64_t a_stride, const float* b, int64_t b_stride, int size,
                            float* to, int64_t to_stride) {
  if constexpr (ROWS > 0) {
    if (rows == ROWS)
      small_product<ROWS, VECTORS, TRANSPOSED, ADDS>(a, a_stride, b, b_stride, size, to, to_stride);
    else
      few_rows<VECTORS, TRANSPOSED, ADDS, ROWS - 1>(rows, a, a_stride, b, b_stride, size, to, to_stride);
  }
}

// to[i, ..] = sum over d of a[i, d] * b[d, ..]: scores of few queries and all keys. b, to: [.., width]; width: a
// multiple of 16.
static inline void scores_of(int rows, const float* a, int64_t a_stride, const float* b, int width, int size, float* to) {
  int k = 0;
  for (; k + 64 <= width; k += 64) few_rows<4>(rows, a, a_stride, b + k, width, size, to + k, width);
  switch ((width - k) / 16) {
    case 1: few_rows<1>(rows, a, a_stride, b + k, width, size, to + k, width); break;
    case 2: few_rows<2>(rows, a, a_stride, b + k, width, size, to + k, width); break;
    case 3: few_rows<3>(rows, a, a_stride, b + k, width, size, to + k, width); break;
  }
}

// The keys or values of one head, [length, head_dim] at `from`, as [head_dim, width], with zeros at the end.
template <int HEAD_DIM>
static inline void transposed(const float* from, int64_t stride, int length, float* to, int width) {
  for (int k = 0; k < length; k += 16)
    for (int d = 0; d < HEAD_DIM; d += 16)
      transpose(from + k * stride + d, stride, length - k, to + (int64_t)d * width + k, width);
}

struct Sequence {
  int start, length;
};

// runs: count and length of each run of sequences of equal length, in order.
static inline std::vector<Sequence> sequences_of(const int64_t* runs, int64_t num_runs) {
  std::vector<Sequence> found;
  int start = 0;
  for (int64_t i = 0; i < num_runs; i++)
    for (int64_t k = 0; k < runs[2 * i]; k++, start += runs[2 * i + 1]) found.push_back({start, (int)runs[2 * i + 1]});
  return found;
}

// Memory of one thread, kept for the next call unless it is large.
struct Memory {
  static constexpr size_t LARGE = 64 << 20;
  std::unique_ptr<char, decltype(&free)> data{nullptr, free};
  size_t size = 0;
  // At least so many bytes; null if there is no memory.
  char* get(size_t bytes) {
    if (bytes > size) {
      data.reset();
      size = (bytes + 4095) / 4096 * 4096;
      data.reset((char*)aligned_alloc(64, size));
      if (data == nullptr) size = 0;
    }
    return data.get();
  }
  void shrink() {
    if (size > LARGE) data.reset(), size = 0;
  }
};
