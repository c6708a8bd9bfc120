// Points of P-256, y^2 = x^3 - 3x + b, and the comb's digits for its scalars.
#pragma once
#include "comb.cuh"
#include "p256_scalar.cuh"

namespace p256 {

// Affine is (x, y), never the point at infinity.
struct Affine {
    Element x, y;
};
constexpr int affine_words = 2 * words;

// Point is (X/ZZ, Y/ZZZ) with ZZ^3 = ZZZ^2 ("XYZZ" in the Explicit-Formulas Database), or infinity if ZZ and ZZZ are zero.
struct Point {
    Element x, y, zz, zzz;
};

__device__ __forceinline__ Point from_affine(const Affine &a) { return {a.x, a.y, one(), one()}; }

// add gives a + b if neither is infinity and a is not b: madd-2008-s. If a is -b it gives infinity; for the cases left out,
// zz = zzz = 0 too. 10 products.
__device__ __forceinline__ Point add(const Point &a, const Affine &b) {
    const Element p = b.x * a.zz - a.x, r = b.y * a.zzz - a.y;
    const Element pp = square(p), ppp = p * pp, q = a.x * pp;
    const Element x = square(r) - ppp - q - q;
    return {x, r * (q - x) - a.y * ppp, a.zz * pp, a.zzz * ppp};
}

// add of two such points: add-2008-s, with the same exceptions. equal says, as a mask, whether a is b; infinity apart.
__device__ __forceinline__ Point add(const Point &a, const Point &b, uint32_t &equal) {
    const Element u = a.x * b.zz, s = a.y * b.zzz, p = b.x * a.zz - u, r = b.y * a.zzz - s;
    equal = is_zero(p) & is_zero(r);
    const Element pp = square(p), ppp = p * pp, q = u * pp;
    const Element x = square(r) - ppp - q - q;
    return {x, r * (q - x) - s * ppp, a.zz * b.zz * pp, a.zzz * b.zzz * ppp};
}

// twice gives 2a: dbl-2008-s-1. The group's order is odd, so y is not zero.
__device__ __forceinline__ Point twice(const Point &a) {
    const Element u = a.y + a.y, v = square(u), w = u * v, s = a.x * v;
    const Element third = (a.x - a.zz) * (a.x + a.zz), m = third + third + third;
    const Element x = square(m) - s - s;
    return {x, m * (s - x) - w * a.y, v * a.zz, w * a.zzz};
}

__device__ __forceinline__ Point select(const Point &a, const Point &b, uint32_t mask) {
    return {select(a.x, b.x, mask), select(a.y, b.y, mask), select(a.zz, b.zz, mask), select(a.zzz, b.zzz, mask)};
}

// add_complete gives a + b, whatever they are.
__device__ __forceinline__ Point add_complete(const Point &a, const Point &b) {
    uint32_t equal;
    const Point sum = add(a, b, equal);
    const Point finite = select(sum, twice(a), equal);
    return select(select(finite, b, is_zero(a.zz)), a, is_zero(b.zz));
}

__device__ __forceinline__ Point shuffle(const Point &a, int from) {
    return {lanes::shuffle(a.x, from), lanes::shuffle(a.y, from), lanes::shuffle(a.zz, from), lanes::shuffle(a.zzz, from)};
}

// put_point and get_point keep a point in a column of shared memory.
constexpr int point_words = 4 * words;
template <int threads> __device__ __forceinline__ void put_point(lanes::Columns<point_words, threads> &columns, int thread, const Point &a) {
#pragma unroll
    for (int i = 0; i < words; i++) {
        columns[i][thread] = a.x.w[i];
        columns[words + i][thread] = a.y.w[i];
        columns[2 * words + i][thread] = a.zz.w[i];
        columns[3 * words + i][thread] = a.zzz.w[i];
    }
}
template <int threads> __device__ __forceinline__ Point get_point(const lanes::Columns<point_words, threads> &columns, int thread) {
    Point r;
#pragma unroll
    for (int i = 0; i < words; i++) {
        r.x.w[i] = columns[i][thread];
        r.y.w[i] = columns[words + i][thread];
        r.zz.w[i] = columns[2 * words + i][thread];
        r.zzz.w[i] = columns[3 * words + i][thread];
    }
    return r;
}

// ---- Digits ----

// put_digits leaves the digits of k or of n - k, whichever is odd, in the calling thread's column, and returns all ones if they are
// those of n - k, whose multiple is the negative one. 0 counts as n.
template <int threads>
__device__ __forceinline__ uint32_t put_digits(const Scalar &k, lanes::Columns<comb::digit_words, threads> &columns, int thread) {
    uint32_t half[words], digits[comb::digit_words];
    const uint32_t even = (k.w[0] & 1) - 1;
    half[0] = sub_cc(modulo_n::n[0], k.w[0]);
#pragma unroll
    for (int i = 1; i < words - 1; i++) half[i] = subc_cc(modulo_n::n[i], k.w[i]);
    half[words - 1] = subc(modulo_n::n[words - 1], k.w[words - 1]);
#pragma unroll
    for (int i = 0; i < words; i++) half[i] = lanes::choose(k.w[i], half[i], even);
#pragma unroll
    for (int i = 0; i < words; i++) half[i] = __funnelshift_r(half[i], i == words - 1 ? 0 : half[i + 1], 1);
    comb::recode(half, digits);
    lanes::put(columns, thread, digits);
    return even;
}

// find looks entry j of a window up, for all lanes of the warp.
__device__ __forceinline__ Affine find(const uint32_t *table, int window, int lane, uint32_t j) {
    uint32_t entry[affine_words];
    comb::lookup(table, window, lane, j, entry);
    Affine r;
#pragma unroll
    for (int i = 0; i < words; i++) r.x.w[i] = entry[i], r.y.w[i] = entry[words + i];
    return r;
}

// sum_windows adds all windows of a comb up, one operation a thread.
template <int threads>
__device__ __forceinline__ Point sum_windows(const uint32_t *table, const lanes::Columns<comb::digit_words, threads> &columns, int thread, uint32_t negated) {
    Point sum;
#pragma unroll 1
    for (int w = 0; w < comb::windows; w++) {
        const comb::Digit digit = comb::digit(columns, thread, w);
        Affine point = find(table, w, thread % lanes::warp_size, digit.entry);
        point.y = negate_if(point.y, digit.negative ^ negated);
        sum = w == 0 ? from_affine(point) : add(sum, point);
    }
    return sum;
}

// A sum of digits added from the lowest up never meets add's exceptions before it is complete, if they are those of an odd k
// below n. Let s be what has been added, |s| < 128^w, and t = d 128^w what comes next, 128^w <= |t| <= 127 * 128^w: s is neither t
// nor -t. Modulo n they could be alike if s +- t = m n for an m other than 0, which needs 128^(w + 1) > n, so w is 36 or 37. As k is
// below 2^256, digit 37 is 1 and digit 36 from -127 to -113.
//   w = 36: s is odd, as k is, and t even, so m is odd. |t| is from 113/16 to 127/16 of 2^256 and |s| < 2^252, so |s +- t| is between
//     7 * 2^256 and 8 * 2^256. No odd multiple of n is: 7 n is below, 9 n above.
//   w = 37: s = k - 2^259. s = t means k = 2^260 - m n, which lies between 0 and n for m = 16 alone and is even then. s = -t
//     means k = n: the sum of the digits of n, which stand for 0, is infinity, as it should be.

// ---- Combs on eight lanes ----

// A comb's windows are shared out in order, five to each of the first six lanes, four to each of the others. With contiguous shares no
// sum within one, nor one of neighbouring shares but the last, meets add's exceptions: as integers the two parts differ, as above;
// modulo n either both are below n/2, or both are divisible by the first window's 128^w, a power of two, and so is m in s +- t = m n.
// Only the sum of the lower half s and the upper half t may: s = t for k = n + 2 s, s < 0.
constexpr int shares = 8, long_shares = 6, long_share = 5, short_share = 4;
static_assert(long_shares * long_share + (shares - long_shares) * short_share == comb::windows, "every window has a lane");
__device__ __forceinline__ int first_window(int share) {
    return long_share * share - (share > long_shares ? (share - long_shares) * (long_share - short_share) : 0);
}

// sum_share adds up the calling lane's share of a comb. The digits are in the lane's column, and lane % roles is its role in an operation,
// role % shares its share. The comb's table is table_of(role). All lanes look up what all roles need, and keep their own.
template <int roles, class Table>
__device__ __forceinline__ Point sum_share(const lanes::Columns<comb::digit_words, lanes::warp_size> &columns, int lane, uint32_t negated, Table table_of) {
    const int role = lane % roles, share = role % shares;
    Point sum;
#pragma unroll 1
    for (int w = 0; w < long_share; w++) {
        const comb::Digit digit = comb::digit(columns, lane, min(first_window(share) + w, comb::windows - 1));
        Affine point = {};
#pragma unroll 4
        for (int k = 0; k < roles; k++) {
            const Affine found = find(table_of(k), min(first_window(k % shares) + w, comb::windows - 1), lane, digit.entry);
            const uint32_t own = lanes::mask_if(k == role);
            point = {select(point.x, found.x, own), select(point.y, found.y, own)};
        }
        point.y = negate_if(point.y, digit.negative ^ negated);
        if (w == 0) sum = from_affine(point);
        else sum = select(add(sum, point), sum, lanes::mask_if(w == short_share && share >= long_shares));   // what is not its own
    }
    return sum;
}

// sum_shares adds up what the lanes of an operation have, and gives the sum to each.
template <int roles> __device__ __forceinline__ Point sum_shares(Point sum, int lane) {
    uint32_t equal;
#pragma unroll 1
    for (int distance = 1; distance < shares / 2; distance *= 2) sum = add(sum, shuffle(sum, lane ^ distance), equal);
#pragma unroll 1
    for (int distance = shares / 2; distance < roles; distance *= 2) sum = add_complete(sum, shuffle(sum, lane ^ distance));
    return sum;
}

}   // namespace p256
