// A kernel in tiles, checked: python3 header.py ../kernels vectors.h && cc -I. examples/kernel.c -lm && ./a.out
#include "check.h"

enum { TILE = 64 };

static int kernel(const attn_case *one, double **outputs) { // (b, h, n, d), (b, g, m, d), (b, g, m, e)
    if (strcmp(one->function, "attention_kernel") || strcmp(attn_parameter_of(one, "layout"), "bhnd") || one->inputs != 3 || one->parameters > 2 ||
        (one->parameters == 2 && !attn_parameter_of(one, "causal"))) return 1; // it does not compute such a case
    const attn_array *q = attn_input(one, "queries"), *k = attn_input(one, "keys"), *v = attn_input(one, "values");
    const int h = (int)q->shape[1], n = (int)q->shape[2], d = (int)q->shape[3], g = (int)k->shape[1], m = (int)k->shape[2], e = (int)v->shape[3];
    for (int row = 0; row < (int)q->shape[0] * h * n; ++row) {
        const int head = row / n / h * g + row / n % h / (h / g), end = attn_parameter_of(one, "causal") ? row % n + m - n + 1 : m;
        const double *query = q->values + row * d;
        float top = -1e30f, total = 0, sums[256] = {0};
        for (int begin = 0; begin < end; begin += TILE) {
            const int count = begin + TILE < end ? TILE : end - begin;
            float scores[TILE], new_top = top;
            for (int j = 0; j < count; ++j) {
                const double *key = k->values + (head * m + begin + j) * d;
                scores[j] = 0;
                for (int c = 0; c < d; ++c) scores[j] += (float)query[c] * (float)key[c];
                scores[j] /= sqrtf((float)d);
                new_top = fmaxf(new_top, scores[j]);
            }
            const float factor = expf(top - new_top);
            total *= factor, top = new_top;
            for (int c = 0; c < e; ++c) sums[c] *= factor;
            for (int j = 0; j < count; ++j) {
                const float weight = expf(scores[j] - top);
                total += weight;
                for (int c = 0; c < e; ++c) sums[c] += weight * (float)v->values[(head * m + begin + j) * e + c];
            }
        }
        for (int c = 0; c < e; ++c) outputs[0][row * e + c] = total > 0 ? sums[c] / total : 0;
    }
    return 0;
}
int main(void) { return attn_check(kernel, ATTN_FLOAT32); }
