/* A Transformer that decodes: "Attention Is All You Need" (Vaswani et al. 2017) and its descendants, in one file.

   It runs what the package trains: the encoder-decoder of the paper, GPT (learned or rotary positions, grouped heads,
   SwiGLU, RMS norms) and BERT. It needs nothing but the C library and threads. The order is that of reading:

     1  Kinds and sizes       what a model is made of, and how its numbers lie in memory
     2  Kernels               the arithmetic of single rows; compiled once for each instruction set
     3  Instruction sets      which of them this processor runs
     4  Threads               a team that works on one step together
     5  The model             weights are quantized and packed
     6  The cache             keys and values; hypotheses that share a past share its memory
     7  A forward pass        embedding, layers, logits
     8  Search                greedy and beam search over many sentences, with refill
     9  What Python calls

   Two rules hold everywhere.
   **A row never depends on its neighbors.** All sums over a row run in one fixed order, whatever else is in the batch
   and however many threads there are, so that a sentence gets the same bits alone and among others.
   **Every instruction set gives the same bits.** Integer sums are exact; sums of floats keep sixteen partial sums, lane
   i of which adds the elements i, i + 16, i + 32, …, on any processor. Only products of 32-bit weights differ between
   sets, by whether multiplication and addition are fused.

   Letters in comments: N tokens or rows at once, E model width, H heads, G heads of keys and values, D head width,
   F feed-forward width, V vocabulary, S keys attended to. */

#ifndef KERNEL

#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* madvise */
#endif
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>
#endif

#define EXPORT __attribute__((visibility("default")))
#define INLINE static inline __attribute__((always_inline))

/* ------------------------------------------------------------------------------------------------------------------
   1  Kinds and sizes
   ------------------------------------------------------------------------------------------------------------------ */

enum { RELU, GELU, GELU_TANH, SILU, SWIGLU };
enum { NO_POSITIONS, SINUSOIDAL, SINUSOIDAL_HALVES, LEARNED, ROPE };

/* The sizes and choices of a model, as Python describes them. */
typedef struct {
    int32_t n_encoder_layers, n_decoder_layers;
    int32_t d_model, n_heads, n_groups, d_head, d_ff;
    int32_t source_vocab_size, target_vocab_size, n_segments;
    int32_t activation, positions, max_length; /* max_length 0: no limit */
    int32_t rms_norm, pre_norm;
    int32_t bits; /* 8: int8 products; 32: products of floats */
    float norm_eps, embedding_scale, rope_amplitude;
} Config;

/* A linear map, its outputs in tiles of 64 (the last one filled up with zeros).

   int8: weights[tile][group of 4 inputs][64 outputs][4 inputs]. A vector register then holds the same 4 inputs of many
   outputs, and 4 bytes of the activations are broadcast to all of them. Each output has its own scale.
   fp32: weights[tile][input][64 outputs]. */
#define TILE 64
typedef struct {
    int n_inputs, n_outputs, n_tiles, n_groups;
    int8_t *bytes;
    float *scales;    /* V: weight = scale * byte */
    int32_t *offsets; /* 128 * sum of the bytes of an output, for kernels whose activations are shifted by 128 */
    float *floats;
    float *bias; /* zeros if there is none */
} Linear;

typedef struct {
    float *weight, *bias; /* padded like rows; NULL: there is no such norm */
} Norm;

typedef struct {
    Linear qkv;        /* self-attention: E -> [H D | G D | G D]; cross-attention: queries only, E -> H D */
    Linear kv;         /* cross-attention: E -> [G D | G D], of the encoder's output */
    Linear output;     /* H D -> E */
    Norm query, key;   /* norms of single heads */
    Norm norm;         /* of the whole sublayer */
} Attention;

typedef struct {
    Attention self, cross;
    Linear up;   /* E -> F, or with a gate E -> [F | F] */
    Linear down; /* F -> E */
    Norm norm;
} Layer;

typedef struct {
    const float *tokens, *positions, *segments; /* tables that the caller keeps alive */
    Norm norm;
} Embedding;

/* Rows of floats are padded to a multiple of 64, so that loops over vectors may run past the end of a row. */
static int padded(int n) { return (n + TILE - 1) / TILE * TILE; }

/* The left factor of a product: N rows of floats, and for int8 the same rows quantized. */
typedef struct {
    const float *floats;
    size_t stride;
    const int8_t *bytes;
    size_t byte_stride;
    const float *scales;
} Operand;

/* The arithmetic, compiled for one instruction set. */
typedef struct {
    const char *name;
    int (*is_supported)(void);
    float (*quantize)(int8_t *bytes, const float *x, int n, int is_weight);
    void (*multiply)(float *out, size_t stride, Operand x, int n_rows, const Linear *w, int from_tile, int to_tile);
    void (*norm)(float *out, const float *x, const Norm *norm, int n, float eps, int is_rms);
    void (*add)(float *x, const float *y, int n);
    void (*activate)(float *x, int n, int kind);
    void (*attend)(float *out, const float *query, const float *const *keys, int n_keys, ptrdiff_t key_offset,
                   ptrdiff_t value_offset, int d_head, float *weights);
    float (*max)(const float *x, int n);
    float (*sum_exp)(const float *x, float max, int n);
    void (*best)(int32_t *ids, float *log_probs, int count, const float *logits, int n, float max, float log_sum);
} Kernels;

#endif /* first reading */

/* ------------------------------------------------------------------------------------------------------------------
   2  Kernels

   This part is read once for each instruction set: the file includes itself (section 3), with KERNEL as the suffix of
   all names and LANES as the number of floats in a register. FUSED says that multiply-add is one instruction;
   DOT_VNNI, DOT_SIGN_512, DOT_SIGN_256 and DOT_NEON choose the product of four bytes.
   ------------------------------------------------------------------------------------------------------------------ */

#ifdef KERNEL

#define PASTE2(name, suffix) name##_##suffix
#define PASTE(name, suffix) PASTE2(name, suffix)
#define OWN(name) PASTE(name, KERNEL)
#define vf OWN(vf)
#define vi OWN(vi)
#define vf_memory OWN(vf_memory)
#define vi_memory OWN(vi_memory)
#define load OWN(load)
#define store OWN(store)
#define splat OWN(splat)
#define choose OWN(choose)
#define multiply_add OWN(multiply_add)
#define add_lanes OWN(add_lanes)
#define dot OWN(dot)
#define dot_keys OWN(dot_keys)
#define mix_values OWN(mix_values)
#define lower OWN(lower)
#define upper OWN(upper)
#define max_lanes OWN(max_lanes)
#define max_lanes_int OWN(max_lanes_int)
#define sum_squares OWN(sum_squares)
#define sum OWN(sum)
#define exp_vector OWN(exp_vector)
#define quantize_row OWN(quantize_row)
#define broadcast_bytes OWN(broadcast_bytes)
#define dot4 OWN(dot4)
#define tile_int8 OWN(tile_int8)
#define tile_fp32 OWN(tile_fp32)
#define multiply_rows OWN(multiply_rows)
#define norm_row OWN(norm_row)
#define add_row OWN(add_row)
#define activate_vector OWN(activate_vector)
#define activate_row OWN(activate_row)
#define attend_head OWN(attend_head)
#define softmax_row OWN(softmax_row)
#define sum_exp_row OWN(sum_exp_row)
#define max_row OWN(max_row)
#define best_of_row OWN(best_of_row)
#define kernels OWN(kernels)

#define PARTS (16 / LANES) /* registers that hold the sixteen partial sums */

typedef float vf __attribute__((vector_size(4 * LANES)));
typedef int32_t vi __attribute__((vector_size(4 * LANES)));
typedef float vf_memory __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t vi_memory __attribute__((vector_size(4 * LANES), aligned(1), may_alias));

INLINE vf load(const float *x) { return *(const vf_memory *)x; }
INLINE void store(float *x, vf value) { *(vf_memory *)x = value; }
INLINE vf choose(vi condition, vf yes, vf no) { return (vf)((condition & (vi)yes) | (~condition & (vi)no)); }

INLINE vf splat(float x)
{
#if LANES == 16
    return (vf){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
#elif LANES == 8
    return (vf){x, x, x, x, x, x, x, x};
#else
    return (vf){x, x, x, x};
#endif
}

/* The smaller or larger of both; x if that is NaN. */
INLINE vf lower(vf bound, vf x)
{
#if LANES == 16
    return (vf)_mm512_min_ps((__m512)bound, (__m512)x);
#elif LANES == 8
    return (vf)_mm256_min_ps((__m256)bound, (__m256)x);
#else
    return choose(bound < x, bound, x);
#endif
}

INLINE vf upper(vf bound, vf x)
{
#if LANES == 16
    return (vf)_mm512_max_ps((__m512)bound, (__m512)x);
#elif LANES == 8
    return (vf)_mm256_max_ps((__m256)bound, (__m256)x);
#else
    return choose(bound > x, bound, x);
#endif
}

/* a b + c, for products of weights only. */
INLINE vf multiply_add(vf a, vf b, vf c)
{
#if defined(FUSED) && LANES == 16
    return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(FUSED)
    return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}

/* The sum of sixteen lanes: i + (i + 8), then + 4, + 2, + 1. */
INLINE float add_lanes(const vf *lanes)
{
#if LANES == 16
    __m512 all = (__m512)lanes[0];
    __m256 high = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(all), 1));
    __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(all), high);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
#elif LANES == 8
    __m256 eight = (__m256)(lanes[0] + lanes[1]);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
#else
    vf four = (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
#endif
#if LANES > 4
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
#else
    return (four[0] + four[2]) + (four[1] + four[3]);
#endif
}

INLINE float max_lanes(vf lanes)
{
#if LANES == 16
    return _mm512_reduce_max_ps((__m512)lanes);
#else
    float max = lanes[0];
    for (int lane = 1; lane < LANES; lane++)
        max = lanes[lane] > max ? lanes[lane] : max;
    return max;
#endif
}

INLINE int32_t max_lanes_int(vi lanes)
{
#if LANES == 16
    return _mm512_reduce_max_epi32((__m512i)lanes);
#else
    int32_t max = lanes[0];
    for (int lane = 1; lane < LANES; lane++)
        max = lanes[lane] > max ? lanes[lane] : max;
    return max;
#endif
}

/* Run `whole` for all vectors of n elements, `at` being where each begins and `part` its place among the partial sums,
   then `rest` for what is left: there it is copied into one more set of sixteen, filled up with zeros, which change no sum. */
#define FOR_LANES(n, i, whole, rest)                                                                                   \
    do {                                                                                                               \
        int i = 0;                                                                                                     \
        for (; i + 16 <= (n); i += 16)                                                                                 \
            for (int part = 0; part < PARTS; part++) {                                                                 \
                const int at = i + part * LANES;                                                                       \
                whole;                                                                                                 \
            }                                                                                                          \
        if (i < (n)) {                                                                                                 \
            rest;                                                                                                      \
        }                                                                                                              \
    } while (0)

static float sum(const float *x, int n)
{
    vf lanes[PARTS] = {{0}};
    FOR_LANES(n, i, lanes[part] += load(x + at), {
        float last[16] = {0};
        memcpy(last, x + i, (size_t)(n - i) * sizeof(float));
        for (int part = 0; part < PARTS; part++)
            lanes[part] += load(last + part * LANES);
    });
    return add_lanes(lanes);
}

/* The sum of (x - center) squared. */
static float sum_squares(const float *x, float center, int n)
{
    vf lanes[PARTS] = {{0}}, middle = splat(center);
    FOR_LANES(
        n, i,
        {
            vf difference = load(x + at) - middle;
            lanes[part] += difference * difference;
        },
        {
            float last[16] = {0};
            for (int j = 0; j < n - i; j++)
                last[j] = (x[i + j] - center) * (x[i + j] - center);
            for (int part = 0; part < PARTS; part++)
                lanes[part] += load(last + part * LANES);
        });
    return add_lanes(lanes);
}

INLINE float dot(const float *x, const float *y, int n)
{
    vf lanes[PARTS] = {{0}};
    FOR_LANES(n, i, lanes[part] += load(x + at) * load(y + at), {
        float last[16] = {0};
        for (int j = 0; j < n - i; j++)
            last[j] = x[i + j] * y[i + j];
        for (int part = 0; part < PARTS; part++)
            lanes[part] += load(last + part * LANES);
    });
    return add_lanes(lanes);
}

/* Adding this number leaves the nearest whole number in the lowest bits of a float. */
#define ROUNDER 12582912.0f /* 1.5 * 2^23 */

/* e^x, to the last bit or two: x = n log 2 + r, a polynomial for e^r (Cephes), and n added to the exponent.
   NaN stays NaN; beyond what a float can hold, the result is the smallest or about the largest one. */
INLINE vf exp_vector(vf x)
{
    x = lower(splat(88.0f), upper(splat(-87.3f), x));
    vf shifted = x * splat(1.44269504088896341f) + splat(ROUNDER);
    vi n = (vi)shifted - (vi)splat(ROUNDER);
    vf whole = shifted - splat(ROUNDER);
    vf r = x - whole * splat(0.693359375f) - whole * splat(-2.12194440e-4f);
    vf p = splat(1.9875691500e-4f);
    p = p * r + splat(1.3981999507e-3f);
    p = p * r + splat(8.3334519073e-3f);
    p = p * r + splat(4.1665795894e-2f);
    p = p * r + splat(1.6666665459e-1f);
    p = p * r + splat(5.0000001201e-1f);
    p = p * (r * r) + r + splat(1.0f);
    return (vf)((vi)p + (n << 23));
}

/* --- Quantization and products ------------------------------------------------------------------------------------ */

#if defined(DOT_VNNI)
#define SHIFT 0x80 /* activations are stored as x + 128, since the instruction wants them unsigned */
#else
#define SHIFT 0
#endif

/* Quantize a row symmetrically to -127 ... 127 and return its scale; a row with NaN or infinity gets such a scale. */
static float quantize_row(int8_t *bytes, const float *x, int n, int is_weight)
{
    /* The largest absolute value, compared as integers: among positive floats the order is the same, and NaN, which
       would be lost in a comparison of floats, is the largest of all. */
    vi largest[PARTS] = {{0}}, magnitude = (vi)splat(0.0f) + 0x7fffffff;
    FOR_LANES(
        n, i,
        {
            vi value = (vi)load(x + at) & magnitude;
            vi is_larger = value > largest[part];
            largest[part] = (value & is_larger) | (largest[part] & ~is_larger);
        },
        {
            float last[16] = {0};
            memcpy(last, x + i, (size_t)(n - i) * sizeof(float));
            for (int part = 0; part < PARTS; part++) {
                vi value = (vi)load(last + part * LANES) & magnitude;
                vi is_larger = value > largest[part];
                largest[part] = (value & is_larger) | (largest[part] & ~is_larger);
            }
        });
    for (int part = 1; part < PARTS; part++) {
        vi is_larger = largest[part] > largest[0];
        largest[0] = (largest[part] & is_larger) | (largest[0] & ~is_larger);
    }
    const int32_t most = max_lanes_int(largest[0]);
    float max;
    memcpy(&max, &most, sizeof max);
    const float factor = max > 0.0f ? 127.0f / max : 0.0f;
    const int32_t shift = is_weight ? 0 : SHIFT;
    const int whole = (n + 3) / 4 * 4; /* what fills up the last group of four meets weights of zero */
    for (int i = 0; i < whole; i++) {
        float rounded = x[i] * factor + ROUNDER;
        int32_t bits;
        memcpy(&bits, &rounded, sizeof bits);
        bytes[i] = (int8_t)(bits ^ shift);
    }
    return max / 127.0f;
}

INLINE vi broadcast_bytes(const int8_t *four)
{
    int32_t word;
    memcpy(&word, four, sizeof word);
#if LANES == 16
    return (vi)_mm512_set1_epi32(word);
#elif LANES == 8
    return (vi)_mm256_set1_epi32(word);
#else
    return (vi){word, word, word, word};
#endif
}

/* Add to each lane the product of four weights with four activations, which are the same for all lanes.

   `maddubs` multiplies unsigned by signed bytes and adds two products in 16 bits, saturating beyond 32,767. With the
   activation's sign moved to the weight both factors are at most 127, and 2 * 127 * 127 = 32,258 always fits. */
INLINE vi dot4(vi total, vi x, vi w)
{
#if defined(DOT_VNNI) && LANES == 16
    return (vi)_mm512_dpbusd_epi32((__m512i)total, (__m512i)x, (__m512i)w);
#elif defined(DOT_VNNI)
    return (vi)_mm256_dpbusd_avx_epi32((__m256i)total, (__m256i)x, (__m256i)w);
#elif defined(DOT_SIGN_512)
    __mmask64 is_negative = _mm512_movepi8_mask((__m512i)x);
    __m512i signed_w = _mm512_mask_sub_epi8((__m512i)w, is_negative, _mm512_setzero_si512(), (__m512i)w);
    __m512i pairs = _mm512_maddubs_epi16(_mm512_abs_epi8((__m512i)x), signed_w);
    return total + (vi)_mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
#elif defined(DOT_SIGN_256)
    __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8((__m256i)x), _mm256_sign_epi8((__m256i)w, (__m256i)x));
    return total + (vi)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#elif defined(DOT_NEON)
    return (vi)vdotq_s32((int32x4_t)total, (int8x16_t)w, (int8x16_t)x);
#else
    int8_t weights[16], four[16];
    memcpy(weights, &w, sizeof weights);
    memcpy(four, &x, sizeof four);
    for (int lane = 0; lane < 4; lane++)
        total[lane] += four[0] * weights[4 * lane] + four[1] * weights[4 * lane + 1] +
                       four[2] * weights[4 * lane + 2] + four[3] * weights[4 * lane + 3];
    return total;
#endif
}

/* Registers of weights times rows that are multiplied at once: each weight that is loaded serves all rows of the block,
   and there are as many sums under way as registers hold. */
#if LANES == 16
#define BLOCK_ROWS 6
#define BLOCK_VECTORS 4
#elif LANES == 8
#define BLOCK_ROWS 3
#define BLOCK_VECTORS 4
#else
#define BLOCK_ROWS 2
#define BLOCK_VECTORS 4
#endif
#define TILE_VECTORS (TILE / LANES)

/* out[row][output] = scale[row] scale[output] sum of bytes + bias, for a block of rows and some vectors of a tile. */
INLINE void tile_int8(float *out, size_t stride, Operand x, const Linear *w, int tile, int first, const int n_rows,
                      const int n_vectors)
{
    const int8_t *weights = w->bytes + (size_t)tile * w->n_groups * TILE * 4 + first * LANES * 4;
    const int column = tile * TILE + first * LANES;
    vi totals[BLOCK_ROWS][TILE_VECTORS];
#pragma GCC unroll 8
    for (int v = 0; v < n_vectors; v++)
#pragma GCC unroll 8
        for (int row = 0; row < n_rows; row++)
#if SHIFT
            totals[row][v] = -*(const vi_memory *)(w->offsets + column + v * LANES);
#else
            totals[row][v] = (vi){0};
#endif
    for (int group = 0; group < w->n_groups; group++, weights += TILE * 4) {
        vi four[BLOCK_ROWS];
#pragma GCC unroll 8
        for (int row = 0; row < n_rows; row++)
            four[row] = broadcast_bytes(x.bytes + row * x.byte_stride + 4 * group);
#pragma GCC unroll 8
        for (int v = 0; v < n_vectors; v++) {
            vi own = *(const vi_memory *)(weights + v * LANES * 4);
#pragma GCC unroll 8
            for (int row = 0; row < n_rows; row++)
                totals[row][v] = dot4(totals[row][v], four[row], own);
        }
    }
#pragma GCC unroll 8
    for (int row = 0; row < n_rows; row++)
#pragma GCC unroll 8
        for (int v = 0; v < n_vectors; v++) {
            vf scale = load(w->scales + column + v * LANES) * splat(x.scales[row]);
            vf whole = __builtin_convertvector(totals[row][v], vf);
            store(out + row * stride + column + v * LANES, whole * scale + load(w->bias + column + v * LANES));
        }
}

/* The same for floats: every output adds its products in the order of the inputs, whatever the block. */
INLINE void tile_fp32(float *out, size_t stride, Operand x, const Linear *w, int tile, int first, const int n_rows,
                      const int n_vectors)
{
    const float *weights = w->floats + (size_t)tile * w->n_inputs * TILE + first * LANES;
    const int column = tile * TILE + first * LANES;
    vf totals[BLOCK_ROWS][TILE_VECTORS];
#pragma GCC unroll 8
    for (int row = 0; row < n_rows; row++)
#pragma GCC unroll 8
        for (int v = 0; v < n_vectors; v++)
            totals[row][v] = (vf){0};
    for (int i = 0; i < w->n_inputs; i++, weights += TILE) {
        vf input[BLOCK_ROWS];
#pragma GCC unroll 8
        for (int row = 0; row < n_rows; row++)
            input[row] = splat(x.floats[row * x.stride + i]);
#pragma GCC unroll 8
        for (int v = 0; v < n_vectors; v++) {
            vf own = load(weights + v * LANES);
#pragma GCC unroll 8
            for (int row = 0; row < n_rows; row++)
                totals[row][v] = multiply_add(input[row], own, totals[row][v]);
        }
    }
#pragma GCC unroll 8
    for (int row = 0; row < n_rows; row++)
#pragma GCC unroll 8
        for (int v = 0; v < n_vectors; v++) {
            const int at = column + v * LANES;
            store(out + row * stride + at, totals[row][v] + load(w->bias + at));
        }
}

/* Multiply rows with the outputs of some tiles. One row takes a whole tile at a time; more rows take it in blocks. */
static void multiply_rows(float *out, size_t stride, Operand x, int n_rows, const Linear *w, int from_tile, int to_tile)
{
    for (int tile = from_tile; tile < to_tile; tile++) {
        Operand rest = x;
        float *at = out;
        for (int left = n_rows; left > 0;) {
            int taken = left < BLOCK_ROWS ? left : BLOCK_ROWS;
            if (taken == 1) {
                if (w->bytes)
                    tile_int8(at, stride, rest, w, tile, 0, 1, TILE_VECTORS);
                else
                    tile_fp32(at, stride, rest, w, tile, 0, 1, TILE_VECTORS);
            }
#define BLOCK(rows)                                                                                                    \
    if (taken == rows && rows <= BLOCK_ROWS)                                                                           \
        for (int first = 0; first < TILE_VECTORS; first += BLOCK_VECTORS) {                                            \
            if (w->bytes)                                                                                              \
                tile_int8(at, stride, rest, w, tile, first, rows <= BLOCK_ROWS ? rows : 1, BLOCK_VECTORS);             \
            else                                                                                                       \
                tile_fp32(at, stride, rest, w, tile, first, rows <= BLOCK_ROWS ? rows : 1, BLOCK_VECTORS);             \
        }
            BLOCK(2) BLOCK(3) BLOCK(4) BLOCK(5) BLOCK(6)
#undef BLOCK
            left -= taken;
            at += taken * stride;
            rest.floats += taken * rest.stride;
            if (w->bytes) {
                rest.bytes += taken * rest.byte_stride;
                rest.scales += taken;
            }
        }
    }
}

/* --- Norms and activations ---------------------------------------------------------------------------------------- */

/* Layer norm (Ba et al. 2016), or RMS norm (Zhang & Sennrich 2019), which does not subtract the mean. */
static void norm_row(float *out, const float *x, const Norm *norm, int n, float eps, int is_rms)
{
    const float mean = is_rms ? 0.0f : sum(x, n) / (float)n;
    const vf middle = splat(mean), factor = splat(1.0f / sqrtf(sum_squares(x, mean, n) / (float)n + eps));
    for (int i = 0; i < n; i += LANES)
        store(out + i, (load(x + i) - middle) * factor * load(norm->weight + i) + load(norm->bias + i));
}

static void add_row(float *x, const float *y, int n)
{
    for (int i = 0; i < n; i += LANES)
        store(x + i, load(x + i) + load(y + i));
}

INLINE vf activate_vector(vf x, int kind)
{
    const vf zero = splat(0.0f), one = splat(1.0f);
    if (kind == RELU)
        return upper(zero, x);
    if (kind == GELU) { /* x (1 + erf(x / sqrt 2)) / 2, erf by Abramowitz & Stegun 7.1.26: to 1.5e-7 */
        vf z = x * splat(0.70710678118654752f);
        vf magnitude = choose(z < zero, -z, z);
        vf t = one / (one + splat(0.3275911f) * magnitude);
        vf p = splat(1.061405429f);
        p = p * t + splat(-1.453152027f);
        p = p * t + splat(1.421413741f);
        p = p * t + splat(-0.284496736f);
        p = p * t + splat(0.254829592f);
        vf erf_of_magnitude = one - p * t * exp_vector(-(z * z));
        return splat(0.5f) * x * (one + choose(z < zero, -erf_of_magnitude, erf_of_magnitude));
    }
    if (kind == GELU_TANH) { /* x (1 + tanh u) / 2 = x / (1 + e^-2u) */
        vf u = splat(0.7978845608028654f) * (x + splat(0.044715f) * x * x * x);
        return x / (one + exp_vector(splat(-2.0f) * u));
    }
    return x / (one + exp_vector(-x)); /* SiLU */
}

/* Apply the activation to n numbers; SwiGLU (Shazeer 2020) multiplies them with the n gates that follow. */
static void activate_row(float *x, int n, int kind)
{
    switch (kind) { /* outside the loops, so that each is compiled for one kind */
    case RELU:
        for (int i = 0; i < n; i += LANES)
            store(x + i, activate_vector(load(x + i), RELU));
        break;
    case GELU:
        for (int i = 0; i < n; i += LANES)
            store(x + i, activate_vector(load(x + i), GELU));
        break;
    case GELU_TANH:
        for (int i = 0; i < n; i += LANES)
            store(x + i, activate_vector(load(x + i), GELU_TANH));
        break;
    case SILU:
        for (int i = 0; i < n; i += LANES)
            store(x + i, activate_vector(load(x + i), SILU));
        break;
    default: { /* in order, so that a vector across the boundary overwrites no gate that is still to be read */
        int i = 0;
        for (; i + LANES <= n; i += LANES)
            store(x + i, load(x + i) * activate_vector(load(x + n + i), SILU));
        if (i < n) {
            float rest[LANES];
            store(rest, load(x + i) * activate_vector(load(x + n + i), SILU));
            memcpy(x + i, rest, (size_t)(n - i) * sizeof(float));
        }
    }
    }
}

/* --- Attention ---------------------------------------------------------------------------------------------------- */

static float max_row(const float *x, int n)
{
    float last[16];
    for (int lane = 0; lane < 16; lane++)
        last[lane] = -INFINITY;
    vf lanes[PARTS];
    for (int part = 0; part < PARTS; part++)
        lanes[part] = splat(-INFINITY);
    FOR_LANES(n, i, lanes[part] = upper(load(x + at), lanes[part]), {
        memcpy(last, x + i, (size_t)(n - i) * sizeof(float));
        for (int part = 0; part < PARTS; part++)
            lanes[part] = upper(load(last + part * LANES), lanes[part]);
    });
    for (int part = 1; part < PARTS; part++)
        lanes[0] = upper(lanes[part], lanes[0]);
    return max_lanes(lanes[0]);
}

/* Turn scores into weights that sum to one. */
static void softmax_row(float *x, int n)
{
    const float max = max_row(x, n);
    for (int i = n; i < (n + 15) / 16 * 16; i++)
        x[i] = -INFINITY; /* fills up the last vector: e^-inf counts as nothing, see below */
    vf lanes[PARTS] = {{0}};
    int i = 0;
    for (; i + 16 <= n; i += 16)
        for (int part = 0; part < PARTS; part++) {
            vf value = exp_vector(load(x + i + part * LANES) - splat(max));
            store(x + i + part * LANES, value);
            lanes[part] += value;
        }
    if (i < n) {
        for (int part = 0; part < PARTS; part++)
            store(x + i + part * LANES, exp_vector(load(x + i + part * LANES) - splat(max)));
        memset(x + n, 0, (size_t)(i + 16 - n) * sizeof(float));
        for (int part = 0; part < PARTS; part++)
            lanes[part] += load(x + i + part * LANES);
    }
    const vf factor = splat(1.0f / add_lanes(lanes));
    for (i = 0; i < n; i += LANES)
        store(x + i, load(x + i) * factor);
}

/* The products of a query with the keys of as many positions as a register has lanes. The sums of all of them are
   formed together, in the order of `add_lanes`; d_head is a multiple of 16. */
INLINE vf dot_keys(const float *query, const float *const *keys, ptrdiff_t offset, int d_head)
{
#if LANES == 16
    __m512 totals[16];
#pragma GCC unroll 16
    for (int key = 0; key < 16; key++)
        totals[key] = _mm512_setzero_ps();
    for (int d = 0; d < d_head; d += 16) {
        const __m512 part = _mm512_loadu_ps(query + d);
#pragma GCC unroll 16
        for (int key = 0; key < 16; key++)
            totals[key] = _mm512_add_ps(totals[key], _mm512_mul_ps(part, _mm512_loadu_ps(keys[key] + offset + d)));
    }
    __m512 fours[4]; /* in its quarter j: the four lanes that are left of key 4 j + i */
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        __m512 ab = _mm512_add_ps(_mm512_shuffle_f32x4(totals[i], totals[i + 4], 0x44),
                                  _mm512_shuffle_f32x4(totals[i], totals[i + 4], 0xee));
        __m512 cd = _mm512_add_ps(_mm512_shuffle_f32x4(totals[i + 8], totals[i + 12], 0x44),
                                  _mm512_shuffle_f32x4(totals[i + 8], totals[i + 12], 0xee));
        fours[i] = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
    }
    __m512 twos[2];
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        __m512d first = _mm512_castps_pd(fours[2 * i]), second = _mm512_castps_pd(fours[2 * i + 1]);
        twos[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(first, second)),
                                _mm512_castpd_ps(_mm512_unpackhi_pd(first, second)));
    }
    return (vf)_mm512_add_ps(_mm512_shuffle_ps(twos[0], twos[1], 0x88), _mm512_shuffle_ps(twos[0], twos[1], 0xdd));
#elif LANES == 8
    __m256 totals[8][2];
#pragma GCC unroll 8
    for (int key = 0; key < 8; key++)
        totals[key][0] = totals[key][1] = _mm256_setzero_ps();
    for (int d = 0; d < d_head; d += 16)
#pragma GCC unroll 8
        for (int key = 0; key < 8; key++)
#pragma GCC unroll 2
            for (int half = 0; half < 2; half++) {
                const float *at = keys[key] + offset + d + 8 * half;
                totals[key][half] = _mm256_add_ps(
                    totals[key][half], _mm256_mul_ps(_mm256_loadu_ps(query + d + 8 * half), _mm256_loadu_ps(at)));
            }
    __m256 fours[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        __m256 a = _mm256_add_ps(totals[i][0], totals[i][1]), b = _mm256_add_ps(totals[i + 4][0], totals[i + 4][1]);
        fours[i] = _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
    }
    __m256 twos[2];
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        __m256d first = _mm256_castps_pd(fours[2 * i]), second = _mm256_castps_pd(fours[2 * i + 1]);
        twos[i] = _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(first, second)),
                                _mm256_castpd_ps(_mm256_unpackhi_pd(first, second)));
    }
    return (vf)_mm256_add_ps(_mm256_shuffle_ps(twos[0], twos[1], 0x88), _mm256_shuffle_ps(twos[0], twos[1], 0xdd));
#else
    vf result;
    for (int key = 0; key < LANES; key++)
        result[key] = dot(query, keys[key] + offset, d_head);
    return result;
#endif
}

/* Mix some dimensions of the values. Those of even and of odd positions are added up apart: two sums are under way. */
INLINE void mix_values(float *out, const float *const *keys, int n_keys, ptrdiff_t offset, const float *weights,
                       const int n_vectors)
{
    vf even[4] = {{0}}, odd[4] = {{0}};
    int p = 0;
    for (; p + 2 <= n_keys; p += 2) {
        const float *value = keys[p] + offset, *next = keys[p + 1] + offset;
        const vf weight = splat(weights[p]), next_weight = splat(weights[p + 1]);
#pragma GCC unroll 4
        for (int v = 0; v < n_vectors; v++) {
            even[v] += weight * load(value + v * LANES);
            odd[v] += next_weight * load(next + v * LANES);
        }
    }
#pragma GCC unroll 4
    for (int v = 0; v < n_vectors; v++) {
        if (p < n_keys)
            even[v] += splat(weights[p]) * load(keys[p] + offset + v * LANES);
        store(out + v * LANES, even[v] + odd[v]);
    }
}

/* out = softmax(q k / sqrt D) v for one query of one head (3.2.1); keys[p] + key_offset is the key of position p, and
   its value lies value_offset behind. `weights` has room for n_keys, rounded up to 16, and holds the weights after. */
static void attend_head(float *out, const float *query, const float *const *keys, int n_keys, ptrdiff_t key_offset,
                        ptrdiff_t value_offset, int d_head, float *weights)
{
    if (n_keys == 0) { /* nothing to attend to: nothing is mixed */
        memset(out, 0, (size_t)d_head * sizeof(float));
        return;
    }
    const float scale = 1.0f / sqrtf((float)d_head);
    int first = 0;
    if (d_head % 16 == 0)
        for (; first + LANES <= n_keys; first += LANES)
            store(weights + first, dot_keys(query, keys + first, key_offset, d_head) * splat(scale));
    if (d_head % 16 == 0 && first < n_keys) { /* the last key again and again: what is too much is overwritten below */
        const float *last[LANES];
        for (int lane = 0; lane < LANES; lane++)
            last[lane] = keys[first + lane < n_keys ? first + lane : n_keys - 1];
        store(weights + first, dot_keys(query, last, key_offset, d_head) * splat(scale));
        first = n_keys;
    }
    for (; first < n_keys; first++)
        weights[first] = dot(query, keys[first] + key_offset, d_head) * scale;
    softmax_row(weights, n_keys);
    const ptrdiff_t offset = key_offset + value_offset;
    int d = 0;
    for (; d + 4 * LANES <= d_head; d += 4 * LANES) /* as many sums at once as registers hold */
        mix_values(out + d, keys, n_keys, offset + d, weights, 4);
    for (; d + LANES <= d_head; d += LANES)
        mix_values(out + d, keys, n_keys, offset + d, weights, 1);
    for (; d < d_head; d++) {
        float sums[2] = {0.0f, 0.0f};
        for (int p = 0; p < n_keys; p++)
            sums[p % 2] += weights[p] * keys[p][offset + d];
        out[d] = sums[0] + sums[1];
    }
}

/* --- The best tokens ---------------------------------------------------------------------------------------------- */

static float sum_exp_row(const float *x, float max, int n)
{
    vf lanes[PARTS] = {{0}}, shift = splat(max);
    FOR_LANES(n, i, lanes[part] += exp_vector(load(x + at) - shift), {
        float last[16];
        for (int j = 0; j < 16; j++)
            last[j] = j < n - i ? x[i + j] : max;
        for (int part = 0; part < PARTS; part++)
            store(last + part * LANES, exp_vector(load(last + part * LANES) - shift));
        memset(last + n - i, 0, (size_t)(16 - (n - i)) * sizeof(float));
        for (int part = 0; part < PARTS; part++)
            lanes[part] += load(last + part * LANES);
    });
    return add_lanes(lanes);
}

/* Find the `count` best tokens (at most n), best first, the lowest id first in a tie, with their log-probabilities
   (logit - max) - log_sum. Tokens are compared by these, not by logits: what rounding makes equal is a tie. If the
   logits are not finite, log-probabilities are NaN. */
static void best_of_row(int32_t *ids, float *log_probs, int count, const float *logits, int n, float max, float log_sum)
{
    int found = 0;
    for (int i = 0; i < n;) {
        if (found == count && i % 16 == 0) { /* skip sixteen tokens at once that are not good enough */
            const vf least = splat(log_probs[count - 1]), top = splat(max), total = splat(log_sum);
            for (; i + 16 <= n; i += 16) {
                vi any = {0};
                for (int part = 0; part < PARTS; part++)
                    any |= (load(logits + i + part * LANES) - top) - total > least;
#if LANES == 16
                if (_mm512_test_epi32_mask((__m512i)any, (__m512i)any))
                    break;
#elif LANES == 8
                if (_mm256_movemask_epi8((__m256i)any))
                    break;
#else
                if (any[0] | any[1] | any[2] | any[3])
                    break;
#endif
            }
            if (i >= n)
                break;
        }
        const float value = (logits[i] - max) - log_sum;
        if (found < count || value > log_probs[count - 1]) {
            int at = found < count ? found++ : count - 1;
            for (; at > 0 && value > log_probs[at - 1]; at--) {
                log_probs[at] = log_probs[at - 1];
                ids[at] = ids[at - 1];
            }
            log_probs[at] = value;
            ids[at] = i;
        }
        i++;
    }
}

static int OWN(is_supported)(void)
{
#if defined(SUPPORTED)
    return SUPPORTED;
#else
    return 1;
#endif
}

#define TEXT2(name) #name
#define TEXT(name) TEXT2(name)
static const Kernels kernels = {
    TEXT(KERNEL), OWN(is_supported), quantize_row, multiply_rows, norm_row,   add_row,
    activate_row, attend_head,       max_row,      sum_exp_row,   best_of_row,
};

#undef PARTS
#undef SHIFT
#undef BLOCK_ROWS
#undef BLOCK_VECTORS
#undef TILE_VECTORS
#undef FOR_LANES

#else /* KERNEL */

/* ------------------------------------------------------------------------------------------------------------------
   3  Instruction sets
   ------------------------------------------------------------------------------------------------------------------ */

#define DO_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define BEGIN_TARGET(features) DO_PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
#define END_TARGET DO_PRAGMA(clang attribute pop)
#else
#define BEGIN_TARGET(features) DO_PRAGMA(GCC push_options) DO_PRAGMA(GCC target(features))
#define END_TARGET DO_PRAGMA(GCC pop_options)
#endif

/* Plain C, which the compiler turns into SSE2 or NEON. */
#define KERNEL plain
#define LANES 4
#if defined(__ARM_FEATURE_DOTPROD)
#define DOT_NEON
#endif
#include "transformer.c"
#undef KERNEL
#undef LANES
#undef DOT_NEON

#if defined(__x86_64__)
#define FUSED

#define KERNEL avx2
#define LANES 8
#define DOT_SIGN_256
#define SUPPORTED (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
BEGIN_TARGET("avx2,fma")
#include "transformer.c"
END_TARGET
#undef KERNEL
#undef LANES
#undef DOT_SIGN_256
#undef SUPPORTED

#if defined(__clang__) ? __clang_major__ >= 12 : __GNUC__ >= 11
#define HAS_AVXVNNI
/* CPUID, leaf 7.1, EAX, bit 4: compilers learned to ask for it by name later than to emit it. */
static int has_avxvnni(void)
{
    unsigned eax = 7, ebx, ecx = 1, edx;
    __asm__("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && (eax >> 4 & 1);
}
#define KERNEL avxvnni
#define LANES 8
#define DOT_VNNI
#define SUPPORTED has_avxvnni()
BEGIN_TARGET("avx2,fma,avxvnni")
#include "transformer.c"
END_TARGET
#undef KERNEL
#undef LANES
#undef DOT_VNNI
#undef SUPPORTED
#endif

#define KERNEL avx512
#define LANES 16
#define DOT_SIGN_512
#define SUPPORTED (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"))
BEGIN_TARGET("avx2,fma,avx512f,avx512bw")
#include "transformer.c"
END_TARGET
#undef KERNEL
#undef LANES
#undef DOT_SIGN_512
#undef SUPPORTED

#define KERNEL vnni
#define LANES 16
#define DOT_VNNI
#define SUPPORTED                                                                                                      \
    (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vnni"))
BEGIN_TARGET("avx2,fma,avx512f,avx512bw,avx512vnni")
#include "transformer.c"
END_TARGET
#undef KERNEL
#undef LANES
#undef DOT_VNNI
#undef SUPPORTED
#endif

static const Kernels *const KERNELS[] = {
#if defined(__x86_64__)
    &kernels_vnni,
    &kernels_avx512,
#if defined(HAS_AVXVNNI)
    &kernels_avxvnni,
#endif
    &kernels_avx2,
#endif
    &kernels_plain,
};
#define N_KERNELS (int)(sizeof KERNELS / sizeof *KERNELS)
#undef kernels

/* ------------------------------------------------------------------------------------------------------------------
   4  Threads

   A step is a chain of short phases, each divided among the members of a team, with a barrier after it. A barrier is
   passed every few microseconds, so that members wait actively; but a laptop is never idle, and a member that has
   waited for long lets others run. Steps of a small model are shorter than that: one thread runs them, and `share`s
   its largest product with helpers.
   ------------------------------------------------------------------------------------------------------------------ */

#define MAX_THREADS 64
#define BARRIER_SPINS 2000 /* some tens of microseconds */
#define IDLE_SPINS 4000     /* half of them let others run, which takes longer */

typedef struct {
    atomic_int arrived, phase;
} Barrier;

typedef struct Pool Pool;

typedef struct {
    int rank, size;
    Barrier *barrier;
    Pool *helpers; /* of a team of one: who may take chunks of its large products, see `share` */
} Team;

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Wait until all members of the team are here. What they wrote before is seen by all afterwards. */
static void meet(const Team *team)
{
    if (team->size == 1)
        return;
    Barrier *barrier = team->barrier;
    const int phase = atomic_load_explicit(&barrier->phase, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&barrier->arrived, 1, memory_order_acq_rel) == team->size - 1) {
        atomic_store_explicit(&barrier->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&barrier->phase, phase + 1, memory_order_release);
        return;
    }
    for (int spins = 0; atomic_load_explicit(&barrier->phase, memory_order_acquire) == phase; spins++) {
        if (spins < BARRIER_SPINS)
            relax();
        else
            sched_yield();
    }
}

/* The part of n things that this member does. */
static int part_begin(const Team *team, int n) { return (int)((int64_t)n * team->rank / team->size); }
static int part_end(const Team *team, int n) { return (int)((int64_t)n * (team->rank + 1) / team->size); }

typedef void Job(void *argument, const Team *team);
typedef void Chunk(void *argument, int index);

typedef struct {
    Pool *pool;
    int rank, seen; /* the last job before it came */
    pthread_t thread;
} Helper;

struct Pool {
    int n_helpers, process;
    Helper helpers[MAX_THREADS];
    pthread_mutex_t in_use; /* held during a job: two callers do not share the helpers */
    pthread_mutex_t lock;   /* for sleeping and waking */
    pthread_cond_t wake;
    atomic_int job_number, finished, n_asleep, is_closing, n_calls;
    _Atomic uint64_t offer; /* generation << 32 | first chunk left << 16 | last one + 1 */
    atomic_int n_done;      /* chunks of the offer */
    Chunk *chunk;
    void *chunk_argument;
    Job *job;
    void *argument;
    int size;
    Barrier barrier;
};

/* Take a chunk of the offer, if one is left, and do it. The caller takes the first, helpers the last, so that each
   finds in its cache what it has read the time before. */
static int take_chunk(Pool *pool, int is_caller)
{
    uint64_t offer = atomic_load_explicit(&pool->offer, memory_order_acquire);
    for (;;) {
        const unsigned first = offer >> 16 & 0xffff, end = offer & 0xffff;
        if (first == end)
            return 0;
        if (atomic_compare_exchange_weak(&pool->offer, &offer, is_caller ? offer + (1 << 16) : offer - 1)) {
            pool->chunk(pool->chunk_argument, (int)(is_caller ? first : end - 1));
            atomic_fetch_add_explicit(&pool->n_done, 1, memory_order_release);
            return 1;
        }
    }
}

/* Do all chunks, with helpers that happen to be awake. Nobody waits for a helper that is not running: it has then taken
   no chunk, unless it was interrupted in the middle of one. So a small model, whose steps are shorter than the time
   that a busy system lets a thread wait, loses nothing by being helped. */
static void share(Pool *pool, int n_chunks, Chunk *chunk, void *argument)
{
    const uint64_t generation = (atomic_load_explicit(&pool->offer, memory_order_relaxed) >> 32) + 1;
    pool->chunk = chunk;
    pool->chunk_argument = argument;
    atomic_store_explicit(&pool->n_done, 0, memory_order_relaxed);
    atomic_store_explicit(&pool->offer, generation << 32 | (uint64_t)n_chunks, memory_order_release);
    while (take_chunk(pool, 1))
        ;
    for (int spins = 0; atomic_load_explicit(&pool->n_done, memory_order_acquire) < n_chunks; spins++) {
        if (spins < BARRIER_SPINS)
            relax();
        else
            sched_yield();
    }
}

static void *help(void *argument)
{
    Helper *me = argument;
    Pool *pool = me->pool;
    for (int seen = me->seen;;) {
        const int n_calls = atomic_load(&pool->n_calls);
        for (int spins = 0; atomic_load(&pool->job_number) == seen && spins < IDLE_SPINS; spins++) {
            if (take_chunk(pool, 0))
                spins = 0;
            else if (spins < BARRIER_SPINS)
                relax();
            else
                sched_yield();
        }
        if (atomic_load(&pool->job_number) == seen) {
            pthread_mutex_lock(&pool->lock);
            atomic_fetch_add(&pool->n_asleep, 1);
            while (atomic_load(&pool->job_number) == seen && atomic_load(&pool->n_calls) == n_calls)
                pthread_cond_wait(&pool->wake, &pool->lock);
            atomic_fetch_sub(&pool->n_asleep, 1);
            pthread_mutex_unlock(&pool->lock);
            if (atomic_load(&pool->job_number) == seen)
                continue; /* called, for chunks */
        }
        seen++;
        if (atomic_load(&pool->is_closing))
            return NULL;
        if (me->rank < pool->size)
            pool->job(pool->argument, &(Team){me->rank, pool->size, &pool->barrier, NULL});
        atomic_fetch_add(&pool->finished, 1);
    }
}

static void announce(Pool *pool, atomic_int *number)
{
    atomic_fetch_add(number, 1);
    /* A helper counts itself asleep before it looks at the number for the last time: either it sees the new number, or
       we see it asleep. */
    if (atomic_load(&pool->n_asleep)) {
        pthread_mutex_lock(&pool->lock);
        pthread_cond_broadcast(&pool->wake);
        pthread_mutex_unlock(&pool->lock);
    }
}

/* Start the helpers that a job of this size needs; they are few or none if the system gives no more. */
static void recruit(Pool *pool, int size)
{
    while (pool->n_helpers < size - 1) {
        Helper *helper = &pool->helpers[pool->n_helpers];
        *helper = (Helper){.pool = pool, .rank = pool->n_helpers + 1, .seen = atomic_load(&pool->job_number)};
        if (pthread_create(&helper->thread, NULL, help, helper))
            return;
        pool->n_helpers++;
    }
}

static void close_pool(Pool *pool)
{
    if (pool->process == getpid()) { /* after a fork there are no helpers to wait for */
        atomic_store(&pool->is_closing, 1);
        announce(pool, &pool->job_number);
        for (int i = 0; i < pool->n_helpers; i++)
            pthread_join(pool->helpers[i].thread, NULL);
    }
    pthread_mutex_destroy(&pool->in_use);
    pthread_mutex_destroy(&pool->lock);
    pthread_cond_destroy(&pool->wake);
}

/* Run a job with a team of this size, the caller being one of it; with fewer if others cannot be had. */
static void run_team(Pool *pool, int size, Job *job, void *argument)
{
    size = size < MAX_THREADS ? size : MAX_THREADS;
    if (size > 1 && pool->process == getpid() && pthread_mutex_trylock(&pool->in_use) == 0) {
        recruit(pool, size);
        pool->job = job;
        pool->argument = argument;
        pool->size = size < pool->n_helpers + 1 ? size : pool->n_helpers + 1;
        atomic_store(&pool->finished, 0);
        announce(pool, &pool->job_number);
        job(argument, &(Team){0, pool->size, &pool->barrier, NULL});
        for (int spins = 0; atomic_load(&pool->finished) < pool->n_helpers; spins++) {
            if (spins < BARRIER_SPINS)
                relax();
            else
                sched_yield();
        }
        pthread_mutex_unlock(&pool->in_use);
        return;
    }
    job(argument, &(Team){0, 1, NULL, NULL});
}

/* Run a job alone, but with helpers for its large products. */
static void run_helped(Pool *pool, int size, Job *job, void *argument)
{
    if (size < 2 || pool->process != getpid() || pthread_mutex_trylock(&pool->in_use)) {
        job(argument, &(Team){0, 1, NULL, NULL});
        return;
    }
    recruit(pool, size < MAX_THREADS ? size : MAX_THREADS);
    announce(pool, &pool->n_calls);
    job(argument, &(Team){0, 1, NULL, pool});
    pthread_mutex_unlock(&pool->in_use);
}

/* ------------------------------------------------------------------------------------------------------------------
   5  The model
   ------------------------------------------------------------------------------------------------------------------ */

/* Memory is never refused where systems overcommit; elsewhere there is nothing sensible left to do. */
static void *check(void *memory)
{
    if (!memory) {
        fputs("sightline: out of memory\n", stderr);
        abort();
    }
    return memory;
}

static void *allocate(size_t bytes) { return check(calloc(1, bytes + 64)); } /* vectors may run past the end */

/* Memory for weights: aligned, and in huge pages where there are any, since a step reads all of it from end to end. */
static void *allocate_weights(size_t bytes)
{
    const size_t huge = (size_t)2 << 20, alignment = bytes >= huge ? huge : 64;
    const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    void *memory = check(aligned_alloc(alignment, rounded ? rounded : alignment));
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (alignment == huge)
        madvise(memory, rounded, MADV_HUGEPAGE);
#endif
    return memory;
}

/* A table of sinusoids, or of the cosines and sines of rotations, for the first `length` positions. Longer ones replace
   it as texts grow; it stays until the model is freed, since other threads may be reading it. */
typedef struct PositionTable {
    struct PositionTable *before;
    int length;
    float values[];
} PositionTable;

typedef struct Work Work;

typedef struct {
    Config config;
    const Kernels *kernels;
    Embedding source, target;
    Layer *encoder, *decoder;
    Norm encoder_norm, decoder_norm; /* after the last layer, in pre-norm models */
    Linear output;
    double *frequencies; /* of rotary positions */
    pthread_mutex_t lock; /* of the table and of the spare buffers */
    _Atomic(PositionTable *) positions;
    Work *spare;
    Pool pool;
    size_t step_bytes; /* of weights that one decoder step reads */
    size_t layer_bytes; /* of weights of one decoder layer, cross-attention's keys and values apart */
} Model;

/* A tensor as Python holds it: rows of floats; NULL if the model has none such. */
typedef struct {
    const float *values;
    int64_t n_rows, n_columns;
} Tensor;

static float *copy_padded(const float *values, int n)
{
    float *copy = allocate((size_t)padded(n) * sizeof(float));
    if (values)
        memcpy(copy, values, (size_t)n * sizeof(float));
    return copy;
}

/* Tensors come in a fixed order; the loader takes one after the other. */
typedef struct {
    const Tensor *next;
    Model *model;
    int n_threads;
} Loader;

static Tensor take(Loader *loader) { return *loader->next++; }

static Norm take_norm(Loader *loader)
{
    Tensor weight = take(loader), bias = take(loader);
    const int n = (int)weight.n_rows;
    return weight.values ? (Norm){copy_padded(weight.values, n), copy_padded(bias.values, n)} : (Norm){NULL, NULL};
}

typedef struct {
    Linear *linear;
    const Tensor *parts; /* weights of maps that are stacked below one another, for one product */
    int n_parts;
    const Kernels *kernels;
} Packing;

/* Pack some tiles of a linear map: quantize each output, and lay the weights out as `Linear` says. */
static void pack_tiles(void *argument, const Team *team)
{
    const Packing *packing = argument;
    Linear *w = packing->linear;
    int8_t *row = allocate((size_t)w->n_groups * 4);
    float *padded_row = allocate((size_t)w->n_groups * 4 * sizeof(float));
    for (int tile = part_begin(team, w->n_tiles); tile < part_end(team, w->n_tiles); tile++) {
        if (w->bytes)
            memset(w->bytes + (size_t)tile * w->n_groups * TILE * 4, 0, (size_t)w->n_groups * TILE * 4);
        else
            memset(w->floats + (size_t)tile * w->n_inputs * TILE, 0, (size_t)w->n_inputs * TILE * sizeof(float));
        for (int column = 0; column < TILE && tile * TILE + column < w->n_outputs; column++) {
            const int output = tile * TILE + column;
            int64_t index = output;
            const Tensor *part = packing->parts;
            for (; index >= part->n_rows; part++)
                index -= part->n_rows;
            const float *weights = part->values + index * w->n_inputs;
            if (!w->bytes) {
                float *to = w->floats + (size_t)tile * w->n_inputs * TILE + column;
                for (int i = 0; i < w->n_inputs; i++)
                    to[(size_t)i * TILE] = weights[i];
                continue;
            }
            memcpy(padded_row, weights, (size_t)w->n_inputs * sizeof(float));
            w->scales[output] = packing->kernels->quantize(row, padded_row, w->n_inputs, 1);
            int8_t *to = w->bytes + (size_t)tile * w->n_groups * TILE * 4 + column * 4;
            int32_t total = 0;
            for (int i = 0; i < w->n_inputs; i++)
                total += row[i];
            for (int group = 0; group < w->n_groups; group++)
                memcpy(to + (size_t)group * TILE * 4, row + 4 * group, 4);
            w->offsets[output] = 128 * total;
        }
    }
    free(row);
    free(padded_row);
}

static Linear pack(Loader *loader, const Tensor *weights, const Tensor *biases, int n_parts)
{
    Linear w = {.n_inputs = (int)weights[0].n_columns};
    for (int i = 0; i < n_parts; i++)
        w.n_outputs += (int)weights[i].n_rows;
    w.n_tiles = padded(w.n_outputs) / TILE;
    w.n_groups = (w.n_inputs + 3) / 4;
    w.bias = copy_padded(NULL, w.n_outputs);
    for (int i = 0, at = 0; i < n_parts; at += (int)weights[i++].n_rows)
        if (biases[i].values)
            memcpy(w.bias + at, biases[i].values, (size_t)weights[i].n_rows * sizeof(float));
    if (loader->model->config.bits == 8) {
        w.bytes = allocate_weights((size_t)w.n_tiles * w.n_groups * TILE * 4);
        w.scales = copy_padded(NULL, w.n_outputs);
        w.offsets = allocate((size_t)w.n_tiles * TILE * sizeof(int32_t));
    } else {
        w.floats = allocate_weights((size_t)w.n_tiles * w.n_inputs * TILE * sizeof(float));
    }
    Packing packing = {&w, weights, n_parts, loader->model->kernels};
    run_team(&loader->model->pool, loader->n_threads, pack_tiles, &packing);
    return w;
}

static size_t bytes_of(const Linear *w)
{
    return (size_t)w->n_tiles * TILE * w->n_groups * 4 * (w->bytes ? 1 : sizeof(float));
}

/* Query, key and value of self-attention are one product; in cross-attention the queries are of another input. */
static Attention take_attention(Loader *loader, int is_cross)
{
    Tensor weights[4], biases[4];
    for (int i = 0; i < 4; i++) {
        weights[i] = take(loader);
        biases[i] = take(loader);
    }
    Attention attention = {0};
    attention.query = take_norm(loader);
    attention.key = take_norm(loader);
    attention.norm = take_norm(loader);
    if (!weights[0].values)
        return attention;
    attention.qkv = pack(loader, weights, biases, is_cross ? 1 : 3);
    if (is_cross)
        attention.kv = pack(loader, weights + 1, biases + 1, 2);
    attention.output = pack(loader, weights + 3, biases + 3, 1);
    return attention;
}

static Layer *take_layers(Loader *loader, int n_layers, int is_decoder)
{
    Layer *layers = allocate((size_t)(n_layers + 1) * sizeof(Layer));
    for (int i = 0; i < n_layers; i++) {
        Layer *layer = &layers[i];
        layer->self = take_attention(loader, 0);
        layer->cross = take_attention(loader, 1);
        Tensor up[4] = {take(loader), take(loader), take(loader), take(loader)}; /* up, its bias, gate, its bias */
        Tensor weights[2] = {up[0], up[2]}, biases[2] = {up[1], up[3]};
        layer->up = pack(loader, weights, biases, weights[1].values ? 2 : 1);
        Tensor down[2] = {take(loader), take(loader)};
        layer->down = pack(loader, &down[0], &down[1], 1);
        layer->norm = take_norm(loader);
        if (is_decoder)
            loader->model->step_bytes += bytes_of(&layer->self.qkv) + bytes_of(&layer->self.output) +
                                         bytes_of(&layer->cross.qkv) + bytes_of(&layer->cross.output) +
                                         bytes_of(&layer->up) + bytes_of(&layer->down);
    }
    return layers;
}

static Embedding take_embedding(Loader *loader)
{
    Embedding embedding = {take(loader).values, take(loader).values, take(loader).values, {NULL, NULL}};
    embedding.norm = take_norm(loader);
    return embedding;
}

static void free_linear(Linear *w)
{
    free(w->bytes);
    free(w->scales);
    free(w->offsets);
    free(w->floats);
    free(w->bias);
}

static void free_norm(Norm *norm)
{
    free(norm->weight);
    free(norm->bias);
}

static void free_attention(Attention *attention)
{
    free_linear(&attention->qkv);
    free_linear(&attention->kv);
    free_linear(&attention->output);
    free_norm(&attention->query);
    free_norm(&attention->key);
    free_norm(&attention->norm);
}

static void free_layers(Layer *layers, int n_layers)
{
    for (int i = 0; i < n_layers; i++) {
        free_attention(&layers[i].self);
        free_attention(&layers[i].cross);
        free_linear(&layers[i].up);
        free_linear(&layers[i].down);
        free_norm(&layers[i].norm);
    }
    free(layers);
}

/* Return a table for at least this many positions: sinusoids (3.5), or cosines, then sines of rotations. Angles are
   computed in double precision to keep large positions exact. */
static const float *position_table(Model *model, int length)
{
    const Config *config = &model->config;
    if (config->positions == NO_POSITIONS || config->positions == LEARNED)
        return NULL;
    PositionTable *table = atomic_load_explicit(&model->positions, memory_order_acquire);
    if (table && table->length >= length)
        return table->values;
    pthread_mutex_lock(&model->lock);
    table = atomic_load_explicit(&model->positions, memory_order_acquire);
    if (!table || table->length < length) {
        const int width = config->positions == ROPE ? config->d_head : config->d_model;
        int rounded = 64;
        while (rounded < length)
            rounded *= 2;
        PositionTable *longer = allocate(sizeof(PositionTable) + (size_t)rounded * width * sizeof(float));
        longer->before = table;
        longer->length = rounded;
        for (int p = 0; p < rounded; p++)
            for (int i = 0; i < width / 2; i++) {
                float *row = longer->values + (size_t)p * width;
                const double angle = p * (config->positions == ROPE ? model->frequencies[i]
                                                                    : pow(10000.0, -2.0 * i / width));
                if (config->positions == ROPE) {
                    row[i] = (float)(cos(angle) * config->rope_amplitude);
                    row[width / 2 + i] = (float)(sin(angle) * config->rope_amplitude);
                } else if (config->positions == SINUSOIDAL) {
                    row[2 * i] = (float)sin(angle);
                    row[2 * i + 1] = (float)cos(angle);
                } else {
                    row[i] = (float)sin(angle);
                    row[width / 2 + i] = (float)cos(angle);
                }
            }
        table = longer;
        atomic_store_explicit(&model->positions, table, memory_order_release);
    }
    pthread_mutex_unlock(&model->lock);
    return table->values;
}

/* ------------------------------------------------------------------------------------------------------------------
   6  The cache

   Keys and values of the tokens so far. Memory is divided into slots, one for each row (hypothesis) that writes, and
   grows by chunks of 16 positions. A hypothesis does not own its past: `ancestors[p]` names the slot that holds its
   position p. When a beam is reordered, only these short tables are copied, never keys or values.

   Why no position is overwritten that is still needed: a row of length n writes only at positions >= n of its own
   slot, and no two rows write to the same slot. A row that is copied needs another slot; it gets one in which no row
   refers to a position >= n. So whatever anyone refers to in that slot lies below n, where nothing is written any more;
   and what is written there from now on is referred to by this row and its descendants only.
   ------------------------------------------------------------------------------------------------------------------ */

#define CHUNK 16

/* Keys and values of an encoder's output, shared by the rows of its sentence: [layer][key, value][S][G D]. */
typedef struct {
    int n_references, length;
    float *kv;
    const float **keys; /* S: where the key of each position begins, in layer 0 */
} Source;

typedef struct {
    int slot, length, capacity;
    int32_t *ancestors;
    int n_tokens; /* chosen in a search so far, with their log-probabilities */
    int32_t *tokens;
    float *log_probs;
    Source *source;
} Row;

typedef struct {
    Model *model;
    int n_rows, row_capacity, n_slots, n_chunks;
    Row *rows;
    float **chunks; /* each [layer][key, value][slot][16 positions][G D] */
    Work *work[MAX_THREADS];
} State;

static size_t kv_width(const Config *config) { return (size_t)config->n_groups * config->d_head; }

static size_t chunk_floats(const State *state, int n_slots)
{
    const Config *config = &state->model->config;
    return (size_t)config->n_decoder_layers * 2 * n_slots * CHUNK * kv_width(config);
}

static ptrdiff_t value_offset(const State *state)
{
    return (ptrdiff_t)((size_t)state->n_slots * CHUNK * kv_width(&state->model->config));
}

/* The key of a position in a slot, in layer 0. */
static float *key_at(const State *state, int slot, int position)
{
    const size_t place = (size_t)slot * CHUNK + position % CHUNK;
    return state->chunks[position / CHUNK] + place * kv_width(&state->model->config);
}

static State *create_state(Model *model, int n_slots)
{
    State *state = allocate(sizeof(State));
    state->model = model;
    state->n_slots = n_slots > 0 ? n_slots : 1;
    return state;
}

static void release_source(Source *source)
{
    if (source && --source->n_references == 0) {
        free(source->kv);
        free(source->keys);
        free(source);
    }
}

static void free_row(Row *row)
{
    release_source(row->source);
    free(row->ancestors);
    free(row->tokens);
    free(row->log_probs);
}

/* Make room for this many positions. */
static void reserve_chunks(State *state, int length)
{
    const int wanted = (length + CHUNK - 1) / CHUNK;
    if (wanted <= state->n_chunks)
        return;
    state->chunks = check(realloc(state->chunks, (size_t)wanted * sizeof(float *)));
    while (state->n_chunks < wanted)
        state->chunks[state->n_chunks++] = allocate(chunk_floats(state, state->n_slots) * sizeof(float));
}

static void reserve_row(Row *row, int length)
{
    if (length <= row->capacity)
        return;
    row->capacity = length < 2 * row->capacity ? 2 * row->capacity : length < 32 ? 32 : length;
    row->ancestors = check(realloc(row->ancestors, (size_t)row->capacity * sizeof(int32_t)));
    row->tokens = check(realloc(row->tokens, (size_t)row->capacity * sizeof(int32_t)));
    row->log_probs = check(realloc(row->log_probs, (size_t)row->capacity * sizeof(float)));
}

/* More slots: the only time that keys and values are copied. */
static void add_slots(State *state, int n_slots)
{
    const Config *config = &state->model->config;
    const size_t before = (size_t)state->n_slots * CHUNK * kv_width(config);
    const size_t after = (size_t)n_slots * CHUNK * kv_width(config);
    for (int i = 0; i < state->n_chunks; i++) {
        float *larger = allocate(chunk_floats(state, n_slots) * sizeof(float));
        for (size_t part = 0; part < (size_t)config->n_decoder_layers * 2; part++)
            memcpy(larger + part * after, state->chunks[i] + part * before, before * sizeof(float));
        free(state->chunks[i]);
        state->chunks[i] = larger;
    }
    state->n_slots = n_slots;
}

/* What is known of the slots while rows get theirs: who writes, and up to where anyone refers to it. */
typedef struct {
    int *referred; /* one more than the last position that is referred to */
    char *is_owned;
} SlotUse;

static void note_row(SlotUse *use, const Row *row)
{
    for (int p = 0; p < row->length; p++)
        if (use->referred[row->ancestors[p]] <= p)
            use->referred[row->ancestors[p]] = p + 1;
}

static SlotUse begin_slot_use(const State *state, const Row *rows, int n_rows)
{
    SlotUse use = {allocate((size_t)state->n_slots * sizeof(int)), allocate((size_t)state->n_slots)};
    for (int i = 0; i < n_rows; i++) {
        note_row(&use, &rows[i]);
        if (rows[i].slot >= 0)
            use.is_owned[rows[i].slot] = 1;
    }
    return use;
}

/* Give a row of this length the slot that is referred to the furthest, but not beyond it: others stay free for rows
   that begin. */
static int find_slot(State *state, SlotUse *use, int length)
{
    int best = -1;
    for (int slot = 0; slot < state->n_slots; slot++)
        if (!use->is_owned[slot] && use->referred[slot] <= length &&
            (best < 0 || use->referred[slot] > use->referred[best]))
            best = slot;
    if (best < 0) {
        best = state->n_slots;
        const int n_slots = state->n_slots + state->n_slots / 2 + 1;
        use->referred = check(realloc(use->referred, (size_t)n_slots * sizeof(int)));
        use->is_owned = check(realloc(use->is_owned, (size_t)n_slots));
        memset(use->referred + best, 0, (size_t)(n_slots - best) * sizeof(int));
        memset(use->is_owned + best, 0, (size_t)(n_slots - best));
        add_slots(state, n_slots);
    }
    use->is_owned[best] = 1;
    return best;
}

static void end_slot_use(SlotUse *use)
{
    free(use->referred);
    free(use->is_owned);
}

static void reserve_rows(State *state, int n_rows)
{
    if (n_rows <= state->row_capacity)
        return;
    state->row_capacity = n_rows < 2 * state->row_capacity ? 2 * state->row_capacity : n_rows;
    state->rows = check(realloc(state->rows, (size_t)state->row_capacity * sizeof(Row)));
}

/* Make row i what row order[i] was; rows may be repeated, dropped or permuted. */
static void reorder_rows(State *state, const int32_t *order, int n_rows)
{
    int is_identity = n_rows == state->n_rows;
    for (int i = 0; is_identity && i < n_rows; i++)
        is_identity = order[i] == i;
    if (is_identity)
        return;
    Row *rows = allocate((size_t)(n_rows + 1) * sizeof(Row));
    char *is_moved = allocate((size_t)state->n_rows + 1);
    int n_copies = 0;
    for (int i = 0; i < n_rows; i++) {
        Row *from = &state->rows[order[i]];
        if (!is_moved[order[i]]) { /* the first one takes the row with all it owns */
            is_moved[order[i]] = 1;
            rows[i] = *from;
            continue;
        }
        rows[i] = (Row){.slot = -1, .length = from->length, .n_tokens = from->n_tokens, .source = from->source};
        reserve_row(&rows[i], from->capacity);
        memcpy(rows[i].ancestors, from->ancestors, (size_t)from->length * sizeof(int32_t));
        memcpy(rows[i].tokens, from->tokens, (size_t)from->n_tokens * sizeof(int32_t));
        memcpy(rows[i].log_probs, from->log_probs, (size_t)from->n_tokens * sizeof(float));
        if (rows[i].source)
            rows[i].source->n_references++;
        n_copies++;
    }
    for (int i = 0; i < state->n_rows; i++)
        if (!is_moved[i])
            free_row(&state->rows[i]);
    if (n_copies) {
        SlotUse use = begin_slot_use(state, rows, n_rows);
        for (int i = 0; i < n_rows; i++)
            if (rows[i].slot < 0)
                rows[i].slot = find_slot(state, &use, rows[i].length);
        end_slot_use(&use);
    }
    free(state->rows);
    free(is_moved);
    state->rows = rows;
    state->n_rows = n_rows;
    state->row_capacity = n_rows;
}

/* Append rows that have seen nothing yet. */
static void add_rows(State *state, Source **sources, int n_rows)
{
    reserve_rows(state, state->n_rows + n_rows);
    SlotUse use = begin_slot_use(state, state->rows, state->n_rows);
    for (int i = 0; i < n_rows; i++) {
        Row row = {.slot = find_slot(state, &use, 0), .source = sources ? sources[i] : NULL};
        if (row.source)
            row.source->n_references++;
        reserve_row(&row, 1);
        state->rows[state->n_rows++] = row;
    }
    end_slot_use(&use);
}

/* ------------------------------------------------------------------------------------------------------------------
   7  A forward pass
   ------------------------------------------------------------------------------------------------------------------ */

/* The tokens that are computed together, and the buffers for what is computed of them, shared by a team. */
struct Work {
    Work *next; /* among the spare ones of a model */
    const Model *model;
    int n, capacity;
    int32_t *ids, *positions, *segments, *rows; /* N; `rows` of a state */
    int is_single;                              /* each row has one token: nobody needs another's new key */
    int *first_key, *n_keys;                    /* N: the keys that a token attends to, in `keys` */
    const float **keys;
    size_t key_capacity;
    float *x;      /* N E: the residual stream */
    float *normed; /* N E: the input of a sublayer, in pre-norm models */
    float *y;      /* N E: the output of a sublayer */
    float *heads;  /* N H D: what attention has mixed */
    float *wide;   /* N …: queries, keys and values; the hidden layer of a feed-forward network */
    int8_t *bytes; /* N …: a quantized input of a product */
    float *scales; /* N */
    float *logits; /* N V */
    float *parts;  /* maxima, then sums of the parts of each row of logits */
    int logit_capacity;
    float *scores[MAX_THREADS]; /* one row of attention weights, and two of heads, for each member of the team */
    int score_capacity, n_scores;
    float *attention; /* N attention_width: the mean over heads of the last cross-attention, if wanted */
    int attention_width;
};

/* Logits whose exponentials are added up together: members may divide a row by such parts, and the sum is always that
   of the sums of all parts, in order. */
#define PART 2048

static int n_parts(int n) { return (n + PART - 1) / PART; }

static int max_int(int a, int b) { return a > b ? a : b; }

static size_t model_stride(const Work *work) { return (size_t)padded(work->model->config.d_model); }
static size_t heads_stride(const Work *work)
{
    return (size_t)padded(work->model->config.n_heads * work->model->config.d_head);
}
static size_t wide_stride(const Work *work)
{
    const Config *config = &work->model->config;
    const int projected = (config->n_heads + 2 * config->n_groups) * config->d_head;
    const int hidden = config->d_ff * (config->activation == SWIGLU ? 2 : 1);
    return (size_t)padded(max_int(projected, hidden));
}
static size_t byte_stride(const Work *work)
{
    const Config *config = &work->model->config;
    return (size_t)padded(max_int(max_int(config->d_model, config->n_heads * config->d_head), config->d_ff));
}
static size_t logit_stride(const Work *work) { return (size_t)padded(work->model->config.target_vocab_size); }

static Work *borrow_work(Model *model)
{
    pthread_mutex_lock(&model->lock);
    Work *work = model->spare;
    if (work)
        model->spare = work->next;
    pthread_mutex_unlock(&model->lock);
    if (!work) {
        work = allocate(sizeof(Work));
        work->model = model;
    }
    return work;
}

static void return_work(Model *model, Work *work)
{
    if (!work)
        return;
    pthread_mutex_lock(&model->lock);
    work->next = model->spare;
    model->spare = work;
    pthread_mutex_unlock(&model->lock);
}

static void free_work(Work *work)
{
    void *buffers[] = {work->ids,  work->positions, work->segments, work->rows,  work->first_key,
                       work->n_keys, work->x,       work->normed,   work->y,     work->heads,
                       work->wide, work->bytes,     work->scales,   work->logits, work->parts, (void *)work->keys};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        free(buffers[i]);
    for (int i = 0; i < MAX_THREADS; i++)
        free(work->scores[i]);
    free(work);
}

static void *replace(void *old, size_t bytes)
{
    free(old);
    return allocate(bytes);
}

/* Make room for n tokens that attend to `n_keys` keys in all, none to more than `longest`. Contents are lost. */
static void reserve_work(Work *work, int n, size_t n_keys, int longest, int team_size)
{
    if (n > work->capacity) {
        const size_t rows = (size_t)(n < 2 * work->capacity ? 2 * work->capacity : n);
        work->capacity = (int)rows;
        work->ids = replace(work->ids, rows * sizeof(int32_t));
        work->positions = replace(work->positions, rows * sizeof(int32_t));
        work->segments = replace(work->segments, rows * sizeof(int32_t));
        work->rows = replace(work->rows, rows * sizeof(int32_t));
        work->first_key = replace(work->first_key, rows * sizeof(int));
        work->n_keys = replace(work->n_keys, rows * sizeof(int));
        work->x = replace(work->x, rows * model_stride(work) * sizeof(float));
        work->normed = replace(work->normed, rows * model_stride(work) * sizeof(float));
        work->y = replace(work->y, rows * model_stride(work) * sizeof(float));
        work->heads = replace(work->heads, rows * heads_stride(work) * sizeof(float));
        work->wide = replace(work->wide, rows * wide_stride(work) * sizeof(float));
        work->bytes = replace(work->bytes, rows * byte_stride(work));
        work->scales = replace(work->scales, rows * sizeof(float));
    }
    if (n_keys > work->key_capacity) {
        work->key_capacity = n_keys < 2 * work->key_capacity ? 2 * work->key_capacity : n_keys;
        work->keys = replace((void *)work->keys, work->key_capacity * sizeof(float *));
    }
    if (longest > work->score_capacity || team_size > work->n_scores) {
        if (longest > work->score_capacity)
            work->score_capacity = padded(longest + longest / 2);
        work->n_scores = max_int(team_size, work->n_scores);
        const size_t floats = (size_t)work->score_capacity + (size_t)padded(work->model->config.d_head);
        for (int i = 0; i < work->n_scores; i++)
            work->scores[i] = replace(work->scores[i], floats * sizeof(float));
    }
    work->n = n;
    work->attention = NULL;
}

static void reserve_logits(Work *work, int n)
{
    if (n > work->logit_capacity) {
        work->logit_capacity = n;
        work->logits = replace(work->logits, (size_t)n * logit_stride(work) * sizeof(float));
        const size_t n_items = (size_t)n * n_parts(work->model->config.target_vocab_size);
        work->parts = replace(work->parts, 2 * n_items * sizeof(float));
    }
}

/* --- Layers ------------------------------------------------------------------------------------------------------- */

/* Token embeddings times sqrt E, plus position encoding (3.4, 3.5), plus segments. */
static void embed(const Team *team, Work *work, const Embedding *embedding)
{
    const Config *config = &work->model->config;
    const PositionTable *table = atomic_load_explicit(&work->model->positions, memory_order_acquire);
    const float *encodings = NULL;
    if (config->positions == LEARNED)
        encodings = embedding->positions;
    else if (config->positions == SINUSOIDAL || config->positions == SINUSOIDAL_HALVES)
        encodings = table->values;
    const size_t width = (size_t)config->d_model;
    for (int i = part_begin(team, work->n); i < part_end(team, work->n); i++) {
        float *x = work->x + i * model_stride(work);
        const float *token = embedding->tokens + (size_t)work->ids[i] * width;
        for (size_t d = 0; d < width; d++)
            x[d] = token[d] * config->embedding_scale;
        if (encodings)
            for (size_t d = 0; d < width; d++)
                x[d] += encodings[(size_t)work->positions[i] * width + d];
        if (embedding->segments)
            for (size_t d = 0; d < width; d++)
                x[d] += embedding->segments[(size_t)work->segments[i] * width + d];
        if (embedding->norm.weight) /* always a layer norm, whatever the norms of the layers are */
            work->model->kernels->norm(x, x, &embedding->norm, config->d_model, config->norm_eps, 0);
    }
}

/* Make rows the left factor of a product; int8: quantize each row by itself, once for all products with it. */
static Operand make_operand(const Team *team, Work *work, const float *x, size_t stride, int width)
{
    const Model *model = work->model;
    if (model->config.bits == 8)
        for (int i = part_begin(team, work->n); i < part_end(team, work->n); i++)
            work->scales[i] = model->kernels->quantize(work->bytes + i * byte_stride(work), x + i * stride, width, 0);
    meet(team);
    return (Operand){x, stride, work->bytes, byte_stride(work), work->scales};
}

/* The input of a sublayer, or of the output projection: the residual stream, normalized if there is a norm before. */
static Operand enter(const Team *team, Work *work, const Norm *norm)
{
    const Config *config = &work->model->config;
    const size_t stride = model_stride(work);
    const int is_normed = norm && norm->weight;
    if (is_normed)
        for (int i = part_begin(team, work->n); i < part_end(team, work->n); i++)
            work->model->kernels->norm(work->normed + i * stride, work->x + i * stride, norm, config->d_model,
                                       config->norm_eps, config->rms_norm);
    return make_operand(team, work, is_normed ? work->normed : work->x, stride, config->d_model);
}

/* x + Sublayer(x), or LayerNorm(x + Sublayer(x)) as in the paper (3.1). The same member that adds a row here reads it
   next in `enter`, so that no barrier is needed between. */
static void leave(const Team *team, Work *work, const Norm *norm)
{
    const Config *config = &work->model->config;
    for (int i = part_begin(team, work->n); i < part_end(team, work->n); i++) {
        float *x = work->x + i * model_stride(work);
        work->model->kernels->add(x, work->y + i * model_stride(work), config->d_model);
        if (!config->pre_norm)
            work->model->kernels->norm(x, x, norm, config->d_model, config->norm_eps, config->rms_norm);
    }
}

/* A product in chunks of columns. */
typedef struct {
    const Work *work;
    float *out;
    size_t stride;
    Operand x;
    const Linear *w;
} Product;

#define CHUNK_TILES 8       /* of a product that is shared */
#define MIN_SHARED_TILES 64 /* a smaller product is done before a helper has seen it */

static void multiply_chunk(void *argument, int index)
{
    const Product *product = argument;
    const Work *work = product->work;
    const int from = index * CHUNK_TILES, n_tiles = product->w->n_tiles;
    const int to = from + CHUNK_TILES < n_tiles ? from + CHUNK_TILES : n_tiles;
    work->model->kernels->multiply(product->out, product->stride, product->x, work->n, product->w, from, to);
}

/* out = x W + b; the members divide the columns. */
static void multiply(const Team *team, const Work *work, float *out, size_t stride, Operand x, const Linear *w)
{
    if (team->helpers && w->n_tiles >= MIN_SHARED_TILES) {
        Product product = {work, out, stride, x, w};
        share(team->helpers, (w->n_tiles + CHUNK_TILES - 1) / CHUNK_TILES, multiply_chunk, &product);
        return;
    }
    const int from = part_begin(team, w->n_tiles), to = part_end(team, w->n_tiles);
    work->model->kernels->multiply(out, stride, x, work->n, w, from, to);
    meet(team);
}

/* Normalize a query or key, if its layer has a norm for it. */
static void normalize_head(const Model *model, float *head, const Norm *norm, float *spare)
{
    const Config *config = &model->config;
    if (!norm->weight)
        return;
    model->kernels->norm(spare, head, norm, config->d_head, config->norm_eps, config->rms_norm);
    memcpy(head, spare, (size_t)config->d_head * sizeof(float));
}

/* Rotate each pair (x_i, x_(i + D/2)) by the angle of its position (Su et al. 2021). */
static void rotate_head(const Model *model, float *head, int position)
{
    const int width = model->config.d_head, half = width / 2;
    if (model->config.positions != ROPE)
        return;
    const PositionTable *table = atomic_load_explicit(&model->positions, memory_order_acquire);
    const float *cosine = table->values + (size_t)position * width, *sine = cosine + half;
    for (int i = 0; i < half; i++) {
        const float first = head[i], second = head[half + i];
        head[i] = first * cosine[i] - second * sine[i];
        head[half + i] = second * cosine[i] + first * sine[i];
    }
}

/* Where the keys and values of self-attention lie: in a cache, or, without one, among the projections of this pass. */
typedef struct {
    ptrdiff_t key_offset, value_offset;
} KeyPlace;

/* Queries, keys and values of one token and one group of heads: normalized, rotated; key and value to their place. */
static void place_group(Work *work, const Attention *attention, KeyPlace place, int token, int group, float *spare)
{
    const Model *model = work->model;
    const Config *config = &model->config;
    const int per_group = config->n_heads / config->n_groups, width = config->d_head;
    const int position = work->positions[token];
    float *query = work->wide + token * wide_stride(work) + (size_t)group * per_group * width;
    float *key = work->wide + token * wide_stride(work) + (size_t)(config->n_heads + group) * width;
    const float *value = key + config->n_groups * width;
    for (int head = 0; head < per_group; head++) {
        normalize_head(model, query + head * width, &attention->query, spare);
        rotate_head(model, query + head * width, position);
    }
    normalize_head(model, key, &attention->key, spare);
    rotate_head(model, key, position);
    float *stored = (float *)work->keys[work->first_key[token] + position] + group * width + place.key_offset;
    if (stored != key) {
        memcpy(stored, key, (size_t)width * sizeof(float));
        memcpy(stored + place.value_offset, value, (size_t)width * sizeof(float));
    }
}

/* Let the queries of one token and one group of heads attend. */
static void attend_group(Work *work, size_t stride, const float *const *keys, int n_keys, KeyPlace place, int token,
                         int group, float *scores, float *attention)
{
    const Config *config = &work->model->config;
    const int per_group = config->n_heads / config->n_groups, width = config->d_head;
    for (int head = group * per_group; head < (group + 1) * per_group; head++) {
        work->model->kernels->attend(work->heads + token * heads_stride(work) + (size_t)head * width,
                                     work->wide + token * stride + (size_t)head * width, keys, n_keys,
                                     place.key_offset + (ptrdiff_t)group * width, place.value_offset, width, scores);
        if (attention)
            for (int p = 0; p < n_keys; p++)
                attention[p] += scores[p] / (float)config->n_heads;
    }
}

static void self_attention(const Team *team, Work *work, const Attention *attention, KeyPlace place)
{
    const Config *config = &work->model->config;
    float *scores = work->scores[team->rank], *spare = scores + work->score_capacity;
    Operand x = enter(team, work, config->pre_norm ? &attention->norm : NULL);
    multiply(team, work, work->wide, wide_stride(work), x, &attention->qkv); /* N [HD GD GD] */
    const int n_items = work->n * config->n_groups, begin = part_begin(team, n_items), end = part_end(team, n_items);
    if (!work->is_single) {
        for (int item = begin; item < end; item++)
            place_group(work, attention, place, item / config->n_groups, item % config->n_groups, spare);
        meet(team);
    }
    for (int item = begin; item < end; item++) {
        const int token = item / config->n_groups, group = item % config->n_groups;
        if (work->is_single)
            place_group(work, attention, place, token, group, spare);
        attend_group(work, wide_stride(work), work->keys + work->first_key[token], work->n_keys[token], place, token,
                     group, scores, NULL);
    }
    meet(team);
    x = make_operand(team, work, work->heads, heads_stride(work), config->n_heads * config->d_head);
    multiply(team, work, work->y, model_stride(work), x, &attention->output);
    leave(team, work, &attention->norm);
}

/* Queries of the decoder, keys and values of the encoder's output (3.2.3). */
static void cross_attention(const Team *team, Work *work, const State *state, const Attention *attention, int layer)
{
    const Config *config = &work->model->config;
    float *scores = work->scores[team->rank], *spare = scores + work->score_capacity;
    float *const kept = layer == config->n_decoder_layers - 1 ? work->attention : NULL;
    Operand x = enter(team, work, config->pre_norm ? &attention->norm : NULL);
    multiply(team, work, work->wide, wide_stride(work), x, &attention->qkv); /* N HD */
    const int per_group = config->n_heads / config->n_groups;
    /* Where heads are averaged, one member does all heads of a token. */
    const int per_token = kept ? 1 : config->n_groups, n_items = work->n * per_token;
    for (int item = part_begin(team, n_items); item < part_end(team, n_items); item++) {
        const int token = item / per_token;
        const Source *source = state->rows[work->rows[token]].source;
        const size_t part = (size_t)source->length * kv_width(config);
        const KeyPlace place = {(ptrdiff_t)(2 * layer * part), (ptrdiff_t)part};
        const int from = kept ? 0 : item % per_token, to = kept ? config->n_groups : from + 1;
        for (int group = from; group < to; group++) {
            for (int head = group * per_group; head < (group + 1) * per_group; head++)
                normalize_head(work->model, work->wide + token * wide_stride(work) + (size_t)head * config->d_head,
                               &attention->query, spare);
            attend_group(work, wide_stride(work), source->keys, source->length, place, token, group, scores,
                         kept ? kept + (size_t)token * work->attention_width : NULL);
        }
    }
    meet(team);
    x = make_operand(team, work, work->heads, heads_stride(work), config->n_heads * config->d_head);
    multiply(team, work, work->y, model_stride(work), x, &attention->output);
    leave(team, work, &attention->norm);
}

/* Two linear maps with an activation between them, at each position separately (3.3). */
static void feed_forward(const Team *team, Work *work, const Layer *layer)
{
    const Config *config = &work->model->config;
    Operand x = enter(team, work, config->pre_norm ? &layer->norm : NULL);
    multiply(team, work, work->wide, wide_stride(work), x, &layer->up); /* N F, or N [F F] */
    for (int i = part_begin(team, work->n); i < part_end(team, work->n); i++)
        work->model->kernels->activate(work->wide + i * wide_stride(work), config->d_ff, config->activation);
    x = make_operand(team, work, work->wide, wide_stride(work), config->d_ff);
    multiply(team, work, work->y, model_stride(work), x, &layer->down);
    leave(team, work, &layer->norm);
}

/* --- Encoder ------------------------------------------------------------------------------------------------------ */

/* A source, a prompt, or a text. */
typedef struct {
    const int32_t *ids, *segments; /* no segments: all 0 */
    int length;
} Text;

/* Set the tokens of whole texts, one after the other without padding. */
static void set_texts(Work *work, Model *model, const Text *texts, int n_texts, int team_size)
{
    const Config *config = &model->config;
    int n = 0, longest = 0;
    for (int i = 0; i < n_texts; i++) {
        n += texts[i].length;
        longest = max_int(longest, texts[i].length);
    }
    reserve_work(work, n, (size_t)n, longest, team_size);
    position_table(model, longest);
    work->is_single = 0;
    for (int i = 0, at = 0; i < n_texts; i++)
        for (int position = 0, first = at; position < texts[i].length; position++, at++) {
            work->ids[at] = texts[i].ids[position];
            work->segments[at] = texts[i].segments ? texts[i].segments[position] : 0;
            work->positions[at] = position;
            work->rows[at] = i;
            work->first_key[at] = first;
            work->n_keys[at] = texts[i].length;
            work->keys[at] = work->wide + at * wide_stride(work) + (size_t)config->n_heads * config->d_head;
        }
}

/* Run the encoder over the texts that were set; its output is work->x, or work->normed in pre-norm models. */
static const float *run_encoder(const Team *team, Work *work)
{
    const Model *model = work->model;
    embed(team, work, &model->source);
    for (int i = 0; i < model->config.n_encoder_layers; i++) {
        /* Keys stay where the projection has written them, and values behind them. */
        self_attention(team, work, &model->encoder[i].self, (KeyPlace){0, (ptrdiff_t)kv_width(&model->config)});
        feed_forward(team, work, &model->encoder[i]);
    }
    if (!model->config.pre_norm)
        return work->x;
    for (int i = part_begin(team, work->n); i < part_end(team, work->n); i++)
        model->kernels->norm(work->normed + i * model_stride(work), work->x + i * model_stride(work),
                             &model->encoder_norm, model->config.d_model, model->config.norm_eps,
                             model->config.rms_norm);
    return work->normed;
}

static Source *create_source(const Config *config, int length)
{
    const size_t width = kv_width(config);
    Source *source = allocate(sizeof(Source));
    source->length = length;
    source->n_references = 1;
    source->kv = allocate((size_t)config->n_decoder_layers * 2 * length * width * sizeof(float));
    source->keys = allocate((size_t)(length + 1) * sizeof(float *));
    for (int p = 0; p < length; p++)
        source->keys[p] = source->kv + p * width;
    return source;
}

/* Project the encoder's output to the keys and values of every decoder layer, once for all steps. */
static void project_sources(const Team *team, Work *work, const float *hidden, Source **sources)
{
    const Model *model = work->model;
    const Config *config = &model->config;
    const size_t width = kv_width(config);
    float *spare = work->scores[team->rank] + work->score_capacity;
    Operand x = make_operand(team, work, hidden, model_stride(work), config->d_model);
    for (int i = 0; i < config->n_decoder_layers; i++) {
        const Attention *attention = &model->decoder[i].cross;
        multiply(team, work, work->wide, wide_stride(work), x, &attention->kv); /* N [GD GD] */
        for (int token = part_begin(team, work->n); token < part_end(team, work->n); token++) {
            float *key = work->wide + token * wide_stride(work);
            for (int group = 0; group < config->n_groups; group++)
                normalize_head(model, key + group * config->d_head, &attention->key, spare);
            const Source *source = sources[work->rows[token]];
            float *to = source->kv + ((size_t)2 * i * source->length + work->positions[token]) * width;
            memcpy(to, key, width * sizeof(float));
            memcpy(to + source->length * width, key + width, width * sizeof(float));
        }
        meet(team);
    }
}

/* --- Decoder ------------------------------------------------------------------------------------------------------ */

/* Set the next token at `at`, which continues a row. The row's own length counts it when it has been computed. */
static void set_token(Work *work, State *state, int at, size_t *n_keys, int row, int id, int position)
{
    Row *own = &state->rows[row];
    own->ancestors[position] = own->slot;
    work->ids[at] = id;
    work->segments[at] = 0;
    work->positions[at] = position;
    work->rows[at] = row;
    work->first_key[at] = (int)*n_keys;
    work->n_keys[at] = position + 1;
    for (int p = 0; p <= position; p++)
        work->keys[*n_keys + p] = key_at(state, own->ancestors[p], p);
    *n_keys += (size_t)position + 1;
}

static int longest_source(const State *state)
{
    int longest = 0;
    for (int i = 0; i < state->n_rows; i++)
        longest = state->rows[i].source ? max_int(longest, state->rows[i].source->length) : longest;
    return longest;
}

/* Make room for one more token of every row; before members of a team work on parts of them. */
static void reserve_step(State *state)
{
    int longest = 0;
    for (int i = 0; i < state->n_rows; i++) {
        reserve_row(&state->rows[i], state->rows[i].length + 1);
        longest = max_int(longest, state->rows[i].length + 1);
    }
    reserve_chunks(state, longest);
    position_table(state->model, longest);
}

/* Set the newest token of each of some rows. */
static void set_step(Work *work, State *state, const int32_t *ids, int first_row, int n_rows, int team_size)
{
    size_t n_keys = 0;
    int longest = longest_source(state);
    for (int i = 0; i < n_rows; i++) {
        n_keys += (size_t)state->rows[first_row + i].length + 1;
        longest = max_int(longest, state->rows[first_row + i].length + 1);
    }
    reserve_work(work, n_rows, n_keys, longest, team_size);
    reserve_logits(work, n_rows);
    work->is_single = 1;
    n_keys = 0;
    for (int i = 0; i < n_rows; i++)
        set_token(work, state, i, &n_keys, first_row + i, ids[i], state->rows[first_row + i].length);
}

/* Run the decoder's layers over the tokens that were set. */
static void run_decoder(const Team *team, Work *work, const State *state)
{
    const Model *model = work->model;
    const Config *config = &model->config;
    embed(team, work, &model->target);
    for (int i = 0; i < config->n_decoder_layers; i++) {
        const KeyPlace place = {2 * i * value_offset(state), value_offset(state)};
        self_attention(team, work, &model->decoder[i].self, place);
        if (model->decoder[i].cross.qkv.n_tiles)
            cross_attention(team, work, state, &model->decoder[i].cross, i);
        feed_forward(team, work, &model->decoder[i]);
    }
}

static void compute_logits(const Team *team, Work *work)
{
    Operand x = enter(team, work, &work->model->decoder_norm);
    multiply(team, work, work->logits, logit_stride(work), x, &work->model->output);
}

static void max_chunk(void *argument, int item)
{
    const Work *work = argument;
    const int n = work->model->config.target_vocab_size, per_row = n_parts(n), at = item % per_row * PART;
    const float *logits = work->logits + (size_t)(item / per_row) * logit_stride(work) + at;
    work->parts[item] = work->model->kernels->max(logits, n - at < PART ? n - at : PART);
}

static float max_of_parts(const float *maxima, int n)
{
    float max = maxima[0];
    for (int i = 1; i < n; i++)
        max = maxima[i] > max ? maxima[i] : max;
    return max;
}

static float log_sum_of_parts(const float *sums, int n)
{
    float total = 0.0f;
    for (int i = 0; i < n; i++)
        total += sums[i];
    return logf(total);
}

static void sum_chunk(void *argument, int item)
{
    const Work *work = argument;
    const int n = work->model->config.target_vocab_size, per_row = n_parts(n), at = item % per_row * PART;
    const int row = item / per_row;
    const float *logits = work->logits + (size_t)row * logit_stride(work) + at;
    const float max = max_of_parts(work->parts + (size_t)row * per_row, per_row);
    float *sums = work->parts + (size_t)work->n * per_row;
    sums[item] = work->model->kernels->sum_exp(logits, max, n - at < PART ? n - at : PART);
}

/* Do all items of a pass: with helpers, or divided among members. */
static void run_pass(const Team *team, Work *work, int n_items, Chunk *chunk)
{
    if (team->helpers) {
        share(team->helpers, n_items, chunk, work);
        return;
    }
    for (int item = part_begin(team, n_items); item < part_end(team, n_items); item++)
        chunk(work, item);
    meet(team);
}

/* The best `count` tokens after each row, with their log-probabilities of a softmax over all tokens. */
static void find_best(const Team *team, Work *work, int count, int32_t *ids, float *log_probs)
{
    const int n = work->model->config.target_vocab_size, per_row = n_parts(n);
    const int is_divided = work->n < team->size || (team->helpers && work->n * per_row < 100);
    if (is_divided) { /* fewer rows than members: these divide the first two passes */
        run_pass(team, work, work->n * per_row, max_chunk);
        run_pass(team, work, work->n * per_row, sum_chunk);
    }
    for (int row = part_begin(team, work->n); row < part_end(team, work->n); row++) {
        const int first = row * per_row;
        for (int item = first; !is_divided && item < first + per_row; item++)
            max_chunk(work, item);
        for (int item = first; !is_divided && item < first + per_row; item++)
            sum_chunk(work, item);
        const float *maxima = work->parts + first, *sums = maxima + (size_t)work->n * per_row;
        work->model->kernels->best(ids + (size_t)row * count, log_probs + (size_t)row * count, count,
                                   work->logits + row * logit_stride(work), n, max_of_parts(maxima, per_row),
                                   log_sum_of_parts(sums, per_row));
    }
    meet(team);
}

/* How many tokens of prompts or sources go through the layers at once: so many that each weight that is read serves
   many of them, and so few that what is computed of them stays in the cache of the processor. */
#define PIECE 256

/* Feed whole prompts into new rows, which have seen nothing yet. Prompts may be empty. */
static void read_prompts(const Team *team, Work *work, State *state, int first_row, const Text *prompts, int n_prompts)
{
    int prompt = 0, position = 0; /* where the next piece begins; every member counts along */
    for (;;) {
        while (prompt < n_prompts && position == prompts[prompt].length) {
            prompt++;
            position = 0;
        }
        if (prompt == n_prompts)
            return;
        const int begin_prompt = prompt, begin_position = position;
        int n = 0, longest = 0;
        size_t n_keys = 0;
        while (prompt < n_prompts && n < PIECE) {
            for (; position < prompts[prompt].length && n < PIECE; position++, n++)
                n_keys += (size_t)position + 1;
            longest = max_int(longest, position);
            if (position == prompts[prompt].length) {
                prompt++;
                position = 0;
            }
        }
        if (team->rank == 0) {
            reserve_work(work, n, n_keys, longest, team->size);
            reserve_chunks(state, longest);
            position_table(state->model, longest);
            work->is_single = 0;
            n_keys = 0;
            for (int i = 0, own = begin_prompt, p = begin_position; i < n; i++, p++) {
                while (p == prompts[own].length) {
                    own++;
                    p = 0;
                }
                Row *row = &state->rows[first_row + own];
                reserve_row(row, p + 1);
                set_token(work, state, i, &n_keys, first_row + own, prompts[own].ids[p], p);
                row->length = p + 1;
            }
        }
        meet(team);
        run_decoder(team, work, state);
        meet(team);
    }
}

/* ------------------------------------------------------------------------------------------------------------------
   8  Search

   Many sentences, some of them at a time: as one is done, the next one takes its place, so that the batch stays full.
   Each member of a team has a group of sentences of its own and never waits for another; a single sentence is shared
   by all. The rules are those of `sightline.decoding`, to the last bit of every total.
   ------------------------------------------------------------------------------------------------------------------ */

enum { ENDED = 1, REACHED_LIMIT = 2 };
enum { NOT_FINITE = 1, NOTHING_FOUND = 2, TOO_LONG = 3 };

/* What Python asks for, and where the results go: those of sentence i at results[i] + rank * limits[i]. */
typedef struct {
    Model *model;
    int32_t n_sentences, beam_size, n_best, max_rows, n_ends, n_threads;
    double length_penalty;
    const int32_t *ids;      /* sources of an encoder-decoder; prompts of a GPT */
    const int64_t *offsets;  /* n_sentences + 1 */
    const int32_t *first_ids; /* what is fed first */
    const int32_t *limits, *end_ids;
    const int64_t *results;
    int32_t *tokens;
    float *log_probs;
    int32_t *lengths, *reasons; /* n_sentences n_best */
    double *scores;
    int32_t *counts, *errors, *error_lengths; /* n_sentences */
    atomic_int *cancel, *n_done;
} Request;

typedef struct {
    double score;
    int length, reason;
    int32_t *tokens;
    float *log_probs;
} Result;

/* A sentence that is being searched: its rows are next to one another. */
typedef struct {
    int sentence, first_row, n_rows, n_tokens, n_results;
    double *totals;  /* log-probability of each row */
    Result *results; /* best first, at most n_best */
} Live;

/* An extension of a hypothesis by one token; `index` orders equal totals: by hypothesis, then by rank of the token. */
typedef struct {
    double total;
    int index, row, token;
    float log_prob;
} Candidate;

/* The sentences of one member, or of all. */
typedef struct {
    const Request *request;
    atomic_int *next; /* the next sentence that nobody has taken */
    State *state;
    Work *work;
    Live *live;
    int n_live, max_live, n_candidates; /* candidates of each row */
    int32_t *newest;                    /* the token that each row is fed next */
    int32_t *best_ids;
    float *best_log_probs;
    Candidate *candidates;
    int32_t *order; /* rows of the next step: which row each continues, and with what */
    int32_t *next_tokens;
    float *next_log_probs;
    int n_next;
    int *fresh; /* sentences that join */
    Text *texts;
    Source **sources;
    int n_fresh, is_done;
} Group;

static double penalty(const Request *request, int length) { return pow((5 + length) / 6.0, request->length_penalty); }

static int is_end(const Request *request, int token)
{
    for (int i = 0; i < request->n_ends; i++)
        if (request->end_ids[i] == token)
            return 1;
    return 0;
}

static Group *create_group(const Request *request, atomic_int *next, int max_live)
{
    const int beam = request->beam_size, n_rows = max_live * beam;
    Group *group = allocate(sizeof(Group));
    group->request = request;
    group->next = next;
    group->max_live = max_live;
    group->n_candidates = beam == 1 ? 1 : beam + request->n_ends;
    if (group->n_candidates > request->model->config.target_vocab_size)
        group->n_candidates = request->model->config.target_vocab_size;
    group->state = create_state(request->model, n_rows + beam);
    group->work = borrow_work(request->model);
    group->live = allocate((size_t)max_live * sizeof(Live));
    for (int i = 0; i < max_live; i++) {
        group->live[i].totals = allocate((size_t)beam * sizeof(double));
        group->live[i].results = allocate((size_t)(request->n_best + 1) * sizeof(Result));
    }
    group->newest = allocate((size_t)n_rows * sizeof(int32_t));
    group->best_ids = allocate((size_t)n_rows * group->n_candidates * sizeof(int32_t));
    group->best_log_probs = allocate((size_t)n_rows * group->n_candidates * sizeof(float));
    group->candidates = allocate((size_t)beam * group->n_candidates * sizeof(Candidate));
    group->order = allocate((size_t)n_rows * sizeof(int32_t));
    group->next_tokens = allocate((size_t)n_rows * sizeof(int32_t));
    group->next_log_probs = allocate((size_t)n_rows * sizeof(float));
    group->fresh = allocate((size_t)max_live * sizeof(int));
    group->texts = allocate((size_t)max_live * sizeof(Text));
    group->sources = allocate((size_t)max_live * sizeof(Source *));
    return group;
}

static void free_state(State *state)
{
    for (int i = 0; i < state->n_rows; i++)
        free_row(&state->rows[i]);
    for (int i = 0; i < state->n_chunks; i++)
        free(state->chunks[i]);
    for (int i = 0; i < MAX_THREADS; i++)
        return_work(state->model, state->work[i]);
    free(state->chunks);
    free(state->rows);
    free(state);
}

static void drop_results(Live *live)
{
    for (int i = 0; i < live->n_results; i++) {
        free(live->results[i].tokens);
        free(live->results[i].log_probs);
    }
    live->n_results = 0;
}

static void free_group(Group *group)
{
    return_work(group->request->model, group->work);
    free_state(group->state);
    for (int i = 0; i < group->max_live; i++) {
        drop_results(&group->live[i]);
        free(group->live[i].totals);
        free(group->live[i].results);
    }
    void *buffers[] = {group->live,       group->newest,     group->best_ids, group->best_log_probs,
                       group->candidates, group->order,      group->next_tokens, group->next_log_probs,
                       group->fresh,      group->texts,      (void *)group->sources};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        free(buffers[i]);
    free(group);
}

/* Add a complete hypothesis to the results of its sentence: in a tie the earlier one comes first. */
static void add_result(const Group *group, Live *live, const Candidate *candidate, int reason)
{
    const Request *request = group->request;
    const double score = candidate->total / penalty(request, live->n_tokens + 1);
    const double worst = live->n_results == request->n_best ? live->results[live->n_results - 1].score : -INFINITY;
    if (score <= worst)
        return;
    const Row *row = &group->state->rows[candidate->row];
    const size_t before = (size_t)live->n_tokens;
    Result result = {score, live->n_tokens + 1, reason, allocate((before + 1) * sizeof(int32_t)),
                     allocate((before + 1) * sizeof(float))};
    memcpy(result.tokens, row->tokens, before * sizeof(int32_t));
    memcpy(result.log_probs, row->log_probs, before * sizeof(float));
    result.tokens[before] = candidate->token;
    result.log_probs[before] = candidate->log_prob;
    int at = live->n_results++;
    for (; at > 0 && live->results[at - 1].score < score; at--)
        live->results[at] = live->results[at - 1];
    live->results[at] = result;
    if (live->n_results > request->n_best) {
        free(live->results[--live->n_results].tokens);
        free(live->results[live->n_results].log_probs);
    }
}

/* Write the results of a sentence to where Python reads them. */
static void deliver(Group *group, Live *live, int error)
{
    const Request *request = group->request;
    const int sentence = live->sentence;
    if (error) {
        request->errors[sentence] = error;
        request->error_lengths[sentence] = live->n_tokens;
    } else {
        for (int rank = 0; rank < live->n_results; rank++) {
            const Result *result = &live->results[rank];
            const size_t at = (size_t)(request->results[sentence] + (int64_t)rank * request->limits[sentence]);
            const int index = sentence * request->n_best + rank;
            memcpy(request->tokens + at, result->tokens, (size_t)result->length * sizeof(int32_t));
            memcpy(request->log_probs + at, result->log_probs, (size_t)result->length * sizeof(float));
            request->lengths[index] = result->length;
            request->reasons[index] = result->reason;
            request->scores[index] = result->score;
        }
        request->counts[sentence] = live->n_results;
    }
    drop_results(live);
    atomic_fetch_add(request->n_done, 1);
}

static void keep_row(Group *group, int row, int token, float log_prob)
{
    group->order[group->n_next] = row;
    group->next_tokens[group->n_next] = token;
    group->next_log_probs[group->n_next++] = log_prob;
}

/* Greedy search: the best token of the only row. Return whether the sentence goes on. */
static int advance_greedy(Group *group, Live *live)
{
    const Request *request = group->request;
    const int row = live->first_row;
    const Candidate best = {live->totals[0] + (double)group->best_log_probs[row], 0, row, group->best_ids[row],
                            group->best_log_probs[row]};
    const int reason = is_end(request, best.token)                                     ? ENDED
                       : live->n_tokens + 1 >= request->limits[live->sentence] ? REACHED_LIMIT
                                                                                       : 0;
    if (reason) {
        add_result(group, live, &best, reason);
        deliver(group, live, live->n_results ? 0 : NOTHING_FOUND);
        return 0;
    }
    live->totals[0] = best.total;
    keep_row(group, row, best.token, best.log_prob);
    return 1;
}

static int compare_candidates(const void *left, const void *right)
{
    const Candidate *a = left, *b = right;
    if (a->total != b->total)
        return a->total > b->total ? -1 : 1;
    return a->index < b->index ? -1 : 1;
}

/* Whether no live hypothesis can change the results any more. Log-probabilities only fall and the penalty's divisor
   only grows, so that no descendant of a hypothesis scores above best / penalty(limit). */
static int is_decided(const Group *group, const Live *live, double best, int length)
{
    const Request *request = group->request;
    const int limit = request->limits[live->sentence];
    if (best == -INFINITY || length >= limit)
        return 1;
    const double worst = live->n_results == request->n_best ? live->results[live->n_results - 1].score : -INFINITY;
    return worst >= best / penalty(request, limit);
}

/* Beam search: extend every hypothesis by its best tokens, sort all. An end among the first K is a result; the beam is
   filled with the first K that do not end. */
static int advance_beam(Group *group, Live *live)
{
    const Request *request = group->request;
    const int width = request->beam_size, length = live->n_tokens + 1;
    int n = 0;
    for (int i = 0; i < live->n_rows; i++)
        for (int j = 0; j < group->n_candidates; j++, n++) {
            const int row = live->first_row + i, at = row * group->n_candidates + j;
            const float log_prob = group->best_log_probs[at];
            group->candidates[n] =
                (Candidate){live->totals[i] + (double)log_prob, n, row, group->best_ids[at], log_prob};
        }
    qsort(group->candidates, (size_t)n, sizeof(Candidate), compare_candidates);
    const Candidate *first = NULL;
    for (int rank = 0; rank < n && rank < width; rank++)
        if (group->candidates[rank].total > -INFINITY && is_end(request, group->candidates[rank].token))
            add_result(group, live, &group->candidates[rank], ENDED);
    const int n_before = group->n_next;
    double best = -INFINITY;
    int n_kept = 0;
    for (int rank = 0; rank < n && n_kept < width; rank++) {
        const Candidate *candidate = &group->candidates[rank];
        const int is_alive = candidate->total > -INFINITY;
        if (!is_alive || is_end(request, candidate->token))
            continue;
        first = first ? first : candidate;
        best = candidate->total > best ? candidate->total : best;
        if (length >= request->limits[live->sentence])
            add_result(group, live, candidate, REACHED_LIMIT);
        live->totals[n_kept++] = candidate->total;
        keep_row(group, candidate->row, candidate->token, candidate->log_prob);
    }
    if (is_decided(group, live, best, length)) {
        group->n_next = n_before;
        deliver(group, live, live->n_results ? 0 : NOTHING_FOUND);
        return 0;
    }
    for (; n_kept < width; n_kept++) { /* an empty slot repeats the first row, since a step needs a valid input */
        live->totals[n_kept] = -INFINITY;
        keep_row(group, first->row, first->token, first->log_prob);
    }
    return 1;
}

/* Use the candidates of a step: finish sentences, reorder the rows of the others. */
static void advance_group(Group *group)
{
    State *state = group->state;
    int n_left = 0;
    group->n_next = 0;
    for (int i = 0; i < group->n_live; i++) {
        Live *live = &group->live[i];
        const int first = group->n_next;
        int goes_on = 1;
        for (int j = 0; j < live->n_rows && goes_on; j++)
            if (isnan(group->best_log_probs[(live->first_row + j) * group->n_candidates])) {
                deliver(group, live, NOT_FINITE);
                goes_on = 0;
            }
        if (goes_on)
            goes_on = group->request->beam_size == 1 ? advance_greedy(group, live) : advance_beam(group, live);
        if (!goes_on)
            continue;
        live->first_row = first;
        live->n_rows = group->n_next - first;
        live->n_tokens++;
        const Live moved = group->live[n_left];
        group->live[n_left++] = *live;
        if (n_left - 1 != i)
            *live = moved; /* its buffers are used again */
    }
    group->n_live = n_left;
    reorder_rows(state, group->order, group->n_next);
    for (int i = 0; i < group->n_next; i++) {
        Row *row = &state->rows[i];
        reserve_row(row, row->n_tokens + 1);
        row->tokens[row->n_tokens] = group->next_tokens[i];
        row->log_probs[row->n_tokens++] = group->next_log_probs[i];
        group->newest[i] = group->next_tokens[i];
    }
}

/* Take sentences that nobody has taken, as many as there is room for, but not much to read at once. */
static void take_sentences(Group *group)
{
    const Request *request = group->request;
    group->n_fresh = 0;
    for (int n = 0; group->n_live + group->n_fresh < group->max_live && n < PIECE;) {
        const int sentence = atomic_fetch_add(group->next, 1);
        if (sentence >= request->n_sentences)
            return;
        const int64_t begin = request->offsets[sentence];
        const int length = (int)(request->offsets[sentence + 1] - begin);
        group->fresh[group->n_fresh] = sentence;
        group->texts[group->n_fresh++] = (Text){request->ids + begin, NULL, length};
        n += length;
    }
}

/* Read the sources or prompts of the sentences that were taken, and give them rows. */
static void join_sentences(const Team *team, Group *group)
{
    Model *model = group->request->model;
    const int has_encoder = model->config.n_encoder_layers > 0, first = group->state->n_rows;
    if (has_encoder) {
        if (team->rank == 0) {
            set_texts(group->work, model, group->texts, group->n_fresh, team->size);
            for (int i = 0; i < group->n_fresh; i++)
                group->sources[i] = create_source(&model->config, group->texts[i].length);
        }
        meet(team);
        const float *hidden = run_encoder(team, group->work);
        project_sources(team, group->work, hidden, group->sources);
    }
    meet(team);
    if (team->rank == 0) {
        add_rows(group->state, has_encoder ? group->sources : NULL, group->n_fresh);
        for (int i = 0; i < group->n_fresh; i++) {
            if (has_encoder)
                release_source(group->sources[i]); /* its row holds it */
            Live *live = &group->live[group->n_live++];
            live->sentence = group->fresh[i];
            live->first_row = first + i;
            live->n_rows = 1;
            live->n_tokens = live->n_results = 0;
            live->totals[0] = 0.0;
            group->newest[first + i] = group->request->first_ids[group->fresh[i]];
        }
    }
    meet(team);
    if (!has_encoder)
        read_prompts(team, group->work, group->state, first, group->texts, group->n_fresh);
}

/* Sentences that the model can read no further. */
static void drop_too_long(Group *group)
{
    const int limit = group->request->model->config.max_length;
    if (!limit)
        return;
    int n_left = 0, n_rows = 0;
    for (int i = 0; i < group->n_live; i++) {
        Live *live = &group->live[i];
        if (group->state->rows[live->first_row].length >= limit) {
            deliver(group, live, TOO_LONG);
            continue;
        }
        const int first = n_rows;
        for (int j = 0; j < live->n_rows; j++, n_rows++) {
            group->order[n_rows] = live->first_row + j;
            group->newest[n_rows] = group->newest[live->first_row + j];
        }
        live->first_row = first;
        const Live moved = group->live[n_left];
        group->live[n_left++] = *live;
        if (n_left - 1 != i)
            *live = moved;
    }
    group->n_live = n_left;
    reorder_rows(group->state, group->order, n_rows);
}

/* One step of all rows: the best tokens of each. */
static void step_group(const Team *team, Group *group)
{
    State *state = group->state;
    Work *work = group->work;
    if (team->rank == 0) {
        reserve_step(state);
        set_step(work, state, group->newest, 0, state->n_rows, team->size);
    }
    meet(team);
    run_decoder(team, work, state);
    compute_logits(team, work);
    find_best(team, work, group->n_candidates, group->best_ids, group->best_log_probs);
    if (team->rank == 0) {
        for (int i = 0; i < state->n_rows; i++)
            state->rows[i].length++;
        advance_group(group);
    }
    meet(team);
}

/* Search until no sentence is left. */
static void run_group(const Team *team, Group *group)
{
    for (;;) {
        for (;;) {
            if (team->rank == 0)
                take_sentences(group);
            meet(team);
            if (!group->n_fresh)
                break;
            join_sentences(team, group);
            meet(team);
        }
        if (team->rank == 0) {
            drop_too_long(group);
            group->is_done = !group->n_live || atomic_load(group->request->cancel);
        }
        meet(team);
        if (group->is_done)
            return;
        step_group(team, group);
    }
}

typedef struct {
    const Request *request;
    atomic_int next;
    Group *shared; /* one group for all members; NULL: a group for each */
    int max_live;
} SearchJob;

static void search_job(void *argument, const Team *team)
{
    SearchJob *job = argument;
    if (job->shared) {
        run_group(team, job->shared);
        return;
    }
    Group *group = create_group(job->request, &job->next, job->max_live);
    run_group(&(Team){0, 1, NULL, NULL}, group);
    free_group(group);
}

/* ------------------------------------------------------------------------------------------------------------------
   9  What Python calls

   Every shape, type and id has been checked before. A model may be used by several threads at once, a state by one.
   ------------------------------------------------------------------------------------------------------------------ */

/* The instruction sets that this file was compiled for, the best first; NULL after the last. */
EXPORT const char *sightline_instruction_set(int32_t index) { return index < N_KERNELS ? KERNELS[index]->name : NULL; }

EXPORT int32_t sightline_is_supported(int32_t index) { return KERNELS[index]->is_supported(); }

/* Build a model from its tensors, which are packed; only embedding tables must stay where they are. */
EXPORT Model *sightline_create_model(const Config *config, const Tensor *tensors, const double *frequencies,
                                     int32_t instruction_set, int32_t n_threads)
{
    Model *model = allocate(sizeof(Model));
    model->config = *config;
    model->kernels = KERNELS[instruction_set];
    pthread_mutex_init(&model->lock, NULL);
    pthread_mutex_init(&model->pool.in_use, NULL);
    pthread_mutex_init(&model->pool.lock, NULL);
    pthread_cond_init(&model->pool.wake, NULL);
    model->pool.process = getpid();
    if (config->positions == ROPE) {
        model->frequencies = allocate((size_t)config->d_head / 2 * sizeof(double));
        memcpy(model->frequencies, frequencies, (size_t)config->d_head / 2 * sizeof(double));
    }
    Loader loader = {tensors, model, n_threads};
    model->source = take_embedding(&loader);
    model->target = take_embedding(&loader);
    model->encoder = take_layers(&loader, config->n_encoder_layers, 0);
    model->encoder_norm = take_norm(&loader);
    model->decoder = take_layers(&loader, config->n_decoder_layers, 1);
    model->decoder_norm = take_norm(&loader);
    model->layer_bytes = model->step_bytes / (size_t)max_int(1, config->n_decoder_layers);
    const Tensor weight = take(&loader), bias = take(&loader);
    if (weight.values)
        model->output = pack(&loader, &weight, &bias, 1);
    model->step_bytes += bytes_of(&model->output);
    return model;
}

EXPORT void sightline_free_model(Model *model)
{
    const Config *config = &model->config;
    close_pool(&model->pool);
    free_norm(&model->source.norm);
    free_norm(&model->target.norm);
    free_layers(model->encoder, config->n_encoder_layers);
    free_layers(model->decoder, config->n_decoder_layers);
    free_norm(&model->encoder_norm);
    free_norm(&model->decoder_norm);
    free_linear(&model->output);
    free(model->frequencies);
    for (PositionTable *table = model->positions, *before; table; table = before) {
        before = table->before;
        free(table);
    }
    for (Work *work = model->spare, *next; work; work = next) {
        next = work->next;
        free_work(work);
    }
    pthread_mutex_destroy(&model->lock);
    free(model);
}

/* Bytes of weights that one decoder step reads. */
EXPORT int64_t sightline_step_bytes(const Model *model) { return (int64_t)model->step_bytes; }

typedef struct {
    Model *model;
    Text *texts;
    int n_texts;
    float *hidden;    /* every token's, in order; or NULL */
    Source **sources; /* or NULL */
    int64_t *offsets; /* where the tokens of each text begin */
    atomic_int next;
    Work *shared;
} EncodeJob;

/* Encode some texts that follow one another. */
static void encode_texts(const Team *team, Work *work, const EncodeJob *job, int first, int n_texts)
{
    Model *model = job->model;
    if (team->rank == 0) {
        set_texts(work, model, job->texts + first, n_texts, team->size);
        for (int i = 0; job->sources && i < n_texts; i++)
            job->sources[first + i] = create_source(&model->config, job->texts[first + i].length);
    }
    meet(team);
    const float *hidden = run_encoder(team, work);
    if (job->sources)
        project_sources(team, work, hidden, job->sources + first);
    const size_t width = (size_t)model->config.d_model;
    if (job->hidden)
        for (int i = part_begin(team, work->n); i < part_end(team, work->n); i++)
            memcpy(job->hidden + ((size_t)job->offsets[first] + i) * width, hidden + i * model_stride(work),
                   width * sizeof(float));
    meet(team);
}

static void encode_job(void *argument, const Team *team)
{
    EncodeJob *job = argument;
    if (job->shared) { /* fewer texts than members */
        for (int i = 0; i < job->n_texts; i++)
            encode_texts(team, job->shared, job, i, 1);
        return;
    }
    Work *work = borrow_work(job->model);
    const int most = (job->n_texts + team->size - 1) / team->size; /* something for everyone */
    for (;;) {
        int first = atomic_load(&job->next), n_texts;
        do {
            n_texts = 0;
            for (int n = 0; first + n_texts < job->n_texts && n_texts < most && n < PIECE; n_texts++)
                n += job->texts[first + n_texts].length;
        } while (!atomic_compare_exchange_weak(&job->next, &first, first + n_texts));
        if (!n_texts)
            break;
        encode_texts(&(Team){0, 1, NULL, NULL}, work, job, first, n_texts);
    }
    return_work(job->model, work);
}

static void encode(Model *model, const int32_t *ids, const int32_t *segments, const int64_t *offsets, int n_texts,
                   int n_threads, float *hidden, Source **sources)
{
    Text *texts = allocate((size_t)(n_texts + 1) * sizeof(Text));
    for (int i = 0; i < n_texts; i++)
        texts[i] = (Text){ids + offsets[i], segments ? segments + offsets[i] : NULL,
                          (int)(offsets[i + 1] - offsets[i])};
    EncodeJob job = {.model = model, .texts = texts, .n_texts = n_texts, .hidden = hidden, .sources = sources,
                     .offsets = (int64_t *)offsets, .shared = n_texts < n_threads ? borrow_work(model) : NULL};
    run_team(&model->pool, n_threads, encode_job, &job);
    return_work(model, job.shared);
    free(texts);
}

/* Write the encoder's output for each token of each text. */
EXPORT void sightline_encode(Model *model, const int32_t *ids, const int32_t *segments, const int64_t *offsets,
                             int32_t n_texts, int32_t n_threads, float *hidden)
{
    encode(model, ids, segments, offsets, n_texts, n_threads, hidden, NULL);
}

/* Encode sources; return a state with a row for each, which has seen no target yet. */
EXPORT State *sightline_read_sources(Model *model, const int32_t *ids, const int64_t *offsets, int32_t n_sources,
                                     int32_t n_threads)
{
    Source **sources = allocate((size_t)(n_sources + 1) * sizeof(Source *));
    encode(model, ids, NULL, offsets, n_sources, n_threads, NULL, sources);
    State *state = create_state(model, n_sources);
    add_rows(state, sources, n_sources);
    for (int i = 0; i < n_sources; i++)
        release_source(sources[i]);
    free(sources);
    return state;
}

typedef struct {
    State *state;
    Text *prompts;
    Work *work;
} PromptJob;

static void prompt_job(void *argument, const Team *team)
{
    const PromptJob *job = argument;
    read_prompts(team, job->work, job->state, 0, job->prompts, job->state->n_rows);
}

/* Feed prompts; return a state with a row for each. */
EXPORT State *sightline_read_prompts(Model *model, const int32_t *ids, const int64_t *offsets, int32_t n_prompts,
                                     int32_t n_threads)
{
    State *state = create_state(model, n_prompts);
    add_rows(state, NULL, n_prompts);
    PromptJob job = {state, allocate((size_t)(n_prompts + 1) * sizeof(Text)), borrow_work(model)};
    for (int i = 0; i < n_prompts; i++)
        job.prompts[i] = (Text){ids + offsets[i], NULL, (int)(offsets[i + 1] - offsets[i])};
    run_team(&model->pool, n_threads, prompt_job, &job);
    return_work(model, job.work);
    free(job.prompts);
    return state;
}

EXPORT void sightline_free_state(State *state) { free_state(state); }

EXPORT int32_t sightline_row_count(const State *state) { return state->n_rows; }

/* Tokens that the longest row has seen. */
EXPORT int32_t sightline_longest_row(const State *state)
{
    int longest = 0;
    for (int i = 0; i < state->n_rows; i++)
        longest = max_int(longest, state->rows[i].length);
    return longest;
}

EXPORT int32_t sightline_longest_source(const State *state) { return longest_source(state); }

/* Make row i what row order[i] was. */
EXPORT void sightline_reorder(State *state, const int32_t *order, int32_t n_rows)
{
    reorder_rows(state, order, n_rows);
}

/* Append the rows of another state, which is freed. */
EXPORT void sightline_join(State *state, State *other)
{
    const Config *config = &state->model->config;
    const size_t width = kv_width(config);
    reserve_rows(state, state->n_rows + other->n_rows);
    reserve_chunks(state, sightline_longest_row(other));
    SlotUse use = begin_slot_use(state, state->rows, state->n_rows);
    for (int i = 0; i < other->n_rows; i++) {
        Row row = other->rows[i];
        row.slot = find_slot(state, &use, 0);
        for (int p = 0; p < row.length; p++) {
            const float *from = key_at(other, row.ancestors[p], p);
            float *to = key_at(state, row.slot, p);
            for (int part = 0; part < 2 * config->n_decoder_layers; part++)
                memcpy(to + part * value_offset(state), from + part * value_offset(other), width * sizeof(float));
            row.ancestors[p] = row.slot;
        }
        state->rows[state->n_rows++] = row;
    }
    end_slot_use(&use);
    other->n_rows = 0; /* its rows live on here */
    free_state(other);
}

/* Bytes of a layer's weights below which a step of few rows is run by one thread, which is helped with the logits only:
   the others would gain less on each product of a layer than they lose at its barriers. */
#define SMALL_LAYER (384 << 10)

static int is_small(const Model *model) { return model->layer_bytes < SMALL_LAYER; }

typedef struct {
    State *state;
    const int32_t *ids;
    int count; /* candidates of each row; 0: none */
    int32_t *best_ids;
    float *best_log_probs;
    float *logits;    /* R V; or NULL */
    float *attention; /* R attention_width; or NULL */
    int attention_width, is_divided;
} StepJob;

static void step_rows(const Team *team, const StepJob *job, Work *work, int first_row, int n_rows)
{
    State *state = job->state;
    const Model *model = state->model;
    const size_t n_tokens = (size_t)model->config.target_vocab_size;
    if (team->rank == 0) {
        set_step(work, state, job->ids + first_row, first_row, n_rows, team->size);
        if (job->attention) {
            work->attention = job->attention + (size_t)first_row * job->attention_width;
            work->attention_width = job->attention_width;
        }
    }
    meet(team);
    run_decoder(team, work, state);
    compute_logits(team, work);
    if (job->logits)
        for (int i = part_begin(team, n_rows); i < part_end(team, n_rows); i++)
            memcpy(job->logits + (size_t)(first_row + i) * n_tokens, work->logits + i * logit_stride(work),
                   n_tokens * sizeof(float));
    if (job->count)
        find_best(team, work, job->count, job->best_ids + (size_t)first_row * job->count,
                  job->best_log_probs + (size_t)first_row * job->count);
    meet(team);
}

static void step_job(void *argument, const Team *team)
{
    const StepJob *job = argument;
    State *state = job->state;
    if (job->is_divided) { /* members have rows of their own, and wait for nobody */
        const int first = part_begin(team, state->n_rows), n_rows = part_end(team, state->n_rows) - first;
        if (n_rows)
            step_rows(&(Team){0, 1, NULL, NULL}, job, state->work[team->rank], first, n_rows);
    } else {
        step_rows(team, job, state->work[0], 0, state->n_rows);
    }
}

/* Feed each row its newest token. Outputs that are NULL are not computed; attention must be zeros before. */
EXPORT void sightline_step(State *state, const int32_t *ids, int32_t n_threads, int32_t count, int32_t *best_ids,
                           float *best_log_probs, float *logits, float *attention, int32_t attention_width)
{
    if (!state->n_rows)
        return;
    n_threads = n_threads < 1 ? 1 : n_threads > MAX_THREADS ? MAX_THREADS : n_threads;
    StepJob job = {state, ids, count, best_ids, best_log_probs, logits, attention, attention_width,
                   state->n_rows >= 2 * n_threads};
    reserve_step(state);
    for (int i = 0; i < n_threads; i++)
        if (!state->work[i])
            state->work[i] = borrow_work(state->model);
    if (is_small(state->model) && !job.is_divided)
        run_helped(&state->model->pool, n_threads, step_job, &job);
    else
        run_team(&state->model->pool, n_threads, step_job, &job);
    for (int i = 0; i < state->n_rows; i++)
        state->rows[i].length++;
}

/* Run several greedy steps: feed `ids`, choose the best token of each row, feed these, and so on. Stop after a step in
   which a row has ended, or if cancelled; return how many steps were run. tokens and log_probs: n_steps rows. */
EXPORT int32_t sightline_greedy(State *state, const int32_t *ids, int32_t n_steps, int32_t n_threads,
                                const int32_t *end_ids, int32_t n_ends, const int32_t *cancel, int32_t *tokens,
                                float *log_probs)
{
    const int n_rows = state->n_rows;
    for (int step = 0; step < n_steps; step++) {
        if (atomic_load((const atomic_int *)cancel))
            return step;
        int32_t *chosen = tokens + (size_t)step * n_rows;
        sightline_step(state, ids, n_threads, 1, chosen, log_probs + (size_t)step * n_rows, NULL, NULL, 0);
        for (int i = 0; i < n_rows; i++)
            for (int end = 0; end < n_ends; end++)
                if (chosen[i] == end_ids[end])
                    return step + 1;
        ids = chosen;
    }
    return n_steps;
}

/* Search all sentences of a request to their ends. */
EXPORT void sightline_search(const Request *request)
{
    SearchJob job = {.request = request};
    const int n_sentences = request->n_sentences;
    int n_threads = request->n_threads < 1 ? 1 : request->n_threads;
    job.max_live = max_int(1, request->max_rows / request->beam_size);
    const int share = (n_sentences + n_threads - 1) / n_threads; /* something for everyone */
    job.max_live = job.max_live < share ? job.max_live : max_int(1, share);
    if (n_sentences < n_threads) {
        job.max_live = max_int(1, n_sentences);
        job.shared = create_group(request, &job.next, job.max_live);
    }
    if (job.shared && is_small(request->model))
        run_helped(&request->model->pool, n_threads, search_job, &job);
    else
        run_team(&request->model->pool, n_threads, search_job, &job);
    if (job.shared)
        free_group(job.shared);
}

/* A single linear map, for tests of the products: out = x W + b, padded rows apart. */
EXPORT void sightline_multiply(int32_t instruction_set, int32_t bits, const float *x, int32_t n_rows,
                               const float *weights, const float *bias, int32_t n_inputs, int32_t n_outputs, float *out)
{
    Model *model = allocate(sizeof(Model));
    model->config = (Config){.d_model = n_inputs, .n_heads = 1, .n_groups = 1, .d_head = 1, .d_ff = 1, .bits = bits};
    model->kernels = KERNELS[instruction_set];
    Loader loader = {NULL, model, 1};
    const Tensor weight = {weights, n_outputs, n_inputs}, offset = {bias, n_outputs, 1};
    Linear w = pack(&loader, &weight, &offset, 1);
    Work *work = allocate(sizeof(Work));
    work->model = model;
    reserve_work(work, n_rows, 0, 0, 1);
    for (int i = 0; i < n_rows; i++)
        memcpy(work->x + i * model_stride(work), x + (size_t)i * n_inputs, (size_t)n_inputs * sizeof(float));
    const Team alone = {0, 1, NULL, NULL};
    const size_t stride = (size_t)w.n_tiles * TILE;
    float *result = allocate((size_t)n_rows * stride * sizeof(float));
    multiply(&alone, work, result, stride, make_operand(&alone, work, work->x, model_stride(work), n_inputs), &w);
    for (int i = 0; i < n_rows; i++)
        memcpy(out + (size_t)i * n_outputs, result + i * stride, (size_t)n_outputs * sizeof(float));
    free(result);
    free_work(work);
    free_linear(&w);
    free(model);
}

#endif /* KERNEL */
