#include "attn/engines/fast/attention_backward.hpp"

#include "test.hpp"
#include "vectors/fast_case.hpp"

using namespace attn;

namespace {

/// The arrays of a case of vectors/kernels in one of the layouts whose heads have strides: bhnd, bnhd, and qkv, three in one.
class Kernel {
public:
    explicit Kernel(const attn_case& one) : case_(one), layout_(attn_parameter_of(&one, "layout"))
    {
        scoring_.scale = number("scale");
        scoring_.softcap = number("softcap");
        if (attn_parameter_of(&one, "causal"))
            scoring_.causal = Causal::bottom_right;
        if (const auto left = number("left_window")) {
            const attn_array &queries = *attn_input(&one, "queries"), &keys = *attn_input(&one, "keys");
            const int tokens = layout_ == "bhnd" ? 2 : 1;
            scoring_.window = {.left = static_cast<std::size_t>(*left), .alignment = Causal::top_left};
            scoring_.past = keys.shape[tokens] - queries.shape[tokens];
        }
        if (const attn_array* bias = attn_input(&one, "bias")) {
            bias_ = test::numbers_of(*bias);
            scoring_.bias = {bias_.data(), {0, bias->shape[1] * bias->shape[2], bias->shape[2]}};
        }
    }

    const fast::Scoring& scoring() const { return scoring_; }

    /// What is given of that name; of qkv the part that stands at that place.
    fast::HeadRows<const float> given(const char* name, std::size_t place)
    {
        const attn_array& array = *attn_input(&case_, layout_ == "qkv" && place < 3 ? "qkv" : name);
        std::vector<float>& numbers = kept_[place];
        numbers = test::numbers_of(array);
        return in_layout(numbers.data(), array.shape, array.rank == 5 ? place : 3);
    }
    /// The i-th result, to be written.
    fast::HeadRows<float> result(std::size_t i, std::vector<float>& numbers, std::size_t place = 3) const
    {
        const attn_array& array = case_.output[i].array;
        numbers.resize(array.size);
        return in_layout(numbers.data(), array.shape, array.rank == 5 ? place : 3);
    }

private:
    template <class Number>
    fast::HeadRows<Number> in_layout(Number* numbers, const std::size_t* shape, std::size_t place) const
    {
        if (layout_ == "bhnd")
            return fast::head_rows(numbers, {shape[0], shape[1], shape[2], shape[3]});
        if (place == 3)
            return fast::packed_head_rows(numbers, {shape[0], shape[2], shape[1], shape[3]});
        const std::size_t n = shape[1], h = shape[3], d = shape[4]; // (b, n, 3, h, d)
        return {numbers + place * h * d, {shape[0], h, n, d}, {n * 3 * h * d, d, 3 * h * d}};
    }
    std::optional<float> number(const char* name) const
    {
        const char* text = attn_parameter_of(&case_, name);
        return text == nullptr ? std::nullopt : std::optional(std::stof(text));
    }

    const attn_case& case_;
    std::string layout_;
    fast::Scoring scoring_;
    std::vector<float> bias_;
    std::array<std::vector<float>, 4> kept_;
};

int computed = 0; ///< cases

int fast_kernel(const attn_case* one, double** outputs)
{
    const std::string_view function = one->function;
    const bool is_backward = function == "attention_kernel_backward";
    if (!function.starts_with("attention_kernel") || attn_input(one, "sinks") ||
        (is_backward && attn_input(one, "bias")))
        return 1;
    if (const std::string_view layout = attn_parameter_of(one, "layout");
        layout != "bhnd" && layout != "bnhd" && layout != "qkv")
        return 1;
    ++computed;
    Kernel kernel(*one);
    const auto queries = kernel.given("queries", 0), keys = kernel.given("keys", 1), values = kernel.given("values", 2);
    const std::size_t softmaxes = queries.batch() * queries.heads() * queries.rows();
    std::vector<float> largest(softmaxes), sum(softmaxes), context;
    if (!is_backward) {
        fast::attention(queries, keys, values, kernel.scoring(), kernel.result(0, context), {largest, sum});
        std::ranges::copy(context, outputs[0]);
        for (std::size_t i = 0; i < softmaxes && one->outputs > 1; ++i)
            outputs[1][i] = sum[i] > 0 ? double{largest[i]} + std::log(double{sum[i]}) : -infinity;
        return 0;
    }
    const auto grad = kernel.given("grad.output", 3);
    context.resize(grad.batch() * grad.heads() * grad.rows() * grad.features());
    const auto rows = fast::head_rows(context.data(), grad.shape);
    fast::attention(queries, keys, values, kernel.scoring(), rows, {largest, sum});
    std::array<std::vector<float>, 3> grads;
    const bool is_one = one->outputs == 1; // of qkv
    std::array<fast::HeadRows<float>, 3> into;
    for (std::size_t i = 0; i < 3; ++i)
        into[i] = kernel.result(is_one ? 0 : i, grads[is_one ? 0 : i], i);
    fast::attention_backward(queries, keys, values, kernel.scoring(), rows, {largest, sum}, grad, into[0], into[1],
                             into[2]);
    for (int i = 0; i < one->outputs; ++i)
        std::ranges::copy(grads[static_cast<std::size_t>(i)], outputs[i]);
    return 0;
}

} // namespace

TEST_CASE("fast::attention() and its gradients pass the vectors of kernels in float32", "[fast][vectors]")
{
    CHECK(attn_check(fast_kernel, ATTN_FLOAT32) == 0);
    CHECK(computed == 63); // of 84: the others have sinks, packed rows, pages, a ring, or are no attention
}
