package report

const gpuTitle = "Batches on a GPU"

var gpuAbout = []string{
	"CTRU-Prime-761 on the first GPU, every operation with its own key, the hash for rejection always computed; decapsulations have their secret keys resident. On the device means that inputs and outputs lie there; host to host is from pinned host memory to pinned host memory, copies included. What comes back to the host is compared with the CPU's results.",
	"In a stream of batches one CUDA stream copies in, two compute by turns and one copies out; as many batches are under way as the table says, and with one nothing overlaps. The limit is the same copies without kernels.",
}

const productTitle = "Tensor Cores and transforms"

var productAbout = []string{
	"The comparison of the paper on CTRU-Prime for CUDA Cores and Tensor Cores (Journal of Software 37(7), 2026), for this project's kernels: products in Z_q[x]/(x^n - x - 1) on the Tensor Cores (mma), by the incomplete number-theoretic transform modulo a pseudo-Mersenne number (ntt), and as tiled matrix products of 64-bit integers (tiled), in latency and throughput by the size of the batch.",
	"The product is that of an encapsulation of CTRU-Prime-761 in a launch of its own, with unpacking, reduction and packing in it, but no hash; then whole operations by each.",
}
