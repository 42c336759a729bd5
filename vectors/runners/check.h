// Checks a function by vectors.h, which header.py makes: attn_check(mine, ATTN_FLOAT32) prints a line for each case that fails, and
// returns 0 where none does. mine writes each output, the whole of it, and returns 0; or 1 where it does not compute the case.
// attn_check_calls(mine, ATTN_FLOAT32) does the same with the cases of several calls: mine is given one call at a time, and *state, which is
// its own: NULL at the first call of a request. At the end of a request it is called with NULL for the call, to free the state.
#include "vectors.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef int (*attn_function)(const attn_case *one, double **outputs);
typedef int (*attn_call_function)(const attn_case *call, void **state, double **outputs);

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
static void attn_print_furthest(const attn_case *one, double **mine, int type) { // where the results are furthest out, in tolerances
    int output = 0;
    size_t place = 0;
    double most = -1;
    for (int i = 0; i < one->outputs; ++i)
        for (size_t j = 0; j < one->output[i].array.size; ++j) {
            const double found = mine[i][j], right = one->output[i].array.values[j], tolerance = one->output[i].tolerance[type];
            const int is_same = attn_bits(found) == attn_bits(right), is_far = !attn_is_finite(found) || !attn_is_finite(right);
            const double off = is_same ? 0 : is_far ? 1e300 : fabs(found - right) / tolerance;
            if (off > most) most = off, output = i, place = j;
        }
    const attn_array *array = &one->output[output].array;
    printf(" %s[", array->name);
    for (size_t axis = 0, below = array->size, rest = place; axis < (size_t)array->rank; ++axis) {
        below /= array->shape[axis];
        const size_t index = rest / below;
        printf("%s%zu", axis ? ", " : "", one->rows && axis + 2 == (size_t)array->rank ? (size_t)one->row[index] : index);
        rest %= below;
    }
    printf("] is %.9g, expected %.9g;", mine[output][place], array->values[place]);
}
static int attn_ask(const attn_case *one, attn_function function, attn_call_function call_function, double **outputs) {
    if (!one->calls) return function ? function(one, outputs) : 1;
    void *state = NULL;
    int is_left_out = !call_function;
    for (const attn_case *call = one->call; call < one->call + one->calls && !is_left_out; outputs += call++->outputs) {
        if (call->begins && call != one->call) call_function(NULL, &state, NULL), state = NULL;
        is_left_out = call_function(call, &state, outputs);
    }
    if (call_function) call_function(NULL, &state, NULL);
    return is_left_out;
}
static int attn_check_all(attn_function function, attn_call_function call_function, int type) {
    int failed = 0, count = 0;
    for (const attn_case *one = attn_cases; one < attn_cases + ATTN_CASES; ++one) {
        const size_t width = one->output[0].array.shape[one->output[0].array.rank > 1], whole = one->rows ? one->input[0].shape[0] * width : 0;
        double **mine = (double **)malloc(one->outputs * sizeof *mine);
        for (int i = 0; i < one->outputs; ++i) mine[i] = (double *)calloc(one->output[i].array.size + whole, sizeof(double));
        if (attn_ask(one, function, call_function, mine) == 0) {
            for (int i = 0; i < one->rows; ++i) memmove(mine[0] + i * width, mine[0] + one->row[i] * width, width * sizeof(double));
            const attn_alternative *other = one->alternative, *wrong = other + one->accepted, *end = wrong + one->wrong;
            int is_right = attn_is_of(one, mine, NULL, type), names = 0;
            for (; other < wrong; ++other) is_right |= attn_is_of(one, mine, other, type);
            ++count, failed += !is_right;
            if (!is_right) printf("failed %s:", one->id);
            for (; !is_right && other < end; ++other)
                if (attn_is_of(one, mine, other, type)) printf("%s%s", names++ ? " or " : " your numbers are those of ", other->name);
            if (!is_right && !names) attn_print_furthest(one, mine, type);
            if (!is_right) puts(names ? "" : " no mistake that this case has gives these numbers");
        }
        for (int i = 0; i < one->outputs; ++i) free(mine[i]);
        free(mine);
    }
    printf("%d of %d cases passed\n", count - failed, count);
    return failed || !count;
}
static inline int attn_check(attn_function function, int type) { return attn_check_all(function, NULL, type); }
static inline int attn_check_calls(attn_call_function function, int type) { return attn_check_all(NULL, function, type); }
