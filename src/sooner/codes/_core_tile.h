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
        to[j] = is_result(job, outs[j]) ? (REAL *)(tile->passing + j * (job->tile_bytes + 64))
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

/* Radix 2 with one output that is wanted, the most frequent operation in decoding. */
INLINE void NAME(sum)(const Job *job, REAL *to, const REAL *a, const REAL *b, REAL coef_a,
                      REAL coef_b, int result, REAL gain, ptrdiff_t width)
{
#define SUM (*(const VECTOR *)(a + c) * coef_a + *(const VECTOR *)(b + c) * coef_b)
    if (!result)
        for (ptrdiff_t c = 0; c < width; c += LANES)
            *(VECTOR *)(to + c) = SUM;
    else if (job->streaming && (uintptr_t)to % VECTOR_BYTES == 0)
        for (ptrdiff_t c = 0; c < width; c += LANES)
            STREAM(to + c, SUM * gain);
    else
        for (ptrdiff_t c = 0; c < width; c += LANES)
            *(VECTOR *)(to + c) = SUM * gain;
#undef SUM
}

INLINE void NAME(some_butterflies)(int radix, int unit, int stores, const Job *job, Tile *tile,
                                   const Step *step)
{
    const int size = 1 << radix;
    const ptrdiff_t width = tile->bytes / (ptrdiff_t)sizeof(REAL);
    const int32_t *ins = step->ins, *outs = step->outs;
    const REAL *coefs = step->coefs, *gains = step->gains;
    for (int i = 0; i < step->count; i++) {
        REAL *to[8];
        prefetch(job, tile);
        if (radix == 1 && (outs[0] == job->n_slots || outs[1] == job->n_slots)) {
            const int j = outs[0] == job->n_slots; /* a - b is a + (-b) to the last bit */
            NAME(sum)(job, (REAL *)tile->rows[outs[j]], (const REAL *)tile->rows[ins[0]],
                      (const REAL *)tile->rows[ins[1]], coefs[0], j ? -coefs[1] : coefs[1],
                      stores && is_result(job, outs[j]), gains[j], width);
            ins += size, outs += size, coefs += size, gains += size;
            continue;
        }
        if (stores)
            NAME(open)(job, tile, outs, size, to);
        else
            for (int j = 0; j < size; j++)
                to[j] = (REAL *)tile->rows[outs[j]];
        NAME(butterfly)(radix, unit, tile->rows, ins, coefs, to, width);
        if (stores)
            NAME(close)(job, tile, outs, gains, size, to, width);
        ins += size, outs += size, coefs += size, gains += size;
    }
}

INLINE void NAME(butterflies)(int radix, const Job *job, Tile *tile, const Step *step)
{
    switch (step->unit * 2 + step->stores) { /* each case is compiled for itself */
    case 0: NAME(some_butterflies)(radix, 0, 0, job, tile, step); break;
    case 1: NAME(some_butterflies)(radix, 0, 1, job, tile, step); break;
    case 2: NAME(some_butterflies)(radix, 1, 0, job, tile, step); break;
    default: NAME(some_butterflies)(radix, 1, 1, job, tile, step);
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

/* `size` rows of out = M @ in, each summed from the first column of M to the last, `n` vectors at
   a time: the sums stay in registers. */
INLINE void NAME(dense_rows)(int size, int n, char *const *rows, const Step *step,
                             const REAL *matrix, REAL *const *to, ptrdiff_t width)
{
    const ptrdiff_t n_in = step->n_in;
    for (ptrdiff_t c = 0; c < width; c += n * LANES) {
        const REAL *from = (const REAL *)rows[step->ins[0]] + c;
        VECTOR sum[12][2];
#pragma GCC unroll 12
        for (int i = 0; i < size; i++)
#pragma GCC unroll 2
            for (int v = 0; v < n; v++)
                sum[i][v] = *(const VECTOR *)(from + v * LANES) * matrix[i * n_in];
        for (ptrdiff_t j = 1; j < n_in; j++) {
            from = (const REAL *)rows[step->ins[j]] + c;
#pragma GCC unroll 12
            for (int i = 0; i < size; i++)
#pragma GCC unroll 2
                for (int v = 0; v < n; v++)
                    sum[i][v] += *(const VECTOR *)(from + v * LANES) * matrix[i * n_in + j];
        }
#pragma GCC unroll 12
        for (int i = 0; i < size; i++)
#pragma GCC unroll 2
            for (int v = 0; v < n; v++)
                *(VECTOR *)(to[i] + c + v * LANES) = sum[i][v];
    }
}

INLINE void NAME(dense)(const Job *job, Tile *tile, const Step *step)
{
    const ptrdiff_t width = tile->bytes / (ptrdiff_t)sizeof(REAL);
    for (int i = 0, size; i < step->n_out; i += size) {
        const int left = step->n_out - i;
        const REAL *matrix = (const REAL *)step->coefs + (ptrdiff_t)i * step->n_in;
        REAL *to[12];
        size = left >= 12 ? 12 : left >= 4 ? 4 : 1;
        prefetch(job, tile);
        NAME(open)(job, tile, step->outs + i, size, to);
        if (size == 12)
            NAME(dense_rows)(12, 1, tile->rows, step, matrix, to, width);
        else if (size == 4)
            NAME(dense_rows)(4, 2, tile->rows, step, matrix, to, width);
        else
            NAME(dense_rows)(1, 2, tile->rows, step, matrix, to, width);
        NAME(close)(job, tile, step->outs + i, (const REAL *)step->gains + i, size, to, width);
    }
}

TARGET static void NAME(run_tile)(const Job *job, Tile *tile)
{
    for (int s = 0; s < job->n_steps; s++) {
        const Step *step = &job->steps[s];
        switch (step->kind) {
        case COPY: NAME(copies)(job, tile, step); break;
        case RADIX_2: NAME(butterflies)(1, job, tile, step); break;
        case RADIX_4: NAME(butterflies)(2, job, tile, step); break;
        case RADIX_8: NAME(butterflies)(3, job, tile, step); break;
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
