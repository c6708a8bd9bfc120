// Products of one public key with many small polynomials on the Tensor Cores: the paper's form h = (M2 + M3) v (page 336) with
// the vectors v of several operations side by side, so that the matrix, once in shared memory, serves a whole batch.
//
// Row i > 0 of M2 + M3 has the entries F[i - j] of mul_mma.cuh, and row 0 is mended by row n as there. It is the A operand, in
// tiles of 16 rows by 32 terms; a warp's eight operations are the columns of B, held in registers. A tile's fragments depend on
// 16*row - 32*term only: of the four words that a lane needs, two are also the next tile's, so that a step along a diagonal
// loads two. F is stored reversed, in four copies a byte apart, for every lane to read aligned words.
#pragma once
#include "encaps.cuh"

namespace ctruprime {

template <class P> struct SharedKey {
    typedef Mma<P> M;
    typedef Encryptor<P> E;
    static constexpr int operations = 8;                                      // of a warp at a time: the columns of a tile
    static constexpr int rows = 16, depth = 32, band = 8;                     // tiles of a band share what is loaded
    static constexpr int bands = ceil_div(ceil_div(P::n + 1, rows), band);    // rows 0..n
    static constexpr int steps = ceil_div(P::n, depth);
    // F[d] is at byte top - d of the reversed copies; copy c is moved down by c bytes. Copies lie 8 banks apart.
    static constexpr int top = rows * band * bands - 1;
    static constexpr int copy_row = round_up(top + depth * steps - 32, 128) + 32;
    static constexpr int matrix_bytes = 2 * 4 * copy_row;                     // two limbs
    static_assert(copy_row >= top + depth * steps && copy_row % 128 == 32, "copies on banks of their own");

    // Shared memory of a block: the matrix, h_0 and the key's verdict; then for each warp its operations' compressed coefficients, in
    // whose place coins and r are before, and a place to pack one.
    static constexpr int small_row = P::padded + 16;                          // of r: rows 4 banks apart
    static constexpr int coefficient_row = 2 * (P::padded + 8);
    static constexpr int verdict_at = matrix_bytes, warps_at = verdict_at + 16;
    static constexpr int coins_at = operations * small_row;
    static constexpr int row_n_at = operations * coefficient_row;             // the rows n, and coefficients 0 of r
    static constexpr int codewords_at = row_n_at + 2 * operations * 4;
    static constexpr int groups_at = round_up(codewords_at + P::padded / 8, 16), stream_at = groups_at + P::padded / 2 * 4;
    static constexpr int warp_bytes = round_up(stream_at + stream_words<P, P::d>() * 4 + seed_bytes + 8, 16);
    static_assert(coins_at + operations * E::coins_bytes <= row_n_at, "r and the coins fit where the coefficients go");
    static constexpr int bytes(int warps) { return warps_at + warps * warp_bytes; }
    static_assert(staged_polynomial<P, key_bits>() + 2 * P::padded <= warp_bytes, "the public key is unpacked in the first warp's place");

    // store_matrix: the whole block unpacks the public key, zero if it is invalid, and stores F.
    static __device__ __forceinline__ void store_matrix(const uint8_t *pk, uint8_t *shared) {
        uint8_t *staged = shared + warps_at;
        uint32_t *h = reinterpret_cast<uint32_t *>(staged + staged_polynomial<P, key_bits>());
        const int thread = static_cast<int>(threadIdx.x), lane = thread % warp_size, size = static_cast<int>(blockDim.x);
        if (thread < warp_size) {
            uint32_t pair[P::per_lane / 2];
            stage_async<P::public_bytes>(staged, pk, lane, warp_size, Ends::buffer);
            cp_async_commit();
            cp_async_wait_all();
            __syncwarp();
            unpack_pairs<P, key_bits>(staged, row_offset(pk), lane, pair);
            const bool invalid = __any_sync(all_lanes, invalid_public<P>(staged, row_offset(pk), pair));
#pragma unroll
            for (int k = 0; k < P::per_lane / 2; k++) h[P::per_lane / 2 * lane + k] = pair[k] & (invalid ? 0u : all_lanes);
            if (lane == 0) {
                uint32_t *verdict = reinterpret_cast<uint32_t *>(shared + verdict_at);
                verdict[0] = invalid ? 1 : 0;
                verdict[1] = invalid ? 0 : pair[0] & 0xFFFF;
            }
        }
        __syncthreads();
        const uint16_t *a = reinterpret_cast<const uint16_t *>(h);
        for (int i = thread; i < 4 * copy_row; i += size) {
            const int copy = i / copy_row, d = top - (i % copy_row + copy);
            const int e = d < 0 ? P::n + d : d;   // a's index
            uint32_t f = e >= 0 && e < P::n ? a[e] : 0;
            if (d <= 0 && d > -P::n) f += a[d == 0 ? P::n - 1 : e - 1];
            shared[i] = static_cast<uint8_t>(f);
            shared[4 * copy_row + i] = static_cast<uint8_t>(f >> 8);
        }
        __syncthreads();
    }

    typedef uint32_t Vectors[steps][2];
    typedef int32_t Accumulators[band][4];

    // load_vectors: lane (g, t) holds of operation g the bytes that a column of B has in its rows 4t.. and 16 + 4t... of each step.
    static __device__ __forceinline__ void load_vectors(const uint8_t *small, int lane, Vectors &b) {
        const uint8_t *row = small + lane / 4 * small_row + lane % 4 * 4;
#pragma unroll
        for (int k = 0; k < steps; k++) {
            b[k][0] = *reinterpret_cast<const uint32_t *>(row + depth * k);
            b[k][1] = *reinterpret_cast<const uint32_t *>(row + depth * k + 16);
        }
    }

    // accumulate adds one limb's part of the rows of a band: tile m of it begins at row 16*(band*index + m).
    static __device__ __forceinline__ void accumulate(const uint8_t *limb, int index, const Vectors &b, Accumulators &acc, int lane) {
        const int at = top - rows * band * index - lane / 4 + lane % 4 * 4, copy = at % 4;   // of step 0 in tile 0
        const uint8_t *word = limb + copy * copy_row + at - copy;
        // diagonal e = 2k - m: words at 16e and at 16e - 8 (rows g and g + 8), and those of e + 1 for the upper 16 terms
        uint32_t low = *reinterpret_cast<const uint32_t *>(word - 16 * (band - 1)), low8 = *reinterpret_cast<const uint32_t *>(word - 16 * (band - 1) - 8);
#pragma unroll
        for (int e = 1 - band; e <= 2 * (steps - 1); e++) {
            const uint32_t high = *reinterpret_cast<const uint32_t *>(word + 16 * (e + 1)), high8 = *reinterpret_cast<const uint32_t *>(word + 16 * (e + 1) - 8);
#pragma unroll
            for (int m = 0; m < band; m++)
                if ((e + m) % 2 == 0 && e + m >= 0 && (e + m) / 2 < steps)
                    mma_m16n8k32_u8s8(acc[m], low, low8, high, high8, b[(e + m >= 0 ? e + m : 0) / 2 % steps][0], b[(e + m >= 0 ? e + m : 0) / 2 % steps][1]);
            low = high, low8 = high8;
        }
    }
};

// encaps_shared makes the output rows of operations that all have the public key pk, after encaps_hash.
template <class P>
__device__ __forceinline__ void encaps_shared(const uint8_t *pk, uint8_t *messages, uint8_t *coins, uint8_t *keys, uint8_t *out,
                                              uint32_t out_stride, uint32_t *status, int n) {
    typedef SharedKey<P> S;
    typedef Encryptor<P> E;
    DYNAMIC_SHARED(uint8_t, shared);
    const int warp = static_cast<int>(threadIdx.x / warp_size), lane = static_cast<int>(threadIdx.x % warp_size), warps = static_cast<int>(blockDim.x / warp_size);
    S::store_matrix(pk, shared);
    const uint32_t *verdict = reinterpret_cast<const uint32_t *>(shared + S::verdict_at);
    const bool invalid = verdict[0] != 0;
    const int32_t h0 = static_cast<int32_t>(verdict[1]);
    uint8_t *mine = shared + S::warps_at + warp * S::warp_bytes;
    int32_t *row_n = reinterpret_cast<int32_t *>(mine + S::row_n_at), *r0 = row_n + S::operations;
    uint16_t *coefficients = reinterpret_cast<uint16_t *>(mine);
    uint16_t *codeword = reinterpret_cast<uint16_t *>(mine + S::codewords_at);
    uint32_t *groups = reinterpret_cast<uint32_t *>(mine + S::groups_at), *stream = reinterpret_cast<uint32_t *>(mine + S::stream_at);
#pragma unroll 1
    for (int base = S::operations * (static_cast<int>(blockIdx.x) * warps + warp); base < n; base += S::operations * static_cast<int>(gridDim.x) * warps) {
        const int count = min(S::operations, n - base);
        for (int j = 0; j < count; j++)
            stage_async<P::coin_row>(mine + S::coins_at + j * E::coins_bytes, coins + static_cast<size_t>(base + j) * P::coin_row, lane, warp_size);
        cp_async_commit();
        cp_async_wait_all();
        __syncwarp();
#pragma unroll 1
        for (int j = 0; j < S::operations; j++) {   // what is past the batch's end is computed too, with zeros, and dropped
            uint32_t r[P::per_lane / 4];
            if (j < count) {
                small_cbd<P>(mine + S::coins_at + j * E::coins_bytes, 0, lane, r);
            } else {
#pragma unroll
                for (int k = 0; k < P::per_lane / 4; k++) r[k] = 0;
            }
            uint32_t *to = reinterpret_cast<uint32_t *>(mine + j * S::small_row) + P::per_lane / 4 * lane;
#pragma unroll
            for (int k = 0; k < P::per_lane / 4; k++) to[k] = r[k];
            if (lane == 0) r0[j] = static_cast<int8_t>(r[0]);
        }
        __syncwarp();
        typename S::Vectors b;
        S::load_vectors(mine, lane, b);
        __syncwarp();   // r is in registers
#pragma unroll 1
        for (int index = 0; index < S::bands; index++) {
            typename S::Accumulators acc;
            Mma<P>::fill(acc, E::start);
#pragma unroll 1
            for (int limb = 1; limb >= 0; limb--) {
                if (limb == 0) {
#pragma unroll
                    for (int i = 0; i < 4 * S::band; i++) acc[i / 4][i % 4] = static_cast<int32_t>(static_cast<uint32_t>(acc[i / 4][i % 4]) << 8);
                }
                S::accumulate(shared + limb * 4 * S::copy_row, index, b, acc, lane);
            }
#pragma unroll
            for (int i = 0; i < 4 * S::band; i++) {   // register i of a tile: row g + 8(i/2), operation 2t + i%2
                const int row = S::rows * (S::band * index + i / 4) + lane / 4 + i % 4 / 2 * 8, operation = lane % 4 * 2 + i % 2;
                const int32_t x = acc[i / 4][i % 4];
                if (row == P::n) row_n[operation] = x;
                if (row < P::n) coefficients[S::coefficient_row / 2 * operation + row] = static_cast<uint16_t>(scaled_fraction<P>(static_cast<uint32_t>(x)) >> (32 - P::d));
            }
        }
        __syncwarp();
        if (lane < S::operations)
            coefficients[S::coefficient_row / 2 * lane] = static_cast<uint16_t>(scaled_fraction<P>(static_cast<uint32_t>(row_n[lane] + h0 * r0[lane])) >> (32 - P::d));
        __syncwarp();
#pragma unroll 1
        for (int j = 0; j < count; j++) {
            const size_t i = base + j;
            const uint16_t *c = coefficients + S::coefficient_row / 2 * j;
            store_codewords<P>(messages + i * P::message_row, codeword, lane, warp_size);
            __syncwarp();
            for (int k = lane; k < P::padded / 2; k += warp_size) {
                const uint32_t even = 2 * k < P::n ? c[2 * k] : 0, odd = 2 * k + 1 < P::n ? c[2 * k + 1] : 0;
                groups[k] = add_codeword_bits<P>(even | odd << P::d, static_cast<uint32_t>(codeword[k / 8]) >> (2 * (k % 8)));
            }
            __syncwarp();
            pack_groups<P, P::d>(groups, stream, lane, warp_size);
            __syncwarp();
            reinterpret_cast<uint8_t *>(stream)[P::cipher_bytes + lane] = keys[i * seed_bytes + lane];
            __syncwarp();
            store_row<P::encaps_out_bytes>(out + i * out_stride, stream, invalid ? 0u : all_lanes, lane, warp_size);
            if (lane == 0) status[i] = invalid ? 1 : 0;
            clear_row<P::message_row>(messages + i * P::message_row, lane, warp_size);
            clear_row<P::coin_row>(coins + i * P::coin_row, lane, warp_size);
            clear_row<seed_bytes>(keys + i * seed_bytes, lane, warp_size);
            __syncwarp();
        }
    }
}

}   // namespace ctruprime
