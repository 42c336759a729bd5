#pragma once

#include "attn/core/recording.hpp"

#include <vector>

namespace attn::diff {

/// Which keys the queries of a reference can attend to. A program's own masks have many forms: true where a key is allowed, or
/// where it is forbidden; zeros and a large negative number; of the padding alone, or of all.
class AllowedKeys {
public:
    explicit AllowedKeys(const std::vector<Step>& steps);

    /// True for booleans, zeros and ones, or zeros and one large negative number, that can be a mask.
    static bool is_mask(const Array& array);

    /// False where a mask forbids, however it is read, what every attention of its size allows.
    bool permit(const Array& mask) const;

    /// True where a mask says, however it is read, what some attention allows, no more and no less.
    bool say(const Array& mask) const;

    /// True for one of the reference's masks, such as that of the padding, which others can have to be combined with.
    bool has_step(const Array& mask) const;

private:
    /// Of one attention, (…, n, m): one where a query can attend.
    std::vector<Array> allowed_;
    std::vector<Array> given_; ///< the same of its masks alone
};

} // namespace attn::diff
