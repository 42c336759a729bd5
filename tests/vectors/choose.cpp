#include "attn/vectors/choose.hpp"

#include "test.hpp"

#include <rapidcheck.h>

#include <map>

using attn::vectors::choose;
using attn::vectors::Need;

TEST_CASE("what one case does for all is taken alone", "[vectors]")
{
    CHECK(choose({{{"a"}}, {{"a"}, {"b"}}, {{"b"}}}) == std::vector<std::size_t>{1});
}

TEST_CASE("a need for two cases takes two, and one where there is one", "[vectors]")
{
    CHECK(choose({{{"a", 2}}, {{"a", 2}}, {{"a", 2}}}).size() == 2);
    CHECK(choose({{{"a", 2}}}).size() == 1);
}

TEST_CASE("a case that later ones have made needless is left out", "[vectors]")
{
    // The first serves most, but the two others have all of it, and a need of their own each.
    const std::vector<std::vector<Need>> serves{
        {{"a"}, {"b"}, {"c"}, {"d"}}, {{"a"}, {"b"}, {"e"}}, {{"c"}, {"d"}, {"f"}}};
    CHECK(choose(serves) == std::vector<std::size_t>{1, 2});
}

TEST_CASE("every need is met as far as it can be, and no case can be left out", "[vectors][property]")
{
    CHECK(rc::check("whatever the cases serve", [] {
        std::vector<std::vector<Need>> serves(*rc::gen::inRange<std::size_t>(1, 12));
        for (std::vector<Need>& needs : serves)
            for (std::size_t i = 0; i < 8; ++i)
                if (*rc::gen::arbitrary<bool>())
                    needs.push_back({std::to_string(i), 1 + i % 2});
        const auto met_by = [&](const std::vector<std::size_t>& taken) {
            std::map<Need, std::size_t> met;
            for (const std::size_t one : taken)
                for (const Need& need : serves[one])
                    met[need] = std::min(met[need] + 1, need.cases);
            return met;
        };
        std::vector<std::size_t> all(serves.size());
        for (std::size_t i = 0; i < all.size(); ++i)
            all[i] = i;
        const std::vector<std::size_t> taken = choose(serves);
        RC_ASSERT(met_by(taken) == met_by(all));
        for (const std::size_t one : taken) {
            std::vector<std::size_t> others = taken;
            std::erase(others, one);
            RC_ASSERT(met_by(others) != met_by(all));
        }
    }));
}
