// Encapsulation on the Tensor Cores: hashing with one operation a thread, then products with one operation a warp.
//
//   pk      public_bytes an operation, rows pk_stride apart; 0 if all operations have one
//   seeds   seed_bytes an operation, rows seed_stride apart
//   out     ct || key, encaps_out_bytes an operation, rows out_stride apart
//   status  0, or 1 for an invalid public key, whose output row is zero
//
// None has to be aligned. Between the two steps m, coins and K lie in scratch rows, which the second step wipes.
#pragma once
#include "hash.cuh"
#include "mul_mma.cuh"

namespace ctruprime {

// Scratch is what the hashing step leaves for the products: rows of message_row, coin_row and seed_bytes bytes, 16-byte
// aligned, one an operation.
struct Scratch {
    uint8_t *messages, *coins, *keys;
};

// encaps_hash_one makes one operation's m, coins and K, in row `row` of the scratch.
template <class P> __device__ __forceinline__ void encaps_hash_one(const uint8_t *pk, const uint8_t *seed, const Scratch &scratch, int row) {
    Hash<P>::template derive<true>(seed, pk, reinterpret_cast<uint64_t *>(scratch.messages + static_cast<size_t>(row) * P::message_row),
                                   reinterpret_cast<uint64_t *>(scratch.keys + static_cast<size_t>(row) * seed_bytes),
                                   reinterpret_cast<uint64_t *>(scratch.coins + static_cast<size_t>(row) * P::coin_row));
}

// Encryptor is a warp's shared memory for encryptions by the Tensor Cores.
template <class P> struct Encryptor {
    typedef Mma<P> M;
    static constexpr int codewords_at = M::product_bytes;                            // a 16-bit word for 16 coefficients
    static constexpr int raw_at = round_up(codewords_at + P::padded / 8, 16);        // the staged public key
    static constexpr int coins_at = raw_at + staged_polynomial<P, key_bits>();
    static constexpr int coins_bytes = round_up(P::padded * 2 * P::eta / 8 + 4, 16);   // as far as biased_cbd reads
    static constexpr int small_at = coins_at + coins_bytes;                          // twice (m, K): this operation's and the next one's
    static constexpr int small_bytes = P::message_row + seed_bytes;
    static constexpr int bytes = small_at + 2 * small_bytes;

    // The packed ciphertext, and K behind it, take the place of F once the product is done.
    static constexpr int groups_at = 0, stream_at = P::padded / 2 * 4;
    static_assert(stream_at + stream_words<P, P::d>() * 4 + seed_bytes + 8 <= M::folded_bytes, "the ciphertext fits where F was");

    uint8_t *shared;
    int lane;

    __device__ __forceinline__ uint8_t *folded() const { return shared; }
    __device__ __forceinline__ uint8_t *reversed() const { return shared + M::folded_bytes; }
    __device__ __forceinline__ uint16_t *codewords() const { return reinterpret_cast<uint16_t *>(shared + codewords_at); }
    __device__ __forceinline__ uint32_t *groups() const { return reinterpret_cast<uint32_t *>(shared + groups_at); }
    __device__ __forceinline__ uint32_t *stream() const { return reinterpret_cast<uint32_t *>(shared + stream_at); }

    // start: a multiple of q that, moved up by 8 bits, keeps every coefficient non-negative (multiply_small's bound).
    static constexpr int32_t start = multiple_of_q<P>(ceil_div(2 * P::n * P::eta << key_bits, 1 << 8));

    // fetch starts copying an operation's public key and scratch row.
    __device__ __forceinline__ void fetch(const uint8_t *pk, const Scratch &scratch, int row, int slot) const {
        stage_async<P::public_bytes>(shared + raw_at, pk, lane, warp_size);
        stage_async<P::coin_row>(shared + coins_at, scratch.coins + static_cast<size_t>(row) * P::coin_row, lane, warp_size);
        uint8_t *small = shared + small_at + slot * small_bytes;
        if (lane < P::message_row / 16) cp_async16(small + 16 * lane, scratch.messages + static_cast<size_t>(row) * P::message_row + 16 * lane);
        else if (lane < small_bytes / 16) cp_async16(small + 16 * lane, scratch.keys + static_cast<size_t>(row) * seed_bytes + 16 * lane - P::message_row);
        cp_async_commit();
    }
    __device__ __forceinline__ const uint8_t *message(int slot) const { return shared + small_at + slot * small_bytes; }
    __device__ __forceinline__ const uint8_t *key(int slot) const { return message(slot) + P::message_row; }

    // Operands are the public key (zero if it is invalid) and r in registers.
    struct Operands {
        uint32_t h[P::per_lane / 2], r[P::per_lane / 4];
        bool invalid;   // the same in all lanes
    };
    __device__ __forceinline__ void load(const uint8_t *pk, Operands &o) const {
        unpack_pairs<P, key_bits>(shared + raw_at, row_offset(pk), lane, o.h);
        small_cbd<P>(shared + coins_at, 0, lane, o.r);
        o.invalid = __any_sync(all_lanes, invalid_public<P>(shared + raw_at, row_offset(pk), o.h));
        const uint32_t keep = o.invalid ? 0u : all_lanes;
#pragma unroll
        for (int k = 0; k < P::per_lane / 2; k++) o.h[k] &= keep;
    }

    // encrypt leaves the packed ciphertext of message m in stream(), zero in the padding.
    __device__ __forceinline__ void encrypt(const Operands &o, const uint8_t *m) const {
        M::store_folded(folded(), o.h, lane);
        M::store_reversed(reversed(), o.r, lane);
        store_codewords<P>(m, codewords(), lane, warp_size);
        __syncwarp();
        typename M::Accumulators acc;
        M::multiply_small(folded(), reversed(), start, acc, lane);
        M::fix_constant(acc, static_cast<int32_t>(o.h[0] & 0xFFFF) * static_cast<int8_t>(o.r[0]), lane);
        __syncwarp();   // F has been read
        const uint16_t *words = codewords();
        uint32_t *to = groups();
        M::for_each_pair(acc, lane, [&](int tile, int index, uint32_t even, uint32_t odd) {
            uint32_t group = add_codeword_bits<P>(compress_pair<P>(even, odd), static_cast<uint32_t>(words[index / 8]) >> (2 * (index % 8)));
            if (M::tile * (tile + 1) > P::n) group &= index < P::n / 2 ? ~0u : index == P::n / 2 ? P::q2 - 1 : 0u;   // n is odd
            to[index] = group;
        });
        __syncwarp();
        pack_groups<P, P::d>(groups(), stream(), lane, warp_size);
        __syncwarp();
    }
};

// encaps_product_rows makes the output rows of operations first, first + step, ... below n.
template <class P>
__device__ __forceinline__ void encaps_product_rows(const Encryptor<P> &e, const uint8_t *pk, uint32_t pk_stride, const Scratch &scratch,
                                                    uint8_t *out, uint32_t out_stride, uint32_t *status, int first, int step, int n) {
    auto key = [&](int i) { return pk + static_cast<size_t>(i) * pk_stride; };
    int slot = 0;
    if (first < n) e.fetch(key(first), scratch, first, slot);
#pragma unroll 1
    for (int i = first; i < n; i += step, slot ^= 1) {
        cp_async_wait_all();
        __syncwarp();
        typename Encryptor<P>::Operands o;
        e.load(key(i), o);
        const size_t row = i;
        clear_row<P::message_row>(scratch.messages + row * P::message_row, e.lane, warp_size);
        clear_row<P::coin_row>(scratch.coins + row * P::coin_row, e.lane, warp_size);
        clear_row<seed_bytes>(scratch.keys + row * seed_bytes, e.lane, warp_size);
        __syncwarp();   // the staged rows have been read
        if (i + step < n) e.fetch(key(i + step), scratch, i + step, slot ^ 1);
        e.encrypt(o, e.message(slot));
        reinterpret_cast<uint8_t *>(e.stream())[P::cipher_bytes + e.lane] = e.key(slot)[e.lane];
        __syncwarp();
        store_row<P::encaps_out_bytes>(out + static_cast<size_t>(i) * out_stride, e.stream(), o.invalid ? 0u : all_lanes, e.lane, warp_size);
        if (e.lane == 0) status[i] = o.invalid ? 1 : 0;
        __syncwarp();   // the stream has been read
    }
}

// ---- Kernels ----

// encaps_hash: one operation a thread, a block any multiple of 32 threads.
template <class P>
__device__ __forceinline__ void encaps_hash(const uint8_t *pk, uint32_t pk_stride, const uint8_t *seeds, uint32_t seed_stride, uint8_t *messages, uint8_t *coins, uint8_t *keys, int n) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) encaps_hash_one<P>(pk + static_cast<size_t>(i) * pk_stride, seeds + static_cast<size_t>(i) * seed_stride, {messages, coins, keys}, i);
}

// encaps_product: a grid of any size shares the operations out warp by warp.
template <class P>
__device__ __forceinline__ void encaps_product(const uint8_t *pk, uint32_t pk_stride, uint8_t *messages, uint8_t *coins, uint8_t *keys,
                                               uint8_t *out, uint32_t out_stride, uint32_t *status, int n) {
    DYNAMIC_SHARED(uint8_t, shared);
    const int warp = static_cast<int>(threadIdx.x / warp_size), warps = static_cast<int>(blockDim.x / warp_size);
    const Encryptor<P> e = {shared + warp * Encryptor<P>::bytes, static_cast<int>(threadIdx.x % warp_size)};
    Mma<P>::clear_margins(e.reversed(), e.lane);
    encaps_product_rows<P>(e, pk, pk_stride, {messages, coins, keys}, out, out_stride, status,
                           static_cast<int>(blockIdx.x) * warps + warp, static_cast<int>(gridDim.x) * warps, n);
}

}   // namespace ctruprime
