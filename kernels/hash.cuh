// The hashes of the scheme, for one operation a thread and for one a warp. FIPS 202 sponges over little-endian words:
//
//   message         m        = SHAKE256(seed)                 one permutation
//   key and coins   K || rho = SHA3-512(pk[0:33] || m)        two; coins = SHAKE256(rho), coin_bytes of them
//   rejected key               SHA3-512(pk[0:33] || z || ct)
//   key generation  coins    = SHAKE256(seed), 2*coin_bytes of them
#pragma once
#include "codec.cuh"
#include "keccak.cuh"

namespace ctruprime {

template <class P> struct Hash {
    static constexpr int message_words = ceil_div(P::message_bytes, 8);
    static constexpr uint64_t last_message_word =
        P::message_bytes % 8 == 0 ? ~uint64_t{0} : (uint64_t{1} << (8 * (P::message_bytes % 8))) - 1;
    static constexpr int block_words = sha3_512_rate / 8, squeezed_words = shake256_rate / 8;
    static constexpr uint64_t final_bit = uint64_t{1} << 63;

    // SHA3-512(pk[0:33] || m): identity bytes 0..31 are words 0..3, byte 32 begins word 4, and from there on word i of the
    // input is m shifted up by a byte. Its padding begins in the second block in every set.
    static constexpr int key_input = identity_bytes + P::message_bytes;
    static_assert(key_input / 8 >= block_words && key_input < 2 * sha3_512_rate, "two blocks");

    // The rejection hash's input and its blocks.
    static constexpr int rejection_input = identity_bytes + seed_bytes + P::cipher_bytes;
    static constexpr int rejection_blocks = rejection_input / sha3_512_rate + 1;

    // ---- One operation a thread ----

    struct Identity { uint64_t word[4]; uint32_t last; };   // pk[0:33]
    static __device__ __forceinline__ Identity load_identity(const uint8_t *pk) {
        Identity id;
        load_words(pk, id.word);
        id.last = pk[identity_bytes - 1];
        return id;
    }

    static __device__ __forceinline__ void message(const uint64_t (&seed)[4], uint64_t (&m)[message_words]) {
        uint64_t a[keccak_words];
        absorb_seed(a, seed[0], seed[1], seed[2], seed[3]);
#pragma unroll
        for (int i = 0; i < message_words; i++) m[i] = a[i];
        m[message_words - 1] &= last_message_word;
    }

    // squeeze writes the first `words` words of a SHAKE256 stream whose state a is ready to be read.
    template <int words> static __device__ __forceinline__ void squeeze(uint64_t (&a)[keccak_words], uint64_t *out) {
        constexpr int whole = (words - 1) / squeezed_words, rest = words - whole * squeezed_words;
#pragma unroll 1
        for (int k = 0; k < whole; k++) {
#pragma unroll
            for (int i = 0; i < squeezed_words; i++) out[k * squeezed_words + i] = a[i];
            keccak_f(a);
        }
#pragma unroll
        for (int i = 0; i < rest; i++) out[whole * squeezed_words + i] = a[i];
    }

    // key_and_coins: m zero from message_bytes on. key receives K, coins (8-byte aligned) coin_row bytes.
    static __device__ __forceinline__ void key_and_coins(const Identity &id, const uint64_t (&m)[message_words], uint64_t *key, uint64_t *coins) {
        uint64_t a[keccak_words];
        clear_state(a);
#pragma unroll
        for (int i = 0; i < block_words; i++) a[i] = key_word(id, m, i);
        keccak_f(a);
#pragma unroll
        for (int i = 0; i < block_words; i++) a[i] ^= key_word(id, m, block_words + i);
        keccak_f(a);
#pragma unroll
        for (int i = 0; i < 4; i++) key[i] = a[i];
        absorb_seed(a, a[4], a[5], a[6], a[7]);
        squeeze<P::coin_row / 8>(a, coins);
    }

    // rejected_key streams the ciphertext (any address), a word behind: word j of the input is the last byte of the ciphertext
    // word before and seven of the next.
    static __device__ __forceinline__ void rejected_key(const Identity &id, const uint8_t *z, const uint8_t *ct, uint64_t (&key)[4]) {
        uint64_t zw[4], a[keccak_words];
        load_words(z, zw);
        clear_state(a);
#pragma unroll
        for (int i = 0; i < 4; i++) a[i] = id.word[i];
        a[4] = id.last | zw[0] << 8;
#pragma unroll
        for (int i = 0; i < 3; i++) a[5 + i] = zw[i] >> 56 | zw[i + 1] << 8;
        WordStream stream(ct, P::cipher_bytes);
        uint64_t before = stream.next();
        a[8] = zw[3] >> 56 | before << 8;
        keccak_f(a);
#pragma unroll 1
        for (int b = 1; b < rejection_blocks - 1; b++) {
#pragma unroll
            for (int i = 0; i < block_words; i++) {
                const uint64_t word = stream.next();
                a[i] ^= before >> 56 | word << 8;
                before = word;
            }
            keccak_f(a);
        }
        constexpr int first = (rejection_blocks - 1) * block_words, prefix_words = (identity_bytes + seed_bytes) / 8;
#pragma unroll
        for (int i = 0; i < block_words; i++) {
            const int left = P::cipher_bytes - 8 * (first + i - prefix_words);   // ciphertext bytes from this word on
            const uint64_t word = left > 0 ? stream.last() & (left >= 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * left)) - 1) : 0;
            a[i] ^= before >> 56 | word << 8;
            before = word;
        }
        a[rejection_input / 8 - first] ^= sha3_suffix << (8 * (rejection_input % 8));
        a[block_words - 1] ^= final_bit;
        keccak_f(a);
#pragma unroll
        for (int i = 0; i < 4; i++) key[i] = a[i];
    }

    // ---- One operation a warp: lane i holds word i ----

    static __device__ __forceinline__ uint64_t warp_absorb_seed(const WarpKeccak &keccak, uint64_t seed, int lane) {
        const uint64_t a = lane < 4 ? seed : lane == 4 ? shake_suffix : lane == squeezed_words - 1 ? final_bit : 0;
        return keccak.permute(a, lane);
    }

    // warp_message: lanes 0..3 give the seed's words; lanes below message_words receive m's, the others 0.
    static __device__ __forceinline__ uint64_t warp_message(const WarpKeccak &keccak, uint64_t seed, int lane) {
        const uint64_t m = warp_absorb_seed(keccak, seed, lane);
        return lane < message_words - 1 ? m : lane == message_words - 1 ? m & last_message_word : 0;
    }

    // warp_key_and_coins: identity holds words 0..3 and, in lane 4, byte 32; m as warp_message gives it. Lanes 0..3 receive K,
    // and coins (8-byte aligned) coin_row bytes.
    static __device__ __forceinline__ uint64_t warp_key_and_coins(const WarpKeccak &keccak, uint64_t identity, uint64_t m, uint64_t *coins, int lane) {
        const uint64_t before = __shfl_sync(all_lanes, m, (lane - 5) & 31), word = __shfl_sync(all_lanes, m, (lane - 4) & 31);
        const uint64_t behind = __shfl_sync(all_lanes, m, (lane + 4) & 31), ahead = __shfl_sync(all_lanes, m, (lane + 5) & 31);
        uint64_t a = lane < 4 ? identity : lane == 4 ? identity | word << 8 : lane < block_words ? before >> 56 | word << 8 : 0;
        a = keccak.permute(a, lane);
        if (lane < block_words) a ^= behind >> 56 | ahead << 8;
        if (lane == key_input / 8 - block_words) a ^= sha3_suffix << (8 * (key_input % 8));
        if (lane == block_words - 1) a ^= final_bit;
        a = keccak.permute(a, lane);
        const uint64_t key = a, rho = __shfl_sync(all_lanes, a, (lane + 4) & 31);
        warp_squeeze<P::coin_row / 8>(keccak, warp_absorb_seed(keccak, rho, lane), coins, lane);
        return key;
    }

    template <int words> static __device__ __forceinline__ void warp_squeeze(const WarpKeccak &keccak, uint64_t a, uint64_t *out, int lane) {
#pragma unroll 1
        for (int at = 0; at < words; at += squeezed_words) {
            if (at > 0) a = keccak.permute(a, lane);
            if (lane < squeezed_words && at + lane < words) out[at + lane] = a;
        }
    }

    // warp_rejected_key hashes rejection_input bytes that lie in shared memory (8-byte aligned, zero up to a whole number of
    // blocks); lanes 0..3 receive the key.
    static __device__ __forceinline__ uint64_t warp_rejected_key(const WarpKeccak &keccak, const uint64_t *input, int lane) {
        uint64_t a = 0;
#pragma unroll 1
        for (int b = 0; b < rejection_blocks; b++) {
            if (lane < block_words) a ^= input[b * block_words + lane];
            if (b == rejection_blocks - 1) {
                if (lane == rejection_input / 8 - b * block_words) a ^= sha3_suffix << (8 * (rejection_input % 8));
                if (lane == block_words - 1) a ^= final_bit;
            }
            a = keccak.permute(a, lane);
        }
        return a;
    }

  private:
    // key_word is word i of the padded input of SHA3-512(pk[0:33] || m).
    static __device__ __forceinline__ uint64_t key_word(const Identity &id, const uint64_t (&m)[message_words], int i) {
        if (i < 4) return id.word[i];
        const int at = i - 4;
        uint64_t word = at == 0 ? id.last : at - 1 < message_words ? m[at - 1] >> 56 : 0;
        if (at < message_words) word |= m[at] << 8;
        if (i == key_input / 8) word |= sha3_suffix << (8 * (key_input % 8));
        if (i == 2 * block_words - 1) word |= final_bit;
        return word;
    }

    // WordStream reads a row at any address as 64-bit words, by aligned 32-bit loads.
    struct WordStream {
        const uint32_t *at, *end;   // the next aligned word, and the first one that holds no byte of the row
        uint32_t held, shift;

        __device__ __forceinline__ WordStream(const uint8_t *row, int bytes) {
            const uint32_t misaligned = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(row) % 4);
            at = reinterpret_cast<const uint32_t *>(row - misaligned);
            end = at + (misaligned + bytes + 3) / 4;
            shift = 8 * misaligned;
            held = *at++;
        }
        // next may be called while at least four more bytes follow the word it returns.
        __device__ __forceinline__ uint64_t next() {
            const uint32_t middle = at[0], ahead = at[1];
            at += 2;
            return shifted(middle, ahead);
        }
        // last is for the end of the row: what lies past the last aligned word reads as zero.
        __device__ __forceinline__ uint64_t last() {
            const uint32_t middle = at < end ? at[0] : 0, ahead = at + 1 < end ? at[1] : 0;
            at += 2;
            return shifted(middle, ahead);
        }
        __device__ __forceinline__ uint64_t shifted(uint32_t middle, uint32_t ahead) {
            const uint64_t word = make_word(__funnelshift_r(held, middle, shift), __funnelshift_r(middle, ahead, shift));
            held = ahead;
            return word;
        }
    };
    static_assert(rejection_input - (rejection_blocks - 1) * sha3_512_rate >= 5, "next() stops four bytes before the end");
};

}   // namespace ctruprime
