// The kernels that multiply, for the multiplication that PRODUCT_KERNEL stands for when this is included.
PRODUCT_KERNEL(encaps_product, (PUBLICS, SCRATCH, OUTPUT, int n), pk, pk_stride, messages, coins, keys, out, out_stride, status, n);
PRODUCT_KERNEL(decaps_decrypt, (SECRETS, CIPHERTEXTS, uint8_t *messages, uint32_t *status, int n), secrets, secret_stride, index, count,
               ct, ct_stride, messages, status, n);
PRODUCT_KERNEL(decaps_select, (SECRETS, CIPHERTEXTS, SCRATCH, uint8_t *rejects, OUTPUT, int n), secrets, secret_stride, index, count,
               ct, ct_stride, messages, coins, keys, rejects, out, out_stride, status, n);
PRODUCT_KERNEL(keygen_pairs, (const uint8_t *__restrict__ coins, uint16_t *__restrict__ level, int pairs, int n), coins, level, pairs, n);
PRODUCT_KERNEL(keygen_up, (const uint16_t *__restrict__ below, uint16_t *__restrict__ level, int rows), below, level, rows);
PRODUCT_KERNEL(keygen_down, (uint16_t *inverses, uint16_t *below, int parents), inverses, below, parents);
PRODUCT_KERNEL(keygen_finish, (INPUT, uint8_t *coins, uint16_t *inverses, OUTPUT, int n), in, in_stride, coins, inverses, out,
               out_stride, status, n);
