// Does once what each line that it reads asks for, and answers with the seconds that it took: a worker of
// bench/fast/fast.py. A line is a contender (fast or reference), what it computes, and sizes; or what the machine can
// do:
//
//     fast attention forward 2048 1
//     reference encoder 8 128
//     fast story 15M 128
//     sgemm
//     stream
//
// Threads are those of OMP_NUM_THREADS and OPENBLAS_NUM_THREADS.
#include "worker.hpp"

#include "attn/core/error.hpp"

#include <chrono>
#include <cmath>
#include <iostream>
#include <sstream>

#include <cblas.h>

namespace attn::bench {

double seconds(const std::function<void()>& work)
{
    const auto begin = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::vector<float> random_floats(std::size_t count, unsigned seed)
{
    const Vector numbers = RandomNumbers(seed).vector(count);
    return {numbers.begin(), numbers.end()};
}

LinearWeights random_map(RandomNumbers& numbers, std::size_t d_in, std::size_t d_out, bool has_bias)
{
    LinearWeights map{numbers.matrix(d_in, d_out, 1 / std::sqrt(double(d_in)))};
    if (has_bias)
        map.bias = numbers.vector(d_out);
    return map;
}

double sgemm()
{
    constexpr int size = 2048;
    static const std::vector<float> left = random_floats(size * size, 5), right = left;
    static std::vector<float> product(left.size());
    return seconds([&] {
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, size, size, size, 1, left.data(), size, right.data(),
                    size, 0, product.data(), size);
    });
}

double stream()
{
    static const std::vector<float> numbers((256U << 20) / sizeof(float), 1);
    const int half = int(numbers.size() / 2);
    return seconds([&] { cblas_sdot(half, numbers.data(), 1, numbers.data() + half, 1); });
}

namespace {

double answer(std::istream& line)
{
    std::string contender, what;
    line >> contender >> what;
    if (contender == "sgemm")
        return sgemm();
    if (contender == "stream")
        return stream();
    if (what == "attention")
        return attention(contender, line);
    if (what == "encoder")
        return encoder(contender, line);
    if (what == "story")
        return story(contender, line);
    throw Error("bench_fast: '" + what + "' is neither attention nor encoder nor story");
}

} // namespace
} // namespace attn::bench

int main()
{
    try {
        for (std::string line; std::getline(std::cin, line);) {
            std::istringstream words(line);
            std::cout << attn::bench::answer(words) << std::endl;
        }
    } catch (const attn::Error& error) {
        std::cerr << error.what() << '\n';
        return 2;
    }
}
