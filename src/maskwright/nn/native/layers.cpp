// The layers of an encoder (Vaswani et al. 2017, section 3.1: post-norm, full attention) on CPUs with AVX-512.
//
// Matrix products in float32, bfloat16 or int8 with bias, activation and residual in the epilogue, softmax attention in
// float32, and layer norm that converts its result for the next product. native.py compiles this file, packs the
// weights and calls `encode`.
//
// A product reads 4 bytes of a row at a time, a group: 1 float32, 2 bfloat16 or 4 uint8 numbers. Weights are packed as
// [out_size / 32, groups, 32, group], so that two vectors hold one group of 32 outputs. The result of a row does not
// depend on the other rows or on the number of threads, to the last bit.

#include "vectors.h"

constexpr int PANEL = 32;   // outputs of one panel of packed weights
constexpr int TILE = 12;    // rows whose sums stay in registers
constexpr int CHUNK = 192;  // tokens whose intermediate results stay in the L2 cache
constexpr int FEW = 24;     // rows per thread below which threads share the columns instead of the rows

// native.py fills these structures as rows of 64-bit integers.
struct Product {
  const char* weights;
  const float* bias;   // [out_size]
  const float* scale;  // int8: [out_size], of the sums
  const float* by;     // int8: [in_size], x * by + start is the number of x
  const float* start;
  int64_t in_size, out_size;
};
struct Norm {
  const float *weight, *bias;
};
struct Layer {
  Product qkv, out, up, down;
  Norm attention_norm, ffn_norm;
};
struct Encoder {
  const Layer* layers;  // one for each time that a layer is applied
  int64_t num_layers, act, num_heads, head_dim;
  float eps, scale;  // of the norms; of the scores
};

static inline V reciprocal(V x) {
  V r = _mm512_rcp14_ps(x);
  return _mm512_mul_ps(r, _mm512_fnmadd_ps(x, r, set(2.0f)));
}

// x Phi(x), by the error function of Abramowitz and Stegun (7.1.28), absolute error 7e-7. The sixteenth power is finite up
// to the limit, beyond which the result is x or 0.
static inline V gelu(V x) {
  V z = _mm512_min_ps(set(6.0f), _mm512_mul_ps(_mm512_abs_ps(x), set(0.70710678f)));
  V p = set(0.0000430638f);
  for (float c : {0.0002765672f, 0.0001520143f, 0.0092705272f, 0.0422820123f, 0.0705230784f, 1.0f})
    p = _mm512_fmadd_ps(p, z, set(c));
  for (int i = 0; i < 4; i++) p = _mm512_mul_ps(p, p);
  V tail = _mm512_mul_ps(reciprocal(p), set(0.5f));  // 1 - Phi(|x|)
  return _mm512_fnmadd_ps(_mm512_abs_ps(x), tail, _mm512_max_ps(x, _mm512_setzero_ps()));
}

static inline V gelu_tanh(V x) {
  V inner = _mm512_mul_ps(x, _mm512_fmadd_ps(_mm512_mul_ps(x, x), set(0.0713548163f), set(1.59576912f)));
  V e = exponential(_mm512_sub_ps(_mm512_setzero_ps(), _mm512_abs_ps(inner)));
  V r = _mm512_mul_ps(_mm512_abs_ps(x), _mm512_mul_ps(e, reciprocal(_mm512_add_ps(e, set(1.0f)))));
  return _mm512_sub_ps(_mm512_max_ps(x, _mm512_setzero_ps()), r);
}

enum Precision { FLOAT32, BFLOAT16, INT8 };
enum Act { NONE, GELU, GELU_NEW, RELU };

static inline V activate(V x, int act) {
  switch (act) {
    case GELU: return gelu(x);
    case GELU_NEW: return gelu_tanh(x);
    case RELU: return _mm512_max_ps(x, _mm512_setzero_ps());
    default: return x;
  }
}

// -- Numbers of one precision: how they are multiplied, and how 16 float32 numbers are stored as input of a product --

struct F32 {
  using Sum = __m512;
  static constexpr int SIZE = 4;
  static Sum zero() { return _mm512_setzero_ps(); }
  static void add(Sum& sum, int group, __m512i w) {
    asm("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(_mm512_set1_epi32(group)), "v"(w));
  }
  static V value(Sum sum, const Product& p, int column) {
    return _mm512_add_ps(sum, _mm512_loadu_ps(p.bias + column));
  }
  static void store(char* to, V x, const Product&, int) { _mm512_storeu_ps(to, x); }
};

struct BF16 : F32 {
  static constexpr int SIZE = 2;
  static void add(Sum& sum, int group, __m512i w) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(_mm512_set1_epi32(group)), "v"(w));
  }
  static void store(char* to, V x, const Product&, int) {
    _mm256_storeu_si256((__m256i*)to, (__m256i)_mm512_cvtneps_pbh(x));
  }
};

struct Int8 {
  typedef int Sum __attribute__((vector_size(64)));
  static constexpr int SIZE = 1;
  static Sum zero() { return Sum{}; }
  static void add(Sum& sum, int group, __m512i w) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(_mm512_set1_epi32(group)), "v"(w));
  }
  static V value(Sum sum, const Product& p, int column) {
    V scale = _mm512_loadu_ps(p.scale + column), bias = _mm512_loadu_ps(p.bias + column);
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps((__m512i)sum), scale, bias);
  }
  static void store(char* to, V x, const Product& p, int column) {
    V y = _mm512_fmadd_ps(x, _mm512_loadu_ps(p.by + column), _mm512_loadu_ps(p.start + column));
    __m512i n = _mm512_cvtps_epi32(_mm512_max_ps(y, _mm512_setzero_ps()));
    _mm_storeu_si128((__m128i*)to, _mm512_cvtusepi32_epi8(n));
  }
};

// -- Matrix products -------------------------------------------------------------------------------------------------

// Sums of ROWS rows of x with one panel: [ROWS, 2] vectors. Meanwhile the weights from `next` on are fetched into the
// L2 cache, `step` bytes for each group.
template <class P, int ROWS>
__attribute__((noinline)) static void tile(const char* x, int64_t stride, const char* w, int64_t groups,
                                           const char* next, int64_t step, typename P::Sum* to) {
  typename P::Sum sums[ROWS][2];
#pragma GCC unroll 16
  for (int i = 0; i < ROWS; i++) sums[i][0] = sums[i][1] = P::zero();
  const char* rows[(ROWS + 2) / 3];  // of every third row: the others are one or two strides further
#pragma GCC unroll 16
  for (int i = 0; i < ROWS; i += 3) rows[i / 3] = x + i * stride;
  for (const char* end = w + groups * 128; w < end; w += 128, next += step) {
    _mm_prefetch(next, _MM_HINT_T1);
    _mm_prefetch(w + 1024, _MM_HINT_T0);
    _mm_prefetch(w + 1088, _MM_HINT_T0);
    __m512i first = _mm512_load_si512(w), second = _mm512_load_si512(w + 64);
#pragma GCC unroll 16
    for (int i = 0; i < ROWS; i++) {
      int group;
      memcpy(&group, rows[i / 3] + i % 3 * stride, 4);
      P::add(sums[i][0], group, first);
      P::add(sums[i][1], group, second);
    }
#pragma GCC unroll 16
    for (int i = 0; i < ROWS; i += 3) rows[i / 3] += 4;
  }
#pragma GCC unroll 16
  for (int i = 0; i < ROWS; i++) to[2 * i] = sums[i][0], to[2 * i + 1] = sums[i][1];
}

template <class P, int ROWS = TILE>
static inline void some_rows(int rows, const char* x, int64_t stride, const char* w, int64_t groups,
                             const char* next, int64_t step, typename P::Sum* to) {
  if constexpr (ROWS > 0) {
    if (rows == ROWS)
      tile<P, ROWS>(x, stride, w, groups, next, step, to);
    else
      some_rows<P, ROWS - 1>(rows, x, stride, w, groups, next, step, to);
  }
}

// Multiply `rows` rows of x with the panels [begin, end) and pass every 16 sums to store(row, column, sums).
template <class P, class Store>
static void multiply(const char* x, int rows, const Product& p, int begin, int end, Store store) {
  int64_t stride = p.in_size * P::SIZE, groups = stride / 4;
  int64_t tiles = (rows + TILE - 1) / TILE;
  // Each tile fetches a part of the next panel, which comes from memory: at most a cache line for each group.
  int64_t step = std::min<int64_t>(64, (128 + tiles - 1) / tiles);
  typename P::Sum sums[2 * TILE];
  for (int panel = begin; panel < end; panel++) {
    const char* w = p.weights + panel * groups * 128;
    for (int64_t t = 0; t < tiles; t++) {
      int first = rows * t / tiles, last = rows * (t + 1) / tiles;
      const char* next = w + groups * (128 + step * t);
      some_rows<P>(last - first, x + first * stride, stride, w, groups, next, step, sums);
      for (int row = first; row < last; row++)
        for (int half = 0; half < 2; half++)
          store(row, panel * PANEL + 16 * half, sums[2 * (row - first) + half]);
    }
  }
}

// -- Attention -------------------------------------------------------------------------------------------------------

// Attention of one head of one sequence. qkv: of its first token and head, [length, 3, hidden]; scratch: floats
// [head_dim + QUERIES, width].
template <int VECTORS, class Store>
static void attend(const float* qkv, int64_t hidden, int length, float scale, float* scratch, Store store) {
  constexpr int HEAD_DIM = 16 * VECTORS;
  int64_t stride = 3 * hidden;
  int width = (length + 15) / 16 * 16;
  transposed<HEAD_DIM>(qkv + hidden, stride, length, scratch, width);
  float *scores = scratch + (int64_t)HEAD_DIM * width, context[QUERIES * HEAD_DIM];
  int64_t tiles = (length + QUERIES - 1) / QUERIES;
  for (int64_t t = 0; t < tiles; t++) {
    int first = length * t / tiles, rows = length * (t + 1) / tiles - first;
    const float* query = qkv + first * stride;
    scores_of(rows, query, stride, scratch, width, HEAD_DIM, scores);
    float factors[QUERIES], high;
    for (int i = 0; i < rows; i++) factors[i] = 1.0f / softmax(scores + i * width, length, width, scale, high);
    few_rows<VECTORS>(rows, scores, width, qkv + 2 * hidden, stride, length, context, HEAD_DIM);
    for (int i = 0; i < rows; i++)
      for (int d = 0; d < HEAD_DIM; d += 16)
        store(first + i, d, _mm512_mul_ps(_mm512_loadu_ps(context + i * HEAD_DIM + d), set(factors[i])));
  }
}

// -- Layers ----------------------------------------------------------------------------------------------------------

// The threads that compute one part of the batch together: this one's number, and how many.
struct Team {
  int rank, size;
  void wait() const {
    if (size > 1) {
#pragma omp barrier
    }
  }
  // This thread's share of n: its begin and end.
  std::pair<int, int> share(int64_t n) const { return {n * rank / size, n * (rank + 1) / size}; }
};

template <class P>
struct Buffers {  // [tokens, ...] of one part of the batch
  float *qkv, *sums;
  char *input, *context, *inner;
  static size_t bytes(int64_t tokens, int64_t hidden, int64_t inner) {
    return 64 * 5 + (tokens * (16 * hidden + P::SIZE * (2 * hidden + inner)) + 63) / 64 * 64;
  }
  Buffers(char* memory, int64_t tokens, int64_t hidden, int64_t inner_size) {
    auto take = [&](int64_t bytes) {
      char* start = memory;
      memory += (bytes + 63) / 64 * 64;
      return start;
    };
    qkv = (float*)take(tokens * 12 * hidden);
    sums = (float*)take(tokens * 4 * hidden);
    input = take(tokens * hidden * P::SIZE);
    context = take(tokens * hidden * P::SIZE);
    inner = take(tokens * inner_size * P::SIZE);
  }
};

// Convert rows of x to the input of a product.
template <class P>
static void quantize(const float* x, int rows, const Product& p, char* to) {
  for (int64_t i = 0; i < rows * p.in_size; i += 16)
    P::store(to + i * P::SIZE, _mm512_loadu_ps(x + i), p, i % p.in_size);
}

// Layer norm of rows: to `hidden` and, converted for the product `next`, to `input`.
template <class P>
static void normalize(const float* x, int rows, int64_t size, const Norm& norm, float eps, float* hidden,
                      const Product* next, char* input) {
  for (int r = 0; r < rows; r++, x += size, hidden += size) {
    const Moments m = moments(x, size, eps);
    const V mean = set(m.mean), by = set(m.by);
    for (int64_t k = 0; k < size; k += 16) {
      V d = _mm512_mul_ps(_mm512_sub_ps(_mm512_loadu_ps(x + k), mean), by);
      V y = _mm512_fmadd_ps(d, _mm512_loadu_ps(norm.weight + k), _mm512_loadu_ps(norm.bias + k));
      _mm512_storeu_ps(hidden + k, y);
      if (P::SIZE < 4 && next != nullptr) P::store(input + (r * size + k) * P::SIZE, y, *next, k);
    }
  }
}

template <class P>
struct Pass {
  const Encoder& e;
  Team team;
  float* hidden;  // [tokens, hidden] of this part
  int tokens;
  Buffers<P> b;
  float* scratch;  // of attention

  const char* input(int64_t row, const Product& p) const {
    return P::SIZE == 4 ? (const char*)(hidden + row * p.in_size) : b.input + row * p.in_size * P::SIZE;
  }

  // Sums of rows [first, last) and this thread's columns, plus residual.
  void plus_residual(const char* x, const Product& p, int first, int last, int begin, int end) const {
    int64_t size = p.out_size;
    multiply<P>(x + first * p.in_size * P::SIZE, last - first, p, begin, end, [&](int row, int column, auto sum) {
      int64_t i = (first + row) * size + column;
      _mm512_storeu_ps(b.sums + i, _mm512_add_ps(P::value(sum, p, column), _mm512_loadu_ps(hidden + i)));
    });
  }

  void attention(const Layer& layer, const std::vector<Sequence>& sequences, int from, int to) const {
    int64_t size = layer.out.in_size;
    int tasks = (to - from) * (int)e.num_heads;
    auto [begin, end] = team.share(tasks);
    for (int task = begin; task < end; task++) {
      const Sequence& one = sequences[from + task / e.num_heads];
      int64_t start = one.start - sequences[from].start, column = task % e.num_heads * e.head_dim;
      const float* qkv = b.qkv + start * 3 * size + column;
      auto store = [&](int row, int offset, V x) {
        P::store(b.context + ((start + row) * size + column + offset) * P::SIZE, x, layer.out, column + offset);
      };
      switch (e.head_dim / 16) {
        case 1: attend<1>(qkv, size, one.length, e.scale, scratch, store); break;
        case 2: attend<2>(qkv, size, one.length, e.scale, scratch, store); break;
        case 3: attend<3>(qkv, size, one.length, e.scale, scratch, store); break;
        case 4: attend<4>(qkv, size, one.length, e.scale, scratch, store); break;
      }
    }
  }

  void run(const std::vector<Sequence>& sequences, int from, int to, float* states, int64_t state_stride) const {
    const int64_t size = e.layers[0].out.out_size, inner_size = e.layers[0].up.out_size;
    const bool by_columns = tokens < FEW * team.size && team.size > 1;
    auto [own0, own1] = team.share(tokens);
    const int r0 = by_columns ? 0 : own0, r1 = by_columns ? tokens : own1;
    auto columns = [&](const Product& p) {
      int panels = p.out_size / PANEL;
      return by_columns ? team.share(panels) : std::pair<int, int>{0, panels};
    };
    auto wait = [&] {
      if (by_columns) team.wait();
    };
    if (P::SIZE < 4) {
      quantize<P>(hidden + own0 * size, own1 - own0, e.layers[0].qkv, b.input + own0 * size * P::SIZE);
      wait();
    }
    for (int64_t l = 0; l < e.num_layers; l++) {
      const Layer& layer = e.layers[l];
      auto [q0, q1] = columns(layer.qkv);
      auto [o0, o1] = columns(layer.out);
      auto [u0, u1] = columns(layer.up);
      multiply<P>(input(r0, layer.qkv), r1 - r0, layer.qkv, q0, q1, [&](int row, int column, auto sum) {
        _mm512_storeu_ps(b.qkv + (r0 + row) * 3 * size + column, P::value(sum, layer.qkv, column));
      });
      team.wait();
      attention(layer, sequences, from, to);
      team.wait();
      plus_residual(b.context, layer.out, r0, r1, o0, o1);
      wait();
      normalize<P>(b.sums + own0 * size, own1 - own0, size, layer.attention_norm, e.eps, hidden + own0 * size,
                   &layer.up, b.input + own0 * size * P::SIZE);
      wait();
      for (int first = r0; first < r1; first += CHUNK) {
        int last = std::min(first + CHUNK, r1);
        multiply<P>(input(first, layer.up), last - first, layer.up, u0, u1, [&](int row, int column, auto sum) {
          V x = activate(P::value(sum, layer.up, column), e.act);
          P::store(b.inner + ((first + row) * inner_size + column) * P::SIZE, x, layer.down, column);
        });
        wait();
        plus_residual(b.inner, layer.down, first, last, o0, o1);
      }
      wait();
      const Product* next = l + 1 < e.num_layers ? &e.layers[l + 1].qkv : nullptr;
      normalize<P>(b.sums + own0 * size, own1 - own0, size, layer.ffn_norm, e.eps, hidden + own0 * size, next,
                   b.input + own0 * size * P::SIZE);
      if (states != nullptr)
        memcpy(states + l * state_stride + own0 * size, hidden + own0 * size, (own1 - own0) * size * 4);
      wait();
    }
  }
};

// Encode all sequences; returns whether there was enough memory. Each thread takes the next sequences, CHUNK tokens or
// one sequence, through all layers by itself. If there are too few for that, all threads share each product.
template <class P>
static bool encode_all(const Encoder& e, float* hidden, const std::vector<Sequence>& sequences, int tokens,
                       float* states, int threads) {
  const int64_t size = e.layers[0].out.out_size, inner = e.layers[0].up.out_size;
  if (tokens < FEW * threads) threads = std::min<int>(threads, size / PANEL);  // each has columns
  int longest = 0;
  std::vector<int> chunks{0};  // index of the first sequence of each chunk, and the number of sequences
  for (size_t i = 0, filled = 0; i < sequences.size(); i++) {
    longest = std::max(longest, sequences[i].length);
    filled += sequences[i].length;
    if (filled >= CHUNK || i + 1 == sequences.size()) chunks.push_back(i + 1), filled = 0;
  }
  const int count = chunks.size() - 1;
  const bool together = threads > 1 && count < 4 * threads;
  const size_t scratch_bytes = sizeof(float) * (e.head_dim + QUERIES) * ((longest + 15) / 16 * 16);
  static thread_local Memory whole;
  char* shared = together ? whole.get(Buffers<P>::bytes(tokens, size, inner)) : nullptr;
  std::atomic<bool> enough{!together || shared != nullptr};
#pragma omp parallel num_threads(threads)
  {
    static thread_local Memory own;
    if (together) {
      float* scratch = (float*)own.get(scratch_bytes);
      if (scratch == nullptr) enough = false;
#pragma omp barrier
      if (enough) {
        Team team{omp_get_thread_num(), omp_get_num_threads()};
        Pass<P>{e, team, hidden, tokens, Buffers<P>(shared, tokens, size, inner), scratch}.run(
            sequences, 0, sequences.size(), states, tokens * size);
      }
    } else {
#pragma omp for schedule(dynamic, 1)
      for (int c = 0; c < count; c++) {
        const int64_t first = sequences[chunks[c]].start;
        const int part = (c + 1 < count ? sequences[chunks[c + 1]].start : tokens) - first;
        const size_t bytes = Buffers<P>::bytes(part, size, inner);
        char* memory = own.get(bytes + scratch_bytes);
        if (memory == nullptr) {
          enough = false;
          continue;
        }
        Buffers<P> buffers(memory, part, size, inner);
        Pass<P>{e, Team{0, 1}, hidden + first * size, part, buffers, (float*)(memory + bytes)}.run(
            sequences, chunks[c], chunks[c + 1], states ? states + first * size : nullptr, tokens * size);
      }
    }
    own.shrink();
  }
  whole.shrink();
  return enough;
}

// Apply all layers to hidden: float32 [tokens, hidden], in place; returns whether there was enough memory.
// runs: count and length of each run of sequences of equal length, in order; states: null, or the results of all
// layers, float32 [layers, tokens, hidden]; eps: of the norms; scale: of the scores.
extern "C" bool encode(const Layer* layers, int64_t num_layers, int64_t precision, int64_t act, int64_t num_heads,
                       int64_t head_dim, float eps, float scale, float* hidden, const int64_t* runs, int64_t num_runs,
                       float* states, int64_t threads) {
  const Encoder encoder{layers, num_layers, act, num_heads, head_dim, eps, scale};
  const std::vector<Sequence> sequences = sequences_of(runs, num_runs);
  const int tokens = sequences.empty() ? 0 : sequences.back().start + sequences.back().length;
  switch (precision) {
    case BFLOAT16: return encode_all<BF16>(encoder, hidden, sequences, tokens, states, threads);
    case INT8: return encode_all<Int8>(encoder, hidden, sequences, tokens, states, threads);
    default: return encode_all<F32>(encoder, hidden, sequences, tokens, states, threads);
  }
}
