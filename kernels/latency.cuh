// Kernels for small batches, where what counts is how soon one operation is done: hashes with a warp a state, and whole
// operations in one launch with a block each, four warps sharing a product and, for decapsulation, a fifth that
// hashes for the rejected key meanwhile.
//
// Layouts, status and meaning are those of encaps.cuh, decaps.cuh and keygen.cuh.
#pragma once
#include "decaps.cuh"
#include "keygen.cuh"

namespace ctruprime {

// ---- Hashes, a warp an operation ----

// lane_word gives lane i < count the 64-bit word i of bytes at any address, and the other lanes 0.
__device__ __forceinline__ uint64_t lane_word(const uint8_t *bytes, int count, int lane) {
    uint64_t word[1] = {0};
    if (lane < count) load_words(bytes + 8 * lane, word);
    return word[0];
}

// identity_word gives lanes 0..3 the words of pk[0:32], lane 4 the byte after them, and the other lanes 0.
__device__ __forceinline__ uint64_t identity_word(const uint8_t *pk, int lane) {
    const uint64_t word = lane_word(pk, identity_bytes / 8, lane);
    return lane == identity_bytes / 8 ? pk[identity_bytes - 1] : word;
}

// warp_operation is the number of the warp in the grid.
__device__ __forceinline__ int warp_operation() { return static_cast<int>((blockIdx.x * blockDim.x + threadIdx.x) / warp_size); }

template <class P> __device__ __forceinline__ void encaps_hash_warp(const uint8_t *pk, uint32_t pk_stride, const uint8_t *seeds, uint32_t seed_stride, uint8_t *messages, uint8_t *coins, uint8_t *keys, int n) {
    typedef Hash<P> H;
    const int i = warp_operation(), lane = static_cast<int>(threadIdx.x % warp_size);
    if (i >= n) return;
    const WarpKeccak keccak(lane);
    const uint64_t m = H::warp_message(keccak, lane_word(seeds + static_cast<size_t>(i) * seed_stride, seed_bytes / 8, lane), lane);
    if (lane < P::message_row / 8) reinterpret_cast<uint64_t *>(messages + static_cast<size_t>(i) * P::message_row)[lane] = m;
    const uint64_t key = H::warp_key_and_coins(keccak, identity_word(pk + static_cast<size_t>(i) * pk_stride, lane), m,
                                               reinterpret_cast<uint64_t *>(coins + static_cast<size_t>(i) * P::coin_row), lane);
    if (lane < 4) reinterpret_cast<uint64_t *>(keys + static_cast<size_t>(i) * seed_bytes)[lane] = key;
}

static_assert(seed_bytes == warp_size && identity_bytes == warp_size + 1, "a warp copies seeds and pk[0:33] a byte a lane, and one");

// A warp lays out the input of the rejection hash in rejection_bytes of shared memory, 16-byte aligned: the input, whole blocks, and
// then the ciphertext as it lies in memory.
template <class P> constexpr int rejection_staged_at = round_up(Hash<P>::rejection_blocks *sha3_512_rate, 16);
template <class P> constexpr int rejection_bytes = rejection_staged_at<P> + staged_bytes(P::cipher_bytes);

// lay_out_rejection writes pk[0:33] || z || ct, and zeros to the block's end, to `input`. ct may be host memory: all of it is asked for
// at once.
template <class P> __device__ __forceinline__ void lay_out_rejection(const uint8_t *pk, const uint8_t *ct, uint8_t *input, int lane) {
    constexpr int prefix = identity_bytes + seed_bytes;
    constexpr int first_word = ceil_div(prefix, 4), lead = 4 * first_word - prefix;   // ct begins `lead` bytes before a word
    uint8_t *staged = input + rejection_staged_at<P>;
    stage_async<P::cipher_bytes>(staged, ct, lane, warp_size, Ends::buffer);
    cp_async_commit();
    const uint8_t id = pk[lane], z = pk[P::public_bytes + lane], last = lane == 0 ? pk[identity_bytes - 1] : 0;
    input[lane] = id;
    input[identity_bytes + lane] = z;
    if (lane == 0) input[identity_bytes - 1] = last;
    cp_async_wait_all();
    __syncwarp();
    if (lane < lead) input[prefix + lane] = staged[row_offset(ct) + lane];
    const uint32_t from = row_offset(ct) + lead, *words = reinterpret_cast<const uint32_t *>(staged) + from / 4;
    uint32_t *to = reinterpret_cast<uint32_t *>(input) + first_word;
#pragma unroll
    for (int k = 0; k < ceil_div(Hash<P>::rejection_blocks * sha3_512_rate / 4 - first_word, warp_size); k++) {
        const int i = k * warp_size + lane, left = P::cipher_bytes - lead - 4 * i;
        if (i >= Hash<P>::rejection_blocks * sha3_512_rate / 4 - first_word) continue;
        uint32_t word = 0;
        if (left > 0) word = __funnelshift_r(words[i], words[i + 1], 8 * (from % 4));
        to[i] = left >= 4 ? word : left > 0 ? word & ((1u << (8 * left)) - 1) : 0;
    }
    __syncwarp();
}
// decaps_hash_warp: as decaps_hash, blockIdx.y choosing between K' with the coins and the rejected key; blocks of 32 threads.
template <class P>
__device__ __forceinline__ void decaps_hash_warp(const uint8_t *secrets, uint32_t secret_stride, const uint32_t *index, uint32_t count,
                                                 const uint8_t *ct, uint32_t ct_stride, uint8_t *messages, uint8_t *coins, uint8_t *keys,
                                                 uint8_t *rejects, int n) {
    typedef Hash<P> H;
    SHARED(__align__(16) uint8_t, input, [rejection_bytes<P>]);
    const int i = static_cast<int>(blockIdx.x), lane = static_cast<int>(threadIdx.x);
    if (i >= n) return;
    const SecretTable table = {secrets, secret_stride, index, count};
    const uint8_t *pk = table.row(i) + P::secret_poly_bytes;
    const WarpKeccak keccak(lane);
    if (blockIdx.y == 0) {
        const uint64_t *message = reinterpret_cast<const uint64_t *>(messages + static_cast<size_t>(i) * P::message_row);
        const uint64_t m = lane < H::message_words ? message[lane] : 0;
        const uint64_t key = H::warp_key_and_coins(keccak, identity_word(pk, lane), m,
                                                   reinterpret_cast<uint64_t *>(coins + static_cast<size_t>(i) * P::coin_row), lane);
        if (lane < 4) reinterpret_cast<uint64_t *>(keys + static_cast<size_t>(i) * seed_bytes)[lane] = key;
    } else {
        lay_out_rejection<P>(pk, ct + static_cast<size_t>(i) * ct_stride, input, lane);
        const uint64_t key = H::warp_rejected_key(keccak, reinterpret_cast<const uint64_t *>(input), lane);
        if (lane < 4) reinterpret_cast<uint64_t *>(rejects + static_cast<size_t>(i) * seed_bytes)[lane] = key;
    }
}

template <class P> __device__ __forceinline__ void keygen_hash_warp(const uint8_t *in, uint32_t in_stride, uint8_t *coins, int n) {
    typedef Hash<P> H;
    const int i = warp_operation(), lane = static_cast<int>(threadIdx.x % warp_size);
    if (i >= n) return;
    const WarpKeccak keccak(lane);
    const uint64_t a = H::warp_absorb_seed(keccak, lane_word(in + static_cast<size_t>(i) * in_stride, seed_bytes / 8, lane), lane);
    H::template warp_squeeze<keygen_coin_row<P>() / 8>(keccak, a, reinterpret_cast<uint64_t *>(coins + static_cast<size_t>(i) * keygen_coin_row<P>()), lane);
}

// ---- Products shared by four warps ----

// SplitProduct has warp w multiply limb w % 2 of F for half w / 2 of the tiles; the low limb's warps end with the sums.
template <class P> struct SplitProduct {
    typedef Mma<P> M;
    static constexpr int warps = 4, threads = warps * warp_size, width = M::tiles / 2;
    static_assert(M::tiles % 2 == 0, "halves are equal");
    static constexpr int barrier = 1;   // among the four warps

    struct Mail {
        int32_t high[2][width * 4][warp_size];   // the high limb's accumulators
        int32_t constants[2];                    // coefficient 0 of either operand, from those who store the operands
        int32_t row_n;
    };
    typedef int32_t Accumulators[width][4];

    // multiply: after a barrier that follows the operands' stores. Warps with owns() end with start*2^8 + a*b in the tiles from
    // first_tile() on; multiply ends with a barrier, after which F may be overwritten.
    static __device__ __forceinline__ bool owns(int warp) { return warp % 2 == 0; }
    static __device__ __forceinline__ int first_tile(int warp) { return warp / 2 * width; }
    static __device__ __forceinline__ void multiply(const uint8_t *folded, const uint8_t *reversed, Mail &mail, int32_t start, Accumulators &acc, int warp, int lane) {
        const int limb = warp % 2, half = warp / 2;
        {
            typename M::Shifts b;
            if constexpr (M::halves == 1) M::load_shifts(reversed, 0, lane, b);
            M::fill(acc, 0);
            M::template add_limb<M::small_by_limb>(folded + limb * M::folded_row + M::tile * first_tile(warp), reversed, b, acc, lane);
        }
        if (limb == 1) {
#pragma unroll
            for (int i = 0; i < 4 * width; i++) mail.high[half][i][lane] = acc[i / 4][i % 4];
        }
        bar_sync(barrier, threads);
        if (limb == 0) {
#pragma unroll
            for (int i = 0; i < 4 * width; i++)
                acc[i / 4][i % 4] = static_cast<int32_t>(static_cast<uint32_t>(acc[i / 4][i % 4]) + (static_cast<uint32_t>(mail.high[half][i][lane] + start) << 8));
            if (half == M::correction_tile / width && lane == M::correction_lane) mail.row_n = acc[M::correction_tile % width][M::correction_register];
        }
        bar_sync(barrier, threads);
        if (warp == 0 && lane == 0) acc[0][0] = static_cast<int32_t>(static_cast<uint32_t>(mail.row_n) + static_cast<uint32_t>(mail.constants[0] * mail.constants[1]));
    }
};

// OneBlock is the shared memory of a block that does a whole operation.
template <class P> struct OneBlock {
    typedef Mma<P> M;
    typedef SplitProduct<P> Split;
    typedef Encryptor<P> E;
    static constexpr int mail_at = M::product_bytes;
    static constexpr int codewords_at = round_up(mail_at + static_cast<int>(sizeof(typename Split::Mail)), 16);
    static constexpr int raw_at = round_up(codewords_at + P::padded / 8, 16);
    static constexpr int coins_at = raw_at + staged_polynomial<P, key_bits>();
    static constexpr int message_at = coins_at + E::coins_bytes, key_at = message_at + P::message_row;
    static constexpr int verdicts_at = key_at + seed_bytes;                            // public key, secret key, ciphertext
    static constexpr int encaps_bytes = verdicts_at + 16;
    // Decapsulation keeps the public key's F apart, ready when the coins are.
    static constexpr int second_folded_at = encaps_bytes;
    static constexpr int cipher_at = second_folded_at + M::folded_bytes;
    static constexpr int secret_at = cipher_at + staged_polynomial<P, P::d>();
    static constexpr int rejected_at = secret_at + staged_bytes(P::padded / 2);
    static constexpr int input_at = rejected_at + seed_bytes;
    static constexpr int decaps_bytes = input_at + rejection_bytes<P>;
    static_assert(input_at % 16 == 0, "as lay_out_rejection wants it");

    uint8_t *shared;
    int thread, lane, warp;
    __device__ __forceinline__ explicit OneBlock(uint8_t *shared)
        : shared(shared), thread(static_cast<int>(threadIdx.x)), lane(thread % warp_size), warp(thread / warp_size) {}
    __device__ __forceinline__ typename Split::Mail &mail() const { return *reinterpret_cast<typename Split::Mail *>(shared + mail_at); }
    __device__ __forceinline__ uint8_t *reversed() const { return shared + M::folded_bytes; }
    __device__ __forceinline__ uint32_t *verdicts() const { return reinterpret_cast<uint32_t *>(shared + verdicts_at); }
    __device__ __forceinline__ uint64_t *words(int at) const { return reinterpret_cast<uint64_t *>(shared + at); }
    static __device__ __forceinline__ void meet() { bar_sync(Split::barrier, Split::threads); }   // the four warps

    template <int size> __device__ __forceinline__ void stage(int at, const uint8_t *row) const {
        stage_async<size>(shared + at, row, lane, warp_size, Ends::buffer);
        cp_async_commit();
        cp_async_wait_all();
        __syncwarp();
    }
    // load_hashed: one warp copies the seed and pk[0:33] to where the coins go later, a byte a lane: where they are host memory, what
    // counts is the number of requests, and these are three.
    __device__ __forceinline__ void load_hashed(const uint8_t *seed, const uint8_t *pk) const {
        uint8_t *to = shared + coins_at;
        const uint8_t s = seed[lane], id = pk[lane], last = lane == 0 ? pk[identity_bytes - 1] : 0;
        to[lane] = s;
        to[seed_bytes + lane] = id;
        if (lane == 0) to[seed_bytes + identity_bytes - 1] = last;
        __syncwarp();
    }
    static_assert(coins_at % 8 == 0, "words of 64 bits");
    // seed_word and identity_word give lanes 0..3 the words of the seed and of pk[0:33], and lane 4 the byte after those.
    __device__ __forceinline__ uint64_t seed_word() const { return lane < seed_bytes / 8 ? words(coins_at)[lane] : 0; }
    __device__ __forceinline__ uint64_t identity_word() const {
        if (lane < identity_bytes / 8) return words(coins_at + seed_bytes)[lane];
        return lane == identity_bytes / 8 ? shared[coins_at + seed_bytes + identity_bytes - 1] : 0;
    }
    // store_public: one warp unpacks the public key, and stores its F and its verdict.
    __device__ __forceinline__ uint32_t store_public(const uint8_t *pk, uint8_t *folded) const {
        uint32_t h[P::per_lane / 2];
        stage<P::public_bytes>(raw_at, pk);
        unpack_pairs<P, key_bits>(shared + raw_at, row_offset(pk), lane, h);
        const bool invalid = __any_sync(all_lanes, invalid_public<P>(shared + raw_at, row_offset(pk), h));
#pragma unroll
        for (int k = 0; k < P::per_lane / 2; k++) h[k] &= invalid ? 0u : all_lanes;
        M::store_folded(folded, h, lane);
        if (lane == 0) verdicts()[0] = invalid ? 1 : 0;
        return h[0] & 0xFFFF;   // coefficient 0, in lane 0
    }
    // store_coins: one warp turns the coins into r and stores it.
    __device__ __forceinline__ void store_coins() const {
        uint32_t r[P::per_lane / 4];
        small_cbd<P>(shared + coins_at, 0, lane, r);
        M::store_reversed(reversed(), r, lane);
        if (lane == 0) mail().constants[1] = static_cast<int8_t>(r[0]);
    }
    // encrypt: four warps, after a barrier; the packed ciphertext is left in stream(), where F was, after a barrier.
    __device__ __forceinline__ uint32_t *stream() const { return reinterpret_cast<uint32_t *>(shared + E::stream_at); }
    __device__ __forceinline__ void encrypt(const uint8_t *folded) const {
        typename Split::Accumulators acc;
        Split::multiply(folded, reversed(), mail(), E::start, acc, warp, lane);
        const uint16_t *codeword = reinterpret_cast<const uint16_t *>(shared + codewords_at);
        uint32_t *groups = reinterpret_cast<uint32_t *>(shared + E::groups_at);
        if (Split::owns(warp))
            M::for_each_pair(acc, lane, [&](int, int index, uint32_t even, uint32_t odd) {
                const uint32_t group = add_codeword_bits<P>(compress_pair<P>(even, odd), static_cast<uint32_t>(codeword[index / 8]) >> (2 * (index % 8)));
                groups[index] = group & (index < P::n / 2 ? ~0u : index == P::n / 2 ? P::q2 - 1 : 0u);
            }, Split::first_tile(warp));
        meet();
        pack_groups<P, P::d>(groups, stream(), thread, Split::threads);
        meet();
    }
};

// encaps_one: a block of four warps an operation. `status` and `out` may be host memory: each is written once.
template <class P>
__device__ __forceinline__ void encaps_one(const uint8_t *pks, uint32_t pk_stride, const uint8_t *seeds, uint32_t seed_stride, uint8_t *out, uint32_t out_stride, uint32_t *status) {
    typedef Hash<P> H;
    typedef OneBlock<P> B;
    DYNAMIC_SHARED(uint8_t, shared);
    const B b(shared);
    const int i = static_cast<int>(blockIdx.x);
    const uint8_t *pk = pks + static_cast<size_t>(i) * pk_stride;
    // The hashes are what takes long, and they begin with the seed: where input is host memory, the public key's bytes are asked
    // for only when the seed is there, and m made from it. (All four warps meet then, though one has no need to: compute-sanitizer's
    // racecheck loses count of the later barriers if not.)
    if (b.warp == 0) {
        b.load_hashed(seeds + static_cast<size_t>(i) * seed_stride, pk);
        const uint64_t identity = b.identity_word();
        const WarpKeccak keccak(b.lane);
        const uint64_t m = H::warp_message(keccak, b.seed_word(), b.lane);
        if (b.lane < P::message_row / 8) b.words(B::message_at)[b.lane] = m;
        b.meet();
        const uint64_t key = H::warp_key_and_coins(keccak, identity, m, b.words(B::coins_at), b.lane);
        if (b.lane < 4) b.words(B::key_at)[b.lane] = key;
        __syncwarp();
        b.store_coins();
    } else if (b.warp == 1) {
        b.meet();
        const uint32_t h0 = b.store_public(pk, shared);
        if (b.lane == 0) b.mail().constants[0] = static_cast<int32_t>(h0);
    } else if (b.warp == 2) {
        Mma<P>::clear_margins(b.reversed(), b.lane);
        b.meet();
        store_codewords<P>(shared + B::message_at, reinterpret_cast<uint16_t *>(shared + B::codewords_at), b.lane, warp_size);
    } else {
        b.meet();
    }
    __syncthreads();
    b.encrypt(shared);
    if (b.thread < seed_bytes) reinterpret_cast<uint8_t *>(b.stream())[P::cipher_bytes + b.thread] = shared[B::key_at + b.thread];
    __syncthreads();
    const bool invalid = b.verdicts()[0] != 0;
    store_row<P::encaps_out_bytes>(out + static_cast<size_t>(i) * out_stride, b.stream(), invalid ? 0u : all_lanes, b.thread, B::Split::threads);
    if (b.thread == 0) status[i] = invalid ? 1 : 0;
}

// decaps_one: a block of five warps an operation.
template <class P>
__device__ __forceinline__ void decaps_one(const uint8_t *secrets, uint32_t secret_stride, const uint32_t *index, uint32_t count,
                                           const uint8_t *ct, uint32_t ct_stride, uint8_t *out, uint32_t out_stride, uint32_t *status) {
    typedef Hash<P> H;
    typedef OneBlock<P> B;
    typedef Mma<P> M;
    DYNAMIC_SHARED(uint8_t, shared);
    const B b(shared);
    const int i = static_cast<int>(blockIdx.x);
    const SecretTable table = {secrets, secret_stride, index, count};
    const uint8_t *secret = table.row(i), *pk = secret + P::secret_poly_bytes, *cipher = ct + static_cast<size_t>(i) * ct_stride;
    if (b.warp == B::Split::warps) {
        lay_out_rejection<P>(pk, cipher, shared + B::input_at, b.lane);
        const uint64_t key = H::warp_rejected_key(WarpKeccak(b.lane), b.words(B::input_at), b.lane);
        if (b.lane < 4) b.words(B::rejected_at)[b.lane] = key;
    } else {
        uint32_t h0 = 0;   // in lane 0 of warp 2
        if (b.warp == 0) {
            uint32_t c[P::per_lane / 2];
            b.template stage<P::cipher_bytes>(B::cipher_at, cipher);
            unpack_pairs<P, P::d>(shared + B::cipher_at, row_offset(cipher), b.lane, c);
            M::store_folded(shared, c, b.lane);
            if (b.lane == 0) b.mail().constants[0] = static_cast<int32_t>(c[0] & 0xFFFF);
        } else if (b.warp == 1) {
            uint32_t f[P::per_lane / 4];
            b.template stage<P::secret_poly_bytes>(B::secret_at, secret);
            const bool invalid = __any_sync(all_lanes, secret_nibbles<P>(shared + B::secret_at, row_offset(secret), b.lane, f));
            M::store_reversed(b.reversed(), f, b.lane);
            if (b.lane == 0) {
                b.mail().constants[1] = static_cast<int8_t>(f[0]);
                b.verdicts()[1] = invalid || table.outside(i) ? 1 : 0;
            }
        } else if (b.warp == 2) {
            h0 = b.store_public(pk, shared + B::second_folded_at);
        } else {
            M::clear_margins(b.reversed(), b.lane);
        }
        B::meet();
        typename B::Split::Accumulators acc;
        B::Split::multiply(shared, b.reversed(), b.mail(), 0, acc, b.warp, b.lane);
        uint32_t *pairs = reinterpret_cast<uint32_t *>(shared);
        if (B::Split::owns(b.warp))
            M::for_each_pair(acc, b.lane, [&](int, int at, uint32_t even, uint32_t odd) {
                pairs[at] = (even & (P::q2 - 1)) | (odd & (P::q2 - 1)) << 16;
            }, B::Split::first_tile(b.warp));
        B::meet();
        decode_message<P>(pairs, shared + B::message_at, b.thread, B::Split::threads);
        B::meet();
        if (b.warp == 0) {
            const uint64_t m = b.lane < H::message_words ? b.words(B::message_at)[b.lane] : 0;
            const uint64_t key = H::warp_key_and_coins(WarpKeccak(b.lane), identity_word(pk, b.lane), m, b.words(B::coins_at), b.lane);
            if (b.lane < 4) b.words(B::key_at)[b.lane] = key;
            __syncwarp();
            b.store_coins();
        } else if (b.warp == 1) {
            store_codewords<P>(shared + B::message_at, reinterpret_cast<uint16_t *>(shared + B::codewords_at), b.lane, warp_size);
        } else if (b.warp == 2) {
            if (b.lane == 0) b.mail().constants[0] = static_cast<int32_t>(h0);
        }
        B::meet();
        b.encrypt(shared + B::second_folded_at);
        if (b.warp == 0) {
            const bool differs = __any_sync(all_lanes, difference<P>(b.stream(), shared + B::cipher_at, row_offset(cipher), b.lane, warp_size) != 0);
            if (b.lane == 0) b.verdicts()[2] = differs ? 1 : 0;
        }
    }
    __syncthreads();
    if (b.thread < seed_bytes) {
        const uint32_t invalid = b.verdicts()[0] | b.verdicts()[1], reject = 0u - b.verdicts()[2];
        const uint32_t key = shared[B::key_at + b.thread], rejected = shared[B::rejected_at + b.thread];
        out[static_cast<size_t>(i) * out_stride + b.thread] = static_cast<uint8_t>((key ^ ((key ^ rejected) & reject)) & (invalid - 1));
        if (b.thread == 0) status[i] = invalid;
    }
}

}   // namespace ctruprime
