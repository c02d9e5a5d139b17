/* The compiled core: runs a program of butterflies (program.py) on arrays, tile by tile.

One function, `run`, described in _core.pyi.  It (1) checks the program against its bounds and
copies it, since whoever else holds the arrays may change them while the GIL is released; (2) sends
what is only copied to a result there at once; (3) lets threads take groups of tiles until there
are none left.  The arithmetic is in _core_tile.h; transform.py is the definition, in NumPy, and
calls this for float32 and float64 with contiguous columns.

A tile is a few hundred bytes of every row, so that the scratch slots of a program, rows of a
buffer of the thread, stay in the second level cache.  Inputs are read where they are, results
written where they belong. */

#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __x86_64__
#include <immintrin.h>
#define X86 1
#else
#define X86 0
#endif

enum { MAX_TILE_BYTES = 4096, MAX_ROWS = 12, MAX_THREADS = 256, MAX_SLOTS = 1 << 28 };
enum { GROUP_BYTES = 1 << 14 };        /* of a row, that a thread works on in a row */
enum { STREAM_FROM_BYTES = 4 << 20 }; /* smaller results may as well stay in the cache */
enum { COPY, RADIX_2, RADIX_4, RADIX_8, DENSE };

/* A run of operations of one kind, checked.  Missing inputs point to a row of zeros, outputs
   that nobody wants to a row that nobody reads. */
typedef struct {
    int kind, count, n_in, n_out;
    int unit, stores; /* whether all coefs are 1, and whether some outputs are results */
    int32_t *ins, *outs;
    void *coefs, *gains; /* of the type of the numbers; a result is stored times its gain */
} Step;

typedef struct Job Job;

/* What a thread works on. */
typedef struct {
    char **rows;   /* where each slot is, for this tile */
    char *passing; /* rows in L1 on the way to a result */
    char *edge;    /* inputs and results of a tile that is not full, padded */
    char *memory;
    ptrdiff_t bytes;     /* of a row of this tile */
    ptrdiff_t next_read; /* the next input to prefetch for the tile to come */
    int64_t progress;    /* how many should be, times 2**20 */
} Tile;

struct Job {
    int n_steps;
    Step *steps;
    ptrdiff_t n_inputs, n_results, n_slots, n_reads, n_operations;
    ptrdiff_t n_rows; /* of the inputs that there are: those that are read, at least */
    int32_t *reads;  /* inputs that are read */
    int32_t *slots;  /* of the steps, in a row */
    double *numbers; /* coefs of the steps in a row, then gains; in the end floats if need be */
    char *in, *out;
    ptrdiff_t in_stride, out_stride, itemsize, row_bytes, tile_bytes;
    ptrdiff_t shift; /* the first tile is that much shorter, so that the others are aligned */
    ptrdiff_t n_tiles, group;
    int64_t reads_per_operation; /* times 2**20 */
    int streaming;
    void (*run_tile)(const Job *, Tile *);
    atomic_ptrdiff_t next_group;
    atomic_int stopped, out_of_memory;
};

static inline int is_result(const Job *job, int32_t slot)
{
    return slot >= job->n_inputs && slot < job->n_inputs + job->n_results;
}

/* Ask for some rows of the next tile while this one is computed. */
static inline __attribute__((always_inline)) void prefetch(const Job *job, Tile *tile)
{
    tile->progress += job->reads_per_operation;
    ptrdiff_t last = tile->progress >> 20;
    if (last > job->n_reads)
        last = job->n_reads;
    for (; tile->next_read < last; tile->next_read++) {
        const char *row = tile->rows[job->reads[tile->next_read]] + job->tile_bytes;
        for (ptrdiff_t b = 0; b < job->tile_bytes; b += 64)
            __builtin_prefetch(row + b, 0, 2);
    }
}

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)

#if X86
#define STREAM_128(to, value) _mm_stream_ps((float *)(to), (__m128)(value))
#define STREAM_256(to, value) _mm256_stream_ps((float *)(to), (__m256)(value))
#define STREAM_512(to, value) _mm512_stream_ps((float *)(to), (__m512)(value))
#else
#define STREAM_128(to, value) (*(VECTOR *)(to) = (value))
#endif

#define REAL float
#define VECTOR_BYTES 16
#define TARGET
#define STREAM STREAM_128
#define NAME(x) PASTE(x, _float_baseline)
#include "_core_tile.h"

#define REAL double
#define VECTOR_BYTES 16
#define TARGET
#define STREAM STREAM_128
#define NAME(x) PASTE(x, _double_baseline)
#include "_core_tile.h"

#if X86
#define REAL float
#define VECTOR_BYTES 32
#define TARGET __attribute__((target("avx2")))
#define STREAM STREAM_256
#define NAME(x) PASTE(x, _float_avx2)
#include "_core_tile.h"

#define REAL double
#define VECTOR_BYTES 32
#define TARGET __attribute__((target("avx2")))
#define STREAM STREAM_256
#define NAME(x) PASTE(x, _double_avx2)
#include "_core_tile.h"

#define REAL float
#define VECTOR_BYTES 64
#define TARGET __attribute__((target("avx512f")))
#define STREAM STREAM_512
#define NAME(x) PASTE(x, _float_avx512)
#include "_core_tile.h"

#define REAL double
#define VECTOR_BYTES 64
#define TARGET __attribute__((target("avx512f")))
#define STREAM STREAM_512
#define NAME(x) PASTE(x, _double_avx512)
#include "_core_tile.h"
#endif

static const struct {
    const char *name;
    void (*run_tile[2])(const Job *, Tile *); /* float, double */
} VARIANTS[] = {
    {"baseline", {run_tile_float_baseline, run_tile_double_baseline}},
#if X86
    {"avx2", {run_tile_float_avx2, run_tile_double_avx2}},
    {"avx512", {run_tile_float_avx512, run_tile_double_avx512}},
#endif
};

static int n_variants = 1; /* those that this processor can run */

static void find_variants(void)
{
#if X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2"))
        n_variants = __builtin_cpu_supports("avx512f") ? 3 : 2;
#endif
}

/* ---- the tiles ---- */

static int open_tile(const Job *job, Tile *tile)
{
    /* scratch, the row nobody wants, the row of zeros, rows in passing; one line to align */
    const size_t n_scratch = job->n_slots - job->n_inputs - job->n_results;
    /* a line more, or the same column of many rows would fall into few sets of L1 */
    const ptrdiff_t stride = job->tile_bytes + 64;
    memset(tile, 0, sizeof *tile);
    tile->rows = malloc((job->n_slots + 2) * sizeof *tile->rows);
    tile->memory = malloc((n_scratch + 2 + MAX_ROWS) * stride + 64);
    if (!tile->rows || !tile->memory)
        return 0;
    char *row = tile->memory + (64 - (uintptr_t)tile->memory % 64) % 64;
    tile->passing = row;
    row += MAX_ROWS * stride;
    for (ptrdiff_t s = job->n_inputs + job->n_results; s < job->n_slots + 2; s++) {
        tile->rows[s] = row;
        row += stride;
    }
    memset(tile->rows[job->n_slots + 1], 0, job->tile_bytes);
    return 1;
}

static void close_tile(Tile *tile)
{
    free(tile->rows);
    free(tile->memory);
    free(tile->edge);
}

static int one_tile(const Job *job, Tile *tile, ptrdiff_t index)
{
    ptrdiff_t first = index * job->tile_bytes - job->shift, last = first + job->tile_bytes;
    if (first < 0)
        first = 0;
    if (last > job->row_bytes)
        last = job->row_bytes;
    const ptrdiff_t bytes = last - first, n_inputs = job->n_inputs;
    char *in = job->in + first, *out = job->out + first, **rows = tile->rows;
    ptrdiff_t in_stride = job->in_stride, out_stride = job->out_stride;
    tile->progress = 0;
    if (bytes == job->tile_bytes) {
        tile->bytes = bytes;
        /* only a full tile has a neighbour that may be asked for early */
        tile->next_read = last + job->tile_bytes <= job->row_bytes ? 0 : job->n_reads;
    } else {
        if (!tile->edge)
            tile->edge = calloc(n_inputs + job->n_results, job->tile_bytes);
        if (!tile->edge)
            return 0;
        tile->bytes = (bytes + 127) / 128 * 128;
        tile->next_read = job->n_reads;
        in_stride = out_stride = job->tile_bytes;
        for (ptrdiff_t j = 0; j < job->n_reads; j++)
            memcpy(tile->edge + job->reads[j] * in_stride, in + job->reads[j] * job->in_stride,
                   bytes);
        in = tile->edge;
        out = in + n_inputs * in_stride;
    }
    for (ptrdiff_t s = 0; s < n_inputs; s++)
        rows[s] = in + s * in_stride;
    for (ptrdiff_t s = 0; s < job->n_results; s++)
        rows[n_inputs + s] = out + s * out_stride;
    job->run_tile(job, tile);
    if (bytes != job->tile_bytes)
        for (ptrdiff_t s = 0; s < job->n_results; s++)
            memcpy(job->out + first + s * job->out_stride, out + s * out_stride, bytes);
    return 1;
}

/* One group of tiles; false when there is none left or nothing more should be done. */
static int one_group(Job *job, Tile *tile)
{
    if (atomic_load(&job->stopped))
        return 0;
    ptrdiff_t first = atomic_fetch_add(&job->next_group, 1) * job->group;
    if (first >= job->n_tiles)
        return 0;
    ptrdiff_t last = first + job->group < job->n_tiles ? first + job->group : job->n_tiles;
    for (ptrdiff_t t = first; t < last; t++)
        if (!one_tile(job, tile, t)) {
            atomic_store(&job->out_of_memory, 1);
            atomic_store(&job->stopped, 1);
            return 0;
        }
    return 1;
}

static void finish_stores(void)
{
#if X86
    _mm_sfence(); /* streaming stores are weakly ordered */
#endif
}

static void *work(void *argument)
{
    Job *job = argument;
    Tile tile;
    if (open_tile(job, &tile)) /* else the other threads do it */
        while (one_group(job, &tile))
            ;
    close_tile(&tile);
    finish_stores();
    return NULL;
}

/* Ask for signals and for `stop`, with the GIL: -1 after an exception, 1 to stop. */
static int asked_to_stop(PyObject *stop)
{
    if (PyErr_CheckSignals() < 0)
        return -1;
    if (stop == Py_None)
        return 0;
    PyObject *answer = PyObject_CallNoArgs(stop);
    if (!answer)
        return -1;
    int verdict = PyObject_IsTrue(answer);
    Py_DECREF(answer);
    return verdict;
}

/* All tiles; the calling thread works too, and asks now and then.  What asked_to_stop says. */
static int run_job(Job *job, int n_threads, PyObject *stop, ptrdiff_t poll_bytes)
{
    pthread_t threads[MAX_THREADS];
    int n_started = 0, verdict = 0, more = 1;
    const ptrdiff_t group_bytes =
        (job->n_reads + job->n_results) * job->group * job->tile_bytes * n_threads;
    Tile tile;
    if (!open_tile(job, &tile)) {
        close_tile(&tile);
        PyErr_NoMemory();
        return -1;
    }
    verdict = asked_to_stop(stop);
    if (!verdict) {
        PyThreadState *state = PyEval_SaveThread();
        while (n_started < n_threads - 1 &&
               pthread_create(&threads[n_started], NULL, work, job) == 0)
            n_started++;
        while (more && !verdict) {
            ptrdiff_t done = 0;
            while (more && done < poll_bytes) {
                more = one_group(job, &tile);
                done += group_bytes;
            }
            if (more) {
                PyEval_RestoreThread(state);
                verdict = asked_to_stop(stop);
                state = PyEval_SaveThread();
            }
        }
        if (verdict)
            atomic_store(&job->stopped, 1);
        finish_stores();
        for (int t = 0; t < n_started; t++)
            pthread_join(threads[t], NULL);
        PyEval_RestoreThread(state);
    }
    close_tile(&tile);
    if (!verdict && atomic_load(&job->out_of_memory)) {
        PyErr_NoMemory();
        return -1;
    }
    return verdict;
}

/* ---- the program ---- */

static int refuse(const char *what)
{
    PyErr_Format(PyExc_ValueError, "the program is malformed: %s.", what);
    return 0;
}

/* Check one run and point its slots that stand for nothing to the two rows behind the others.
   `known` says which slots hold a value. */
static int check_step(const Job *job, Step *step, char *known)
{
    const double *coefs = step->coefs;
    const ptrdiff_t n_ins = (ptrdiff_t)step->count * step->n_in;
    const ptrdiff_t n_outs = (ptrdiff_t)step->count * step->n_out;
    const ptrdiff_t scratch = job->n_inputs + job->n_results;
    step->unit = step->kind != DENSE;
    for (ptrdiff_t j = 0; j < n_ins; j++) {
        const int32_t slot = step->ins[j];
        if (slot < -1 || slot >= job->n_slots)
            return refuse("an operation reads a slot that does not exist");
        if (slot >= 0 && (is_result(job, slot) || !known[slot]))
            return refuse("an operation reads a result, or a slot before it is written");
        if (slot < job->n_inputs && slot >= job->n_rows)
            return refuse("an operation reads an input that is not there");
        if (slot < 0)
            step->ins[j] = (int32_t)job->n_slots + 1;
        /* a row of zeros times +0.0 is itself */
        if (step->unit && coefs[j] != 1 && !(slot < 0 && coefs[j] == 0 && !signbit(coefs[j])))
            step->unit = 0;
    }
    for (ptrdiff_t j = 0; j < n_outs; j++) {
        const int32_t slot = step->outs[j];
        if (slot < -1 || slot >= job->n_slots || (slot >= 0 && slot < job->n_inputs))
            return refuse("an operation writes a slot that is not scratch or a result");
        if (slot >= 0 && is_result(job, slot) && known[slot]++)
            return refuse("a result is written twice");
        if (slot < 0)
            step->outs[j] = (int32_t)job->n_slots;
    }
    /* only now: operations of a run do not see each other's outputs */
    for (ptrdiff_t j = 0; j < n_outs; j++)
        if (step->outs[j] >= scratch && step->outs[j] < job->n_slots)
            known[step->outs[j]] = 1;
    return 1;
}

enum { NOBODY = -1, SOMEBODY = -2 };

/* A slot that is read once, by a copy to a result, need not exist: the operation that makes it
   stores the result, times the factor of the copy.  Walks the program backwards; `reader` is who
   reads the slot later: nobody, that copy, or somebody. */
static int send_results_at_once(Job *job)
{
    int64_t *reader = malloc((job->n_slots + 2) * sizeof *reader);
    if (!reader)
        return 0;
    for (ptrdiff_t s = 0; s < job->n_slots + 2; s++)
        reader[s] = NOBODY;
    for (int s = job->n_steps - 1; s >= 0; s--) {
        Step *step = &job->steps[s];
        double *gains = step->gains;
        for (int i = step->count - 1; i >= 0; i--) {
            const ptrdiff_t in = (ptrdiff_t)i * step->n_in, out = (ptrdiff_t)i * step->n_out;
            for (ptrdiff_t j = out; j < out + step->n_out; j++) {
                const int32_t slot = step->outs[j];
                if (is_result(job, slot))
                    continue;
                if (reader[slot] >= 0 && step->kind != COPY) {
                    Step *copy = &job->steps[reader[slot] >> 32];
                    const int32_t which = (int32_t)(reader[slot] & 0x7fffffff);
                    step->outs[j] = copy->outs[which];
                    gains[j] = ((double *)copy->coefs)[which];
                    copy->outs[which] = NOBODY;
                }
                reader[slot] = NOBODY;
            }
            for (ptrdiff_t j = in; j < in + step->n_in; j++) {
                const int32_t slot = step->ins[j];
                const int sole = step->kind == COPY && is_result(job, step->outs[i]);
                reader[slot] = sole && reader[slot] == NOBODY ? (int64_t)s << 32 | i : SOMEBODY;
            }
        }
    }
    free(reader);
    for (int s = 0; s < job->n_steps; s++) {
        Step *step = &job->steps[s];
        double *coefs = step->coefs;
        int kept = 0;
        for (int i = 0; step->kind == COPY && i < step->count; i++)
            if (step->outs[i] != NOBODY) {
                step->ins[kept] = step->ins[i];
                step->outs[kept] = step->outs[i];
                coefs[kept++] = coefs[i];
            }
        if (step->kind == COPY)
            step->count = kept;
        for (ptrdiff_t j = 0; j < (ptrdiff_t)step->count * step->n_out; j++)
            step->stores |= is_result(job, step->outs[j]);
    }
    return 1;
}

/* Steps from the arrays that describe them: per run a head (dense, n_in, n_out, count), in
   `slots` its ins and then its outs, in `coefs` its factors. */
static int read_program(Job *job, const Py_buffer *heads, const Py_buffer *slots,
                        const Py_buffer *coefs)
{
    const int32_t *head = heads->buf;
    const ptrdiff_t n_slots = slots->len / 4, n_coefs = coefs->len / 8;
    ptrdiff_t slot = 0, coef = 0, gain = 0;
    if (heads->len % 16 || slots->len % 4 || coefs->len % 8 || heads->len / 16 > INT32_MAX)
        return refuse("its arrays are not of int32, int32 and float64");
    job->n_steps = (int)(heads->len / 16);
    job->steps = calloc(job->n_steps + 1, sizeof *job->steps);
    job->slots = malloc(slots->len + 4);
    job->numbers = malloc((n_coefs + n_slots + 1) * sizeof *job->numbers);
    job->reads = malloc((job->n_inputs + 1) * sizeof *job->reads);
    char *known = calloc(job->n_slots + 1, 1);
    int good = job->steps && job->slots && job->numbers && job->reads && known;
    if (!good) {
        PyErr_NoMemory();
    } else {
        memcpy(job->slots, slots->buf, slots->len);
        memcpy(job->numbers, coefs->buf, coefs->len);
        memset(known, 1, job->n_inputs);
    }
    for (int s = 0; good && s < job->n_steps; s++, head += 4) {
        Step *step = &job->steps[s];
        const int dense = head[0], n_in = head[1], n_out = head[2], count = head[3];
        const int radix = n_in == 1 ? COPY : n_in == 2 ? RADIX_2 : n_in == 4 ? RADIX_4 : RADIX_8;
        if (dense ? dense != 1 || count != 1 || n_in < 1 || n_out < 1
                  : n_in != n_out || count < 1 || n_in != 1 << radix) {
            good = refuse("a run is neither butterflies of radix 0 to 3 nor a dense product");
            break;
        }
        const ptrdiff_t n_ins = (ptrdiff_t)count * n_in, n_outs = (ptrdiff_t)count * n_out;
        const ptrdiff_t n_factors = dense ? (ptrdiff_t)n_in * n_out : n_ins;
        if (n_ins + n_outs > n_slots - slot || n_factors > n_coefs - coef) {
            good = refuse("its arrays end before its runs do");
            break;
        }
        *step = (Step){dense ? DENSE : radix, count, n_in, n_out, 0, 0,
                       job->slots + slot, job->slots + slot + n_ins,
                       job->numbers + coef, job->numbers + n_coefs + gain};
        slot += n_ins + n_outs;
        coef += n_factors;
        for (ptrdiff_t j = 0; j < n_outs; j++)
            job->numbers[n_coefs + gain++] = 1;
        good = check_step(job, step, known);
        job->n_operations += dense ? (n_out + 3) / 4 : count;
        for (ptrdiff_t j = 0; good && j < n_ins; j++)
            if (step->ins[j] < job->n_inputs && known[step->ins[j]] == 1) {
                job->reads[job->n_reads++] = step->ins[j];
                known[step->ins[j]] = 2;
            }
    }
    for (ptrdiff_t s = job->n_inputs; good && s < job->n_inputs + job->n_results; s++)
        if (!known[s])
            good = refuse("a result is never written");
    free(known);
    if (good && !send_results_at_once(job)) {
        PyErr_NoMemory();
        good = 0;
    }
    if (good && job->itemsize == 4) { /* floats from the doubles, in their place */
        char *floats = (char *)job->numbers;
        for (ptrdiff_t j = 0; j < n_coefs + gain; j++) {
            const float value = (float)job->numbers[j];
            memcpy(floats + 4 * j, &value, 4);
        }
        for (int s = 0; s < job->n_steps; s++) {
            Step *step = &job->steps[s];
            step->coefs = floats + ((char *)step->coefs - floats) / 2;
            step->gains = floats + ((char *)step->gains - floats) / 2;
        }
    }
    return good;
}

/* Rows of float32 or float64 with contiguous columns. */
static int open_rows(PyObject *array, Py_buffer *view, const char *name, int flags)
{
    if (PyObject_GetBuffer(array, view, PyBUF_STRIDES | PyBUF_FORMAT | flags) < 0)
        return 0;
    const char *format = view->format ? view->format : "";
    if (view->ndim != 2 || (strcmp(format, "f") && strcmp(format, "d")) ||
        (view->shape[1] > 1 && view->strides[1] != view->itemsize)) {
        PyErr_Format(PyExc_ValueError,
                     "%s must be rows of float32 or float64 with contiguous columns.", name);
        PyBuffer_Release(view);
        return 0;
    }
    return 1;
}

static PyObject *core_run(PyObject *module, PyObject *args)
{
    (void)module;
    Py_buffer heads, slots, coefs, in, out;
    PyObject *inputs, *results, *stop, *answer = NULL;
    Py_ssize_t n_inputs, n_slots, tile_bytes, poll_bytes;
    int n_threads, variant, verdict = -1;
    Job job;
    memset(&job, 0, sizeof job);
    if (!PyArg_ParseTuple(args, "y*y*y*nnOOiOnni", &heads, &slots, &coefs, &n_inputs, &n_slots,
                          &inputs, &results, &n_threads, &stop, &tile_bytes, &poll_bytes,
                          &variant))
        return NULL;
    if (!open_rows(inputs, &in, "inputs", 0))
        goto release_program;
    if (!open_rows(results, &out, "out", PyBUF_WRITABLE))
        goto release_inputs;
    job.n_inputs = n_inputs, job.n_results = out.shape[0], job.n_slots = n_slots;
    job.n_rows = in.shape[0];
    job.itemsize = out.itemsize, job.row_bytes = out.shape[1] * out.itemsize;
    job.in = in.buf, job.out = out.buf;
    job.in_stride = in.strides[0], job.out_stride = out.strides[0];
    job.tile_bytes = tile_bytes;
    if (in.shape[1] != out.shape[1] || in.itemsize != out.itemsize || n_slots > MAX_SLOTS ||
        n_inputs < 0 || n_inputs > n_slots - job.n_results ||
        tile_bytes < 128 || tile_bytes % 128 || tile_bytes > MAX_TILE_BYTES ||
        n_threads < 1 || variant < 0 || variant >= n_variants) {
        PyErr_SetString(PyExc_ValueError, "shapes, dtypes or options do not fit each other.");
        goto release_out;
    }
    if (read_program(&job, &heads, &slots, &coefs)) {
        const ptrdiff_t misaligned = (ptrdiff_t)((uintptr_t)job.out % 64);
        if (job.out_stride % 64 == 0 && misaligned % job.itemsize == 0)
            job.shift = misaligned;
        job.n_tiles = (job.row_bytes + job.shift + tile_bytes - 1) / tile_bytes;
        job.group = 1; /* tiles side by side for one thread; many, but enough for all to share */
        while (job.group * tile_bytes < GROUP_BYTES && job.group * 8 * n_threads <= job.n_tiles)
            job.group *= 2;
        if (n_threads > (job.n_tiles + job.group - 1) / job.group)
            n_threads = (int)((job.n_tiles + job.group - 1) / job.group);
        if (n_threads > MAX_THREADS)
            n_threads = MAX_THREADS;
        job.reads_per_operation = ((int64_t)job.n_reads << 20) / (job.n_operations + 1) + 1;
        job.streaming = job.n_results * job.row_bytes >= STREAM_FROM_BYTES;
        job.run_tile = VARIANTS[variant].run_tile[job.itemsize == 8];
        verdict = job.n_tiles ? run_job(&job, n_threads, stop, poll_bytes) : 0;
    }
    if (verdict >= 0)
        answer = PyBool_FromLong(!verdict);
    free(job.steps);
    free(job.slots);
    free(job.numbers);
    free(job.reads);
release_out:
    PyBuffer_Release(&out);
release_inputs:
    PyBuffer_Release(&in);
release_program:
    PyBuffer_Release(&heads);
    PyBuffer_Release(&slots);
    PyBuffer_Release(&coefs);
    return answer;
}

static PyMethodDef methods[] = {
    {"run", core_run, METH_VARARGS, "Run a program on rows; False if it was stopped."},
    {NULL, NULL, 0, NULL},
};

static int fill_module(PyObject *module)
{
    find_variants();
    PyObject *names = PyTuple_New(n_variants);
    for (int v = 0; names && v < n_variants; v++)
        PyTuple_SetItem(names, v, PyUnicode_FromString(VARIANTS[v].name));
    if (!names || PyModule_AddObjectRef(module, "VARIANTS", names) < 0) {
        Py_XDECREF(names);
        return -1;
    }
    Py_DECREF(names);
    return 0;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, fill_module}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_core", "Programs of butterflies on rows, tile by tile.", 0,
    methods, module_slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__core(void)
{
    return PyModuleDef_Init(&definition);
}
