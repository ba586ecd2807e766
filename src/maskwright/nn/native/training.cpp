// What a layer computes between its matrix products in training, in float32: attention within each sequence with
// dropout, addition and layer norm with dropout, and dropout alone, each forward and backward.
//
// Dropout stores no masks: the 16 random bits of an element are a function of a seed and its place, computed again in
// the backward pass. No result depends on the number of threads.

#include "vectors.h"

// Drops an element if its bits are below the threshold, and scales the others by `factor`.
struct Dropout {
  uint64_t seed;
  int threshold;  // 0 to drop nothing

  float factor() const { return 65536.0f / (65536 - threshold); }

  // Which of 32 elements are kept; place: of 8 random numbers with 4 times 16 bits (Steele et al. 2014, SplitMix64).
  __mmask32 kept(uint64_t place) const {
    if (threshold == 0) return ~0u;
    const __m512i lanes = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
    __m512i z = _mm512_add_epi64(_mm512_set1_epi64(place), lanes);
    z = _mm512_add_epi64(_mm512_mullo_epi64(z, _mm512_set1_epi64(0x9e3779b97f4a7c15)), _mm512_set1_epi64(seed));
    z = _mm512_mullo_epi64(_mm512_xor_si512(z, _mm512_srli_epi64(z, 30)), _mm512_set1_epi64(0xbf58476d1ce4e5b9));
    z = _mm512_mullo_epi64(_mm512_xor_si512(z, _mm512_srli_epi64(z, 27)), _mm512_set1_epi64(0x94d049bb133111eb));
    z = _mm512_xor_si512(z, _mm512_srli_epi64(z, 31));
    return _mm512_cmpge_epu16_mask(z, _mm512_set1_epi16(threshold));
  }
};

// Write x, kept and scaled or 0, to `to`; both of `size` numbers.
extern "C" void drop(const float* x, float* to, int64_t size, uint64_t seed, int64_t threshold, int64_t threads) {
  const Dropout dropout{seed, (int)threshold};
  const V factor = set(dropout.factor());
#pragma omp parallel for num_threads(threads) if (size > 1 << 15)
  for (int64_t i = 0; i < size; i += 32) {
    __mmask32 kept = dropout.kept(i / 4);
    for (int half = 0; half < 2; half++, kept >>= 16) {
      __mmask16 own = first(size - i - 16 * half), some = own & (__mmask16)kept;
      V y = _mm512_maskz_mul_ps(some, _mm512_maskz_loadu_ps(own, x + i + 16 * half), factor);
      _mm512_mask_storeu_ps(to + i + 16 * half, own, y);
    }
  }
}

// -- Attention -------------------------------------------------------------------------------------------------------

constexpr int BLOCK = 48;  // queries whose weights are stored before they are added to the gradients of keys and values

struct Attention {
  int64_t num_heads, head_dim;
  bool is_causal;
  float scale;  // of the scores
  Dropout dropout;

  int64_t hidden() const { return num_heads * head_dim; }
  // Which of the keys k and the 31 after it are kept for a query, which is a token of the pack.
  __mmask32 kept(int64_t query, int head, int k) const {
    return dropout.kept(((uint64_t)(query * num_heads + head) << 24) + k / 4);
  }
};

// One head of one sequence; pointers to its first token.
struct Head {
  const float *qkv, *context;  // [length, 3, hidden]; [length, hidden]
  float* logs;                 // [length, heads]: of the sum of e^score
  const float* slope;          // gradient of the context
  float* gradient;             // of qkv
  int64_t token;
  int head, length, width;     // width: length, rounded up to 16
};

template <int VECTORS>
static void forward(const Attention& a, const Head& one, float* context, float* scratch) {
  constexpr int HEAD_DIM = 16 * VECTORS;
  const int64_t hidden = a.hidden(), stride = 3 * hidden;
  const int width = one.width;
  float* scores = scratch + (int64_t)HEAD_DIM * width;  // [QUERIES, width]
  transposed<HEAD_DIM>(one.qkv + hidden, stride, one.length, scratch, width);
  for (int start = 0; start < one.length; start += QUERIES) {
    const int rows = std::min(QUERIES, one.length - start);
    scores_of(rows, one.qkv + start * stride, stride, scratch, width, HEAD_DIM, scores);
    for (int i = 0; i < rows; i++) {
      float *row = scores + i * width, high;
      const float sum = softmax(row, a.is_causal ? start + i + 1 : one.length, width, a.scale, high);
      one.logs[(start + i) * a.num_heads] = high + std::log(sum);
      const V by = set(a.dropout.factor() / sum);
      for (int k = 0; k < width; k += 32) {
        __mmask32 kept = a.kept(one.token + start + i, one.head, k);
        for (int part = k; part < std::min(k + 32, width); part += 16, kept >>= 16)
          _mm512_storeu_ps(row + part, _mm512_maskz_mul_ps((__mmask16)kept, _mm512_loadu_ps(row + part), by));
      }
    }
    few_rows<VECTORS>(rows, scores, width, one.qkv + 2 * hidden, stride, one.length, context + start * hidden, hidden);
  }
}

// With p the weights, d the gradient of the context and m the factors of dropout, 0 or 1 / (1 - probability): the
// gradient of the scores is p (m (d v^T) - rows' sums of d * context).
template <int VECTORS>
static void backward(const Attention& a, const Head& one, float* scratch) {
  constexpr int HEAD_DIM = 16 * VECTORS;
  const int64_t hidden = a.hidden(), stride = 3 * hidden;
  const int width = one.width, length = one.length;
  float *keys = scratch, *values = keys + (int64_t)HEAD_DIM * width;  // transposed: [head_dim, width]
  float *weights = values + (int64_t)HEAD_DIM * width, *slopes = weights + (int64_t)BLOCK * width;  // [BLOCK, width]
  transposed<HEAD_DIM>(one.qkv + hidden, stride, length, keys, width);
  transposed<HEAD_DIM>(one.qkv + 2 * hidden, stride, length, values, width);
  for (int block = 0; block < length; block += BLOCK) {
    const int count = std::min(BLOCK, length - block);
    for (int start = 0; start < count; start += QUERIES) {
      const int rows = std::min(QUERIES, count - start), query = block + start;
      float *p = weights + (int64_t)start * width, *s = slopes + (int64_t)start * width;
      scores_of(rows, one.qkv + query * stride, stride, keys, width, HEAD_DIM, p);
      scores_of(rows, one.slope + query * hidden, hidden, values, width, HEAD_DIM, s);
      for (int i = 0; i < rows; i++, p += width, s += width) {
        const int seen = a.is_causal ? query + i + 1 : length;
        V sum = _mm512_setzero_ps();
        for (int d = 0; d < HEAD_DIM; d += 16)
          sum = _mm512_fmadd_ps(_mm512_loadu_ps(one.slope + (query + i) * hidden + d),
                                _mm512_loadu_ps(one.context + (query + i) * hidden + d), sum);
        const V delta = set(_mm512_reduce_add_ps(sum)), factor = set(a.dropout.factor());
        const V log = set(one.logs[(query + i) * a.num_heads]);
        for (int k = 0; k < width; k += 32) {
          __mmask32 kept = a.kept(one.token + query + i, one.head, k);
          for (int part = k; part < std::min(k + 32, width); part += 16, kept >>= 16) {
            V e = exponential(_mm512_fmsub_ps(_mm512_loadu_ps(p + part), set(a.scale), log));
            e = _mm512_maskz_mov_ps(first(seen - part), e);
            V slope = _mm512_maskz_mul_ps((__mmask16)kept, _mm512_loadu_ps(s + part), factor);
            _mm512_storeu_ps(p + part, _mm512_maskz_mul_ps((__mmask16)kept, e, factor));
            _mm512_storeu_ps(s + part, _mm512_mul_ps(_mm512_mul_ps(e, set(a.scale)), _mm512_sub_ps(slope, delta)));
          }
        }
      }
      few_rows<VECTORS>(rows, slopes + (int64_t)start * width, width, one.qkv + hidden, stride, length,
                        one.gradient + query * stride, stride);
    }
    for (int key = 0; key < length; key += QUERIES) {
      const int rows = std::min(QUERIES, length - key);
      const float *query = one.qkv + block * stride, *slope = one.slope + block * hidden;
      float *for_key = one.gradient + key * stride + hidden, *for_value = for_key + hidden;
      if (block == 0) {
        few_rows<VECTORS, true>(rows, slopes + key, width, query, stride, count, for_key, stride);
        few_rows<VECTORS, true>(rows, weights + key, width, slope, hidden, count, for_value, stride);
      } else {
        few_rows<VECTORS, true, true>(rows, slopes + key, width, query, stride, count, for_key, stride);
        few_rows<VECTORS, true, true>(rows, weights + key, width, slope, hidden, count, for_value, stride);
      }
    }
  }
}

// Attention in every sequence of the runs (see `sequences_of`); returns whether there was enough memory.
// qkv: [tokens, 3, hidden]; context: [tokens, hidden]; logs: [tokens, heads]. With `slope`, the gradient of context,
// writes the gradient of qkv from context and logs, otherwise writes these. head_dim: 16, 32, 48 or 64.
extern "C" bool attend(const float* qkv, float* context, float* logs, const float* slope, float* gradient,
                       const int64_t* runs, int64_t num_runs, int64_t num_heads, int64_t head_dim, int64_t is_causal,
                       float scale, uint64_t seed, int64_t threshold, int64_t threads) {
  const Attention a{num_heads, head_dim, is_causal != 0, scale, {seed, (int)threshold}};
  const std::vector<Sequence> sequences = sequences_of(runs, num_runs);
  const int64_t hidden = a.hidden(), tasks = sequences.size() * num_heads;
  std::atomic<bool> enough{true};
#pragma omp parallel for num_threads(threads) schedule(dynamic, 2) if (tasks > 1)
  for (int64_t task = 0; task < tasks; task++) {
    const Sequence& sequence = sequences[task / num_heads];
    const int64_t token = sequence.start, head = task % num_heads, column = head * head_dim;
    if (sequence.length == 0) continue;
    const int width = (sequence.length + 15) / 16 * 16;
    const Head one{qkv + token * 3 * hidden + column, context + token * hidden + column, logs + token * num_heads + head,
                   slope ? slope + token * hidden + column : nullptr,
                   slope ? gradient + token * 3 * hidden + column : nullptr, token, (int)head, sequence.length, width};
    static thread_local Memory memory;
    const size_t rows = slope ? 2 * (head_dim + BLOCK) : head_dim + QUERIES;
    float* scratch = (float*)memory.get(sizeof(float) * rows * width);
    if (scratch == nullptr) {
      enough = false;
      continue;
    }
    float* own = context + token * hidden + column;
    switch (head_dim / 16) {
      case 1: slope ? backward<1>(a, one, scratch) : forward<1>(a, one, own, scratch); break;
      case 2: slope ? backward<2>(a, one, scratch) : forward<2>(a, one, own, scratch); break;
      case 3: slope ? backward<3>(a, one, scratch) : forward<3>(a, one, own, scratch); break;
      case 4: slope ? backward<4>(a, one, scratch) : forward<4>(a, one, own, scratch); break;
    }
    memory.shrink();
  }
  return enough;
}

// -- Addition and layer norm -----------------------------------------------------------------------------------------

constexpr int64_t ROWS = 64;  // rows whose gradients of the norm's weights are added up together

// sums = hidden + dropout(added), result = layer norm of sums; all [rows, size], size a multiple of 32. stats: [rows, 2],
// mean and inverse standard deviation.
extern "C" void add_norm(const float* hidden, const float* added, const float* weight, const float* bias, float* sums,
                         float* result, float* stats, int64_t rows, int64_t size, float eps, uint64_t seed,
                         int64_t threshold, int64_t threads) {
  const Dropout dropout{seed, (int)threshold};
  const V factor = set(dropout.factor());
#pragma omp parallel for num_threads(threads) if (rows > 16)
  for (int64_t r = 0; r < rows; r++) {
    const int64_t at = r * size;
    for (int64_t k = 0; k < size; k += 32) {
      __mmask32 kept = dropout.kept((at + k) / 4);
      for (int64_t i = at + k; i < at + k + 32; i += 16, kept >>= 16) {
        V x = _mm512_maskz_mul_ps((__mmask16)kept, _mm512_loadu_ps(added + i), factor);
        _mm512_storeu_ps(sums + i, _mm512_add_ps(x, _mm512_loadu_ps(hidden + i)));
      }
    }
    const Moments m = moments(sums + at, size, eps);
    const V mean = set(m.mean), by = set(m.by);
    stats[2 * r] = m.mean, stats[2 * r + 1] = m.by;
    for (int64_t k = 0; k < size; k += 16) {
      V d = _mm512_mul_ps(_mm512_sub_ps(_mm512_loadu_ps(sums + at + k), mean), by);
      _mm512_storeu_ps(result + at + k, _mm512_fmadd_ps(d, _mm512_loadu_ps(weight + k), _mm512_loadu_ps(bias + k)));
    }
  }
}

// The gradients of hidden and added, from `slope`, that of the result; for_norm: [rows / ROWS, rounded up, 2, size],
// those of weight and bias, to be added up.
extern "C" void add_norm_backward(const float* slope, const float* sums, const float* stats, const float* weight,
                                  float* for_hidden, float* for_added, float* for_norm, int64_t rows, int64_t size,
                                  uint64_t seed, int64_t threshold, int64_t threads) {
  const Dropout dropout{seed, (int)threshold};
  const V factor = set(dropout.factor());
#pragma omp parallel for num_threads(threads) if (rows > ROWS)
  for (int64_t block = 0; block < (rows + ROWS - 1) / ROWS; block++) {
    float *for_weight = for_norm + block * 2 * size, *for_bias = for_weight + size;
    std::fill(for_weight, for_weight + 2 * size, 0.0f);
    for (int64_t r = block * ROWS; r < std::min(rows, (block + 1) * ROWS); r++) {
      const int64_t at = r * size;
      const V mean = set(stats[2 * r]), by = set(stats[2 * r + 1]);
      V total = _mm512_setzero_ps(), along = _mm512_setzero_ps();
      for (int64_t k = 0; k < size; k += 16) {
        V y = _mm512_loadu_ps(slope + at + k), x = _mm512_mul_ps(_mm512_sub_ps(_mm512_loadu_ps(sums + at + k), mean), by);
        _mm512_storeu_ps(for_weight + k, _mm512_fmadd_ps(y, x, _mm512_loadu_ps(for_weight + k)));
        _mm512_storeu_ps(for_bias + k, _mm512_add_ps(y, _mm512_loadu_ps(for_bias + k)));
        y = _mm512_mul_ps(y, _mm512_loadu_ps(weight + k));
        total = _mm512_add_ps(total, y);
        along = _mm512_fmadd_ps(y, x, along);
      }
      const V middle = set(_mm512_reduce_add_ps(total) / size), share = set(_mm512_reduce_add_ps(along) / size);
      for (int64_t k = 0; k < size; k += 32) {
        __mmask32 kept = dropout.kept((at + k) / 4);
        for (int64_t part = k; part < k + 32; part += 16, kept >>= 16) {
          V x = _mm512_mul_ps(_mm512_sub_ps(_mm512_loadu_ps(sums + at + part), mean), by);
          V y = _mm512_mul_ps(_mm512_loadu_ps(slope + at + part), _mm512_loadu_ps(weight + part));
          y = _mm512_mul_ps(by, _mm512_sub_ps(_mm512_sub_ps(y, middle), _mm512_mul_ps(x, share)));
          _mm512_storeu_ps(for_hidden + at + part, y);
          _mm512_storeu_ps(for_added + at + part, _mm512_maskz_mul_ps((__mmask16)kept, y, factor));
        }
      }
    }
  }
}
