// What attention across machines costs on this one: mpirun -n P bench_mpi_cost parts|ways
//
// `parts` are what the cost model is made of: products, attention on one rank, copies, messages. `ways` are ring,
// Ulysses and tensor-parallel attention as a whole. Rank 0 prints the sizes of the layer, then a line per measurement,
// with tabs between: what, its size, seconds, processor seconds, bytes that the rank sends, bytes that it allocates.
// bench/mpi_cost.py runs it.
//
// Seconds are those of the slowest rank, processor seconds those of all ranks together, each the least of several runs.
// Other programs on the machine add to seconds, but hardly to processor seconds.
#include "attn/engines/fast/attention.hpp"
#include "attn/engines/mpi/ring_attention.hpp"
#include "attn/engines/mpi/tensor_parallel.hpp"
#include "attn/engines/mpi/ulysses_attention.hpp"
#include "attn/reference/attention/dot_product.hpp"
#include "attn/reference/ops/matmul.hpp"

#include <cblas.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

using namespace attn;

namespace {

// The layer of the measurements, that of Vaswani et al. 2017.
constexpr std::size_t heads = 8, features = 64, d_model = heads * features, d_ff = 2048;

std::size_t rank = 0, ranks = 1;

// ------------------------------------------------------------------------------------------------------------- a clock

/// What a way costs beside time, on one rank.
struct Bytes {
    std::size_t sent = 0, memory = 0;
};

struct Seconds {
    double wall = std::numeric_limits<double>::infinity(), processor = wall;
};

double processor_seconds()
{
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Of the slowest rank, and of all ranks together.
Seconds once(const std::function<void()>& action)
{
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime(), processor_begin = processor_seconds();
    action();
    Seconds took{MPI_Wtime() - begin, processor_seconds() - processor_begin};
    MPI_Allreduce(MPI_IN_PLACE, &took.wall, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &took.processor, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return took;
}

/// Each the least of some runs.
Seconds fastest(const std::function<void()>& action)
{
    Seconds best;
    double spent = 0;
    for (int run = 0; run < 300 && (run < 3 || spent < 1.5); ++run) {
        const Seconds took = once(action);
        best = {std::min(best.wall, took.wall), std::min(best.processor, took.processor)};
        spent += took.wall;
    }
    return best;
}

void print(const std::string& what, std::size_t size, const Seconds& seconds, const Bytes& cost = {})
{
    if (rank == 0)
        std::printf("%s\t%zu\t%.9g\t%.9g\t%zu\t%zu\n", what.c_str(), size, seconds.wall, seconds.processor, cost.sent,
                    cost.memory);
}

std::vector<float> drawn(std::size_t count)
{
    std::mt19937 engine(static_cast<unsigned>(rank + 1));
    std::normal_distribution<float> normal;
    std::vector<float> numbers(count);
    for (float& number : numbers)
        number = normal(engine);
    return numbers;
}

// -------------------------------------------------------------------------------------------------- what it is made of

void product(std::size_t n)
{
    const std::vector<float> left = drawn(n * n), right = drawn(n * n);
    std::vector<float> result(n * n);
    const int size = static_cast<int>(n);
    print("product", n, fastest([&] {
              cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, size, size, size, 1, left.data(), size,
                          right.data(), size, 0, result.data(), size);
          }));
}

/// Of one head, on every rank at once.
void attention(std::size_t n)
{
    const std::vector<float> numbers = drawn(3 * n * features);
    std::vector<float> context(n * features);
    const auto part = [&](std::size_t i) {
        return fast::head_rows<const float>(numbers.data() + i * n * features, {1, 1, n, features});
    };
    print("attention", n, fastest([&] {
              fast::attention(part(0), part(1), part(2), {}, fast::head_rows(context.data(), {1, 1, n, features}));
          }));
}

void copy(std::size_t bytes)
{
    const std::vector<float> from = drawn(bytes / sizeof(float));
    std::vector<float> to(from.size());
    print("copy", bytes, fastest([&] { std::ranges::copy(from, to.begin()); }));
}

Matrix drawn_matrix(std::size_t rows, std::size_t columns)
{
    const std::vector<float> numbers = drawn(rows * columns);
    Matrix matrix(Matrix::shape_type{rows, columns});
    std::ranges::transform(numbers, matrix.begin(), [](float number) { return 0.1 * number; });
    return matrix;
}

void reference_product(std::size_t n)
{
    const Matrix left = drawn_matrix(n, n), right = drawn_matrix(n, n);
    print("reference_product", n, fastest([&] { static_cast<void>(matmul(left, right)); }));
}

void reference_attention(std::size_t n)
{
    const Matrix queries = drawn_matrix(n, features), keys = drawn_matrix(n, features);
    print("reference_attention", n,
          fastest([&] { static_cast<void>(scaled_dot_product_attention(queries, keys, keys)); }));
}

/// One way of a message between ranks 0 and 1, while the others wait.
void message(std::size_t bytes)
{
    constexpr int round_trips = 5;
    std::vector<char> buffer(bytes);
    const Seconds seconds = fastest([&] {
        for (int i = 0; i < 2 * round_trips; ++i) {
            const bool sends = (i % 2 == 0) == (rank == 0);
            if (rank < 2 && sends)
                MPI_Send(buffer.data(), static_cast<int>(bytes), MPI_BYTE, rank == 0, 0, MPI_COMM_WORLD);
            else if (rank < 2)
                MPI_Recv(buffer.data(), static_cast<int>(bytes), MPI_BYTE, rank == 0, 0, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
        }
    });
    print("message", bytes, {seconds.wall / (2 * round_trips), seconds.processor / (2 * round_trips)});
}

/// The sum over all ranks of so many bytes per rank.
void all_reduce(std::size_t bytes)
{
    std::vector<float> numbers = drawn(bytes / sizeof(float));
    print("all_reduce", bytes, fastest([&] {
              MPI_Allreduce(MPI_IN_PLACE, numbers.data(), static_cast<int>(numbers.size()), MPI_FLOAT, MPI_SUM,
                            MPI_COMM_WORLD);
          }));
}

/// So many bytes per rank, divided evenly among all ranks.
void all_to_all(std::size_t bytes)
{
    const std::vector<float> sent = drawn(bytes / sizeof(float));
    std::vector<float> received(sent.size());
    const int each = static_cast<int>(sent.size() / ranks);
    print("all_to_all", bytes, fastest([&] {
              MPI_Alltoall(sent.data(), each, MPI_FLOAT, received.data(), each, MPI_FLOAT, MPI_COMM_WORLD);
          }));
}

// ------------------------------------------------------------------------------------------------------------ the ways

/// This rank's part of self-attention to n tokens in all.
struct Part {
    explicit Part(std::size_t n)
        : layout(mpi::contiguous_layout(n, ranks)),
          of_rank{1, heads, layout.tokens(rank), features},
          numbers(drawn(3 * size())),
          context(size())
    {
    }

    std::size_t size() const { return layout.tokens(rank) * d_model; }
    fast::HeadRows<const float> input(std::size_t i) const
    {
        return fast::head_rows<const float>(numbers.data() + i * size(), of_rank);
    }
    fast::HeadRows<float> output() { return fast::head_rows(context.data(), of_rank); }

    mpi::Layout layout;
    std::array<std::size_t, 4> of_rank;
    std::vector<float> numbers, context;
};

constexpr mpi::AttentionShape shape{1, heads, heads, features, features};

void ring(std::size_t n)
{
    Part part(n);
    mpi::Traffic traffic;
    const Seconds seconds = fastest([&] {
        mpi::ring_attention(part.input(0), part.input(1), part.input(2), part.layout, {}, part.output(), {},
                            MPI_COMM_WORLD, &traffic);
    });
    print("ring", n, seconds, {traffic.total(), mpi::predicted_ring_memory(part.layout, shape, rank)});
}

void ulysses(std::size_t n)
{
    Part part(n);
    mpi::Traffic traffic;
    const Seconds seconds = fastest([&] {
        static_cast<void>(mpi::ulysses_attention(part.input(0), part.input(1), part.input(2), part.layout, {},
                                                 part.output(), MPI_COMM_WORLD, &traffic));
    });
    print("ulysses", n, seconds, {traffic.total(), mpi::predicted_ulysses_memory(part.layout, shape, rank)});
}

LinearWeights drawn_map(std::size_t rows, std::size_t columns) { return {drawn_matrix(rows, columns), std::nullopt}; }

EncoderLayerWeights drawn_layer()
{
    const LayerNormWeights norm{Vector(Vector::shape_type{d_model}, 1.), std::nullopt};
    return {{drawn_map(d_model, d_model), drawn_map(d_model, d_model), drawn_map(d_model, d_model),
             drawn_map(d_model, d_model)},
            {drawn_map(d_model, d_ff), drawn_map(d_ff, d_model)},
            norm,
            norm};
}

/// A whole encoder layer, in double.
void tensor_parallel(std::size_t n)
{
    EncoderOptions options;
    options.attention.heads = heads;
    const EncoderLayerWeights shard = mpi::encoder_layer_shard(drawn_layer(), heads, ranks, rank);
    const Matrix x = drawn_matrix(n, d_model);
    mpi::Traffic traffic;
    const Seconds seconds = fastest(
        [&] { static_cast<void>(mpi::tensor_parallel_encoder_layer(x, shard, options, MPI_COMM_WORLD, &traffic)); });
    print("tensor_parallel", n, seconds, {traffic.total(), 0});
}

template <class Measure>
void for_sizes(const Measure& measure, std::initializer_list<std::size_t> sizes)
{
    for (const std::size_t size : sizes)
        measure(size);
}

void measure_parts()
{
    product(512);
    attention(1024);
    copy(16 << 20);
    reference_product(512);
    reference_attention(512);
    if (ranks == 1)
        return;
    for_sizes(message, {8, 1 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20});
    for_sizes(all_reduce, {8, 64 << 10, 1 << 20, 8 << 20});
    for_sizes(all_to_all, {64, 64 << 10, 1 << 20, 8 << 20});
}

void measure_ways()
{
    for_sizes(ring, {256, 512, 1024, 2048, 4096});
    for_sizes(ulysses, {256, 512, 1024, 2048, 4096});
    for_sizes(tensor_parallel, {64, 128, 256, 512});
}

void measure(const std::string& asked)
{
    if (rank == 0)
        std::printf("layer\t%zu\t%zu\t%zu\n", d_model, heads, d_ff);
    asked == "parts" ? measure_parts() : measure_ways();
}

} // namespace

int main(int argc, char** argv)
{
    MPI_Init(&argc, &argv);
    int number = 0, count = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &number);
    MPI_Comm_size(MPI_COMM_WORLD, &count);
    rank = static_cast<std::size_t>(number);
    ranks = static_cast<std::size_t>(count);
    const std::string asked = argc == 2 ? argv[1] : "";
    const bool is_known = asked == "parts" || asked == "ways";
    if (is_known)
        measure(asked);
    else if (rank == 0)
        std::fputs("bench_mpi_cost: say what to measure, parts or ways\n", stderr);
    MPI_Finalize();
    return is_known ? 0 : 2;
}
