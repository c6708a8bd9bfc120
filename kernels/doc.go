// Package kernels holds the CUDA kernels of CTRU-Prime, as PTX, and knows how to launch them: which entries, with what grids,
// parameters and scratch memory, for a batch of an operation.
//
// An operation is planned (Set.Plan) and the plan executed by whoever has a device: its launches go into one stream, in
// order, with each argument that names a Buffer replaced by that buffer's address. Package gpu does that; this package loads no
// driver, allocates no memory, and knows bytes and launch shapes only, neither TLS nor keys nor where a batch comes from.
//
// # Rows
//
// A batch's operations lie one after another, as rows of bytes. With P, C and S the sizes of a public key, a ciphertext and
// a secret key (Set), and 32-byte seeds and shared keys:
//
//	operation  input                          output         status
//	Encaps     public key || seed    P + 32   ct || key      0, or 1: the public key is invalid, the row zero
//	Encaps     seed, with a table    32       ct || key      the same
//	Decaps     secret key || ct      S + C    key       32   0, or 1: the secret key is invalid, the row zero
//	Decaps     ct, with a table      C        key       32   the same, and 1 for an index past the table
//	KeyGen     seed || z             64       secret key S   0
//
// Encaps's table is one public key for the whole batch; Decaps's has any number of secret keys. A secret key is sk_f || pk || z, so KeyGen's output rows are Decaps's table. Status is a little-endian uint32 an operation. An invalid
// row does not disturb the others.
//
// # Multiplications
//
// Products in Z_q[x]/(x^n - x - 1) come in three ways, which give the same bytes: on the Tensor Cores (MMA), by an incomplete
// number-theoretic transform (NTT), and as tiled matrix products in 64-bit integers (Tiled). mul_mma.cuh, mul_ntt.cuh and
// mul_tiled.cuh say how. Encaps to one public key can also multiply by the paper's matrix form (Options.Matrix, shared_key.cuh).
//
// # Shapes
//
// Small batches run in one launch with a block an operation (One): what counts is when the first result is there. Larger
// ones hash with one operation a thread (Split) or, while the card is not full, a warp (SplitWarp), and multiply with one a warp, in
// launches of their own; batches in two streams overlap one's hashes with the other's products. Plan chooses by the size of the
// batch. Whether rows are copied to the device or lie in mapped host memory, which the kernels read and write once,
// is up to who executes the plan: mapped is sooner done for the smallest batches of Encaps, copied for everything else.
//
// # Curves
//
// X25519 (PlanX25519) and ECDSA signatures on P-256 (PlanP256) are launches like those of the KEM, in modules of their own, so that an exchange's
// two halves run side by side on two streams. PlanExchange plans both halves for rows that hold what both need. Signatures are made
// into scratch memory and leave it once they have been checked with the public key. *_table.cuh are generated (go generate).
//
// # Secrets
//
// Kernels wipe their scratch memory themselves. Input and output rows belong to the caller, who wipes those that hold secrets
// when they have been used: every input but a table's ciphertexts, and every output but Encaps's ciphertexts.
// No kernel branches on or addresses by a secret; whether a secret key is well-formed shows in its status.
//
// # Sources
//
// *.cuh and *.cu are the kernels, read by clang for the PTX in ptx/ (build-ptx.sh), by nvcc, and as C++ by the simulator in sim/,
// on which the tests run all of them without a GPU (device/README.md).
package kernels
