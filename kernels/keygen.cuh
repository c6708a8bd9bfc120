// Key generation: SHAKE256, then h = g/f with one inversion for a group of keys (Montgomery's trick, as a binary tree).
//
//   in      seed || z, keygen_in_bytes an operation, rows in_stride apart, any alignment
//   out     sk_f || pk || z, secret_bytes an operation, rows out_stride apart, any alignment
//   status  0: every seed gives a key
//
// Level t of the tree holds products of 2^t neighbouring f's, as rows of `padded` residues of 16 bits. The launches go up
// (keygen_pairs, then keygen_up for each level), invert the top level's rows, and go down (keygen_down), replacing each level's
// products by their inverses: the inverse of a child is its parent's inverse times its sibling. keygen_finish does that for the
// f's themselves and multiplies by g. R_q is a field and f is never 0, so no key can spoil its group. Operations from n to the end
// of the last group count as f = 1.
//
// A row is wiped by the last step that reads it.
#pragma once
#include "hash.cuh"
#include "inversion.cuh"
#include "mul_mma.cuh"

namespace ctruprime {

template <class P> constexpr int keygen_coin_row() { return round_up(2 * P::coin_bytes, 16); }

// keygen_hash: one operation a thread.
template <class P> __device__ __forceinline__ void keygen_hash(const uint8_t *in, uint32_t in_stride, uint8_t *coins, int n) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n) return;
    uint64_t seed[4], a[keccak_words];
    load_words(in + static_cast<size_t>(i) * in_stride, seed);
    set_seed(a, seed[0], seed[1], seed[2], seed[3]);
    Hash<P>::template squeeze<keygen_coin_row<P>() / 8>(a, reinterpret_cast<uint64_t *>(coins + static_cast<size_t>(i) * keygen_coin_row<P>()));
}

// KeyMaker is a warp's shared memory for the products of the tree.
template <class P> struct KeyMaker {
    typedef Mma<P> M;
    static constexpr int row_bytes = 2 * P::padded;   // of residues
    static constexpr int coin_bytes = round_up(P::coin_bytes + P::padded * 2 * P::eta / 8 + 4, 16);   // as far as g's last lane reads
    static constexpr int first_at = M::product_bytes;                                // staged rows: residues
    static constexpr int second_at = first_at + row_bytes, third_at = second_at + row_bytes;
    static constexpr int coins_at = first_at + row_bytes;                            // or residues and two rows of coins
    static constexpr int inverses_at = coins_at + 2 * coin_bytes;                    // of the two f's, in keygen_finish

    static constexpr int pairs_bytes = coins_at + 2 * coin_bytes, up_bytes = third_at, down_bytes = third_at + row_bytes;
    static constexpr int finish_bytes = inverses_at + 2 * row_bytes;

    uint8_t *shared;
    int lane;

    __device__ __forceinline__ uint8_t *folded() const { return shared; }
    __device__ __forceinline__ uint8_t *reversed() const { return shared + M::folded_bytes; }

    __device__ __forceinline__ void stage_row(int at, const uint16_t *row) const {
        for (int i = lane; i < row_bytes / 16; i += warp_size)
            cp_async16(shared + at + 16 * i, reinterpret_cast<const uint8_t *>(row) + 16 * i);
    }
    // load_row reads a staged row into registers.
    __device__ __forceinline__ void load_row(int at, uint32_t (&pair)[P::per_lane / 2]) const {
        const uint4 *from = reinterpret_cast<const uint4 *>(shared + at + 2 * P::per_lane * lane);
#pragma unroll
        for (int k = 0; k < P::per_lane / 8; k++) {
            const uint4 four = from[k];
            pair[4 * k] = four.x, pair[4 * k + 1] = four.y, pair[4 * k + 2] = four.z, pair[4 * k + 3] = four.w;
        }
    }
    // store_residues writes a product's residues, canonical and zero from n on.
    __device__ __forceinline__ void store_residues(const typename M::Accumulators &acc, uint32_t *row) const {
        M::for_each_pair(acc, lane, [&](int tile, int index, uint32_t even, uint32_t odd) {
            uint32_t pair = reduce_q<P>(even) | reduce_q<P>(odd) << 16;
            if (M::tile * (tile + 1) > P::n) pair &= index < P::n / 2 ? ~0u : index == P::n / 2 ? 0xFFFFu : 0u;
            row[index] = pair;
        });
    }
    __device__ __forceinline__ void clear_residues(uint16_t *row) const { clear_row<row_bytes>(reinterpret_cast<uint8_t *>(row), lane, warp_size); }

    // secret reads f from staged coins, or 1 for an operation past the end.
    __device__ __forceinline__ void secret(int at, bool exists, uint32_t (&f)[P::per_lane / 4]) const {
        if (exists) {
            secret_cbd<P>(shared + at, 0, lane, f);
        } else {
#pragma unroll
            for (int k = 0; k < P::per_lane / 4; k++) f[k] = k == 0 && lane == 0 ? 1 : 0;
        }
    }
};

// WarpPlace is what every kernel below begins with: the warp's buffer of `bytes` bytes, and its place in the grid.
template <class P> struct WarpPlace {
    KeyMaker<P> maker;
    int first, step;
    __device__ __forceinline__ WarpPlace(uint8_t *shared, int bytes) {
        const int warp = static_cast<int>(threadIdx.x / warp_size), warps = static_cast<int>(blockDim.x / warp_size);
        maker = {shared + warp * bytes, static_cast<int>(threadIdx.x % warp_size)};
        first = static_cast<int>(blockIdx.x) * warps + warp;
        step = static_cast<int>(gridDim.x) * warps;
        Mma<P>::clear_margins(maker.reversed(), maker.lane);
    }
};

// keygen_pairs makes level 1: row p is f_2p * f_(2p+1), for p < pairs.
template <class P> __device__ __forceinline__ void keygen_pairs(const uint8_t *coins, uint16_t *level, int pairs, int n) {
    typedef KeyMaker<P> K;
    typedef Mma<P> M;
    DYNAMIC_SHARED(uint8_t, shared);
    const WarpPlace<P> place(shared, K::pairs_bytes);
    const K &k = place.maker;
    auto fetch = [&](int p) {
#pragma unroll
        for (int j = 0; j < 2; j++)
            if (2 * p + j < n)
                stage_async<round_up(P::coin_bytes, 16)>(k.shared + K::coins_at + j * K::coin_bytes, coins + static_cast<size_t>(2 * p + j) * keygen_coin_row<P>(), k.lane, warp_size);
        cp_async_commit();
    };
    if (place.first < pairs) fetch(place.first);
#pragma unroll 1
    for (int p = place.first; p < pairs; p += place.step) {
        cp_async_wait_all();
        __syncwarp();
        uint32_t a[P::per_lane / 4], b[P::per_lane / 4];
        k.secret(K::coins_at, 2 * p < n, a);
        k.secret(K::coins_at + K::coin_bytes, 2 * p + 1 < n, b);
        __syncwarp();
        if (p + place.step < pairs) fetch(p + place.step);
        M::store_folded_small(k.folded(), a, k.lane);
        M::store_reversed(k.reversed(), b, k.lane);
        __syncwarp();
        typename M::Accumulators acc;
        constexpr int32_t start = multiple_of_q<P>(2 * P::n * P::f_max * P::f_max);   // no coefficient is negative
        M::multiply_tiny(k.folded(), k.reversed(), start, acc, k.lane);
        M::fix_constant(acc, static_cast<int8_t>(a[0]) * static_cast<int8_t>(b[0]), k.lane);
        k.store_residues(acc, reinterpret_cast<uint32_t *>(level + static_cast<size_t>(p) * P::padded));
        __syncwarp();
    }
}

// keygen_up makes a level from the one below it: row i is below_2i * below_(2i+1).
template <class P> __device__ __forceinline__ void keygen_up(const uint16_t *below, uint16_t *level, int rows) {
    typedef KeyMaker<P> K;
    typedef Mma<P> M;
    DYNAMIC_SHARED(uint8_t, shared);
    const WarpPlace<P> place(shared, K::up_bytes);
    const K &k = place.maker;
    auto fetch = [&](int i) {
        k.stage_row(K::first_at, below + static_cast<size_t>(2 * i) * P::padded);
        k.stage_row(K::second_at, below + static_cast<size_t>(2 * i + 1) * P::padded);
        cp_async_commit();
    };
    if (place.first < rows) fetch(place.first);
#pragma unroll 1
    for (int i = place.first; i < rows; i += place.step) {
        cp_async_wait_all();
        __syncwarp();
        uint32_t a[P::per_lane / 2], b[P::per_lane / 2];
        k.load_row(K::first_at, a);
        k.load_row(K::second_at, b);
        __syncwarp();
        if (i + place.step < rows) fetch(i + place.step);
        M::store_folded(k.folded(), a, k.lane);
        typename M::Accumulators acc;
        M::multiply_big(k.folded(), k.reversed(), b, acc, k.lane);
        M::fix_constant(acc, static_cast<int32_t>((a[0] & 0xFFFF) * (b[0] & 0xFFFF)), k.lane);
        k.store_residues(acc, reinterpret_cast<uint32_t *>(level + static_cast<size_t>(i) * P::padded));
        __syncwarp();
    }
}

// keygen_down replaces the products of the level below `inverses` by their inverses, two children a parent, and wipes the
// parents.
template <class P> __device__ __forceinline__ void keygen_down(uint16_t *inverses, uint16_t *below, int parents) {
    typedef KeyMaker<P> K;
    typedef Mma<P> M;
    DYNAMIC_SHARED(uint8_t, shared);
    const WarpPlace<P> place(shared, K::down_bytes);
    const K &k = place.maker;
    auto fetch = [&](int i) {
        k.stage_row(K::first_at, inverses + static_cast<size_t>(i) * P::padded);
        k.stage_row(K::second_at, below + static_cast<size_t>(2 * i) * P::padded);
        k.stage_row(K::third_at, below + static_cast<size_t>(2 * i + 1) * P::padded);
        cp_async_commit();
    };
    if (place.first < parents) fetch(place.first);
#pragma unroll 1
    for (int i = place.first; i < parents; i += place.step) {
        cp_async_wait_all();
        __syncwarp();
        uint32_t parent[P::per_lane / 2];
        k.load_row(K::first_at, parent);
        M::store_folded(k.folded(), parent, k.lane);
        k.clear_residues(inverses + static_cast<size_t>(i) * P::padded);
#pragma unroll 1
        for (int child = 0; child < 2; child++) {
            uint32_t sibling[P::per_lane / 2];
            k.load_row(child == 0 ? K::third_at : K::second_at, sibling);
            typename M::Accumulators acc;
            M::multiply_big(k.folded(), k.reversed(), sibling, acc, k.lane);
            M::fix_constant(acc, static_cast<int32_t>((parent[0] & 0xFFFF) * (sibling[0] & 0xFFFF)), k.lane);
            k.store_residues(acc, reinterpret_cast<uint32_t *>(below + static_cast<size_t>(2 * i + child) * P::padded));
        }
        __syncwarp();   // the staged rows have been read
        if (i + place.step < parents) fetch(i + place.step);
    }
}

// keygen_finish makes the secret keys of two operations from the inverse of f_2p * f_(2p+1).
template <class P>
__device__ __forceinline__ void keygen_finish(const uint8_t *in, uint32_t in_stride, uint8_t *coins, uint16_t *inverses, uint8_t *out,
                                              uint32_t out_stride, uint32_t *status, int n) {
    typedef KeyMaker<P> K;
    typedef Mma<P> M;
    constexpr int pairs_at = 0, stream_at = P::padded / 2 * 4;   // the public key is packed where F was
    static_assert(stream_at + stream_words<P, key_bits>() * 4 + 8 <= M::folded_bytes, "the public key fits where F was");
    constexpr int32_t start = multiple_of_q<P>(ceil_div(2 * P::n * P::f_max << key_bits, 1 << 8));
    DYNAMIC_SHARED(uint8_t, shared);
    const WarpPlace<P> place(shared, K::finish_bytes);
    const K &k = place.maker;
    const int pairs = (n + 1) / 2;
    auto coin_row = [&](int i) { return coins + static_cast<size_t>(i) * keygen_coin_row<P>(); };
    auto fetch = [&](int p) {
        k.stage_row(K::first_at, inverses + static_cast<size_t>(p) * P::padded);
#pragma unroll
        for (int j = 0; j < 2; j++)
            if (2 * p + j < n) stage_async<keygen_coin_row<P>()>(k.shared + K::coins_at + j * K::coin_bytes, coin_row(2 * p + j), k.lane, warp_size);
        cp_async_commit();
    };
    if (place.first < pairs) fetch(place.first);
#pragma unroll 1
    for (int p = place.first; p < pairs; p += place.step) {
        cp_async_wait_all();
        __syncwarp();
        uint32_t h[P::per_lane / 2], small[P::per_lane / 4];
        typename M::Accumulators acc;
        k.load_row(K::first_at, h);
        M::store_folded(k.folded(), h, k.lane);
        k.clear_residues(inverses + static_cast<size_t>(p) * P::padded);
#pragma unroll 1
        for (int j = 0; j < 2; j++) {   // 1/f_j = parent * f of the other
            k.secret(K::coins_at + (1 - j) * K::coin_bytes, 2 * p + 1 - j < n, small);
            M::store_reversed(k.reversed(), small, k.lane);
            __syncwarp();
            M::multiply_small(k.folded(), k.reversed(), start, acc, k.lane);
            M::fix_constant(acc, static_cast<int32_t>(h[0] & 0xFFFF) * static_cast<int8_t>(small[0]), k.lane);
            k.store_residues(acc, reinterpret_cast<uint32_t *>(k.shared + K::inverses_at + j * K::row_bytes));
            __syncwarp();
        }
#pragma unroll 1
        for (int j = 0; j < 2; j++) {   // h_j = g_j / f_j
            const int i = 2 * p + j;
            if (i >= n) break;
            k.load_row(K::inverses_at + j * K::row_bytes, h);
            small_cbd<P>(k.shared + K::coins_at + j * K::coin_bytes, P::coin_bytes, k.lane, small);
            M::store_folded(k.folded(), h, k.lane);
            M::store_reversed(k.reversed(), small, k.lane);
            __syncwarp();
            M::multiply_small(k.folded(), k.reversed(), start, acc, k.lane);
            M::fix_constant(acc, static_cast<int32_t>(h[0] & 0xFFFF) * static_cast<int8_t>(small[0]), k.lane);
            __syncwarp();   // F has been read
            uint32_t *groups = reinterpret_cast<uint32_t *>(k.shared + pairs_at), *stream = reinterpret_cast<uint32_t *>(k.shared + stream_at);
            M::for_each_pair(acc, k.lane, [&](int tile, int index, uint32_t even, uint32_t odd) {
                uint32_t group = reduce_q<P>(even) | reduce_q<P>(odd) << key_bits;
                if (M::tile * (tile + 1) > P::n) group &= index < P::n / 2 ? ~0u : index == P::n / 2 ? (1u << key_bits) - 1 : 0u;
                groups[index] = group;
            });
            __syncwarp();
            pack_groups<P, key_bits>(groups, stream, k.lane, warp_size);
            __syncwarp();
            uint8_t *row = out + static_cast<size_t>(i) * out_stride;
            store_row<P::public_bytes>(row + P::secret_poly_bytes, stream, all_lanes, k.lane, warp_size);
            uint32_t nibbles[P::per_lane / 8];
            k.secret(K::coins_at + j * K::coin_bytes, true, small);
            packed_secret_nibbles<P>(small, k.lane, nibbles);
#pragma unroll
            for (int w = 0; w < P::per_lane / 8; w++) groups[P::per_lane / 8 * k.lane + w] = nibbles[w];
            __syncwarp();
            store_row<P::secret_poly_bytes>(row, groups, all_lanes, k.lane, warp_size);
            row[P::secret_bytes - seed_bytes + k.lane] = in[static_cast<size_t>(i) * in_stride + seed_bytes + k.lane];
            clear_row<keygen_coin_row<P>()>(coin_row(i), k.lane, warp_size);
            if (k.lane == 0) status[i] = 0;
            __syncwarp();   // F's place, and the stream, are free
        }
        __syncwarp();
        if (p + place.step < pairs) fetch(p + place.step);
    }
}

}   // namespace ctruprime
