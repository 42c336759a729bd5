// Checks a function by vectors.h, which header.py makes: attn_check(mine, ATTN_FLOAT32) prints a line for each case that fails, and
// returns 0 where none does. mine writes each output, the whole of it, and returns 0; or 1 where it does not compute the case.
// attn_check_calls(mine, ATTN_FLOAT32) does the same with the cases of several calls: mine is given one call at a time, and *state, which is
// its own: NULL at the first call of a request. At the end of a request it is called with NULL for the call, to free the state.
// Where the variable VECTORS_JUNIT names a file, a report for build servers is written to it.
#include "vectors.h"
#include <stdarg.h>
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
static int attn_count(const attn_output *right) { return right->kept ? right->kept : (int)right->array.size; }
static double attn_tolerance(const attn_output *right, int at, int type) { return right->tolerance[type] * (right->scale ? right->scale[at] : 1); }
static double attn_largest(const double *numbers, const int *at, int count) {
    double largest = 0;
    for (int i = 0; i < count; ++i)
        if (attn_is_finite(numbers[at ? at[i] : i])) largest = fmax(largest, fabs(numbers[at ? at[i] : i]));
    return largest;
}
static int attn_is_form(const attn_output *right, const double *mine, const double *values, const int *at, int count, int type) {
    const double growth = fmax(1, attn_largest(values, NULL, count) / fmax(attn_largest(right->array.values, at, count), 1e-300));
    for (int i = 0; i < count; ++i)
        if (!attn_is_near(mine + at[i], values + i, 1, fmax(attn_tolerance(right, at[i], type) * growth, 1e-6 * fabs(values[i])))) return 0;
    return 1;
}
static int attn_is_of(const attn_case *one, double **mine, const attn_alternative *other, int type) { // NULL: what is right
    for (int i = 0; i < one->outputs; ++i) {
        const attn_output *right = &one->output[i];
        const int count = attn_count(right), is_accepted = !other || other < one->alternative + one->accepted;
        const double *values = other ? other->values[i] : NULL;
        if (values && other->at) {
            if (!attn_is_form(right, mine[i], values, other->at[i], other->counts[i], type)) return 0;
        } else if (values) {
            if (!attn_is_near(mine[i], values, count, attn_wide(values, count, right->tolerance[type]))) return 0;
        } else if (is_accepted || !right->kept)
            for (int j = 0; j < count; ++j)
                if (!attn_is_near(mine[i] + j, right->array.values + j, 1, attn_tolerance(right, j, type))) return 0;
    }
    return 1;
}
// The rule: number i of an input is (attn_rule(seed, i) % 65 - 32) / 16; the sign of number i in a sum is minus where attn_rule(0, i) is odd.
static uint32_t attn_rule(uint32_t seed, uint32_t i) {
    uint32_t x = i * 0x9E3779B1u + seed * 0x85EBCA6Bu;
    x = (x ^ x >> 16) * 0x7FEB352Du;
    x = (x ^ x >> 15) * 0x846CA68Bu;
    return x ^ x >> 16;
}
static attn_array *attn_filled(const attn_case *one) { // the inputs, with the numbers of those that are given by the rule
    attn_array *inputs = (attn_array *)malloc(one->inputs * sizeof *inputs);
    for (int i = 0; i < one->inputs; ++i) {
        inputs[i] = one->input[i];
        if (inputs[i].values) continue;
        double *values = (double *)malloc(inputs[i].size * sizeof *values);
        for (size_t j = 0; j < inputs[i].size; ++j) values[j] = ((double)(attn_rule(inputs[i].rule, (uint32_t)j) % 65) - 32) / 16;
        inputs[i].values = values;
    }
    return inputs;
}
static void attn_free_filled(const attn_case *one, attn_array *inputs) {
    for (int i = 0; i < one->inputs; ++i) if (!one->input[i].values) free((double *)inputs[i].values);
    free(inputs);
}
static void attn_keep(const attn_output *right, double *mine) { // the numbers that are kept come first, whatever stood there
    double *kept = (double *)calloc(right->kept, sizeof *kept);
    for (int i = 0; i < right->places; ++i) kept[i] = mine[right->place[i]];
    for (size_t j = 0; j < right->array.size; ++j) {
        double *sum = kept + right->places + j / right->block; // by bits: with -ffast-math infinity is no number to add to
        if (right->block == 1) *sum = attn_rule(0, (uint32_t)j) & 1 ? -mine[j] : mine[j];
        else if (!attn_is_finite(mine[j]) || !attn_is_finite(*sum)) *sum = NAN;
        else *sum += attn_rule(0, (uint32_t)j) & 1 ? -mine[j] : mine[j];
    }
    memcpy(mine, kept, right->kept * sizeof *kept);
    free(kept);
}
static double attn_off(const attn_output *right, const double *mine, int at, int type) { // in tolerances
    const double found = mine[at], value = right->array.values[at];
    if (attn_bits(found) == attn_bits(value) || (attn_is_nan(found) && attn_is_nan(value))) return 0;
    return attn_is_finite(found) && attn_is_finite(value) ? fabs(found - value) / attn_tolerance(right, at, type) : 1e300;
}
static char attn_text[4000]; // what is said of a case
static void attn_say(const char *format, ...) {
    va_list values;
    va_start(values, format);
    const size_t length = strlen(attn_text);
    vsnprintf(attn_text + length, sizeof attn_text - length, format, values);
    va_end(values);
}
static void attn_say_index(const attn_array *array, size_t place) {
    attn_say("%s[", array->name);
    for (size_t axis = 0, below = array->size; axis < (size_t)array->rank; ++axis) {
        below /= array->shape[axis];
        attn_say("%s%zu", axis ? ", " : "", place / below);
        place %= below;
    }
    attn_say("]");
}
static void attn_say_furthest(const attn_case *one, double **mine, int type) { // where the results are furthest out, in tolerances
    static const double units[] = {0x1p-53, 0x1p-24, 0x1p-11, 0x1p-8};
    int output = 0, at = 0, is_rough = type >= ATTN_FLOAT16;
    double most = -1;
    for (int i = 0; i < one->outputs; ++i)
        for (int j = 0; j < attn_count(&one->output[i]); ++j) {
            const double off = attn_off(&one->output[i], mine[i], j, type);
            is_rough &= one->output[i].kept && off * one->output[i].tolerance[type] <= fmax(one->output[i].rough[type], one->output[i].tolerance[type]);
            if (off > most) most = off, output = i, at = j;
        }
    const attn_output *right = &one->output[output];
    const attn_array *array = &right->array;
    if (!right->kept) {
        size_t place = at;
        if (one->rows) place = (size_t)one->row[at / array->shape[array->rank - 1]] * array->shape[array->rank - 1] + at % array->shape[array->rank - 1];
        attn_array whole = *array;
        if (one->rows) whole.size = array->size / array->shape[array->rank - 2] * one->input[0].shape[0], whole.shape[array->rank - 2] = one->input[0].shape[0];
        attn_say_index(&whole, place);
    } else if (at < right->places) {
        attn_say_index(array, right->place[at]);
    } else {
        const size_t begin = (at - right->places) * right->block, end = begin + right->block < array->size ? begin + right->block : array->size;
        if (end - begin > 1) attn_say("the signed sum of ");
        attn_say_index(array, begin);
        if (end - begin > 1) attn_say(" to "), attn_say_index(array, end - 1);
    }
    const double unit = units[type] * (right->scale ? right->scale[at] : fmax(attn_largest(array->values, NULL, attn_count(right)), 1e-300));
    attn_say(" is %.9g, expected %.9g, %.3g roundings off", mine[output][at], array->values[at],
             attn_is_finite(mine[output][at]) ? fabs(mine[output][at] - array->values[at]) / unit : HUGE_VAL);
    if (right->kept) attn_say(", %.3g allowed", right->tolerance[type] / units[type]);
    attn_say(is_rough ? "; kept_in_short_type is as far off: sums or scores in the type" : "; no mistake that this case has gives these numbers");
}
static void attn_say_names(const attn_case *one, double **mine, int type) { // of each mistake the first form
    const char *last = "";
    for (const attn_alternative *other = one->alternative + one->accepted, *end = other + one->wrong; other < end; ++other)
        if (strncmp(other->name, last, strcspn(other->name, " ") + 1) && attn_is_of(one, mine, other, type)) {
            const size_t length = strcspn(other->name, " ");
            if (!strncmp(other->name, last, length) && (last[length] == ' ' || !last[length])) continue;
            attn_say("%s%s", *attn_text ? " or " : "your numbers are those of ", other->name);
            last = other->name;
        }
}
static void attn_write_junit(FILE *file, const attn_case *one) {
    if (!file) return;
    fprintf(file, " <testcase classname=\"%s\" name=\"%s\">%s", one->function, one->id, *attn_text ? "<failure message=\"" : "");
    for (const char *c = attn_text; *c; ++c) *c == '<' ? fputs("&lt;", file) : *c == '&' ? fputs("&amp;", file) : *c == '"' ? fputs("&quot;", file) : fputc(*c, file);
    fprintf(file, "%s</testcase>\n", *attn_text ? "\"/>" : "");
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
    FILE *junit = getenv("VECTORS_JUNIT") ? fopen(getenv("VECTORS_JUNIT"), "w") : NULL;
    if (junit) fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"vectors\">\n", junit);
    for (const attn_case *each = attn_cases; each < attn_cases + ATTN_CASES; ++each) {
        attn_case filled = *each;
        attn_array *inputs = attn_filled(each);
        filled.input = inputs;
        const attn_case *one = &filled;
        const size_t width = one->output[0].array.shape[one->output[0].array.rank > 1], whole = one->rows ? one->input[0].shape[0] * width : 0;
        double **mine = (double **)malloc(one->outputs * sizeof *mine);
        for (int i = 0; i < one->outputs; ++i) mine[i] = (double *)calloc(one->output[i].array.size + whole + one->output[i].kept, sizeof(double));
        if (attn_ask(one, function, call_function, mine) == 0) {
            for (int i = 0; i < one->rows; ++i) memmove(mine[0] + i * width, mine[0] + one->row[i] * width, width * sizeof(double));
            for (int i = 0; i < one->outputs; ++i) if (one->output[i].kept) attn_keep(&one->output[i], mine[i]);
            int is_right = attn_is_of(one, mine, NULL, type);
            for (int i = 0; i < one->accepted; ++i) is_right |= attn_is_of(one, mine, one->alternative + i, type);
            *attn_text = 0;
            if (!is_right) attn_say_names(one, mine, type);
            if (!is_right && !*attn_text) attn_say_furthest(one, mine, type);
            ++count, failed += !is_right;
            if (!is_right) printf("failed %s: %s\n", one->id, attn_text);
            attn_write_junit(junit, one);
        }
        for (int i = 0; i < one->outputs; ++i) free(mine[i]);
        free(mine);
        attn_free_filled(each, inputs);
    }
    if (junit) fputs("</testsuite>\n", junit), fclose(junit);
    printf("%d of %d cases passed\n", count - failed, count);
    return failed || !count;
}
static inline int attn_check(attn_function function, int type) { return attn_check_all(function, NULL, type); }
static inline int attn_check_calls(attn_call_function function, int type) { return attn_check_all(NULL, function, type); }
