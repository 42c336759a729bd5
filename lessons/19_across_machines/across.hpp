#pragma once

// The lesson's side of the run on several ranks: it starts them, takes their steps into
// its trace, and compares with what one process makes of the same numbers.

#include "../lesson.hpp"
#include "../ranks.hpp"
#include "cost.hpp"
#include "layer.hpp"
#include "on_ranks.hpp"

#include "attn/formula/verify.hpp"
#include "attn/reference/attention/dot_product.hpp"

#include <algorithm>
#include <cmath>

namespace attn {

/// The steps of a scope, without its name.
inline Recording below(const Recording& all, const std::string& scope)
{
    Recording part;
    const std::string before = scope + ".";
    for (Step step : all.steps)
        if (step.path.starts_with(before)) {
            step.path.erase(0, before.size());
            part.steps.push_back(std::move(step));
        }
    for (const Alias& alias : all.aliases)
        if (alias.path.starts_with(before))
            part.aliases.push_back(
                {alias.path.substr(before.size()), alias.target.substr(before.size())});
    return part;
}

inline const Array& value_in(const Recording& all, std::string_view path)
{
    return all.at(path).value;
}

/// The largest difference of any number.
inline double furthest(const Array& found, const std::vector<double>& expected)
{
    double off = 0;
    for (std::size_t i = 0; i < expected.size(); ++i)
        off = std::max(off, std::abs(found.values[i] - expected[i]));
    return off;
}

/// Attention of all heads with a causal mask, by the reference in double.
inline std::vector<double> exact_context(const Tensor3& queries, const Tensor3& keys,
                                         const Tensor3& values)
{
    std::vector<double> all;
    const auto head = [](const Tensor3& x, std::size_t h) {
        return Matrix(xt::view(x, h, xt::all(), xt::all()));
    };
    for (std::size_t h = 0; h < queries.shape(0); ++h) {
        const Matrix context =
            scaled_dot_product_attention(head(queries, h), head(keys, h), head(values, h),
                                         {.causal = Causal::bottom_right})
                .context;
        all.insert(all.end(), context.begin(), context.end());
    }
    return all;
}

/// Compares bytes and memory, rank by rank.
inline void show_counts(Lesson& lesson, const Recording& all, const Bytes& predicted)
{
    const auto counted = [&](std::string_view path) {
        return from_array<Integers>(value_in(all, path));
    };
    const Integers ring = counted("ring.sent"), ulysses = counted("ulysses.sent"),
                   sums = counted("layer.sent");
    std::vector<std::vector<double>> rows;
    for (std::size_t r = 0; r < ring.size(); ++r) {
        rows.push_back({static_cast<double>(r)});
        for (const Integers* numbers : {&predicted.ring, &ring, &predicted.ulysses,
                                        &ulysses, &predicted.sums, &sums})
            rows.back().push_back(static_cast<double>((*numbers)(r)));
    }
    lesson.table({"rank", "ring: predicted", "sent", "Ulysses: predicted", "sent",
                  "tensor parallel: predicted", "sent"},
                 rows);
    lesson.expect_equal("ring attention sends the bytes that were predicted", ring,
                        predicted.ring);
    lesson.expect_equal("Ulysses sends the bytes that were predicted", ulysses,
                        predicted.ulysses);
    lesson.expect_equal("the two sums of the layer get the bytes that were predicted",
                        sums, predicted.sums);
}

/// KiB of one rank: predicted, and asked for.
struct Asked {
    double predicted, counted;

    /// @param beside  KiB that the prediction leaves out
    bool is_as_predicted(double beside) const
    {
        return predicted <= counted && counted <= predicted + beside;
    }
};

/// The most memory that attention to the long sequence asks for at a time.
inline void show_memory(Lesson& lesson, const Recording& all, std::size_t ranks)
{
    constexpr std::size_t h = LongSequence::h, d = LongSequence::d;
    const mpi::Layout layout = mpi::zigzag_layout(LongSequence::n, ranks);
    const mpi::AttentionShape shape{1, h, h, d, d};
    const auto kibibytes = [](auto bytes) {
        return std::floor(static_cast<double>(bytes) / 1024);
    };
    // What a kernel packs of one head of one chunk, its tile, and what is rounded up.
    const double beside = kibibytes(4 * layout.largest_chunk() * 2 * d) + 128;
    std::vector<std::vector<double>> rows;
    bool is_so = true;
    for (std::size_t r = 0; r < ranks; ++r) {
        const Asked ring{kibibytes(mpi::predicted_ring_memory(layout, shape, r)),
                         kibibytes(value_in(all, "memory.ring").values[r])},
            ulysses{kibibytes(mpi::predicted_ulysses_memory(layout, shape, r)),
                    kibibytes(value_in(all, "memory.ulysses").values[r])};
        rows.push_back({static_cast<double>(r), ring.predicted, ring.counted,
                        ulysses.predicted, ulysses.counted});
        is_so = is_so && ring.is_as_predicted(beside) && ulysses.is_as_predicted(beside);
    }
    lesson.table(
        {"rank", "KiB, ring: predicted", "asked for", "Ulysses: predicted", "asked for"},
        rows);
    lesson.expect("each rank asks for the memory that was predicted, and little more",
                  is_so);
}

/// Ring attention, Ulysses and the tensor-parallel layer on so many ranks.
inline void run_across(Lesson& lesson, const Tensor3& queries, const Tensor3& keys,
                       const Tensor3& values, std::size_t ranks,
                       std::chrono::seconds longest, const Bytes& predicted)
{
    lesson.progress("starting " + std::to_string(ranks) + " ranks");
    const Recording all = run_on_ranks(ranks,
                                       {{{"queries", "", {}, "", {}, to_array(queries)},
                                         {"keys", "", {}, "", {}, to_array(keys)},
                                         {"values", "", {}, "", {}, to_array(values)}},
                                        {}},
                                       longest);
    lesson.progress("");
    for (const std::string scope : {"ring", "ulysses", "layer"}) {
        lesson.add_recording(scope, below(all, scope));
        //! [verify]
        lesson.expect(scope + ": every step of every rank follows from its formula",
                      formula::verify(below(all, scope)).passed());
        //! [verify]
    }
    const std::vector<double> exact = exact_context(queries, keys, values);
    lesson.expect("ring attention differs from one process in double by less than 1e-5",
                  furthest(value_in(all, "ring.context"), exact) < 1e-5);
    lesson.expect("Ulysses differs from one process in double by less than 1e-5",
                  furthest(value_in(all, "ulysses.context"), exact) < 1e-5);
    const DrawnLayer drawn = draw_layer();
    const Matrix output = encoder_layer(drawn.x, drawn.weights, drawn.options);
    lesson.expect("the divided layer differs from encoder_layer() by less than 1e-12",
                  furthest(value_in(all, "layer.rank.0.norm2.output"),
                           {output.begin(), output.end()}) < 1e-12);
    show_counts(lesson, all, predicted);
    show_memory(lesson, all, ranks);
}

} // namespace attn
