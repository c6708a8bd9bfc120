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

    // store_block writes the words of a SHAKE256 stream that a state holds, the first of them word `at`, as far as the row of
    // `words` goes. Threads' rows lie apart, so what counts is the number of stores: they are of two words, aligned, where two are left.
    template <int words> static __device__ __forceinline__ void store_block(const uint64_t (&a)[keccak_words], uint64_t *row, int at) {
        static_assert(words % 2 == 0 && squeezed_words % 2 == 1, "blocks begin at even and odd words by turns");
        if (at % 2 == 0) {
#pragma unroll
            for (int i = 0; i < squeezed_words - 1; i += 2)
                if (at + i < words) store_pair(row + at + i, a[i], a[i + 1]);
            if (at + squeezed_words - 1 < words) row[at + squeezed_words - 1] = a[squeezed_words - 1];
        } else {
            row[at] = a[0];
#pragma unroll
            for (int i = 1; i < squeezed_words; i += 2)
                if (at + i < words) store_pair(row + at + i, a[i], a[i + 1]);
        }
    }
    static __device__ __forceinline__ void store_pair(uint64_t *to, uint64_t first, uint64_t second) {
        *reinterpret_cast<ulonglong2 *>(to) = make_ulonglong2(first, second);
    }

    // squeeze writes the first `words` words of a SHAKE256 stream to a 16-byte aligned row; a holds the padded input, not permuted yet.
    template <int words> static __device__ __forceinline__ void squeeze(uint64_t (&a)[keccak_words], uint64_t *row) {
#pragma unroll 1
        for (int at = 0; at < words; at += squeezed_words) {
            keccak_f(a);
            store_block<words>(a, row, at);
        }
    }

    // derive runs the sponges of an encapsulation: if `seeded`, m = SHAKE256(seed) is written to the row `message`, else it is
    // there already (message_row bytes, zero from message_bytes on); K || rho = SHA3-512(pk[0:33] || m), coins = SHAKE256(rho). The
    // rows message, key and coins are 16-byte aligned; seed and pk are not.
    // All permutations are one call in a loop, or the code would not stay in the instruction cache; and every step loads what
    // it absorbs, or the registers would not suffice.
    template <bool seeded>
    static __device__ __forceinline__ void derive(const uint8_t *seed, const uint8_t *pk, uint64_t *message, uint64_t *key, uint64_t *coins) {
        enum { expand = 0, key_first = 1, key_second = 2, coins_first = 3 };
        constexpr int coin_words = P::coin_row / 8, steps = coins_first + ceil_div(coin_words, squeezed_words);
        uint64_t a[keccak_words];
#pragma unroll 1
        for (int step = seeded ? expand : key_first; step < steps; step++) {
            if (seeded && step == expand) {
                uint64_t s[4];
                load_words(seed, s);
                set_seed(a, s[0], s[1], s[2], s[3]);
            } else if (step == key_first) {
                const Identity id = load_identity(pk);
                clear_state(a);
#pragma unroll
                for (int i = 0; i < block_words; i++) a[i] = key_word(id, message, i);
            } else if (step == key_second) {
#pragma unroll
                for (int i = 0; i < block_words; i++) a[i] ^= key_word(Identity{}, message, block_words + i);
            } else if (step == coins_first) {
                store_pair(key, a[0], a[1]);
                store_pair(key + 2, a[2], a[3]);
                set_seed(a, a[4], a[5], a[6], a[7]);
            }
            keccak_f(a);
            if (seeded && step == expand) {
#pragma unroll
                for (int i = 0; i < P::message_row / 8; i += 2) store_pair(message + i, message_word(a, i), message_word(a, i + 1));
            } else if (step >= coins_first) {
                store_block<coin_words>(a, coins, (step - coins_first) * squeezed_words);
            }
        }
    }

    // message_word is word i of a message's row, zero in the padding; a is the permuted state of SHAKE256(seed).
    static __device__ __forceinline__ uint64_t message_word(const uint64_t (&a)[keccak_words], int i) {
        return i < message_words - 1 ? a[i] : i == message_words - 1 ? a[i] & last_message_word : 0;
    }

    // rejected_key streams the ciphertext (any address), a word behind: word j of the input is the last byte of the ciphertext
    // word before and seven of the next.
    static __device__ __forceinline__ void rejected_key(const uint8_t *pk, const uint8_t *z, const uint8_t *ct, uint64_t *key) {
        constexpr int last_first = (rejection_blocks - 1) * block_words;   // the first word of the last block
        constexpr int prefix_words = (identity_bytes + seed_bytes) / 8;    // whole words before the ciphertext; a byte of z follows
        uint64_t a[keccak_words];
        clear_state(a);
        WordStream stream(ct, P::cipher_bytes);
        uint64_t before = 0;
#pragma unroll 1
        for (int b = 0; b < rejection_blocks; b++) {
            if (b == 0) {
                const Identity id = load_identity(pk);
                uint64_t zw[4];
                load_words(z, zw);
#pragma unroll
                for (int i = 0; i < 4; i++) a[i] = id.word[i];
                a[4] = id.last | zw[0] << 8;
#pragma unroll
                for (int i = 0; i < 3; i++) a[5 + i] = zw[i] >> 56 | zw[i + 1] << 8;
                before = stream.next();
                a[prefix_words] = zw[3] >> 56 | before << 8;
            } else if (b < rejection_blocks - 1) {
#pragma unroll
                for (int i = 0; i < block_words; i++) {
                    const uint64_t word = stream.next();
                    a[i] ^= before >> 56 | word << 8;
                    before = word;
                }
            } else {
#pragma unroll
                for (int i = 0; i < block_words; i++) {
                    const int left = P::cipher_bytes - 8 * (last_first + i - prefix_words);   // ciphertext bytes from this word on
                    const uint64_t word = left <= 0 ? 0 : stream.last() & (left >= 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * (left & 7))) - 1);
                    a[i] ^= before >> 56 | word << 8;
                    before = word;
                }
                a[rejection_input / 8 - last_first] ^= sha3_suffix << (8 * (rejection_input % 8));
                a[block_words - 1] ^= final_bit;
            }
            keccak_f(a);
        }
        store_pair(key, a[0], a[1]);
        store_pair(key + 2, a[2], a[3]);
    }

    // ---- One operation a warp: lane i holds word i ----

    static __device__ __forceinline__ uint64_t warp_absorb_seed(const WarpKeccak &keccak, uint64_t seed, int lane) {
        const uint64_t a = lane < 4 ? seed : lane == 4 ? shake_suffix : lane == squeezed_words - 1 ? final_bit : 0;
        return keccak.permute(a);
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
        a = keccak.permute(a);
        if (lane < block_words) a ^= behind >> 56 | ahead << 8;
        if (lane == key_input / 8 - block_words) a ^= sha3_suffix << (8 * (key_input % 8));
        if (lane == block_words - 1) a ^= final_bit;
        a = keccak.permute(a);
        const uint64_t key = a, rho = __shfl_sync(all_lanes, a, (lane + 4) & 31);
        warp_squeeze<P::coin_row / 8>(keccak, warp_absorb_seed(keccak, rho, lane), coins, lane);
        return key;
    }

    template <int words> static __device__ __forceinline__ void warp_squeeze(const WarpKeccak &keccak, uint64_t a, uint64_t *out, int lane) {
#pragma unroll 1
        for (int at = 0; at < words; at += squeezed_words) {
            if (at > 0) a = keccak.permute(a);
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
            a = keccak.permute(a);
        }
        return a;
    }

  private:
    // key_word is word i of the padded input of SHA3-512(pk[0:33] || m); id is used for i < 5 only.
    static __device__ __forceinline__ uint64_t key_word(const Identity &id, const uint64_t *m, int i) {
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
        const uint32_t *at;    // the next aligned word
        const uint8_t *end;    // of the row
        uint32_t held, shift;

        __device__ __forceinline__ WordStream(const uint8_t *row, int bytes) {
            const uint32_t misaligned = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(row) % 4);
            at = reinterpret_cast<const uint32_t *>(row - misaligned);
            end = row + bytes;
            shift = 8 * misaligned;
            held = *at++;
        }
        // next may be called while at least four more bytes follow the word it returns.
        __device__ __forceinline__ uint64_t next() {
            const uint32_t middle = at[0], ahead = at[1];
            at += 2;
            return shifted(middle, ahead);
        }
        // last is for the end of the row: nothing past it is read, and reads as zero.
        __device__ __forceinline__ uint64_t last() {
            const uint32_t middle = inside(at), ahead = inside(at + 1);
            at += 2;
            return shifted(middle, ahead);
        }
        __device__ __forceinline__ uint32_t inside(const uint32_t *word) const {
            const uint8_t *bytes = reinterpret_cast<const uint8_t *>(word);
            const int left = static_cast<int>(end - bytes);
            if (left >= 4) return *word;
            uint32_t w = 0;
#pragma unroll
            for (int i = 0; i < 3; i++)
                if (i < left) w |= static_cast<uint32_t>(bytes[i]) << (8 * i);
            return w;
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
