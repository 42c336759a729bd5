// Checks a function by vectors.h, which header.py makes: attn_check(mine, ATTN_FLOAT32) prints a line for each case that fails, and
// returns 0 where none does. mine writes each output, the whole of it, and returns 0; or 1 where it does not compute the case.
#include "vectors.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef int (*attn_function)(const attn_case *one, double **outputs);

// By bits, since with -ffast-math a compiler takes it that no number is NaN or infinite.
static uint64_t attn_bits(double number) { uint64_t bits; memcpy(&bits, &number, sizeof bits); return bits; }
static int attn_is_finite(double number) { return (attn_bits(number) >> 52 & 0x7FF) != 0x7FF; }
static int attn_is_nan(double number) { return !attn_is_finite(number) && attn_bits(number) << 12 != 0; }
static int attn_is_near(const double *mine, const double *right, size_t size, double tolerance) {
    for (size_t i = 0; i < size; ++i) {
        const int is_same = attn_bits(mine[i]) == attn_bits(right[i]) || (attn_is_nan(mine[i]) && attn_is_nan(right[i]));
        if (!is_same && !(attn_is_finite(mine[i]) && attn_is_finite(right[i]) && fabs(mine[i] - right[i]) <= tolerance)) return 0;
    }
    return 1;
}
static double attn_wide(const double *numbers, size_t size, double tolerance) { // of numbers that have seven digits
    double largest = 1;
    for (size_t i = 0; i < size; ++i)
        if (attn_is_finite(numbers[i])) largest = fmax(largest, fabs(numbers[i]));
    return fmax(tolerance, 1e-6) * largest;
}
static int attn_is_of(const attn_case *one, double **mine, const attn_alternative *other, int type) { // NULL: what is right
    for (int i = 0; i < one->outputs; ++i) {
        const attn_array *right = &one->output[i].array;
        const double *values = other ? other->values[i] : NULL, tolerance = one->output[i].tolerance[type];
        if (!attn_is_near(mine[i], values ? values : right->values, right->size, values ? attn_wide(values, right->size, tolerance) : tolerance))
            return 0;
    }
    return 1;
}
static int attn_check(attn_function function, int type) {
    int failed = 0, count = 0;
    for (const attn_case *one = attn_cases; one < attn_cases + ATTN_CASES; ++one) {
        const size_t width = one->output[0].array.shape[one->output[0].array.rank > 1], whole = one->rows ? one->input[0].shape[0] * width : 0;
        double **mine = (double **)malloc(one->outputs * sizeof *mine);
        for (int i = 0; i < one->outputs; ++i) mine[i] = (double *)calloc(one->output[i].array.size + whole, sizeof(double));
        if (function(one, mine) == 0) {
            for (int i = 0; i < one->rows; ++i) memmove(mine[0] + i * width, mine[0] + one->row[i] * width, width * sizeof(double));
            const attn_alternative *other = one->alternative, *wrong = other + one->accepted, *end = wrong + one->wrong;
            int is_right = attn_is_of(one, mine, NULL, type), names = 0;
            for (; other < wrong; ++other) is_right |= attn_is_of(one, mine, other, type);
            ++count, failed += !is_right;
            if (!is_right) printf("failed %s:", one->id);
            for (; !is_right && other < end; ++other)
                if (attn_is_of(one, mine, other, type)) printf("%s%s", names++ ? " or " : " your numbers are those of ", other->name);
            if (!is_right) puts(names ? "" : " no mistake that this case has gives these numbers");
        }
        for (int i = 0; i < one->outputs; ++i) free(mine[i]);
        free(mine);
    }
    printf("%d of %d cases passed\n", count - failed, count);
    return failed || !count;
}
