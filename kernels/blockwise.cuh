// The products' kernels for multiplications that take a block each (Ntt, Tiled). They read and write the same rows as the
// Tensor Cores' kernels in encaps.cuh, decaps.cuh and keygen.cuh, whose hashing steps they share, and mean the same. A grid of
// any size shares the operations out block by block.
//
// Warps 0, 1 and 2 unpack, each with the code written for a warp a polynomial; then the whole block multiplies and packs.
#pragma once
#include "decaps.cuh"
#include "keygen.cuh"

namespace ctruprime {

// BlockSpace is a block's shared memory: the multiplication's own, which packing uses again, operands, the product, staged rows.
template <class P, class Mul> struct BlockSpace {
    static constexpr int groups_at = 0, stream_at = P::padded / 2 * 4;
    static constexpr int packing_bytes = stream_at + stream_words<P, key_bits>() * 4 + seed_bytes + 8;
    static constexpr int left_at = round_up(Mul::shared_bytes > packing_bytes ? Mul::shared_bytes : packing_bytes, 16);
    static constexpr int right_at = left_at + 2 * P::padded, product_at = right_at + 2 * P::padded;
    static constexpr int part_at = product_at + 4 * P::padded;                     // for residues()
    static constexpr int codewords_at = part_at + 4 * P::padded;
    static constexpr int message_at = round_up(codewords_at + P::padded / 8, 16);
    static constexpr int big_at = message_at + P::message_row;                     // a staged public key or ciphertext
    static constexpr int small_at = big_at + (P::d > key_bits ? staged_polynomial<P, P::d>() : staged_polynomial<P, key_bits>());
    static constexpr int coins_bytes = KeyMaker<P>::coin_bytes;
    static constexpr int secret_bytes = staged_bytes(P::padded / 2);
    static constexpr int verdict_at = small_at + (coins_bytes > secret_bytes ? coins_bytes : secret_bytes);
    static constexpr int bytes = verdict_at + 16;

    uint8_t *shared;
    int thread, lane, warp;
    __device__ __forceinline__ explicit BlockSpace(uint8_t *shared)
        : shared(shared), thread(static_cast<int>(threadIdx.x)), lane(thread % warp_size), warp(thread / warp_size) {}

    __device__ __forceinline__ int16_t *left() const { return reinterpret_cast<int16_t *>(shared + left_at); }
    __device__ __forceinline__ int16_t *right() const { return reinterpret_cast<int16_t *>(shared + right_at); }
    __device__ __forceinline__ int32_t *product() const { return reinterpret_cast<int32_t *>(shared + product_at); }
    __device__ __forceinline__ uint32_t *residues() const { return reinterpret_cast<uint32_t *>(shared + product_at); }
    __device__ __forceinline__ int32_t *part() const { return reinterpret_cast<int32_t *>(shared + part_at); }
    __device__ __forceinline__ uint16_t *codewords() const { return reinterpret_cast<uint16_t *>(shared + codewords_at); }
    __device__ __forceinline__ uint32_t *groups() const { return reinterpret_cast<uint32_t *>(shared + groups_at); }
    __device__ __forceinline__ uint32_t *stream() const { return reinterpret_cast<uint32_t *>(shared + stream_at); }
    __device__ __forceinline__ uint32_t *verdict() const { return reinterpret_cast<uint32_t *>(shared + verdict_at); }   // two words

    // stage copies a row to shared memory for the calling warp, which then reads it.
    template <int size> __device__ __forceinline__ void stage(int at, const uint8_t *row) const {
        stage_async<size>(shared + at, row, lane, warp_size, Ends::buffer);
        cp_async_commit();
        cp_async_wait_all();
        __syncwarp();
    }
    // put_pairs and put_bytes store a warp's polynomial as an operand; pairs are centred modulo `modulus`.
    __device__ __forceinline__ void put_pairs(int16_t *operand, const uint32_t (&pair)[P::per_lane / 2], int modulus) const {
#pragma unroll
        for (int k = 0; k < P::per_lane / 2; k++)
#pragma unroll
            for (int j = 0; j < 2; j++) {
                const int x = static_cast<int>(pair[k] >> (16 * j) & 0xFFFF);
                operand[P::per_lane * lane + 2 * k + j] = static_cast<int16_t>(x - (x > modulus / 2 ? modulus : 0));
            }
    }
    __device__ __forceinline__ void put_bytes(int16_t *operand, const uint32_t (&bytes)[P::per_lane / 4]) const {
#pragma unroll
        for (int k = 0; k < P::per_lane; k++) operand[P::per_lane * lane + k] = static_cast<int8_t>(bytes[k / 4] >> (8 * (k % 4)));
    }

    // load_encryption prepares h*r and the codewords: verdict()[0] tells whether the public key is invalid. The caller synchronises.
    __device__ __forceinline__ void load_encryption(const uint8_t *pk, const uint8_t *coins, const uint8_t *message) const {
        if (warp == 0) {
            stage<P::public_bytes>(big_at, pk);
            uint32_t h[P::per_lane / 2];
            unpack_pairs<P, key_bits>(shared + big_at, row_offset(pk), lane, h);
            const bool invalid = __any_sync(all_lanes, invalid_public<P>(shared + big_at, row_offset(pk), h));
#pragma unroll
            for (int k = 0; k < P::per_lane / 2; k++) h[k] &= invalid ? 0u : all_lanes;
            put_pairs(left(), h, P::q);
            if (lane == 0) verdict()[0] = invalid ? 1 : 0;
        } else if (warp == 1) {
            stage<P::coin_row>(small_at, coins);
            uint32_t r[P::per_lane / 4];
            small_cbd<P>(shared + small_at, 0, lane, r);
            put_bytes(right(), r);
        } else if (warp == 2) {
            store_codewords<P>(message, codewords(), lane, warp_size);
        }
    }
    // encrypt multiplies and leaves the packed ciphertext in stream().
    __device__ __forceinline__ void encrypt(const Mul &mul) const {
        mul.exact([&](int i) { return static_cast<int32_t>(left()[i]); }, [&](int i) { return static_cast<int32_t>(right()[i]); }, product(), shared);
        for (int i = thread; i < P::padded / 2; i += Mul::threads) {
            // |coefficient| <= 2*n*eta*q/2
            constexpr uint32_t up = multiple_of_q<P>(P::n * P::eta * P::q);
            const uint32_t even = 2 * i < P::n ? static_cast<uint32_t>(product()[2 * i]) + up : 0, odd = 2 * i + 1 < P::n ? static_cast<uint32_t>(product()[2 * i + 1]) + up : 0;
            const uint32_t group = add_codeword_bits<P>(compress_pair<P>(even, odd), static_cast<uint32_t>(codewords()[i / 8]) >> (2 * (i % 8)));
            groups()[i] = group & (i < P::n / 2 ? ~0u : i == P::n / 2 ? P::q2 - 1 : 0u);
        }
        __syncthreads();
        pack_groups<P, P::d>(groups(), stream(), thread, Mul::threads);
        __syncthreads();
    }
    __device__ __forceinline__ void wipe(const Scratch &scratch, size_t row) const {
        clear_row<P::message_row>(scratch.messages + row * P::message_row, thread, Mul::threads);
        clear_row<P::coin_row>(scratch.coins + row * P::coin_row, thread, Mul::threads);
        clear_row<seed_bytes>(scratch.keys + row * seed_bytes, thread, Mul::threads);
    }

    // For key generation: residues of operands already in place, as a row of 16-bit values.
    template <int max_right> __device__ __forceinline__ void multiply_residues(const Mul &mul) const {
        mul.template residues<max_right>([&](int i) { return static_cast<int32_t>(left()[i]); }, [&](int i) { return static_cast<int32_t>(right()[i]); },
                                         residues(), part(), shared);
    }
    __device__ __forceinline__ void put_row(int16_t *operand, const uint16_t *row) const {
        for (int i = thread; i < P::n; i += Mul::threads) operand[i] = static_cast<int16_t>(centre_q<P>(row[i]));
    }
    __device__ __forceinline__ void store_row_of_residues(uint16_t *row) const {
        for (int i = thread; i < P::padded; i += Mul::threads) row[i] = i < P::n ? static_cast<uint16_t>(residues()[i]) : 0;
    }
    // put_secret has the calling warp store f of operation i, or 1 if there is none; wants the staging place of its own.
    __device__ __forceinline__ void put_secret(int16_t *operand, int at, const uint8_t *coins, bool exists) const {
        uint32_t f[P::per_lane / 4];
        if (exists) stage<round_up(P::coin_bytes, 16)>(at, coins);
        KeyMaker<P>{shared, lane}.secret(at, exists, f);
        put_bytes(operand, f);
    }
};

// ---- Kernels ----

template <class P, class Mul>
__device__ __forceinline__ void encaps_product(const Mul &mul, const uint8_t *pk, uint32_t pk_stride, uint8_t *messages, uint8_t *coins, uint8_t *keys,
                                               uint8_t *out, uint32_t out_stride, uint32_t *status, int n) {
    DYNAMIC_SHARED(uint8_t, shared);
    const BlockSpace<P, Mul> s(shared);
    const Scratch scratch = {messages, coins, keys};
#pragma unroll 1
    for (int i = static_cast<int>(blockIdx.x); i < n; i += static_cast<int>(gridDim.x)) {
        const size_t row = i;
        s.load_encryption(pk + row * pk_stride, coins + row * P::coin_row, messages + row * P::message_row);
        __syncthreads();
        const bool invalid = s.verdict()[0] != 0;
        s.encrypt(mul);
        if (s.thread < seed_bytes) reinterpret_cast<uint8_t *>(s.stream())[P::cipher_bytes + s.thread] = keys[row * seed_bytes + s.thread];
        __syncthreads();
        store_row<P::encaps_out_bytes>(out + row * out_stride, s.stream(), invalid ? 0u : all_lanes, s.thread, Mul::threads);
        if (s.thread == 0) status[i] = invalid ? 1 : 0;
        s.wipe(scratch, row);
        __syncthreads();
    }
}

template <class P, class Mul>
__device__ __forceinline__ void decaps_decrypt(const Mul &mul, const uint8_t *secrets, uint32_t secret_stride, const uint32_t *index, uint32_t count,
                                               const uint8_t *ct, uint32_t ct_stride, uint8_t *messages, uint32_t *status, int n) {
    typedef BlockSpace<P, Mul> S;
    DYNAMIC_SHARED(uint8_t, shared);
    const S s(shared);
    const SecretTable table = {secrets, secret_stride, index, count};
#pragma unroll 1
    for (int i = static_cast<int>(blockIdx.x); i < n; i += static_cast<int>(gridDim.x)) {
        if (s.warp == 0) {
            const uint8_t *row = ct + static_cast<size_t>(i) * ct_stride;
            uint32_t c[P::per_lane / 2];
            s.template stage<P::cipher_bytes>(S::big_at, row);
            unpack_pairs<P, P::d>(shared + S::big_at, row_offset(row), s.lane, c);
            s.put_pairs(s.left(), c, P::q2);
        } else if (s.warp == 1) {
            const uint8_t *row = table.row(i);
            uint32_t f[P::per_lane / 4];
            s.template stage<P::secret_poly_bytes>(S::small_at, row);
            const bool invalid = __any_sync(all_lanes, secret_nibbles<P>(shared + S::small_at, row_offset(row), s.lane, f));
#pragma unroll
            for (int k = 0; k < P::per_lane / 4; k++) f[k] &= invalid ? 0u : all_lanes;   // within the products' bounds
            s.put_bytes(s.right(), f);
            if (s.lane == 0) status[i] = invalid || table.outside(i) ? 1 : 0;
        }
        __syncthreads();
        mul.exact([&](int j) { return static_cast<int32_t>(s.left()[j]); }, [&](int j) { return static_cast<int32_t>(s.right()[j]); }, s.product(), shared);
        for (int j = s.thread; j < P::padded / 2; j += Mul::threads) {
            const uint32_t even = 2 * j < P::n ? static_cast<uint32_t>(s.product()[2 * j]) : 0, odd = 2 * j + 1 < P::n ? static_cast<uint32_t>(s.product()[2 * j + 1]) : 0;
            s.groups()[j] = (even & (P::q2 - 1)) | (odd & (P::q2 - 1)) << 16;
        }
        __syncthreads();
        if (s.warp == 0) {
            decode_message<P>(s.groups(), shared + S::message_at, s.lane, warp_size);
            __syncwarp();
            for (int j = s.lane; j < P::message_row; j += warp_size) messages[static_cast<size_t>(i) * P::message_row + j] = shared[S::message_at + j];
        }
        __syncthreads();
    }
}

template <class P, class Mul>
__device__ __forceinline__ void decaps_select(const Mul &mul, const uint8_t *secrets, uint32_t secret_stride, const uint32_t *index, uint32_t count,
                                              const uint8_t *ct, uint32_t ct_stride, uint8_t *messages, uint8_t *coins, uint8_t *keys, uint8_t *rejects,
                                              uint8_t *out, uint32_t out_stride, uint32_t *status, int n) {
    DYNAMIC_SHARED(uint8_t, shared);
    const BlockSpace<P, Mul> s(shared);
    const SecretTable table = {secrets, secret_stride, index, count};
    const Scratch scratch = {messages, coins, keys};
#pragma unroll 1
    for (int i = static_cast<int>(blockIdx.x); i < n; i += static_cast<int>(gridDim.x)) {
        const size_t row = i;
        const uint8_t *received = ct + row * ct_stride;
        s.load_encryption(table.row(i) + P::secret_poly_bytes, coins + row * P::coin_row, messages + row * P::message_row);
        __syncthreads();
        const bool invalid = s.verdict()[0] != 0 || status[i] != 0;
        s.encrypt(mul);
        if (s.warp == 0) {
            const uint8_t *expected = reinterpret_cast<const uint8_t *>(s.stream());
            uint32_t difference = 0;
            for (int j = s.lane; j < P::cipher_bytes; j += warp_size) difference |= static_cast<uint32_t>(expected[j] ^ received[j]);
            const uint32_t reject = 0u - static_cast<uint32_t>(__any_sync(all_lanes, difference != 0) != 0);
            const uint32_t key = keys[row * seed_bytes + s.lane], rejected = rejects[row * seed_bytes + s.lane];
            out[row * out_stride + s.lane] = static_cast<uint8_t>((key ^ ((key ^ rejected) & reject)) & (0u - static_cast<uint32_t>(!invalid)));
            rejects[row * seed_bytes + s.lane] = 0;
        }
        __syncthreads();   // the scratch and the verdicts have been read
        if (s.thread == 0) status[i] = invalid ? 1 : 0;
        s.wipe(scratch, row);
        __syncthreads();
    }
}

template <class P, class Mul> __device__ __forceinline__ void keygen_pairs(const Mul &mul, const uint8_t *coins, uint16_t *level, int pairs, int n) {
    typedef BlockSpace<P, Mul> S;
    DYNAMIC_SHARED(uint8_t, shared);
    const S s(shared);
#pragma unroll 1
    for (int p = static_cast<int>(blockIdx.x); p < pairs; p += static_cast<int>(gridDim.x)) {
        if (s.warp < 2) {
            const int i = 2 * p + s.warp;
            s.put_secret(s.warp == 0 ? s.left() : s.right(), s.warp == 0 ? S::big_at : S::small_at, coins + static_cast<size_t>(i) * keygen_coin_row<P>(), i < n);
        }
        __syncthreads();
        s.template multiply_residues<P::f_max>(mul);
        s.store_row_of_residues(level + static_cast<size_t>(p) * P::padded);
        __syncthreads();
    }
}

template <class P, class Mul> __device__ __forceinline__ void keygen_up(const Mul &mul, const uint16_t *below, uint16_t *level, int rows) {
    DYNAMIC_SHARED(uint8_t, shared);
    const BlockSpace<P, Mul> s(shared);
#pragma unroll 1
    for (int i = static_cast<int>(blockIdx.x); i < rows; i += static_cast<int>(gridDim.x)) {
        s.put_row(s.left(), below + static_cast<size_t>(2 * i) * P::padded);
        s.put_row(s.right(), below + static_cast<size_t>(2 * i + 1) * P::padded);
        __syncthreads();
        s.template multiply_residues<P::q / 2>(mul);
        s.store_row_of_residues(level + static_cast<size_t>(i) * P::padded);
        __syncthreads();
    }
}

template <class P, class Mul> __device__ __forceinline__ void keygen_down(const Mul &mul, uint16_t *inverses, uint16_t *below, int parents) {
    DYNAMIC_SHARED(uint8_t, shared);
    const BlockSpace<P, Mul> s(shared);
#pragma unroll 1
    for (int i = static_cast<int>(blockIdx.x); i < parents; i += static_cast<int>(gridDim.x)) {
        uint16_t *parent = inverses + static_cast<size_t>(i) * P::padded, *first = below + static_cast<size_t>(2 * i) * P::padded, *second = first + P::padded;
        uint32_t kept[ceil_div(P::n, Mul::threads)];   // the first child's product, which the second's inverse needs
        s.put_row(s.left(), parent);
        s.put_row(s.right(), second);
#pragma unroll
        for (int k = 0; k < ceil_div(P::n, Mul::threads); k++) kept[k] = s.thread + k * Mul::threads < P::n ? first[s.thread + k * Mul::threads] : 0;
        __syncthreads();
        s.template multiply_residues<P::q / 2>(mul);
        s.store_row_of_residues(first);
#pragma unroll
        for (int k = 0; k < ceil_div(P::n, Mul::threads); k++)
            if (s.thread + k * Mul::threads < P::n) s.right()[s.thread + k * Mul::threads] = static_cast<int16_t>(centre_q<P>(kept[k]));
        __syncthreads();
        s.template multiply_residues<P::q / 2>(mul);
        s.store_row_of_residues(second);
        clear_row<2 * P::padded>(reinterpret_cast<uint8_t *>(parent), s.thread, Mul::threads);
        __syncthreads();
    }
}

template <class P, class Mul>
__device__ __forceinline__ void keygen_finish(const Mul &mul, const uint8_t *in, uint32_t in_stride, uint8_t *coins, uint16_t *inverses, uint8_t *out,
                                              uint32_t out_stride, uint32_t *status, int n) {
    typedef BlockSpace<P, Mul> S;
    DYNAMIC_SHARED(uint8_t, shared);
    const S s(shared);
#pragma unroll 1
    for (int p = static_cast<int>(blockIdx.x); p < (n + 1) / 2; p += static_cast<int>(gridDim.x)) {
        uint16_t *parent = inverses + static_cast<size_t>(p) * P::padded;
        uint8_t *coin_rows = coins + static_cast<size_t>(2 * p) * keygen_coin_row<P>();
        const int keys = min(2, n - 2 * p);
#pragma unroll 1
        for (int j = 0; j < keys; j++) {
            uint8_t *own = coin_rows + j * keygen_coin_row<P>();
            s.put_row(s.left(), parent);
            if (s.warp == 0) s.put_secret(s.right(), S::small_at, coin_rows + (1 - j) * keygen_coin_row<P>(), 2 * p + 1 - j < n);
            __syncthreads();
            s.template multiply_residues<P::f_max>(mul);   // 1/f_j
            for (int i = s.thread; i < P::n; i += Mul::threads) s.left()[i] = static_cast<int16_t>(centre_q<P>(s.residues()[i]));
            if (s.warp == 0) {
                uint32_t g[P::per_lane / 4];
                s.template stage<keygen_coin_row<P>()>(S::small_at, own);
                small_cbd<P>(shared + S::small_at, P::coin_bytes, s.lane, g);
                s.put_bytes(s.right(), g);
            }
            __syncthreads();
            s.template multiply_residues<P::eta>(mul);   // h_j = g_j/f_j
            uint8_t *row = out + static_cast<size_t>(2 * p + j) * out_stride;
            for (int i = s.thread; i < P::padded / 2; i += Mul::threads)
                s.groups()[i] = (2 * i < P::n ? s.residues()[2 * i] : 0) | (2 * i + 1 < P::n ? s.residues()[2 * i + 1] << key_bits : 0);
            __syncthreads();
            pack_groups<P, key_bits>(s.groups(), s.stream(), s.thread, Mul::threads);
            __syncthreads();
            store_row<P::public_bytes>(row + P::secret_poly_bytes, s.stream(), all_lanes, s.thread, Mul::threads);
            if (s.warp == 0) {   // the groups have been packed: their place takes sk_f
                uint32_t f[P::per_lane / 4], nibbles[P::per_lane / 8];
                secret_cbd<P>(shared + S::small_at, 0, s.lane, f);
                packed_secret_nibbles<P>(f, s.lane, nibbles);
#pragma unroll
                for (int w = 0; w < P::per_lane / 8; w++) s.groups()[P::per_lane / 8 * s.lane + w] = nibbles[w];
                __syncwarp();
                store_row<P::secret_poly_bytes>(row, s.groups(), all_lanes, s.lane, warp_size);
                row[P::secret_bytes - seed_bytes + s.lane] = in[static_cast<size_t>(2 * p + j) * in_stride + seed_bytes + s.lane];
                if (s.lane == 0) status[2 * p + j] = 0;
            }
            __syncthreads();
        }
        clear_row<2 * P::padded>(reinterpret_cast<uint8_t *>(parent), s.thread, Mul::threads);
        for (int j = 0; j < keys; j++) clear_row<keygen_coin_row<P>()>(coin_rows + j * keygen_coin_row<P>(), s.thread, Mul::threads);
        __syncthreads();
    }
}

}   // namespace ctruprime
