#include "attn/mistakes/interventions.hpp"

#include "attn/core/error.hpp"

#include <algorithm>

namespace attn::mistakes {
namespace {

bool ends_with_path(std::string_view path, std::string_view end)
{
    return path == end ||
           (path.size() > end.size() && path.ends_with(end) && path[path.size() - end.size() - 1] == '.');
}

} // namespace

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
    if (!ends_with_path(step.path, path_))
        return std::nullopt;
    if (step.formula.empty()) {
        other_ = step.path + " is an input: only what is computed can be ablated";
        return std::nullopt;
    }
    ablated_.push_back(step.path);
    Array nothing = step.value;
    std::ranges::fill(nothing.values, 0.0);
    return nothing;
}

void Ablate::on_alias(const Alias& alias)
{
    if (ends_with_path(alias.path, path_))
        other_ = alias.path + " is another name of " + alias.target + ": ablate " + alias.target;
}

void Ablate::expect_effect() const
{
    if (ablated_.empty())
        throw Error(other_.empty() ? "no step is called " + path_ + ", so there was nothing to ablate" : other_);
}

Interventions::Interventions(const InterventionFlags& flags) : pitfall_(flags.pitfall)
{
    for (const std::string& path : flags.ablate)
        ablations_.push_back(std::make_unique<Ablate>(path));
    if (!flags.pitfall.empty())
        mistaken_ = std::make_unique<Mistaken>(find_pitfall(flags.pitfall));
    if (flags.round)
        rounding_ = std::make_unique<RoundSteps>(*flags.round);
}

std::vector<Listener*> Interventions::before(std::vector<Listener*> others) const
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

void Interventions::expect_effect() const
{
    for (const auto& ablation : ablations_)
        ablation->expect_effect();
    if (mistaken_ && mistaken_->broken().empty())
        throw Error("the mistake ", pitfall_, " can't be made here: no step is computed as ",
                    find_pitfall(pitfall_).shown().right, ", with % for any text");
}

} // namespace attn::mistakes
