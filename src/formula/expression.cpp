#include "attn/formula/expression.hpp"

#include "attn/core/array.hpp"
#include "attn/core/budget.hpp"
#include "attn/core/step_name.hpp"
#include "attn/core/utf8.hpp"

#include <algorithm>
#include <limits>
#include <numbers>
#include <utility>

namespace attn::formula {
namespace {

constexpr int deepest = 100;
constexpr std::size_t longest = 10'000;

struct Constant {
    std::string_view name;
    double number;
};
constexpr Constant constants[] = {
    {"inf", std::numeric_limits<double>::infinity()}, {"pi", std::numbers::pi}, {"True", 1}, {"False", 0}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Recursive descent: one function per rule, in the order of precedence from loose to tight.
class Parser {
public:
    explicit Parser(std::string_view formula) : formula_(formula) {}

    Expression parse()
    {
        if (formula_.size() > longest)
            fail("is longer than " + std::to_string(longest) + " characters");
        Expression expression = comparison();
        if (!at_end())
            fail("expected an operator or the end");
        return expression;
    }

private:
    // comparison := disjunction [('<' | '<=' | '>' | '>=' | '==' | '!=') disjunction]
    Expression comparison()
    {
        const Depth depth(*this);
        Expression left = disjunction();
        const std::string_view op = accept_any({"<=", ">=", "==", "!=", "<", ">"});
        return op.empty() ? left : binary(op, std::move(left), disjunction());
    }

    // disjunction := conjunction {'|' conjunction}, tighter than a comparison, as in Python: (a < b) | (c < d)
    Expression disjunction() { return chain({"|"}, &Parser::conjunction); }

    // conjunction := sum {'&' sum}
    Expression conjunction() { return chain({"&"}, &Parser::sum); }

    // sum := product {('+' | '-') product}
    Expression sum() { return chain({"+", "-"}, &Parser::product); }

    // product := signed {('*' | '//' | '/' | '%' | '@') signed}
    Expression product() { return chain({"*", "//", "/", "%", "@"}, &Parser::signed_power); }

    Expression chain(std::initializer_list<std::string_view> operators, Expression (Parser::*operand)())
    {
        Expression left = (this->*operand)();
        for (std::string_view op = accept_any(operators); !op.empty(); op = accept_any(operators)) {
            left = binary(op, std::move(left), (this->*operand)());
            count_link();
        }
        return left;
    }

    // signed := '-' signed | power
    Expression signed_power()
    {
        const Depth depth(*this);
        const std::size_t position = here();
        if (!accept("-"))
            return power();
        Expression negated = node(Expression::Kind::negated, position);
        negated.operands.push_back(signed_power());
        return negated;
    }

    // power := postfix ['**' signed]
    Expression power()
    {
        Expression base = postfix();
        return accept("**") ? binary("**", std::move(base), signed_power()) : base;
    }

    // postfix := primary {'.T' | '.shape[' comparison ']' | '[' subscripts ']' | '.' function '(' arguments ')'}
    Expression postfix()
    {
        Expression expression = primary();
        while (true) {
            const std::size_t position = here();
            if (accept_word(".T")) {
                expression = wrap(Expression::Kind::transposed, position, std::move(expression));
            } else if (accept_word(".shape")) {
                expression = wrap(Expression::Kind::size, position, std::move(expression));
                expect("[");
                expression.operands.push_back(comparison());
                expect("]");
            } else if (accept("[")) {
                expression = wrap(Expression::Kind::indexed, position, std::move(expression));
                do
                    expression.subscripts.push_back(subscript());
                while (accept(","));
                expect("]");
            } else if (const std::string method = accept_method(); !method.empty()) {
                expression = method_call(method, std::move(expression));
            } else {
                return expression;
            }
            count_link();
        }
    }

    Expression primary()
    {
        skip_space();
        if (at_end())
            fail("expected a number, a name or a parenthesis");
        const char c = formula_[at_];
        if (accept("(")) {
            Expression inner = comparison();
            expect(")");
            return inner;
        }
        if (is_digit(c))
            return number();
        if (begins_name(c))
            return name_or_call();
        fail("expected a number, a name or a parenthesis");
    }

    Expression number()
    {
        Expression expression = node(Expression::Kind::number, here());
        std::string_view rest = formula_.substr(at_);
        const std::optional<double> number = take_number(rest);
        if (!number)
            fail("expected a number that a double can hold");
        expression.number = *number;
        expression.text = formula_.substr(at_, formula_.size() - at_ - rest.size());
        at_ += expression.text.size();
        return expression;
    }

    /// x.sum(…) is sum(x, …), and np.exp(x) is exp(x): NumPy's ways to say a function of the language.
    Expression name_or_call()
    {
        Expression expression = node(Expression::Kind::name, here());
        expression.text = dotted_name();
        const std::string in_numpy = expression.text.starts_with("np.") ? expression.text.substr(3) : expression.text;
        if (accept("(")) {
            expression.text = in_numpy;
            const std::size_t dot = expression.text.rfind('.');
            if (dot == std::string::npos)
                return call(std::move(expression));
            const std::string method = expression.text.substr(dot + 1);
            expression.text.resize(dot);
            return method_call(method, std::move(expression));
        }
        const auto constant = std::ranges::find(constants, in_numpy, &Constant::name);
        if (constant != std::end(constants)) {
            expression.kind = Expression::Kind::number;
            expression.text = in_numpy;
            expression.number = constant->number;
        }
        return expression;
    }

    Expression method_call(const std::string& name, Expression of)
    {
        Expression expression = wrap(Expression::Kind::call, of.position, std::move(of));
        expression.text = name;
        return call(std::move(expression));
    }

    Expression call(Expression expression)
    {
        expression.kind = Expression::Kind::call;
        if (accept(")"))
            return size_of_first_axis(std::move(expression));
        do {
            if (const std::string keyword = accept_keyword(); !keyword.empty())
                add_keyword(expression, keyword);
            else if (expression.keywords.empty())
                add_operands(expression);
            else
                fail("expected a keyword such as axis=0 after the first one");
        } while (accept(","));
        expect(")");
        return size_of_first_axis(std::move(expression));
    }

    /// len(x) is x.shape[0].
    static Expression size_of_first_axis(Expression call)
    {
        if (call.text != "len" || call.operands.size() != 1 || !call.keywords.empty())
            return call;
        Expression zero = node(Expression::Kind::number, call.position);
        zero.text = "0";
        call.kind = Expression::Kind::size;
        call.text.clear();
        call.operands.push_back(std::move(zero));
        return call;
    }

    /// An operand, or several in one list or tuple: concat([a, b], axis=0), reshape(x, (2, 3)).
    void add_operands(Expression& call)
    {
        const std::string_view end = accept("[") ? "]" : next_is_tuple() && accept("(") ? ")" : "";
        do
            call.operands.push_back(comparison());
        while (!end.empty() && accept(",") && !next_is(end));
        if (!end.empty())
            expect(end);
    }

    /// True where a parenthesis opens that holds commas of its own, and is a whole operand: (2, 3), but not (a + b) * c.
    bool next_is_tuple()
    {
        if (!next_is("("))
            return false;
        int open = 0;
        bool has_comma = false;
        std::size_t end = at_;
        for (; end < formula_.size(); ++end) {
            const char c = formula_[end];
            open += c == '(' || c == '[' ? 1 : c == ')' || c == ']' ? -1 : 0;
            has_comma = has_comma || (c == ',' && open == 1);
            if (open == 0)
                break;
        }
        const std::size_t after = formula_.find_first_not_of(' ', end + 1);
        return has_comma && after != formula_.npos && (formula_[after] == ',' || formula_[after] == ')');
    }

    void add_keyword(Expression& call, const std::string& keyword)
    {
        if (std::ranges::find(call.keywords, keyword, &Keyword::name) != call.keywords.end())
            fail("there is a " + keyword + " already");
        call.keywords.push_back({keyword, comparison()});
    }

    Subscript subscript()
    {
        Subscript entry;
        if (accept_word("None") || accept_word("np.newaxis")) {
            entry.kind = Subscript::Kind::new_axis;
            return entry;
        }
        if (accept("...")) {
            entry.kind = Subscript::Kind::ellipsis;
            return entry;
        }
        if (!next_is(":"))
            entry.index = comparison();
        if (!accept(":"))
            return entry;
        entry.kind = Subscript::Kind::slice;
        entry.start = std::exchange(entry.index, std::nullopt);
        if (!next_is(":") && !next_is(",") && !next_is("]"))
            entry.stop = comparison();
        if (accept(":") && !next_is(",") && !next_is("]"))
            entry.step = comparison();
        return entry;
    }

    /// A name, or a path such as head.0.context; .T and .shape end it.
    std::string dotted_name()
    {
        const std::size_t begin = at_;
        read_word();
        while (at_ + 1 < formula_.size() && formula_[at_] == '.' && !next_is_word(".T") && !next_is_word(".shape") &&
               continues_name(formula_[at_ + 1])) {
            ++at_;
            read_word();
        }
        return std::string(formula_.substr(begin, at_ - begin));
    }

    void read_word()
    {
        while (at_ < formula_.size() && continues_name(formula_[at_]))
            ++at_;
    }

    /// "sum" where ".sum(" follows.
    std::string accept_method()
    {
        const std::size_t begin = at_;
        if (accept(".")) {
            const std::size_t word = at_;
            read_word();
            const std::string name(formula_.substr(word, at_ - word));
            if (!name.empty() && accept("("))
                return name;
        }
        at_ = begin;
        return {};
    }

    /// "axis" where "axis=" follows, which "axis==" is not.
    std::string accept_keyword()
    {
        skip_space();
        const std::size_t begin = at_;
        read_word();
        const std::string word(formula_.substr(begin, at_ - begin));
        if (!word.empty() && !next_is("==") && accept("="))
            return word;
        at_ = begin;
        return {};
    }

    // ------------------------------------------------------------------------------------------------ characters

    void skip_space()
    {
        while (at_ < formula_.size() && formula_[at_] == ' ')
            ++at_;
    }

    bool at_end()
    {
        skip_space();
        return at_ == formula_.size();
    }

    std::size_t here()
    {
        skip_space();
        return at_;
    }

    bool next_is(std::string_view token)
    {
        skip_space();
        return formula_.substr(at_).starts_with(token);
    }

    bool next_is_word(std::string_view word)
    {
        const std::size_t end = at_ + word.size();
        return next_is(word) && (end == formula_.size() || !continues_name(formula_[end]));
    }

    bool accept(std::string_view token)
    {
        if (!next_is(token))
            return false;
        at_ += token.size();
        return true;
    }

    /// The first of some operators that is next, taken; empty where none is. "**" isn't "*".
    std::string_view accept_any(std::initializer_list<std::string_view> operators)
    {
        for (const std::string_view op : operators)
            if (!(op == "*" && next_is("**")) && accept(op))
                return op;
        return {};
    }

    bool accept_word(std::string_view word)
    {
        skip_space();
        return next_is_word(word) && accept(word);
    }

    void expect(std::string_view token)
    {
        if (!accept(token))
            fail("expected " + std::string(token));
    }

    // ----------------------------------------------------------------------------------------------------- trees

    static Expression node(Expression::Kind kind, std::size_t position)
    {
        Expression expression;
        expression.kind = kind;
        expression.position = position;
        return expression;
    }

    static Expression wrap(Expression::Kind kind, std::size_t position, Expression inner)
    {
        Expression outer = node(kind, position);
        outer.operands.push_back(std::move(inner));
        return outer;
    }

    static Expression binary(std::string_view op, Expression left, Expression right)
    {
        Expression both = node(Expression::Kind::binary, left.position);
        both.text = op;
        both.operands.push_back(std::move(left));
        both.operands.push_back(std::move(right));
        return both;
    }

    /// Chains such as a + b + c + … grow to the left without recursion here, but are walked recursively later.
    void count_link()
    {
        if (++chain_ > deepest * 2)
            fail("is too long a chain of operators");
    }

    /// Counts how deep the rules are nested.
    struct Depth {
        explicit Depth(Parser& parser) : parser_(parser)
        {
            if (++parser_.depth_ > deepest)
                parser_.fail("is nested too deeply");
        }
        ~Depth() { --parser_.depth_; }
        Depth(const Depth&) = delete;
        Depth& operator=(const Depth&) = delete;
        Parser& parser_;
    };

    [[noreturn]] void fail(std::string_view message) const { throw FormulaError(formula_, at_, message); }

    std::string_view formula_;
    std::size_t at_ = 0;
    int depth_ = 0;
    int chain_ = 0;
};

/// A stretch of the formula short enough for one line.
std::string excerpt(std::string_view formula)
{
    constexpr std::size_t width = 120;
    return printable(formula, width);
}

} // namespace

FormulaError::FormulaError(std::string_view formula, std::size_t position, std::string_view message)
    : Error("\"" + excerpt(formula) + "\", character " + std::to_string(position + 1) + ": " + std::string(message))
{
}

Expression parse_formula(std::string_view formula)
{
    constexpr double operations_each = 20; // of its characters
    spend(operations_each * static_cast<double>(formula.size()));
    return Parser(formula).parse();
}

std::vector<const Expression*> parts_of(const Expression& expression)
{
    std::vector<const Expression*> parts;
    for (const Expression& operand : expression.operands)
        parts.push_back(&operand);
    for (const Keyword& keyword : expression.keywords)
        parts.push_back(&keyword.value);
    for (const Subscript& subscript : expression.subscripts)
        for (const std::optional<Expression>* part :
             {&subscript.index, &subscript.start, &subscript.stop, &subscript.step})
            if (*part)
                parts.push_back(&**part);
    return parts;
}

namespace {

void collect_names(const Expression& expression, bool is_size_alone, std::vector<UsedName>& names)
{
    if (expression.kind == Expression::Kind::name) {
        const auto found = std::ranges::find(names, expression.text, &UsedName::name);
        if (found == names.end())
            names.push_back({expression.text, is_size_alone});
        else
            found->is_size_alone = found->is_size_alone && is_size_alone;
    }
    for (const Expression* part : parts_of(expression)) {
        const bool is_sized = expression.kind == Expression::Kind::size && part == &expression.operands[0];
        collect_names(*part, is_size_alone || is_sized, names);
    }
}

} // namespace

std::vector<UsedName> names_in(std::string_view formula)
{
    std::vector<UsedName> names;
    collect_names(parse_formula(formula), false, names);
    return names;
}

} // namespace attn::formula
