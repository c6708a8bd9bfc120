// Products in Z[x]/(x^n - x - 1) by an incomplete number-theoretic transform on the CUDA cores, one block a product.
//
// The product of two polynomials of degree < n is computed exactly in Z_Q[x]/(x^N - 1), N >= 2n - 1, and folded afterwards. Q is a
// pseudo-Mersenne prime, 2^k - e with small e, so a value is brought back below about 2^k by adding its top bits times e. Layers
// split x^2M - s^2 into (x^M - s)(x^M + s); for 653 a last layer splits x^3M - s^3 three ways. What is left are products of
// short polynomials modulo x^L - z, done by Karatsuba's method.
//
// N/8 threads hold 8 coefficients each and do three layers between two visits to shared memory. Values are unsigned and
// reduced lazily: a product by a twiddle is below 2Q whatever the operand, so a butterfly adds at most 2Q to the bound, and
// 32 bits hold all of a transform's growth. In the first three layers the twiddles are the same for all threads and known when
// compiling: there, products by 1 are left out, and so is the whole first layer, since the operands' upper halves are zero.
#pragma once
#include "codec.cuh"

namespace ctruprime {

// NttChoice: Q = 2^bits - excess, N = length, `passes` times three layers, `ways` 3 where a three-way layer follows; root has
// order `leaves` modulo Q.
template <int n> struct NttChoice {
    static constexpr int bits = 25, passes = 3, ways = 1;
    static constexpr uint32_t excess = (1u << 12) - 1, root = 8433925;
    static constexpr int length = n == 761 ? 1536 : 2560;
};
template <> struct NttChoice<653> {
    static constexpr int bits = 24, passes = 2, ways = 3;
    static constexpr uint32_t excess = 63, root = 6369636;
    static constexpr int length = 1344;
};

template <class P> struct Ntt {
    typedef NttChoice<P::n> C;
    static constexpr uint32_t Q = (1u << C::bits) - C::excess;
    static constexpr int N = C::length, threads = N / 8, nodes = 1 << (3 * C::passes), leaves = nodes * C::ways, degree = N / leaves;
    static_assert(N >= 2 * P::n && P::n <= N / 2 && N % leaves == 0, "the product fits, the operands fill at most the lower half");

    // A twiddle w and floor(w*2^32/Q), by which multiply() estimates the quotient.
    struct __align__(8) Twiddle { uint32_t w, quotient; };

    static constexpr uint32_t product(uint32_t a, uint32_t b) { return static_cast<uint32_t>(static_cast<uint64_t>(a) * b % Q); }
    static constexpr uint32_t power(uint32_t base, uint32_t exponent) {
        uint32_t r = 1;
        for (; exponent != 0; exponent >>= 1, base = product(base, base))
            if (exponent & 1) r = product(r, base);
        return r;
    }
    static constexpr Twiddle twiddle(uint32_t w) { return {w, static_cast<uint32_t>((static_cast<uint64_t>(w) << 32) / Q)}; }

    // Node k of layer l is the factor x^(N/2^l) - rho^e, rho a primitive root of order `nodes` and e = exponent(l, k): it splits at
    // s = rho^(e/2), its children having the exponents e/2 and e/2 + nodes/2. So e is k's l bits reversed, scaled.
    static constexpr int exponent(int layer, int k) {
        int e = 0;
        for (int i = 0; i < layer; i++) e = e / 2 + (k >> (layer - 1 - i) & 1) * (nodes / 2);
        return e;
    }

    // Tables: entry 2^l + k belongs to node k of layer l. Three-way splits and leaves follow the nodes of the last layer.
    struct Tables {
        Twiddle forward[nodes], inverse[nodes];
        Twiddle leaf[leaves];                                          // z, of the leaf x^degree - z
        Twiddle three[C::ways == 3 ? nodes : 1][2], three_inverse[C::ways == 3 ? nodes : 1][2];   // z and z^2, z^-1 and z^-2
    };
    static constexpr Tables make_tables() {
        Tables t = {};
        uint32_t powers[leaves] = {1};
        for (int i = 1; i < leaves; i++) powers[i] = product(powers[i - 1], C::root);
        for (int l = 0; l < 3 * C::passes; l++)
            for (int k = 0; k < 1 << l; k++) {
                const int e = exponent(l, k) / 2 * C::ways;
                t.forward[(1 << l) + k] = twiddle(powers[e]);
                t.inverse[(1 << l) + k] = twiddle(powers[(leaves - e) % leaves]);
            }
        for (int k = 0; k < nodes; k++) {
            const int e = exponent(3 * C::passes, k);   // rho^e = root^(ways*e): its cube roots are root^(e + nodes*i)
            for (int i = 0; i < C::ways; i++) t.leaf[C::ways * k + i] = twiddle(powers[e + nodes * i]);
            if (C::ways == 3)
                for (int i = 0; i < 2; i++) {
                    t.three[k][i] = twiddle(powers[e * (i + 1) % leaves]);
                    t.three_inverse[k][i] = twiddle(powers[(leaves - e * (i + 1) % leaves) % leaves]);
                }
        }
        return t;
    }
    static_assert(power(C::root, leaves) == 1 && power(C::root, leaves / 2) == Q - 1 && (C::ways == 1 || power(C::root, leaves / 3) != 1), "the root's order");
    static constexpr Twiddle third = twiddle(power(C::root, leaves / 3));               // a cube root of 1, where there is one
    static constexpr Twiddle scale = twiddle(power(static_cast<uint32_t>(leaves), Q - 2));   // undoes the growth of the inverse layers

    // ---- Arithmetic modulo Q ----

    // multiply gives a*w mod Q in [0, 2Q) for any a: the estimated quotient is exact or one too small (Shoup). Three instructions,
    // where bringing back a 64-bit product takes eight.
    static __device__ __forceinline__ uint32_t multiply(uint32_t a, Twiddle t) { return a * t.w - __umulhi(a, t.quotient) * Q; }

    // fold brings x below 2^bits + (x >> bits)*excess, less than 1.01*Q for x < 2^29 if bits is 25, for any x if it is 24.
    static __device__ __forceinline__ uint32_t fold(uint32_t x) { return (x & ((1u << C::bits) - 1)) + (x >> C::bits) * C::excess; }

    // fold_product brings x < 2^56 below 1.01*Q: the folds leave at most 2^43, 2^30, then 2^25 + 2^17 (2^38, then 2^24 + 2^20).
    static __device__ __forceinline__ uint32_t fold_product(uint64_t x) {
        constexpr uint64_t mask = (1u << C::bits) - 1;
        x = (x & mask) + (x >> C::bits) * C::excess;
        x = (x & mask) + (x >> C::bits) * C::excess;
        return fold(static_cast<uint32_t>(x));
    }

    // ---- Shared memory ----

    // Words are spread by one in 33, so that strides of 8 and 24 words do not meet in the same banks.
    static __device__ __forceinline__ int place(int i) { return i + i / 32; }
    static constexpr int words = N + N / 32 + 1;
    static constexpr int shared_bytes = round_up(2 * 4 * words, 16);

    // ---- Layers ----

    // Of pass p, thread t holds elements base + i*stride, i < 8, of node `node` of layer 3p.
    struct Place { int node, base, stride; };
    template <int p> static __device__ __forceinline__ Place place_of(int thread) {
        constexpr int size = N >> (3 * p), stride = size / 8;
        const int node = p == 0 ? 0 : thread / stride;
        return {node, node * size + (thread - node * stride), stride};
    }

    // forward_layers: x[i] < bound on entry, < bound + 6Q on exit.
    static __device__ __forceinline__ void butterfly(uint32_t &a, uint32_t &b, Twiddle t) {
        const uint32_t product = multiply(b, t);
        b = a + 2 * Q - product;
        a += product;
    }
    template <int p> static __device__ __forceinline__ void forward_layers(const Tables &tables, int node, uint32_t (&x)[8], uint32_t (&y)[8]) {
        const Twiddle *first = tables.forward + (1 << (3 * p)) + node, *second = tables.forward + (2 << (3 * p)) + 2 * node;
        const Twiddle *third_layer = tables.forward + (4 << (3 * p)) + 4 * node;
        const Twiddle t = first[0];
#pragma unroll
        for (int i = 0; i < 4; i++) butterfly(x[i], x[i + 4], t), butterfly(y[i], y[i + 4], t);
#pragma unroll
        for (int g = 0; g < 2; g++) {
            const Twiddle u = second[g];
#pragma unroll
            for (int i = 4 * g; i < 4 * g + 2; i++) butterfly(x[i], x[i + 2], u), butterfly(y[i], y[i + 2], u);
        }
#pragma unroll
        for (int g = 0; g < 4; g++) {
            const Twiddle u = third_layer[g];
            butterfly(x[2 * g], x[2 * g + 1], u), butterfly(y[2 * g], y[2 * g + 1], u);
        }
    }
    // first_layers does layers 0 to 2 of four coefficients below Q and four zeros: x^N - 1 splits into two copies; x^(N/2) - 1
    // and x^(N/4) - 1 split at 1, without a product. Leaves x[i] < 5Q.
    static __device__ __forceinline__ void first_layers(uint32_t (&x)[8]) {
        constexpr Twiddle quarter = twiddle(power(C::root, leaves / 4)), eighth = twiddle(power(C::root, leaves / 8));
        constexpr Twiddle three_eighths = twiddle(power(C::root, leaves / 8 * 3));
#pragma unroll
        for (int i = 0; i < 2; i++) {
            x[i + 4] = x[i], x[i + 6] = x[i + 2];
            butterfly(x[i + 4], x[i + 6], quarter);   // < 3Q
            const uint32_t low = x[i], high = x[i + 2];
            x[i] = low + high, x[i + 2] = low + Q - high;   // < 2Q
        }
        const uint32_t low = x[0], high = x[1];
        x[0] = low + high, x[1] = low + 2 * Q - high;   // < 4Q
        butterfly(x[2], x[3], quarter);
        butterfly(x[4], x[5], eighth);
        butterfly(x[6], x[7], three_eighths);
    }

    // inverse_layers: x[i] < 2Q on entry and on exit. Sums double at each layer, to 16Q at most; differences come back below 2Q.
    static __device__ __forceinline__ void inverse_butterfly(uint32_t &a, uint32_t &b, Twiddle t, uint32_t bound) {
        const uint32_t difference = a + bound - b;
        a += b;
        b = multiply(difference, t);
    }
    template <int p> static __device__ __forceinline__ void inverse_layers(const Tables &tables, int node, uint32_t (&x)[8]) {
        const Twiddle *first = tables.inverse + (1 << (3 * p)) + node, *second = tables.inverse + (2 << (3 * p)) + 2 * node;
        const Twiddle *third_layer = tables.inverse + (4 << (3 * p)) + 4 * node;
#pragma unroll
        for (int g = 0; g < 4; g++) inverse_butterfly(x[2 * g], x[2 * g + 1], third_layer[g], 2 * Q);   // < 4Q
#pragma unroll
        for (int g = 0; g < 2; g++) {
            const Twiddle u = second[g];
#pragma unroll
            for (int i = 4 * g; i < 4 * g + 2; i++) inverse_butterfly(x[i], x[i + 2], u, 4 * Q);   // < 8Q
        }
        const Twiddle t = first[0];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            inverse_butterfly(x[i], x[i + 4], t, 8 * Q);
            x[i] = fold(x[i]);
        }
    }
    // last_layers undoes layers 2, 1 and 0, again without products by 1. Leaves x[i] < 16Q, unscaled.
    static __device__ __forceinline__ void last_layers(uint32_t (&x)[8]) {
        constexpr Twiddle quarter = twiddle(power(C::root, leaves - leaves / 4)), eighth = twiddle(power(C::root, leaves - leaves / 8));
        constexpr Twiddle three_eighths = twiddle(power(C::root, leaves - leaves / 8 * 3));
        const uint32_t low = x[0], high = x[1];
        x[0] = low + high, x[1] = low + 2 * Q - high;   // < 4Q
        inverse_butterfly(x[2], x[3], quarter, 2 * Q);
        inverse_butterfly(x[4], x[5], eighth, 2 * Q);
        inverse_butterfly(x[6], x[7], three_eighths, 2 * Q);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint32_t a = x[i], b = x[i + 2];
            x[i] = a + b, x[i + 2] = a + 4 * Q - b;   // < 8Q
            inverse_butterfly(x[i + 4], x[i + 6], quarter, 4 * Q);
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const uint32_t a = x[i], b = x[i + 4];
            x[i] = a + b, x[i + 4] = a + 8 * Q - b;
        }
    }

    // three_ways splits every node's x^3M - s^3, and three_back joins them: a_0 + z a_1 + z^2 a_2 at z, wz and w^2 z, with
    // w^2 = -1 - w. Values below 11Q give values below 15Q; values below 2Q give values below 6Q.
    static __device__ __forceinline__ void three_ways(const Tables &tables, uint32_t *a, int thread) {
        for (int j = thread; j < nodes * degree; j += threads) {
            const int node = j / degree, base = 3 * degree * node + j % degree;
            uint32_t &a0 = a[place(base)], &a1 = a[place(base + degree)], &a2 = a[place(base + 2 * degree)];
            const uint32_t t0 = a0, t1 = multiply(a1, tables.three[node][0]), t2 = multiply(a2, tables.three[node][1]);
            const uint32_t u = multiply(t1 + 2 * Q - t2, third);
            a0 = t0 + t1 + t2, a1 = t0 + 2 * Q - t2 + u, a2 = t0 + 2 * Q - t1 + 2 * Q - u;
        }
    }
    static __device__ __forceinline__ void three_back(const Tables &tables, uint32_t *a, int thread) {
        for (int j = thread; j < nodes * degree; j += threads) {
            const int node = j / degree, base = 3 * degree * node + j % degree;
            uint32_t &a0 = a[place(base)], &a1 = a[place(base + degree)], &a2 = a[place(base + 2 * degree)];
            const uint32_t b0 = a0, b1 = a1, b2 = a2, u = multiply(b1 + 2 * Q - b2, third);
            a0 = fold(b0 + b1 + b2);
            a1 = multiply(b0 + 2 * Q - b1 + 2 * Q - u, tables.three_inverse[node][0]);
            a2 = multiply(b0 + 2 * Q - b2 + u, tables.three_inverse[node][1]);
        }
    }

    // multiply_leaf replaces a leaf of a by its product with b's, modulo x^degree - z. Operands are folded, so sums of two are
    // below 2^26.1, products below 2^52.2, and the sums of up to seven of those below 2^55.1. Results are below 1.01*Q.
    static __device__ __forceinline__ void multiply_leaf(const Tables &tables, uint32_t *a, const uint32_t *b, int leaf) {
        constexpr int L = degree;
        uint32_t f[L], g[L];
        uint64_t square[L], c[2 * L - 1];
#pragma unroll
        for (int i = 0; i < L; i++) {
            f[i] = fold(a[place(L * leaf + i)]);
            g[i] = fold(b[place(L * leaf + i)]);
            square[i] = static_cast<uint64_t>(f[i]) * g[i];
        }
#pragma unroll
        for (int k = 0; k < 2 * L - 1; k++) {
            c[k] = k % 2 == 0 ? square[k / 2] : 0;
#pragma unroll
            for (int i = 0; i < L; i++) {   // f_i g_j + f_j g_i = (f_i + f_j)(g_i + g_j) - f_i g_i - f_j g_j
                const int j = k - i;
                if (i < j && j < L) c[k] += static_cast<uint64_t>(f[i] + f[j]) * (g[i] + g[j]) - square[i] - square[j];
            }
        }
        const Twiddle z = tables.leaf[leaf];
#pragma unroll
        for (int k = 0; k < L; k++)
            a[place(L * leaf + k)] = fold_product(k + L < 2 * L - 1 ? c[k] + multiply(fold_product(c[k + L < 2 * L - 1 ? k + L : 0]), z) : c[k]);
    }

    // ---- The product ----

    template <int p> static __device__ __forceinline__ void forward_pass(const Tables &tables, uint32_t *a, uint32_t *b, int thread) {
        const Place at = place_of<p>(thread);
        uint32_t x[8], y[8];
#pragma unroll
        for (int i = 0; i < 8; i++) x[i] = a[place(at.base + i * at.stride)], y[i] = b[place(at.base + i * at.stride)];
        forward_layers<p>(tables, at.node, x, y);
#pragma unroll
        for (int i = 0; i < 8; i++) a[place(at.base + i * at.stride)] = x[i], b[place(at.base + i * at.stride)] = y[i];
        __syncthreads();
    }
    template <int p> static __device__ __forceinline__ void inverse_pass(const Tables &tables, uint32_t *a, int thread) {
        const Place at = place_of<p>(thread);
        uint32_t x[8];
#pragma unroll
        for (int i = 0; i < 8; i++) x[i] = a[place(at.base + i * at.stride)];
        inverse_layers<p>(tables, at.node, x);
#pragma unroll
        for (int i = 0; i < 8; i++) a[place(at.base + i * at.stride)] = x[i];
        __syncthreads();
    }

    static __device__ __forceinline__ uint32_t residue(int32_t x) { return static_cast<uint32_t>(x) + (x < 0 ? Q : 0); }

    // exact writes the coefficients of left*right in Z[x]/(x^n - x - 1) to out[i], i < n, given those of the operands as
    // left(i), right(i) for i < n. They are exact if every coefficient of the product before folding is below Q/2 in size: with
    // operands of at most A and B that is n*A*B < Q/2, fits(A, B). `work` is shared_bytes of shared memory, `out` is other
    // shared memory; the block has `threads` threads.
    static constexpr bool fits(int a, int b) { return static_cast<int64_t>(P::n) * a * b < Q / 2; }

    const Tables &tables;

    template <class Left, class Right> __device__ __forceinline__ void exact(Left left, Right right, int32_t *out, void *work) const {
        const int thread = static_cast<int>(threadIdx.x);
        uint32_t *a = static_cast<uint32_t *>(work), *b = a + words;
        {
            uint32_t x[8], y[8];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int at = thread + threads * i;
                x[i] = at < P::n ? residue(left(at)) : 0;
                y[i] = at < P::n ? residue(right(at)) : 0;
            }
            first_layers(x);
            first_layers(y);
#pragma unroll
            for (int i = 0; i < 8; i++) a[place(thread + threads * i)] = x[i], b[place(thread + threads * i)] = y[i];
            __syncthreads();
        }
        forward_pass<1>(tables, a, b, thread);
        if constexpr (C::passes == 3) forward_pass<2>(tables, a, b, thread);
        if constexpr (C::ways == 3) {
            three_ways(tables, a, thread);
            three_ways(tables, b, thread);
            __syncthreads();
        }
#pragma unroll 1
        for (int leaf = thread; leaf < leaves; leaf += threads) multiply_leaf(tables, a, b, leaf);
        __syncthreads();
        if constexpr (C::ways == 3) {
            three_back(tables, a, thread);
            __syncthreads();
        }
        if constexpr (C::passes == 3) inverse_pass<2>(tables, a, thread);
        inverse_pass<1>(tables, a, thread);
        int32_t *s = reinterpret_cast<int32_t *>(b);
        {
            uint32_t x[8];
#pragma unroll
            for (int i = 0; i < 8; i++) x[i] = a[place(thread + threads * i)];
            last_layers(x);
#pragma unroll
            for (int i = 0; i < 8; i++) {
                uint32_t c = multiply(x[i], scale);
                c = min(c, c - Q);
                s[thread + threads * i] = static_cast<int32_t>(c) - static_cast<int32_t>(c > Q / 2 ? Q : 0);
            }
        }
        __syncthreads();
        // x^n = x + 1; the product's coefficients end at 2n - 2, so s_(2n-1) is 0
        for (int i = thread; i < P::n; i += threads) out[i] = s[i] + s[i + P::n] + (i > 0 ? s[i + P::n - 1] : 0);
        __syncthreads();
    }

    // residues writes left*right modulo q, canonical, to out[i], i < n, for |left| <= q/2 and |right| <= max_right <= q/2. Where
    // that does not fit, operands are split at 2^7 into a = 2^7*a1 + a0, -64 <= a0 < 64: only the left one if its halves fit
    // beside the right one, or both, with three products for four (Karatsuba). `part` is shared memory like `out`.
    static constexpr int half = 7, low_max = 1 << (half - 1), high_max = (P::q / 2 + low_max) >> half;
    static __device__ __forceinline__ int32_t high(int32_t x) { return (x + low_max) >> half; }
    static __device__ __forceinline__ int32_t low(int32_t x) { return x - (high(x) << half); }

    template <int max_right, class Left, class Right>
    __device__ __forceinline__ void residues(Left left, Right right, uint32_t *out, int32_t *part, void *work) const {
        constexpr int products = fits(P::q / 2, max_right) ? 1 : fits(low_max, max_right) ? 2 : 3;
        static_assert(products < 3 || fits(low_max + high_max, low_max + high_max), "the halves fit");
        const int thread = static_cast<int>(threadIdx.x);
#pragma unroll 1
        for (int k = 0; k < products; k++) {
            // products 0, 1, 2 are of the low halves, the high halves and their sums (of the left operand's halves alone, if there
            // are two); they count as many times as `weight` says: m0 + 2^7 (m2 - m0 - m1) + 2^14 m1, or m0 + 2^7 m1
            constexpr int unit = 1 << half;
            const int weight = products < 3 ? (k == 0 ? 1 : unit) : k == 0 ? P::q + 1 - unit : k == 1 ? (unit * unit - unit) % P::q : unit;
            exact([&](int i) { const int32_t x = left(i); return products == 1 ? x : k == 0 ? low(x) : k == 1 ? high(x) : low(x) + high(x); },
                  [&](int i) { const int32_t x = right(i); return products < 3 ? x : k == 0 ? low(x) : k == 1 ? high(x) : low(x) + high(x); },
                  part, work);
            for (int i = thread; i < P::n; i += threads) {
                const uint32_t m = reduce_q<P>(static_cast<uint32_t>(part[i]) + multiple_of_q<P>(2 * Q));   // |part| < 3Q/2
                out[i] = reduce_q<P>((k == 0 ? 0 : out[i]) + m * static_cast<uint32_t>(weight));
            }
            __syncthreads();
        }
    }
};

}   // namespace ctruprime
