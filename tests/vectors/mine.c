// Attention of one sequence, at once, and in several calls of the function that the variable CALLS names, by loops, with a mistake where the variable MISTAKE names one. C99 and C++.
#include "check.h"

static int has_mistake(const char *name) {
    const char *mistake = getenv("MISTAKE");
    return mistake && !strcmp(mistake, name);
}

static double number(const attn_case *one, const char *name, double otherwise) {
    const char *value = attn_parameter_of(one, name);
    return value ? atof(value) : otherwise;
}

static int allows(const attn_case *one, int i, int j, int n, int m) {
    const char *causal = attn_parameter_of(one, "causal");
    const attn_array *mask = attn_input(one, "mask");
    const int first = causal && !strcmp(causal, "bottom-right") ? m - n : 0;
    const int diagonal = has_mistake("causal_top_left") ? i : i + first, place = has_mistake("window_top_left") ? i : i + first;
    const double left = number(one, "left_window", INFINITY) + (isfinite(number(one, "left_window", INFINITY)) ? has_mistake("window_off_by_one") : 0);
    int is_near = j >= place - left && j <= place + number(one, "right_window", INFINITY);
    const int is_kept = j < number(one, "kept", 0), is_early = !causal || j <= diagonal - has_mistake("causal_strict") + has_mistake("causal_next");
    if (has_mistake("window_missing")) is_near = 1;
    if (has_mistake("sink_tokens_early")) return (is_early && is_near) || is_kept;
    if (!has_mistake("sink_tokens_missing")) is_near |= is_kept;
    return is_near && is_early && (!mask || mask->values[i * m + j] != 0);
}

static void softmax(double *row, int size, int stride, const double *sink) {
    double largest = sink ? *sink : -INFINITY, sum = 0;
    for (int j = 0; j < size; ++j) largest = fmax(largest, row[j * stride]);
    for (int j = 0; j < size; ++j) sum += row[j * stride] = exp(row[j * stride] - largest);
    if (sink) sum += exp(*sink - largest);
    for (int j = 0; j < size; ++j) row[j * stride] = isinf(largest) ? 0 : row[j * stride] / sum;
}

static int attention(const attn_case *one, double **outputs) {
    const char *beyond[] = {"past_keys", "lengths"};
    if (strcmp(one->function, "attention") || attn_parameter_of(one, "score") || one->input[0].rank != 2) return 1;
    for (int i = 0; i < 2; ++i) if (attn_input(one, beyond[i])) return 1;
    const attn_array *queries = attn_input(one, "queries"), *keys = attn_input(one, "keys"), *values = attn_input(one, "values");
    const attn_array *bias = attn_input(one, "bias"), *sinks = attn_input(one, "sinks");
    const int n = (int)queries->shape[0], m = (int)keys->shape[0], d = (int)keys->shape[1], v = (int)values->shape[1];
    double scale = number(one, "scale", 1 / sqrt(d)), softcap = number(one, "softcap", 0);
    if (has_mistake("scale_default")) scale = 1 / sqrt(d);
    if (has_mistake("no_scale")) scale = 1;
    if (has_mistake("scale_d_k")) scale = 1.0 / d;
    if (has_mistake("scale_inverse")) scale = sqrt(d);
    double *weights = (double *)calloc((size_t)(n * m), sizeof(double));
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < m; ++j) {
            double score = 0;
            for (int k = 0; k < d; ++k) score += queries->values[i * d + k] * keys->values[has_mistake("keys_reshaped") ? k * m + j : j * d + k];
            score *= scale;
            if (softcap) score = softcap * tanh(score / softcap);
            if (bias) score += bias->values[i * m + j];
            int can = has_mistake("mask_transposed") && n == m ? allows(one, j, i, n, m) : allows(one, i, j, n, m);
            const int has_mask = attn_parameter_of(one, "causal") || attn_parameter_of(one, "left_window") || attn_input(one, "mask");
            if (has_mistake("mask_inverted") && has_mask) can = !can;
            const double fill = has_mistake("mask_zero") ? 0 : has_mistake("mask_finite") ? -100 : has_mistake("mask_added") ? score : -INFINITY;
            if (has_mistake("mask_added") && has_mask && can) score += 1;
            weights[i * m + j] = can || has_mistake("mask_missing") || has_mistake("mask_after_softmax") ? score : fill;
        }
    for (int i = 0; i < n; ++i) {
        double *row = weights + i * m;
        const double *sink = sinks && !has_mistake("sink_missing") ? sinks->values : NULL;
        if (!has_mistake("softmax_axis") && !has_mistake("softmax_all") && !has_mistake("softmax_missing") &&
            !has_mistake("softmax_unnormalized") && !has_mistake("softmax_sigmoid") && !has_mistake("softmax_over_one"))
            softmax(row, m, 1, sink);
        if (has_mistake("softmax_twice")) softmax(row, m, 1, NULL);
        for (int j = 0; j < m; ++j) {
            if (has_mistake("softmax_log")) row[j] = log(row[j]);
            if (has_mistake("softmax_unnormalized")) row[j] = exp(row[j]);
            if (has_mistake("softmax_sigmoid")) row[j] = 1 / (1 + exp(-row[j]));
            if (has_mistake("softmax_over_one")) row[j] = 1;
            if (has_mistake("mask_after_softmax") && !allows(one, i, j, n, m)) row[j] = 0;
        }
    }
    if (has_mistake("softmax_axis")) for (int j = 0; j < m; ++j) softmax(weights + j, n, m, NULL);
    if (has_mistake("softmax_all")) softmax(weights, n * m, 1, NULL);
    for (int i = 0; i < n; ++i)
        for (int k = 0; k < v; ++k) {
            double sum = 0;
            for (int j = 0; j < m; ++j) sum += weights[has_mistake("weights_transposed") && n == m ? j * m + i : i * m + j] * values->values[j * v + k];
            outputs[0][i * v + k] = has_mistake("not_a_number") ? strtod("nan", NULL) : sum;
        }
    free(weights);
    return 0;
}

typedef struct { double *keys, *values; int tokens, calls; } cache;
static cache last; // what the last request has left

static void append(cache *kept, const double *keys, const double *values, int n, int d, int v) {
    kept->keys = (double *)realloc(kept->keys, (size_t)((kept->tokens + n) * d) * sizeof(double));
    kept->values = (double *)realloc(kept->values, (size_t)((kept->tokens + n) * v) * sizeof(double));
    memcpy(kept->keys + kept->tokens * d, keys, (size_t)(n * d) * sizeof(double));
    memcpy(kept->values + kept->tokens * v, values, (size_t)(n * v) * sizeof(double));
    kept->tokens += n;
}

static void release(cache *kept) {
    free(kept->keys), free(kept->values);
    memset(kept, 0, sizeof *kept);
}

static int attention_calls(const attn_case *one, void **state, double **outputs) {
    cache *kept = (cache *)*state;
    if (!one) {
        if (kept && has_mistake("last_request")) release(&last), last = *kept, last.calls = 0;
        else if (kept) release(kept);
        free(kept);
        return 0;
    }
    if (strcmp(one->function, "attention_calls")) return 1;
    const attn_array *queries = attn_input(one, "queries"), *keys = attn_input(one, "keys"), *values = attn_input(one, "values");
    const int n = (int)queries->shape[0], d = (int)keys->shape[1], v = (int)values->shape[1];
    if (!kept) *state = kept = (cache *)calloc(1, sizeof(cache));
    if (one->begins && last.tokens) append(kept, last.keys, last.values, last.tokens, d, v), release(&last);
    const int past = kept->tokens, m = past + n, is_later = kept->calls++ > 0;
    append(kept, keys->values, values->values, n, d, v);
    double *row = (double *)calloc((size_t)m, sizeof(double));
    const double window = number(one, "left_window", INFINITY);
    const double left = window + is_later * (has_mistake("window_one_long") - has_mistake("window_one_short"));
    for (int i = 0; i < n; ++i) {
        for (int j = 0; j < m; ++j) {
            int is_early = j <= i + past, is_near = j >= i + past - left;
            if (has_mistake("mask_skipped_with_cache") || (has_mistake("chunk_unmasked") && is_later)) is_early = 1;
            if (has_mistake("mask_at_first_key") || (has_mistake("chunk_masked_top_left") && n > 1)) is_early &= j <= i;
            if (has_mistake("cache_ignored") || (has_mistake("chunk_sees_itself_alone") && n > 1)) is_early &= j >= past;
            if (has_mistake("ring_written_first") && j < past) is_near &= j > m - window - 2;
            row[j] = 0;
            for (int k = 0; k < d; ++k) row[j] += queries->values[i * d + k] * kept->keys[j * d + k] / sqrt(d);
            if (!is_early || !(is_near || j < number(one, "kept", 0))) row[j] = -INFINITY;
        }
        softmax(row, m, 1, NULL);
        for (int k = 0; k < v; ++k)
            for (int j = 0; j < m; ++j) outputs[0][i * v + k] += row[j] * kept->values[j * v + k];
    }
    free(row);
    if (has_mistake("cache_overwritten")) kept->tokens = 0, append(kept, keys->values, values->values, n, d, v);
    if (has_mistake("token_stored_twice") && !is_later) append(kept, keys->values + (n - 1) * d, values->values + (n - 1) * v, 1, d, v);
    return 0;
}

typedef struct { double *is_token, *keys, *values; int columns, rows; } padded_cache; // by column, then by row

static double *grown(double *array, int size) { return (double *)realloc(array, (size_t)size * sizeof(double)); }

/* How many tokens a row has up to a column, which is among them. */
static int tokens_until(const padded_cache *kept, int row, int column) {
    int count = 0;
    for (int j = 0; j <= column; ++j) count += kept->is_token[j * kept->rows + row] != 0;
    return count;
}

static int padded_attention_calls(const attn_case *one, void **state, double **outputs) {
    padded_cache *kept = (padded_cache *)*state;
    if (!one) {
        if (kept) free(kept->is_token), free(kept->keys), free(kept->values);
        free(kept);
        return 0;
    }
    if (strcmp(one->function, "padded_attention_calls")) return 1;
    const attn_array *query = attn_input(one, "query"), *key = attn_input(one, "key"), *value = attn_input(one, "value");
    const attn_array *is_token = attn_input(one, "attention_mask"), *table = attn_input(one, "position_table");
    const int b = (int)query->shape[0], n = (int)query->shape[1], d = (int)query->shape[2], v = (int)value->shape[2], is_later = kept != NULL;
    if (!kept) *state = kept = (padded_cache *)calloc(1, sizeof(padded_cache));
    const int past = kept->columns, m = past + n;
    kept->rows = b, kept->columns = m;
    kept->is_token = grown(kept->is_token, m * b), kept->keys = grown(kept->keys, m * b * d), kept->values = grown(kept->values, m * b * v);
    double *weights = grown(NULL, m);
    for (int row = 0; row < b; ++row)
        for (int i = 0; i < n; ++i) {
            const int at = (past + i) * b + row, from = row * n + i;
            kept->is_token[at] = is_token->values[from];
            int place = tokens_until(kept, has_mistake("positions_of_first_row") ? 0 : row, past + i) - 1;
            if (has_mistake("padding_counted") || (has_mistake("steps_at_padded_length") && is_later)) place = past + i;
            const double *position = table->values + (place < 0 ? 0 : place) * d;
            for (int k = 0; k < d; ++k) kept->keys[at * d + k] = key->values[from * d + k] + position[k];
            memcpy(kept->values + at * v, value->values + from * v, (size_t)v * sizeof(double));
            int sees_any = 0; // where it sees none, the result stays zero, also with -Ofast, for which there is no infinity
            for (int j = 0; j <= past + i; ++j) {
                int can = kept->is_token[j * b + (has_mistake("mask_of_first_row") ? 0 : row)] != 0;
                can = can || has_mistake("padding_not_masked") || (has_mistake("padding_seen_later") && j < past);
                weights[j] = 0;
                for (int k = 0; k < d; ++k) weights[j] += (query->values[from * d + k] + position[k]) * kept->keys[(j * b + row) * d + k] / sqrt(d);
                can = can && is_token->values[from] != 0;
                sees_any |= can;
                if (!can) weights[j] = -INFINITY;
            }
            if (!sees_any) continue;
            softmax(weights, past + i + 1, 1, NULL);
            for (int k = 0; k < v; ++k)
                for (int j = 0; j <= past + i; ++j) outputs[0][from * v + k] += weights[j] * kept->values[(j * b + row) * v + k];
        }
    free(weights);
    return 0;
}

int main(void) {
    const char *calls = getenv("CALLS");
    if (!calls) return attn_check(attention, ATTN_FLOAT64);
    return attn_check_calls(strcmp(calls, "attention_calls") ? padded_attention_calls : attention_calls, ATTN_FLOAT64);
}
