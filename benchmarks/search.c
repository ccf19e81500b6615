/* The search of dse/kernels.py in C: what a compiler and the vector units of this machine make of the same algorithm.
 *
 * Equal layers once; of each, what does not depend on the pair (b, B_R) in tables; designs side by side in blocks, so
 * that every inner loop runs over designs.  The same float64 operations as the kernel, so that the results have the
 * same bits: compile with -ffp-contract=off.  Symbols are the paper's, as in dse/kernels.py. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#define BLOCK 64 /* designs side by side: the tables of B_max = 8 stay in the first-level cache */
#define SIMD _Pragma("omp simd")

typedef double lanes[BLOCK];

static double larger(double a, double b) { return a > b ? a : b; }
static double smaller(double a, double b) { return a < b ? a : b; }

/* Tiles of the designs under stacking code 0, 1, 2 (k = 1, 2, 1/2); `fits` is infinite where the NPU is too small. */
static void stack(const int64_t *designs, int count, int code, lanes T_R, lanes T_P, lanes T_C, lanes fits)
{
    for (int w = 0; w < BLOCK; w++) {
        const int64_t *design = designs + 3 * (w < count ? w : count - 1); /* the last block is filled up */
        int64_t rows = design[0], inner = design[1], columns = design[2];
        if (code > 0) rows /= 2;
        if (code == 1) inner *= 2, columns /= 2;
        if (code == 2) inner /= 2, columns *= 2;
        fits[w] = rows > 0 && inner > 0 && columns > 0 ? 1.0 : INFINITY;
        T_R[w] = rows > 0 ? rows : 1, T_P[w] = inner > 0 ? inner : 1, T_C[w] = columns > 0 ? columns : 1;
    }
}

/* Cycles of every design and batch size 1..batches, `cycles` (designs x batches), for the network as one stage.
 * gemms (layers x 4): R, P, C, groups; plans (. x 4): b, B_R, B_P, passes, those of kind q from starts[q] on. */
int search(const int64_t *designs, int64_t total, const double *gemms, const int64_t *kinds, const double *repeats,
           int64_t layers, const int64_t *plans, const int64_t *starts, int codes, double memory_words,
           double words_per_cycle, int batches, int threads, double *cycles)
{
    int failed = 0;
#pragma omp parallel num_threads(threads)
    {
        lanes *scratch = aligned_alloc(64, (4 * (size_t)batches + 2) * sizeof(lanes));
        lanes *sum = scratch, *best = sum + batches, *tiles = best + batches, *weights = tiles + batches + 1;
        lanes T_R[3], T_P[3], T_C[3], fits[3], each;
        if (!scratch) {
#pragma omp atomic write
            failed = 1;
        }
#pragma omp for schedule(dynamic)
        for (int64_t first = 0; first < total; first += BLOCK) {
            if (!scratch) continue;
            int count = total - first < BLOCK ? (int)(total - first) : BLOCK;
            for (int code = 0; code < codes; code++)
                stack(designs + 3 * first, count, code, T_R[code], T_P[code], T_C[code], fits[code]);
            for (int i = 0; i < batches; i++)
                for (int w = 0; w < BLOCK; w++) sum[i][w] = (i + 1) * memory_words / words_per_cycle;
            for (int64_t u = 0; u < layers; u++) {
                const double R = gemms[4 * u], P = gemms[4 * u + 1], C = gemms[4 * u + 2];
                const double times = repeats[u] * gemms[4 * u + 3];
                for (int i = 0; i < batches; i++)
                    for (int w = 0; w < BLOCK; w++) best[i][w] = INFINITY;
                for (int code = 0; code < codes; code++) {
                    if (code < 2) /* stacked either way, T_R is the same */
                        for (int n = 1; n <= batches; n++) {
                            const double rows = n * R;
                            SIMD for (int w = 0; w < BLOCK; w++) weights[n][w] = P * C * ceil(rows / T_R[code][w]);
                        }
                    SIMD for (int w = 0; w < BLOCK; w++) each[w] = R * P * ceil(C / T_C[code][w]) + R * C;
                    SIMD for (int w = 0; w < BLOCK; w++) tiles[0][w] = R * ceil(P / T_P[code][w]) * fits[code][w];
                    for (int n = 1; n <= batches; n++) {
                        const double columns = n * C;
                        SIMD for (int w = 0; w < BLOCK; w++)
                            tiles[n][w] = tiles[0][w] * ceil(columns / T_C[code][w]);
                    }
                    for (int64_t n = starts[kinds[u]]; n < starts[kinds[u] + 1]; n++) {
                        const int64_t *plan = plans + 4 * n;
                        const double rows = plan[1], passes = plan[3], samples = plan[0] / plan[3];
                        const double *computes = tiles[plan[2]], *fixed = weights[plan[1]];
                        double *least = best[plan[0] - 1];
                        SIMD for (int w = 0; w < BLOCK; w++) {
                            double waits = (samples * each[w] + fixed[w]) / words_per_cycle;
                            least[w] = smaller(least[w], passes * larger(rows * computes[w], waits));
                        }
                    }
                }
                for (int i = 0; i < batches; i++)
                    SIMD for (int w = 0; w < BLOCK; w++) sum[i][w] += times * best[i][w];
            }
            for (int w = 0; w < count; w++)
                for (int i = 0; i < batches; i++) cycles[(first + w) * batches + i] = sum[i][w];
        }
        free(scratch);
    }
    return failed;
}
