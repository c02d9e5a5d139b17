/* The interpreter of one tile of columns, for one number type and one instruction set.

Included by _core.c once for each pair, with
    REAL            float or double
    VECTOR_BYTES    16, 32 or 64
    TARGET          the function attribute that allows the instructions
    NAME(x)         a name for each instance

Sums and products are done one by one, in the order of the NumPy path in transform.py, and are
never contracted to fused ones: the results are the same to the last bit. */

#define VECTOR NAME(vector)
#define LANES ((ptrdiff_t)(VECTOR_BYTES / sizeof(REAL)))
#define INLINE static inline __attribute__((always_inline)) TARGET

typedef REAL VECTOR __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(REAL)), may_alias));

/* Write a row of a result: past the caches when nobody will read it soon. */
INLINE void NAME(put)(const Job *job, REAL *to, const REAL *from, REAL gain, ptrdiff_t width)
{
    if (job->streaming && (uintptr_t)to % VECTOR_BYTES == 0) {
        if (gain == 1)
            for (ptrdiff_t c = 0; c < width; c += LANES)
                STREAM(to + c, *(const VECTOR *)(from + c));
        else
            for (ptrdiff_t c = 0; c < width; c += LANES)
                STREAM(to + c, *(const VECTOR *)(from + c) * gain);
    } else {
        for (ptrdiff_t c = 0; c < width; c += LANES)
            *(VECTOR *)(to + c) = *(const VECTOR *)(from + c) * gain;
    }
}

/* Rows that `size` outputs are computed into: scratch, or a row in L1 on the way to a result.
   (Storing eight result rows at once with streaming stores is slower than one by one.) */
INLINE void NAME(open)(const Job *job, Tile *tile, const int32_t *outs, int size, REAL **to)
{
    for (int j = 0; j < size; j++)
        to[j] = is_result(job, outs[j]) ? (REAL *)(tile->passing + j * job->tile_bytes)
                                        : (REAL *)tile->rows[outs[j]];
}

INLINE void NAME(close)(const Job *job, Tile *tile, const int32_t *outs, const REAL *gains,
                        int size, REAL *const *to, ptrdiff_t width)
{
    for (int j = 0; j < size; j++)
        if (is_result(job, outs[j]))
            NAME(put)(job, (REAL *)tile->rows[outs[j]], to[j], gains[j], width);
}

/* out = H (coef * in), 2**radix rows. */
INLINE void NAME(butterfly)(int radix, int unit, char *const *rows, const int32_t *ins,
                            const REAL *coefs, REAL *const *outs, ptrdiff_t width)
{
    const int size = 1 << radix;
    const REAL *from[8];
    REAL *to[8];
    for (int j = 0; j < size; j++) {
        from[j] = (const REAL *)rows[ins[j]];
        to[j] = outs[j];
    }
    for (ptrdiff_t c = 0; c < width; c += LANES) {
        VECTOR x[8];
#pragma GCC unroll 8
        for (int j = 0; j < size; j++) {
            x[j] = *(const VECTOR *)(from[j] + c);
            if (!unit)
                x[j] *= coefs[j];
        }
#pragma GCC unroll 3
        for (int half = size / 2; half; half /= 2)
#pragma GCC unroll 8
            for (int j = 0; j < size; j++)
                if (!(j & half)) {
                    VECTOR difference = x[j] - x[j + half];
                    x[j] += x[j + half];
                    x[j + half] = difference;
                }
#pragma GCC unroll 8
        for (int j = 0; j < size; j++)
            *(VECTOR *)(to[j] + c) = x[j];
    }
}

INLINE void NAME(butterflies)(int radix, int unit, const Job *job, Tile *tile, const Step *step)
{
    const int size = 1 << radix;
    const ptrdiff_t width = tile->bytes / (ptrdiff_t)sizeof(REAL);
    const int32_t *ins = step->ins, *outs = step->outs;
    const REAL *coefs = step->coefs, *gains = step->gains;
    for (int i = 0; i < step->count; i++) {
        REAL *to[8];
        prefetch(job, tile);
        NAME(open)(job, tile, outs, size, to);
        NAME(butterfly)(radix, unit, tile->rows, ins, coefs, to, width);
        NAME(close)(job, tile, outs, gains, size, to, width);
        ins += size, outs += size, coefs += size, gains += size;
    }
}

INLINE void NAME(copies)(const Job *job, Tile *tile, const Step *step)
{
    const ptrdiff_t width = tile->bytes / (ptrdiff_t)sizeof(REAL);
    for (int i = 0; i < step->count; i++) {
        const REAL *from = (const REAL *)tile->rows[step->ins[i]];
        REAL *to = (REAL *)tile->rows[step->outs[i]], coef = ((const REAL *)step->coefs)[i];
        prefetch(job, tile);
        if (is_result(job, step->outs[i]))
            NAME(put)(job, to, from, coef, width);
        else
            for (ptrdiff_t c = 0; c < width; c += LANES)
                *(VECTOR *)(to + c) = *(const VECTOR *)(from + c) * coef;
    }
}

/* `size` rows of out = M @ in, each summed from the first column of M to the last. */
INLINE void NAME(dense_rows)(int size, char *const *rows, const Step *step, const REAL *matrix,
                             REAL *const *to, ptrdiff_t width)
{
    const ptrdiff_t n_in = step->n_in;
    for (ptrdiff_t c = 0; c < width; c += 2 * LANES) {
        const REAL *first = (const REAL *)rows[step->ins[0]] + c;
        VECTOR sum[4][2];
#pragma GCC unroll 4
        for (int i = 0; i < size; i++) {
            sum[i][0] = *(const VECTOR *)first * matrix[i * n_in];
            sum[i][1] = *(const VECTOR *)(first + LANES) * matrix[i * n_in];
        }
        for (ptrdiff_t j = 1; j < n_in; j++) {
            const REAL *from = (const REAL *)rows[step->ins[j]] + c;
            const VECTOR x = *(const VECTOR *)from, y = *(const VECTOR *)(from + LANES);
#pragma GCC unroll 4
            for (int i = 0; i < size; i++) {
                const REAL coef = matrix[i * n_in + j];
                sum[i][0] += x * coef;
                sum[i][1] += y * coef;
            }
        }
#pragma GCC unroll 4
        for (int i = 0; i < size; i++) {
            *(VECTOR *)(to[i] + c) = sum[i][0];
            *(VECTOR *)(to[i] + c + LANES) = sum[i][1];
        }
    }
}

INLINE void NAME(dense)(const Job *job, Tile *tile, const Step *step)
{
    const ptrdiff_t width = tile->bytes / (ptrdiff_t)sizeof(REAL);
    for (int i = 0; i < step->n_out;) {
        const int size = step->n_out - i >= 4 ? 4 : 1;
        const REAL *matrix = (const REAL *)step->coefs + (ptrdiff_t)i * step->n_in;
        REAL *to[4];
        prefetch(job, tile);
        NAME(open)(job, tile, step->outs + i, size, to);
        if (size == 4)
            NAME(dense_rows)(4, tile->rows, step, matrix, to, width);
        else
            NAME(dense_rows)(1, tile->rows, step, matrix, to, width);
        NAME(close)(job, tile, step->outs + i, (const REAL *)step->gains + i, size, to, width);
        i += size;
    }
}

TARGET static void NAME(run_tile)(const Job *job, Tile *tile)
{
    for (int s = 0; s < job->n_steps; s++) {
        const Step *step = &job->steps[s];
        switch (step->kind * 2 + step->unit) {
        case COPY * 2: case COPY * 2 + 1: NAME(copies)(job, tile, step); break;
        case RADIX_2 * 2: NAME(butterflies)(1, 0, job, tile, step); break;
        case RADIX_2 * 2 + 1: NAME(butterflies)(1, 1, job, tile, step); break;
        case RADIX_4 * 2: NAME(butterflies)(2, 0, job, tile, step); break;
        case RADIX_4 * 2 + 1: NAME(butterflies)(2, 1, job, tile, step); break;
        case RADIX_8 * 2: NAME(butterflies)(3, 0, job, tile, step); break;
        case RADIX_8 * 2 + 1: NAME(butterflies)(3, 1, job, tile, step); break;
        default: NAME(dense)(job, tile, step);
        }
    }
}

#undef VECTOR
#undef LANES
#undef INLINE
#undef REAL
#undef VECTOR_BYTES
#undef TARGET
#undef NAME
#undef STREAM
