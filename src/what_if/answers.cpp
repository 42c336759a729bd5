#include "attn/what_if/answers.hpp"

#include "attn/error.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attn {
namespace {

/// How many binary digits a type keeps, and the exponents of its smallest normal and its largest number.
struct Format {
    int digits, smallest, largest;
};

Format format_of(Precision precision)
{
    switch (precision) {
    case Precision::float32:
        return {24, -126, 127};
    case Precision::bfloat16:
        return {8, -126, 127};
    case Precision::float16:
        return {11, -14, 15};
    }
    return {53, -1022, 1023};
}

bool ends_with_path(std::string_view path, std::string_view end)
{
    return path == end ||
           (path.size() > end.size() && path.ends_with(end) && path[path.size() - end.size() - 1] == '.');
}

} // namespace

std::string_view name_of(Precision precision)
{
    constexpr std::string_view names[] = {"float32", "bfloat16", "float16"};
    return names[static_cast<std::size_t>(precision)];
}

double rounded_to(Precision precision, double number)
{
    if (!std::isfinite(number) || number == 0)
        return number;
    const Format format = format_of(precision);
    // Below the smallest normal number, the spacing of numbers stays what it is there.
    const int exponent = std::max(std::ilogb(number), format.smallest);
    const double spacing = std::ldexp(1.0, exponent - format.digits + 1);
    const double rounded = std::nearbyint(number / spacing) * spacing;
    const double largest = std::ldexp(2.0 - std::ldexp(1.0, 1 - format.digits), format.largest);
    return std::abs(rounded) > largest ? std::copysign(std::numeric_limits<double>::infinity(), number) : rounded;
}

double roundoff_of(Precision precision) { return std::ldexp(1.0, -format_of(precision).digits); }

std::optional<Array> RoundSteps::on_step(const Step& step)
{
    if (step.formula.empty() || step.value.type != ElementType::real)
        return std::nullopt;
    Array rounded = step.value;
    for (double& value : rounded.values)
        value = rounded_to(precision_, value);
    return rounded;
}

std::optional<Array> Ablate::on_step(const Step& step)
{
    if (step.formula.empty() || !ends_with_path(step.path, path_))
        return std::nullopt;
    ablated_.push_back(step.path);
    Array nothing = step.value;
    std::ranges::fill(nothing.values, 0.0);
    return nothing;
}

Answers::Answers(const AnswerFlags& flags) : pitfall_(flags.pitfall), paths_(flags.ablate)
{
    for (const std::string& path : flags.ablate)
        ablations_.push_back(std::make_unique<Ablate>(path));
    if (!flags.pitfall.empty())
        mistaken_ = std::make_unique<Mistaken>(find_pitfall(flags.pitfall));
    if (flags.round)
        rounding_ = std::make_unique<RoundSteps>(*flags.round);
}

std::vector<Listener*> Answers::before(std::vector<Listener*> others) const
{
    std::vector<Listener*> all;
    if (mistaken_)
        all.push_back(mistaken_.get());
    for (const auto& ablation : ablations_)
        all.push_back(ablation.get());
    if (rounding_)
        all.push_back(rounding_.get());
    all.insert(all.end(), others.begin(), others.end());
    return all;
}

void Answers::expect_heard() const
{
    for (std::size_t i = 0; i < ablations_.size(); ++i)
        if (ablations_[i]->ablated().empty())
            throw Error("no computed step is called " + paths_[i] + ", so there was nothing to ablate");
    if (mistaken_ && mistaken_->broken().empty())
        throw Error("the mistake " + pitfall_ + " can't be made here: no step is computed as " +
                    std::string(find_pitfall(pitfall_).right) + ", with % for any text");
}

} // namespace attn
