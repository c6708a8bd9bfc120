// Decapsulation on the Tensor Cores, in three steps: decrypt (a warp an operation), hash (a thread an operation), encrypt
// again, compare and select (a warp an operation).
//
//   secrets  sk_f || pk || z, secret_bytes a row, rows secret_stride apart, any alignment. Operation i uses row index[i] of
//            `count` rows or, if count is 0, row i.
//   ct       cipher_bytes an operation, rows ct_stride apart, any alignment
//   out      the key, seed_bytes an operation, rows out_stride apart, any alignment
//   status   0, or 1 for an invalid secret key (or index), whose output row is zero
//
// Nothing of a well-formed secret key, m', or the outcome of the comparison decides a branch or an address. Whether a secret
// key is well-formed is public, as on the CPU: it is told by the status and may be branched on.
#pragma once
#include "encaps.cuh"

namespace ctruprime {

// SecretTable finds operations' secret keys.
struct SecretTable {
    const uint8_t *rows;
    uint32_t stride;
    const uint32_t *index;
    uint32_t count;

    // An index out of range is replaced by one within, and reported.
    __device__ __forceinline__ const uint8_t *row(int i) const {
        return rows + static_cast<size_t>(count == 0 ? i : min(index[i], count - 1)) * stride;
    }
    __device__ __forceinline__ bool outside(int i) const { return count != 0 && index[i] >= count; }
};

// Decryptor is a warp's shared memory for decryptions.
template <class P> struct Decryptor {
    typedef Mma<P> M;
    static constexpr int cipher_at = M::product_bytes;                                  // the staged ciphertext
    static constexpr int secret_at = cipher_at + staged_polynomial<P, P::d>();          // the staged sk_f
    static constexpr int message_at = secret_at + staged_bytes(P::padded / 2);
    static constexpr int bytes = message_at + P::message_row;
    static_assert(P::padded / 2 * 4 <= M::folded_bytes, "the product fits where F was");

    uint8_t *shared;
    int lane;

    __device__ __forceinline__ void fetch(const uint8_t *secret, const uint8_t *ct, Ends ends) const {
        stage_async<P::cipher_bytes>(shared + cipher_at, ct, lane, warp_size, ends);
        stage_async<P::secret_poly_bytes>(shared + secret_at, secret, lane, warp_size);
        cp_async_commit();
    }
    struct Operands {
        uint32_t c[P::per_lane / 2], f[P::per_lane / 4];
        bool invalid;
    };
    __device__ __forceinline__ void load(const uint8_t *secret, const uint8_t *ct, Operands &o) const {
        unpack_pairs<P, P::d>(shared + cipher_at, row_offset(ct), lane, o.c);
        o.invalid = __any_sync(all_lanes, secret_nibbles<P>(shared + secret_at, row_offset(secret), lane, o.f));
    }
    // decrypt leaves m' in shared memory: c*f mod q2, wrapping at 2^32 on the way, decoded.
    __device__ __forceinline__ const uint8_t *decrypt(const Operands &o) const {
        uint8_t *folded = shared, *reversed = shared + M::folded_bytes;
        M::store_folded(folded, o.c, lane);
        M::store_reversed(reversed, o.f, lane);
        __syncwarp();
        typename M::Accumulators acc;
        M::multiply_small(folded, reversed, 0, acc, lane);
        M::fix_constant(acc, static_cast<int32_t>(o.c[0] & 0xFFFF) * static_cast<int8_t>(o.f[0]), lane);
        __syncwarp();   // F has been read
        uint32_t *pairs = reinterpret_cast<uint32_t *>(shared);
        M::for_each_pair(acc, lane, [&](int, int index, uint32_t even, uint32_t odd) {
            pairs[index] = (even & (P::q2 - 1)) | (odd & (P::q2 - 1)) << 16;
        });
        __syncwarp();
        decode_message<P>(pairs, shared + message_at, lane, warp_size);
        __syncwarp();
        return shared + message_at;
    }
};

// decaps_decrypt_rows writes m' of the operations that next() names, one after another until one is not below n, and each one's
// first verdict to status.
template <class P, class Next>
__device__ __forceinline__ void decaps_decrypt_rows(const Decryptor<P> &d, const SecretTable &secrets, const uint8_t *ct, uint32_t ct_stride,
                                                    uint8_t *messages, uint32_t *status, Next next, int n) {
    auto cipher = [&](int i) { return ct + static_cast<size_t>(i) * ct_stride; };
    auto ends = [&](int i) { return i == n - 1 ? Ends::buffer : Ends::before_others; };
    int i = next();
    if (i < n) d.fetch(secrets.row(i), cipher(i), ends(i));
#pragma unroll 1
    while (i < n) {
        cp_async_wait_all();
        __syncwarp();
        typename Decryptor<P>::Operands o;
        d.load(secrets.row(i), cipher(i), o);
        __syncwarp();   // the staged rows have been read
        const int following = next();
        if (following < n) d.fetch(secrets.row(following), cipher(following), ends(following));
        const uint8_t *m = d.decrypt(o);
        uint4 *to = reinterpret_cast<uint4 *>(messages + static_cast<size_t>(i) * P::message_row);
        if (d.lane < P::message_row / 16) to[d.lane] = reinterpret_cast<const uint4 *>(m)[d.lane];
        if (d.lane == 0) status[i] = o.invalid || secrets.outside(i) ? 1 : 0;
        __syncwarp();
        i = following;
    }
}

// decaps_rederive_one makes K' and the coins of operation i from row `row` of the scratch's messages.
template <class P> __device__ __forceinline__ void decaps_rederive_one(const uint8_t *secret, const Scratch &scratch, int row) {
    Hash<P>::template derive<false>(nullptr, secret + P::secret_poly_bytes, reinterpret_cast<uint64_t *>(scratch.messages + static_cast<size_t>(row) * P::message_row),
                                    reinterpret_cast<uint64_t *>(scratch.keys + static_cast<size_t>(row) * seed_bytes),
                                    reinterpret_cast<uint64_t *>(scratch.coins + static_cast<size_t>(row) * P::coin_row));
}

// decaps_reject_one makes the rejected key.
template <class P> __device__ __forceinline__ void decaps_reject_one(const uint8_t *secret, const uint8_t *ct, uint8_t *rejects, int row) {
    const uint8_t *pk = secret + P::secret_poly_bytes;
    Hash<P>::rejected_key(pk, pk + P::public_bytes, ct, reinterpret_cast<uint64_t *>(rejects + static_cast<size_t>(row) * seed_bytes));
}

// difference is not zero, for some thread, if a packed ciphertext is not the received one staged at received + offset. All
// bytes are compared.
template <class P> __device__ __forceinline__ uint32_t difference(const uint32_t *packed, const uint8_t *received, uint32_t offset, int rank, int size) {
    const uint32_t *words = reinterpret_cast<const uint32_t *>(received) + offset / 4;
    uint32_t found = 0;
    for (int i = rank; i < ceil_div(P::cipher_bytes, 4); i += size) {
        const int left = P::cipher_bytes - 4 * i;
        const uint32_t mask = left >= 4 ? all_lanes : (1u << (8 * left)) - 1;
        found |= (packed[i] ^ __funnelshift_r(words[i], words[i + 1], 8 * (offset % 4))) & mask;
    }
    return found;
}

// Selector is a warp's shared memory for encrypting again: an Encryptor's, and the received ciphertext.
template <class P> struct Selector {
    static constexpr int cipher_at = Encryptor<P>::bytes;
    static constexpr int bytes = cipher_at + staged_bytes(P::cipher_bytes);
    Encryptor<P> encryptor;

    __device__ __forceinline__ void fetch(const uint8_t *pk, const uint8_t *ct, const Scratch &scratch, int row, int slot, Ends ends) const {
        stage_async<P::cipher_bytes>(encryptor.shared + cipher_at, ct, encryptor.lane, warp_size, ends);
        encryptor.fetch(pk, scratch, row, slot);   // one group of copies
    }
    // differs says whether the ciphertext in the encryptor's stream is not the staged one.
    __device__ __forceinline__ bool differs(const uint8_t *ct) const {
        return __any_sync(all_lanes, difference<P>(encryptor.stream(), encryptor.shared + cipher_at, row_offset(ct), encryptor.lane, warp_size) != 0);
    }
};

// decaps_select_rows encrypts m' again, and writes K' if that gives the received ciphertext, the rejected key if not.
template <class P>
__device__ __forceinline__ void decaps_select_rows(const Selector<P> &s, const SecretTable &secrets, const uint8_t *ct, uint32_t ct_stride,
                                                   const Scratch &scratch, uint8_t *rejects, uint8_t *out, uint32_t out_stride,
                                                   uint32_t *status, int first, int step, int n) {
    const Encryptor<P> &e = s.encryptor;
    auto cipher = [&](int i) { return ct + static_cast<size_t>(i) * ct_stride; };
    auto pk = [&](int i) { return secrets.row(i) + P::secret_poly_bytes; };
    auto ends = [&](int i) { return i == n - 1 ? Ends::buffer : Ends::before_others; };
    int slot = 0;
    if (first < n) s.fetch(pk(first), cipher(first), scratch, first, slot, ends(first));
#pragma unroll 1
    for (int i = first; i < n; i += step, slot ^= 1) {
        cp_async_wait_all();
        __syncwarp();
        typename Encryptor<P>::Operands o;
        e.load(pk(i), o);
        const size_t row = i;
        clear_row<P::message_row>(scratch.messages + row * P::message_row, e.lane, warp_size);
        clear_row<P::coin_row>(scratch.coins + row * P::coin_row, e.lane, warp_size);
        clear_row<seed_bytes>(scratch.keys + row * seed_bytes, e.lane, warp_size);
        const uint8_t rejected = rejects[row * seed_bytes + e.lane];
        const bool invalid = o.invalid || status[i] != 0;
        e.encrypt(o, e.message(slot));
        const uint32_t reject = 0u - static_cast<uint32_t>(s.differs(cipher(i)));
        const uint32_t key = e.key(slot)[e.lane], chosen = key ^ ((key ^ rejected) & reject);
        out[static_cast<size_t>(i) * out_stride + e.lane] = static_cast<uint8_t>(chosen & (0u - static_cast<uint32_t>(!invalid)));
        __syncwarp();   // everything staged has been read, and the rejected key
        rejects[row * seed_bytes + e.lane] = 0;
        if (e.lane == 0) status[i] = invalid ? 1 : 0;
        if (i + step < n) s.fetch(pk(i + step), cipher(i + step), scratch, i + step, slot ^ 1, ends(i + step));
    }
}

// ---- Kernels ----

template <class P>
__device__ __forceinline__ void decaps_decrypt(const uint8_t *secrets, uint32_t secret_stride, const uint32_t *index, uint32_t count,
                                               const uint8_t *ct, uint32_t ct_stride, uint8_t *messages, uint32_t *status, int n) {
    DYNAMIC_SHARED(uint8_t, shared);
    const int warp = static_cast<int>(threadIdx.x / warp_size), warps = static_cast<int>(blockDim.x / warp_size);
    const Decryptor<P> d = {shared + warp * Decryptor<P>::bytes, static_cast<int>(threadIdx.x % warp_size)};
    Mma<P>::clear_margins(d.shared + Mma<P>::folded_bytes, d.lane);
    int i = (static_cast<int>(blockIdx.x) - static_cast<int>(gridDim.x)) * warps + warp;
    auto next = [&] { return i += static_cast<int>(gridDim.x) * warps; };
    decaps_decrypt_rows<P>(d, {secrets, secret_stride, index, count}, ct, ct_stride, messages, status, next, n);
}

// decaps_open: decaps_decrypt's work, and beside it the rejected keys, which need nothing that is decrypted: hashes are nearly as fast
// with one warp a scheduler as with more, so that two thirds of the warps multiply meanwhile. A block has a multiprocessor for itself. Its first warps, one a
// scheduler, hash, and when that is done help the others multiply; a counter gives out the block's operations, every
// gridDim-th of all.
template <class P>
__device__ __forceinline__ void decaps_open(const uint8_t *secrets, uint32_t secret_stride, const uint32_t *index, uint32_t count,
                                            const uint8_t *ct, uint32_t ct_stride, uint8_t *messages, uint8_t *rejects, uint32_t *status, int n) {
    constexpr int hashers = 4;
    DYNAMIC_SHARED(uint8_t, shared);
    SHARED(int, given);   // operations of the block's
    const int thread = static_cast<int>(threadIdx.x), warp = thread / warp_size, blocks = static_cast<int>(gridDim.x), block = static_cast<int>(blockIdx.x);
    const SecretTable table = {secrets, secret_stride, index, count};
    const Decryptor<P> d = {shared + warp * Decryptor<P>::bytes, thread % warp_size};
    Mma<P>::clear_margins(d.shared + Mma<P>::folded_bytes, d.lane);
    if (thread == 0) given = 0;
    __syncthreads();
    if (warp < hashers) {
#pragma unroll 1
        for (int i = (warp * blocks + block) * warp_size + d.lane; i < n; i += hashers * blocks * warp_size)
            decaps_reject_one<P>(table.row(i), ct + static_cast<size_t>(i) * ct_stride, rejects, i);
        __syncwarp();
    }
    auto next = [&] {
        int k = 0;
        if (d.lane == 0) k = atomicAdd(&given, 1);
        return block + blocks * __shfl_sync(all_lanes, k, 0);
    };
    decaps_decrypt_rows<P>(d, table, ct, ct_stride, messages, status, next, n);
}

// decaps_hash: one operation a thread. Blocks with blockIdx.y + first = 0 make K' and the coins, those with 1 the rejected keys. One launch
// for both is sooner done while the card is not full; then a launch for each is, as their blocks take different times.
template <class P>
__device__ __forceinline__ void decaps_hash(const uint8_t *secrets, uint32_t secret_stride, const uint32_t *index, uint32_t count,
                                            const uint8_t *ct, uint32_t ct_stride, uint8_t *messages, uint8_t *coins, uint8_t *keys,
                                            uint8_t *rejects, int n, int first) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n) return;
    const SecretTable table = {secrets, secret_stride, index, count};
    if (static_cast<int>(blockIdx.y) + first == 0) decaps_rederive_one<P>(table.row(i), {messages, coins, keys}, i);
    else decaps_reject_one<P>(table.row(i), ct + static_cast<size_t>(i) * ct_stride, rejects, i);
}

template <class P>
__device__ __forceinline__ void decaps_select(const uint8_t *secrets, uint32_t secret_stride, const uint32_t *index, uint32_t count,
                                              const uint8_t *ct, uint32_t ct_stride, uint8_t *messages, uint8_t *coins, uint8_t *keys,
                                              uint8_t *rejects, uint8_t *out, uint32_t out_stride, uint32_t *status, int n) {
    DYNAMIC_SHARED(uint8_t, shared);
    const int warp = static_cast<int>(threadIdx.x / warp_size), warps = static_cast<int>(blockDim.x / warp_size);
    const Selector<P> s = {{shared + warp * Selector<P>::bytes, static_cast<int>(threadIdx.x % warp_size)}};
    Mma<P>::clear_margins(s.encryptor.reversed(), s.encryptor.lane);
    decaps_select_rows<P>(s, {secrets, secret_stride, index, count}, ct, ct_stride, {messages, coins, keys}, rejects, out, out_stride,
                          status, static_cast<int>(blockIdx.x) * warps + warp, static_cast<int>(gridDim.x) * warps, n);
}

}   // namespace ctruprime
