// Computes fast::attention() and its gradients of the tensors in a file, and writes what comes out.
//
//     fast_gradients INPUT.npz OUTPUT.npz
//
// INPUT has queries (b, h, n, d_k), keys (b, g, m, d_k), values (b, g, m, d_v), grad_context (b, h, n, d_v) and mask
// (n, m), and can have scale and softcap.

#include "attn/core/error.hpp"
#include "attn/engines/fast/attention_backward.hpp"
#include "attn/files/npz.hpp"

#include <algorithm>
#include <cstdio>

using namespace attn;
using namespace attn::files;

namespace {

/// A tensor in float32.
struct Tensor {
    explicit Tensor(const Array& array) : Tensor(array.shape) { std::ranges::copy(array.values, numbers.begin()); }
    explicit Tensor(const Shape& its_shape) : numbers(element_count(its_shape))
    {
        std::ranges::copy(its_shape, shape.begin());
    }

    fast::HeadRows<float> rows() { return fast::head_rows(numbers.data(), shape); }
    Array array() const { return {{shape.begin(), shape.end()}, {numbers.begin(), numbers.end()}}; }

    std::array<std::size_t, 4> shape{};
    std::vector<float> numbers;
};

std::optional<float> number_in(const NamedArrays& given, std::string_view name)
{
    const auto found = given.find(name);
    return found == given.end() ? std::nullopt : std::optional(static_cast<float>(found->second.values.at(0)));
}

Npz computed(const NamedArrays& given)
{
    Tensor queries(given.at("queries")), keys(given.at("keys")), values(given.at("values"));
    Tensor grad_context(given.at("grad_context")), context(given.at("grad_context").shape);
    Tensor grad_queries(given.at("queries").shape), grad_keys(given.at("keys").shape),
        grad_values(given.at("values").shape);
    std::vector<float> largest(queries.shape[0] * queries.shape[1] * queries.shape[2]), sum(largest);
    const Array& mask = given.at("mask");
    const auto allowed = std::make_unique<bool[]>(mask.size());
    std::ranges::copy(mask.values, allowed.get());
    const fast::Scoring scoring{.scale = number_in(given, "scale"),
                                .softcap = number_in(given, "softcap"),
                                .mask = {allowed.get(), {0, 0, mask.shape.at(1)}}};
    fast::attention(queries.rows(), keys.rows(), values.rows(), scoring, context.rows(), {largest, sum});
    fast::attention_backward(queries.rows(), keys.rows(), values.rows(), scoring, context.rows(), {largest, sum},
                             grad_context.rows(), grad_queries.rows(), grad_keys.rows(), grad_values.rows());
    return {{},
            {{"context", context.array()},
             {"grad_queries", grad_queries.array()},
             {"grad_keys", grad_keys.array()},
             {"grad_values", grad_values.array()}},
            ""};
}

} // namespace

int main(int count, char** arguments)
{
    if (count != 3)
        return 2;
    try {
        write_npz(arguments[2], computed(read_npz(arguments[1])));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "fast_gradients: %s\n", error.what());
        return 2;
    }
}
