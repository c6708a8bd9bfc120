// Products in Z[x]/(x^n - x - 1) on the Tensor Cores, one warp a product, every product with operands of its own.
//
// Write the product a*b, with x^n = x + 1 already applied to a, as c_i = sum_j b_j F[i - j], where
//
//   F[d] = a_d for d > 0,   F[0] = a_0 + a_(n-1),   F[-e] = a_(n-e) + a_(n-e-1),   F[n] = 0.
//
// That holds for 1 <= i < n. For i = 0 the a_(n-1) in F[0] is one term too many and a_(n-1) b_1 + ... + a_1 b_(n-1) is
// missing: c_0 = a_0 b_0 + c_n, where row n, computed like the others, is exactly the missing sum.
//
// With i = 16*column + shift this is a matrix product, C[shift][column] = sum_t B[shift][t] F[16*column + t], where
// B[shift][t] = b_(shift - t). Rows of the 16 x 8 tiles are the 16 shifts, columns are eight 16-coefficient steps: a tile holds
// 128 consecutive coefficients and nothing is wasted on a fold, which is done beforehand, or on zero blocks. F is a Hankel matrix,
// so a 32-step of t and a tile of columns need only the 8 x 32 bytes that begin at 128*tile + 32*step, and each such block,
// loaded once, serves every tile it belongs to.
//
// F's entries, up to 2^14, are split at byte 8 into two unsigned limbs; b is one limb (a small polynomial) or two (another
// element of R_q). The high limb of F goes first, the accumulators move up by 8 bits, and the low limb goes into the same
// accumulators. Accumulators wrap at 2^32: products modulo a power of two need no bound.
#pragma once
#include "codec.cuh"

namespace ctruprime {

template <class P> struct Mma {
    // ---- Geometry ----
    static constexpr int shifts = 16, columns = 8, depth = 32;          // a tile is 16 shifts x 8 columns, 32 terms deep
    static constexpr int tile = shifts * columns;                       // 128 coefficients
    static constexpr int tiles = ceil_div(P::n + 1, tile);              // rows 0..n
    static constexpr int first_t = -round_up(P::n - 1, shifts);         // b_(shift - t) != 0 for -(n-1) <= t < 16
    static constexpr int steps = ceil_div(shifts - first_t, depth);     // of t
    static constexpr int groups = tile / depth;                         // 32-byte blocks of F from one tile to the next
    static constexpr int blocks = steps + groups * (tiles - 1);         // distinct 32-byte blocks of F

    // F[d] is byte d - first_t of its array. ldmatrix reads two blocks at a time, rows of 16 bytes, 16 bytes apart.
    static constexpr int folded_row = 2 * depth * ceil_div(blocks, 2) + shifts * (columns - 1);

    // b is kept reversed, coefficient j at byte reversed_top - j, and in four copies, copy c moved down by c bytes, so that
    // every lane reads aligned words whatever its shift. Copies two apart lie 16 banks apart, since shifts 2g use them by turns.
    static constexpr int reversed_top = shifts - 1 - first_t;
    static constexpr int reversed_end = shifts + depth * steps;         // bytes of a copy
    static constexpr int reversed_row = round_up(reversed_end - 32, 64) + 32;   // = 32 mod 64 bytes: 8 or 24 banks mod 32
    static_assert(reversed_top % 8 == 7 && P::per_lane % 8 == 0, "a lane's share is stored in 8-byte words");
    static_assert(reversed_row >= reversed_end && reversed_row % 64 == 32, "copies on banks of their own");

    // Shared memory of one product: F's limbs, then the copies of b.
    static constexpr int folded_bytes = 2 * folded_row, product_bytes = folded_bytes + 4 * reversed_row;

    // The steps' 4 registers each are all held at once if they fit beside the accumulators; if not, in two halves.
    static constexpr int max_held_steps = 25;
    static constexpr int halves = steps <= max_held_steps ? 1 : 2;
    static constexpr int half_steps = ceil_div(steps, halves);
    static_assert(half_steps <= max_held_steps, "two halves are enough");

    // Row n, which corrects coefficient 0, is held by this lane and register of the last tile.
    static constexpr int correction_tile = P::n / tile, correction_lane = 4 * (P::n % shifts / 2) + P::n / shifts % columns / 2;
    static constexpr int correction_register = 2 * (P::n % 2) + P::n / shifts % 2;

    typedef int32_t Accumulators[tiles][4];

    // ---- Operands ----

    static_assert(P::padded - first_t <= folded_row, "every lane's coefficients have their place in F");
    static_assert((P::n - 1) % 4 == 0 && (1 - P::n - first_t) % 4 == 0, "F[0] begins a word, on both sides");

    // store_limb writes a limb of F, four entries a word: straight[k] are a_d and the first of lane 0 F[0]; sums[k] are
    // a_i + a_(i+1) = F[i + 1 - n], whose entries from F[0] on are left out. Bytes of the array that are never written
    // meet only zeros of b, or rows past n.
    static __device__ __forceinline__ void store_limb(uint8_t *limb, const uint32_t (&straight)[P::per_lane / 4],
                                                      const uint32_t (&sums)[P::per_lane / 4], int lane) {
        constexpr int words = P::per_lane / 4, first_sum = 1 - P::n - first_t;
        uint2 *to = reinterpret_cast<uint2 *>(limb - first_t) + words / 2 * lane;
        uint32_t *before = reinterpret_cast<uint32_t *>(limb + first_sum) + words * lane;
        const int left = P::n - 1 - P::per_lane * lane;   // sums from this lane on
#pragma unroll
        for (int k = 0; k < words / 2; k++) to[k] = make_uint2(straight[2 * k], straight[2 * k + 1]);
        if constexpr (first_sum % 8 == 0 && (P::n - 1) % 8 == 0) {
#pragma unroll
            for (int k = 0; k < words; k += 2)
                if (4 * k < left) *reinterpret_cast<uint2 *>(before + k) = make_uint2(sums[k], sums[k + 1]);
        } else {
#pragma unroll
            for (int k = 0; k < words; k++)
                if (4 * k < left) before[k] = sums[k];
        }
    }

    // store_folded writes F of a polynomial with coefficients below 2^13 (pairs), as two unsigned limbs.
    static __device__ __forceinline__ void store_folded(uint8_t *folded, const uint32_t (&pair)[P::per_lane / 2], int lane) {
        constexpr int pairs = P::per_lane / 2, words = P::per_lane / 4;
        const uint32_t next = __shfl_sync(all_lanes, pair[0], (lane + 1) % warp_size);
        // n - 1 is even: a_(n-1) is the low half of its pair
        const uint32_t last = __shfl_sync(all_lanes, pair[(P::n - 1) % P::per_lane / 2], (P::n - 1) / P::per_lane);
        const uint32_t first = pair[0] + (lane == 0 ? last & 0xFFFFu : 0u);
        uint32_t sum[pairs];
#pragma unroll
        for (int k = 0; k < pairs; k++) sum[k] = pair[k] + __byte_perm(pair[k], k + 1 < pairs ? pair[(k + 1) % pairs] : next, 0x5432);
#pragma unroll
        for (int limb = 0; limb < 2; limb++) {
            const uint32_t select = limb == 0 ? 0x6420 : 0x7531;
            uint32_t straight[words], sums[words];
#pragma unroll
            for (int k = 0; k < words; k++) {
                straight[k] = __byte_perm(k == 0 ? first : pair[2 * k], pair[2 * k + 1], select);
                sums[k] = __byte_perm(sum[2 * k], sum[2 * k + 1], select);
            }
            store_limb(folded + limb * folded_row, straight, sums, lane);
        }
    }

    // add_bytes adds signed bytes whose sums fit.
    static __device__ __forceinline__ uint32_t add_bytes(uint32_t a, uint32_t b) {
        return ((a & 0x7F7F7F7Fu) + (b & 0x7F7F7F7Fu)) ^ ((a ^ b) & 0x80808080u);
    }

    // store_folded_small writes F of a small polynomial, |coefficient| < 64, as one signed limb.
    static __device__ __forceinline__ void store_folded_small(uint8_t *folded, const uint32_t (&bytes)[P::per_lane / 4], int lane) {
        constexpr int words = P::per_lane / 4;
        const uint32_t next = __shfl_sync(all_lanes, bytes[0], (lane + 1) % warp_size);
        const uint32_t last = __shfl_sync(all_lanes, bytes[(P::n - 1) % P::per_lane / 4], (P::n - 1) / P::per_lane);
        uint32_t straight[words], sums[words];
#pragma unroll
        for (int k = 0; k < words; k++) {
            straight[k] = bytes[k];
            sums[k] = add_bytes(bytes[k], __funnelshift_r(bytes[k], k + 1 < words ? bytes[(k + 1) % words] : next, 8));
        }
        if (lane == 0) straight[0] = add_bytes(bytes[0], last & 0xFFu);   // n - 1 is a multiple of 4
        store_limb(folded, straight, sums, lane);
    }

    // store_reversed writes the four copies of a polynomial of signed or unsigned bytes.
    static __device__ __forceinline__ void store_reversed(uint8_t *reversed, const uint32_t (&bytes)[P::per_lane / 4], int lane) {
        constexpr int words = P::per_lane / 4;
        uint32_t w[words];
#pragma unroll
        for (int k = 0; k < words; k++) w[k] = __byte_perm(bytes[words - 1 - k], 0, 0x0123);
        uint32_t next = __shfl_sync(all_lanes, w[0], (lane + warp_size - 1) % warp_size);   // the coefficients below this lane's
        if (lane == 0) next = 0;
        const int at = reversed_top + 1 - P::per_lane * (lane + 1);   // negative for lanes past n only
#pragma unroll
        for (int copy = 0; copy < 4; copy++) {
#pragma unroll
            for (int k = 0; k < words; k += 2) {
                const uint32_t w0 = __funnelshift_r(w[k], w[k + 1], 8 * copy);
                const uint32_t w1 = __funnelshift_r(w[k + 1], k + 2 < words ? w[(k + 2) % words] : next, 8 * copy);
                if (at >= 0) *reinterpret_cast<uint2 *>(reversed + copy * reversed_row + at + 4 * k) = make_uint2(w0, w1);
            }
        }
    }

    // clear_margins zeroes, once for a warp's buffer, the bytes of the copies on either side of b.
    static __device__ __forceinline__ void clear_margins(uint8_t *reversed, int lane) {
        constexpr int above = reversed_top + 1, below = P::padded <= above ? above - P::padded : above % P::per_lane;
        for (int i = lane; i < 4 * (reversed_row - above); i += warp_size) reversed[i % 4 * reversed_row + above + i / 4] = 0;
        for (int i = lane; i < 4 * below; i += warp_size) reversed[i % 4 * reversed_row + i / 4] = 0;
    }

    // ---- The product ----

    // Shifts is the part of B that one half of the steps needs, held in registers: rows of the tile are shifts 2g and, eight rows
    // on, 2g + 1, so that a lane's two accumulators of one column are neighbours.
    typedef uint32_t Shifts[half_steps][4];
    static __device__ __forceinline__ void load_shifts(const uint8_t *reversed, int half, int lane, Shifts &b) {
        const int even = 2 * (lane / 4), t = 4 * (lane % 4) + half * half_steps * depth;
        const int at0 = shifts - 1 - even, at1 = at0 - 1;   // where t = first_t lies for shifts 2g and 2g + 1
        const uint8_t *row0 = reversed + at0 % 4 * reversed_row + at0 / 4 * 4 + t;
        const uint8_t *row1 = reversed + at1 % 4 * reversed_row + at1 / 4 * 4 + t;
#pragma unroll
        for (int k = 0; k < half_steps; k++) {
            if (half * half_steps + k < steps) {
                b[k][0] = *reinterpret_cast<const uint32_t *>(row0 + depth * k);
                b[k][1] = *reinterpret_cast<const uint32_t *>(row1 + depth * k);
                b[k][2] = *reinterpret_cast<const uint32_t *>(row0 + depth * k + 16);
                b[k][3] = *reinterpret_cast<const uint32_t *>(row1 + depth * k + 16);
            }
        }
    }

    // accumulate_limb adds one limb's part of the first `width` tiles of C (counted from the one whose 32-byte blocks begin at
    // `folded`): acc += B x F over the steps of a half. The loads of F run `ahead` pairs of blocks in front of the products.
    enum Signs { small_by_limb, limb_by_limb, small_by_small };   // s8 x u8, u8 x u8, s8 x s8
    template <Signs signs, int half, int width>
    static __device__ __forceinline__ void accumulate_limb(const uint8_t *folded, const Shifts &b, int32_t (&acc)[width][4], int lane) {
        constexpr int ahead = 2, first = half * half_steps, count = half_steps < steps - first ? half_steps : steps - first;
        constexpr int last = first + count + groups * (width - 1), loads = ceil_div(last - first, 2);
        const uint8_t *row = folded + 16 * (lane / 8 + lane % 8) + depth * first;
        uint32_t f[ahead + 1][4];
#pragma unroll
        for (int i = 0; i < ahead; i++) ldmatrix_x4(f[i], row + 2 * depth * i);
#pragma unroll
        for (int i = 0; i < loads; i++) {
            if (i + ahead < loads) ldmatrix_x4(f[(i + ahead) % (ahead + 1)], row + 2 * depth * (i + ahead));
#pragma unroll
            for (int odd = 0; odd < 2; odd++) {
#pragma unroll
                for (int j = 0; j < width; j++) {
                    const int k = 2 * i + odd - groups * j;   // block first + 2i + odd is step first + k of tile j
                    if (k >= 0 && k < count) {
                        const uint32_t f0 = f[i % (ahead + 1)][2 * odd], f1 = f[i % (ahead + 1)][2 * odd + 1];
                        if constexpr (signs == small_by_limb) mma_m16n8k32_s8u8(acc[j], b[k][0], b[k][1], b[k][2], b[k][3], f0, f1);
                        if constexpr (signs == limb_by_limb) mma_m16n8k32_u8u8(acc[j], b[k][0], b[k][1], b[k][2], b[k][3], f0, f1);
                        if constexpr (signs == small_by_small) mma_m16n8k32_s8s8(acc[j], b[k][0], b[k][1], b[k][2], b[k][3], f0, f1);
                    }
                }
            }
        }
    }

    // add_limb adds b times one limb of F, whatever the number of halves.
    template <Signs signs, int width>
    static __device__ __forceinline__ void add_limb(const uint8_t *limb, const uint8_t *reversed, Shifts &b, int32_t (&acc)[width][4], int lane) {
        if constexpr (halves == 1) {
            accumulate_limb<signs, 0>(limb, b, acc, lane);
        } else {
            load_shifts(reversed, 0, lane, b);
            accumulate_limb<signs, 0>(limb, b, acc, lane);
            load_shifts(reversed, 1, lane, b);
            accumulate_limb<signs, 1>(limb, b, acc, lane);
        }
    }

    template <int width> static __device__ __forceinline__ void fill(int32_t (&acc)[width][4], int32_t value) {
#pragma unroll
        for (int j = 0; j < width; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) acc[j][i] = value;
    }

    // multiply_small computes start*2^8 + a*b mod 2^32 for a < 2^13 (folded) and signed bytes b (reversed): coefficient i of the
    // product for i > 0, and for i = 0 only after fix_constant. With |b| <= B every |coefficient| < 2*n*B*2^13.
    static __device__ __forceinline__ void multiply_small(const uint8_t *folded, const uint8_t *reversed, int32_t start, Accumulators &acc, int lane) {
        Shifts b;
        if constexpr (halves == 1) load_shifts(reversed, 0, lane, b);
        fill(acc, start);
#pragma unroll 1
        for (int limb = 1; limb >= 0; limb--) {   // one copy of the code: the instruction cache holds it
            if (limb == 0) {
#pragma unroll
                for (int j = 0; j < tiles; j++)
#pragma unroll
                    for (int i = 0; i < 4; i++) acc[j][i] = static_cast<int32_t>(static_cast<uint32_t>(acc[j][i]) << 8);
            }
            add_limb<small_by_limb>(folded + limb * folded_row, reversed, b, acc, lane);
        }
    }

    // multiply_tiny computes start + a*b for two small polynomials, a by store_folded_small.
    static __device__ __forceinline__ void multiply_tiny(const uint8_t *folded, const uint8_t *reversed, int32_t start, Accumulators &acc, int lane) {
        Shifts b;
        if constexpr (halves == 1) load_shifts(reversed, 0, lane, b);
        fill(acc, start);
        add_limb<small_by_small>(folded, reversed, b, acc, lane);
    }

    // multiply_big computes values congruent to a*b mod q, below 2^31, for a (folded) and b (pairs) in [0, q), with the same
    // proviso for coefficient 0. Before each move up by 8 bits the accumulators are reduced below 2q, so that no sum exceeds
    // 2^8*2q + 2*n*255*255 < 2^28. Overwrites `reversed`.
    static __device__ __forceinline__ void multiply_big(const uint8_t *folded, uint8_t *reversed, const uint32_t (&pair)[P::per_lane / 2],
                                                        Accumulators &acc, int lane) {
        static_assert(512 * P::q + 2 * P::n * 255 * 255 < 1 << 28, "products of limbs do not overflow");
        fill(acc, 0);
#pragma unroll 1
        for (int part = 1; part >= 0; part--) {
            uint32_t bytes[P::per_lane / 4];
#pragma unroll
            for (int k = 0; k < P::per_lane / 4; k++) bytes[k] = __byte_perm(pair[2 * k], pair[2 * k + 1], part == 0 ? 0x6420 : 0x7531);
            __syncwarp();   // the other part has been read
            store_reversed(reversed, bytes, lane);
            __syncwarp();
            Shifts b;
            if constexpr (halves == 1) load_shifts(reversed, 0, lane, b);
#pragma unroll 1
            for (int limb = 1; limb >= 0; limb--) {
                if (limb == 0) {   // both parts' low limbs weigh 2^8 less than what came before them
#pragma unroll
                    for (int j = 0; j < tiles; j++)
#pragma unroll
                        for (int i = 0; i < 4; i++) acc[j][i] = static_cast<int32_t>(partly_reduced(static_cast<uint32_t>(acc[j][i])) << 8);
                }
                add_limb<limb_by_limb>(folded + limb * folded_row, reversed, b, acc, lane);
            }
        }
    }

    // partly_reduced gives a value below 2q congruent to x mod q (see reduce_q).
    static __device__ __forceinline__ uint32_t partly_reduced(uint32_t x) {
        return x - __umulhi(x, static_cast<uint32_t>((uint64_t{1} << 32) / P::q)) * P::q;
    }

    // fix_constant replaces coefficient 0 by row n + constant, constant (in lane 0) being a_0 b_0.
    static __device__ __forceinline__ void fix_constant(Accumulators &acc, int32_t constant, int lane) {
        const int32_t row_n = __shfl_sync(all_lanes, acc[correction_tile][correction_register], correction_lane);
        if (lane == 0) acc[0][0] = static_cast<int32_t>(static_cast<uint32_t>(row_n) + static_cast<uint32_t>(constant));
    }

    // for_each_pair calls put(tile, index, coefficient 2*index, coefficient 2*index + 1) for a lane's share of tiles `first` and
    // on: tile j's registers h and 2 + h are coefficients 16*column + 2g and + 1 of column 8j + 2(lane % 4) + h. Indices reach
    // past n.
    template <int width, class Put> static __device__ __forceinline__ void for_each_pair(const int32_t (&acc)[width][4], int lane, Put put, int first = 0) {
#pragma unroll
        for (int j = 0; j < width; j++)
#pragma unroll
            for (int h = 0; h < 2; h++)
                put(first + j, shifts / 2 * (columns * (first + j) + 2 * (lane % 4) + h) + lane / 4, static_cast<uint32_t>(acc[j][h]), static_cast<uint32_t>(acc[j][2 + h]));
    }
    static_assert(tiles * tile == P::padded, "the accumulators cover exactly the padded polynomial");
};

}   // namespace ctruprime
