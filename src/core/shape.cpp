#include "attn/core/shape.hpp"

#include <string>

namespace attn {
namespace {

std::string with_shape(const AxisOf& operand)
{
    return std::string(operand.role) + " " + to_string(Shape(operand.shape.begin(), operand.shape.end()));
}

std::string with_size(const AxisOf& operand)
{
    return "axis " + std::to_string(operand.axis) + " of " + std::string(operand.role) + " is " +
           std::to_string(operand.size());
}

} // namespace

void expect_agreement(std::string_view function, std::string_view letter, const AxisOf& left, const AxisOf& right)
{
    if (left.size() != right.size())
        throw ShapeError(function, ": ", with_shape(left), " and ", with_shape(right), " must agree in ", letter, ": ",
                         with_size(left), ", ", with_size(right));
}

} // namespace attn
