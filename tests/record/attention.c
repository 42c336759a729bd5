/* Attention in C, as somebody wrote it, with one line per tensor that saves it: save(scores, N, N).
 *
 * Each goes into dump/NAME.npy, and its file, line and variable into dump/attn_record.json, so that `attn diff` says them.
 * With -DWRONG it divides by d_k where its root is right. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 4, D = 8 };

#define save(matrix, rows, columns) save_matrix(#matrix, &(matrix)[0][0], rows, columns, __FILE__, __LINE__, __func__)

static FILE* listing;

static void end_listing(void)
{
    fputs("]}\n", listing);
    fclose(listing);
}

static void list_array(const char* name, const char* file, int line, const char* function)
{
    const char* base = strrchr(file, '/');
    if (listing == NULL) {
        listing = fopen("dump/attn_record.json", "w");
        fputs("{\"format\": \"attn record 1\", \"arrays\": [", listing);
        atexit(end_listing);
    } else
        fputs(",", listing);
    fprintf(listing, "\n{\"name\": \"%s\", \"file\": \"%s\", \"line\": %d, \"variable\": \"%s\", \"function\": \"%s\"}", name,
            base ? base + 1 : file, line, name, function);
}

static void save_matrix(const char* name, const float* numbers, int rows, int columns, const char* file, int line,
                        const char* function)
{
    char path[256], header[118];
    int length = snprintf(header, sizeof header, "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }", rows,
                          columns);
    memset(header + length, ' ', sizeof header - length);
    header[sizeof header - 1] = '\n';
    snprintf(path, sizeof path, "dump/%s.npy", name);
    FILE* out = fopen(path, "wb");
    fwrite("\x93NUMPY\x01\x00\x76\x00", 1, 10, out);
    fwrite(header, 1, sizeof header, out);
    fwrite(numbers, sizeof *numbers, (size_t)rows * columns, out);
    fclose(out);
    list_array(name, file, line, function);
}

int main(void)
{
    static float given[3][N][D], scores[N][N], scaled[N][N], weights[N][N], context[N][D];
    FILE* in = fopen("qkv.raw", "rb");
    if (in == NULL || fread(given, sizeof given, 1, in) != 1)
        return 1;
#ifdef WRONG
    const float scale = 1.0f / D;
#else
    const float scale = 1.0f / sqrtf(D);
#endif
    for (int i = 0; i < N; ++i)
        for (int j = 0; j < N; ++j) {
            scores[i][j] = 0;
            for (int d = 0; d < D; ++d)
                scores[i][j] += given[0][i][d] * given[1][j][d];
            scaled[i][j] = scores[i][j] * scale;
        }
    save(scores, N, N);
    save(scaled, N, N);
    for (int i = 0; i < N; ++i) {
        float sum = 0;
        for (int j = 0; j <= i; ++j)
            sum += weights[i][j] = expf(scaled[i][j]);
        for (int j = 0; j <= i; ++j)
            weights[i][j] /= sum;
        for (int d = 0; d < D; ++d)
            for (int j = 0; j <= i; ++j)
                context[i][d] += weights[i][j] * given[2][j][d];
    }
    save(weights, N, N);
    save(context, N, D);
    return 0;
}
