#pragma once

#include "attn/formula/explain.hpp"

#include "scalars.hpp"
#include "written.hpp"

#include <string>
#include <vector>

namespace attn::formula {

/// Writes the arithmetic of one number by the rules of Explanation, with names and with numbers.
class ArithmeticWriter {
public:
    explicit ArithmeticWriter(const ExplainOptions& options) : options_(options) {}

    std::string with_names(const Scalar& scalar);
    std::string with_numbers(const Scalar& scalar);

    /// The reasons for what has been written with names: "since mask[0,2] is false".
    std::vector<std::string> reasons();

    /// The parts, and the cells of steps, that have been written by name, in that order, each once.
    const std::vector<const Scalar*>& written() const { return written_; }

private:
    /// Where a piece of text stands.
    struct Place {
        bool in_sum = false;    ///< in a term of a sum or in a softmax
        bool is_logical = true; ///< a boolean is true or false there
    };

    Written write(const Scalar& scalar, Place place);
    Written cell(const Scalar& scalar, Place place);
    Written binary(const Scalar& scalar, Place place);
    Written total(const Scalar& scalar, Place place);
    Written part(const Scalar& scalar, Place place);
    Written number(double value) const;
    std::string reason(const Scalar& noted);
    void remember(const Scalar& scalar);

    const ExplainOptions& options_;
    bool names_ = true;
    std::vector<const Scalar*> written_, noted_;
};

/// A number as an explanation has it.
std::string number_text(double number, const ExplainOptions& options);

} // namespace attn::formula
