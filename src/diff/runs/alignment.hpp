#pragma once

#include "attn/core/array.hpp"

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace attn::diff {

using Indices = std::vector<std::size_t>;

/// Numbers of two arrays, one for one.
struct Aligned {
    const Array *a, *b;
    Indices a_places = {}, b_places = {}; ///< empty for all of an array in its order

    std::size_t count() const { return a_places.empty() ? a->size() : a_places.size(); }
    std::size_t a_at(std::size_t i) const { return a_places.empty() ? i : a_places[i]; }
    std::size_t b_at(std::size_t i) const { return b_places.empty() ? i : b_places[i]; }
};

/// From where to where an axis is.
struct Stretch {
    std::size_t size, begin, end;
    bool operator==(const Stretch&) const = default;
};

/// The stretch of each axis in which some places of an array are.
std::vector<Stretch> stretches_of(const Shape& shape, const Indices& places);

/// Which part of an array some places are, "[0:1, :5] of B"; empty where they are all.
std::string part_text(const Array& array, const Indices& places, const char* run);

/// How far apart two aligned arrays are.
struct Apart {
    std::size_t count = 0, differing = 0;
    double rms = 0, difference = 0; ///< the size of the larger of both; the root mean square of their difference
    double largest = 0;             ///< the largest difference, over its number or the root mean square
    bool is_finite = true;          ///< false where one has an infinity or NaN that the other does not have
    std::size_t worst = 0;          ///< which of the aligned numbers is furthest off

    double off() const;
};

Apart measure(const Aligned& both);

/// How large numbers are: their root mean square, without those of a mask, which stand for minus infinity.
double size_of(const std::vector<double>& numbers);

/// Finds arrays in each other: one is a part of the other along each axis, and the axes of the part are in any order, merged or split.
class Search {
public:
    struct Found {
        Aligned aligned;
        double off = 0;
        bool is_odd =
            false; ///< their axes are in another order, though of the same sizes; or a part other than what is known
    };
    /// What is tried.
    enum class Effort {
        known,  ///< the axes in their order, parts that are known: of arrays that are meant to be the same and are not
        larger, ///< the larger is cut
        either  ///< each can be, along axes of the same order
    };

    /// The nearest layout that is off by no more than that.
    /// @param call  what the part depends on besides sizes: the calls that the arrays are of
    std::optional<Found> find(const Array& a, const Array& b, const std::string& call, double most_off, Effort effort);

    /// Learns from two inputs that the rows of a batch stand elsewhere.
    void learn_rows(const Array& a, const Array& b, const std::string& call);

    /// True where the rows of two arrays are the same in an order that no input has shown.
    bool is_reordered(const Array& a, const Array& b, double most_off);

    /// True where not everything was tried.
    bool is_cut() const { return work_ > most_work; }

private:
    using Axis =
        std::tuple<std::string, char, std::size_t, std::size_t>; ///< the call, the run, the size, and that of the part
    struct Half;
    struct Trial;
    static constexpr double most_work = 4e9;

    void choose(Trial& trial, std::size_t axis, std::size_t rest);
    void try_parts(Trial& trial);
    std::optional<Indices> rows(const Array& few, const Array& many, double most_off);

    std::map<Axis, std::vector<Indices>> known_;
    double work_ = 0;
};

} // namespace attn::diff
