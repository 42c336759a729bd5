#include "attn/engines/fast/attention_backward.hpp"

#include "backward.hpp"
#include "expect.hpp"

#include <atomic>
#include <vector>

namespace attn::fast {
namespace {

constexpr std::string_view this_function = "fast::attention_backward";

void expect_fit(const BackwardCall& call)
{
    expect_fit(this_function, call.queries, call.keys, call.values, call.context, call.scoring);
    expect_sums(this_function, call.sums.largest, call.queries);
    expect_sums(this_function, call.sums.sum, call.queries);
    expect_same_shape(this_function, "grad_context", call.grad_context, "context", call.context);
    expect_same_shape(this_function, "grad_queries", call.grad_queries, "queries", call.queries);
    expect_same_shape(this_function, "grad_keys", call.grad_keys, "keys", call.keys);
    expect_same_shape(this_function, "grad_values", call.grad_values, "values", call.values);
    expect_numbers(this_function, "grad_context", call.grad_context);
    expect_numbers(this_function, "grad_queries", call.grad_queries);
    expect_numbers(this_function, "grad_keys", call.grad_keys);
    expect_numbers(this_function, "grad_values", call.grad_values);
}

/// Lets threads do something to each of several places one after the other, in a given order.
class Turns {
public:
    explicit Turns(std::size_t places) : done_(places) {}

    /// Waits until so many had their turn at a place.
    void wait(std::size_t place, unsigned turn)
    {
        for (unsigned done = done_[place].load(); done != turn; done = done_[place].load())
            done_[place].wait(done);
    }

    void pass(std::size_t place)
    {
        ++done_[place];
        done_[place].notify_all();
    }

private:
    std::vector<std::atomic<unsigned>> done_;
};

/// One tile of keys of one key/value head, and all queries that it serves.
void work_on_keys(const BackwardCall& call, BackwardTile& tile, std::size_t b, std::size_t group, std::size_t key_tile,
                  const float* D, Turns& turns)
{
    call.load_keys(tile, b, group, key_tile);
    for (std::size_t in_group = 0; in_group < call.heads_per_group(); ++in_group) {
        const std::size_t head = group * call.heads_per_group() + in_group;
        for (std::size_t query_tile = 0; query_tile < call.query_tiles(); ++query_tile) {
            const bool meets = call.meet_queries(tile, b, head, query_tile, D);
            const std::size_t place = (b * call.queries.heads() + head) * call.query_tiles() + query_tile;
            turns.wait(place, static_cast<unsigned>(key_tile));
            if (meets)
                call.add_grad_queries(tile, b, head, query_tile);
            turns.pass(place);
        }
    }
    call.store_keys(tile, b, group);
}

} // namespace

void attention_backward(const Const& queries, const Const& keys, const Const& values, const Scoring& scoring,
                        const Const& context, const SoftmaxSumsView& sums, const Const& grad_context,
                        const HeadRows<float>& grad_queries, const HeadRows<float>& grad_keys,
                        const HeadRows<float>& grad_values, const Trace& trace)
{
    const BackwardCall call{queries, keys,         values,       scoring,   context,
                            sums,    grad_context, grad_queries, grad_keys, grad_values};
    expect_fit(call);
    if (trace.has_listener())
        return backward_traced(call, trace);
    const std::size_t heads = queries.batch() * queries.heads(), groups = keys.batch() * keys.heads();
    const Buffer D(heads * queries.rows());
    Turns turns(heads * call.query_tiles());

#pragma omp parallel
    {
        const Buffer numbers(backward_tile_size(queries.features(), values.features()));
        BackwardTile tile = backward_tile_in(numbers.get(), queries.features(), values.features());

#pragma omp for schedule(static)
        for (std::size_t i = 0; i < heads * call.query_tiles(); ++i) {
            const std::size_t head = i / call.query_tiles();
            call.begin_queries(head / queries.heads(), head % queries.heads(), i % call.query_tiles(), D.get());
        }

        // A thread takes a later tile of keys only after the earlier ones were taken: whoever waits for its turn waits
        // for threads at work.
#pragma omp for schedule(monotonic : dynamic)
        for (std::size_t i = 0; i < groups * call.key_tiles(); ++i) {
            const std::size_t group = i % groups;
            work_on_keys(call, tile, group / keys.heads(), group % keys.heads(), i / groups, D.get(), turns);
        }
    }
}

} // namespace attn::fast
