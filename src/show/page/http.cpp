#include "http.hpp"

#include "attn/core/error.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace attn::show {
namespace {

using std::chrono::seconds;

constexpr std::size_t most_connections =
    128; // with these, a process of 256 descriptors, macOS's usual limit, has enough
constexpr std::size_t most_in_head = 1 << 14;     // a browser's has about 1000 bytes
constexpr seconds patience(10);                   // many times what a client takes that waits for nothing itself
constexpr std::size_t least_per_second = 1 << 20; // what a tunnel to another machine still takes
constexpr std::string_view end_of_line = "\r\n", end_of_head = "\r\n\r\n";

std::string message_of(int error) { return std::generic_category().message(error); }

/// Without waiting, and not for programs that this one starts.
void prepare(int descriptor)
{
    ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) | O_NONBLOCK);
    ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
}

bool is_for_later(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

/// What comes before a separator, which is taken off with it; all of it where there is none.
std::string_view taken_until(std::string_view& text, std::string_view separator)
{
    const std::size_t end = std::min(text.find(separator), text.size());
    const std::string_view part = text.substr(0, end);
    text.remove_prefix(std::min(end + separator.size(), text.size()));
    return part;
}

std::string_view trimmed(std::string_view text)
{
    const std::size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
    return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

bool is_host(std::string_view name)
{
    return std::ranges::equal(name, std::string_view("host"),
                              [](char c, char expected) { return c == expected || c == expected - 'a' + 'A'; });
}

} // namespace

// ------------------------------------------------------------------------------------------------ a request

std::optional<HttpRequest> read_request(std::string_view head)
{
    std::string_view line = taken_until(head, end_of_line);
    HttpRequest request;
    request.method = taken_until(line, " ");
    std::string_view query = taken_until(line, " ");
    if (request.method.empty() || query.empty() || (line != "HTTP/1.1" && line != "HTTP/1.0"))
        return std::nullopt;
    request.path = taken_until(query, "?");
    while (!query.empty()) {
        std::string_view value = taken_until(query, "&");
        const std::string_view name = taken_until(value, "=");
        request.query.emplace(name, value);
    }
    while (!head.empty()) {
        std::string_view value = taken_until(head, end_of_line);
        const std::size_t colon = value.find(':');
        if (colon == 0 || value.find_first_of(" \t") < colon || colon == std::string_view::npos)
            return std::nullopt;
        const std::string_view name = taken_until(value, ":");
        if (is_host(name))
            request.hosts.emplace_back(trimmed(value));
    }
    return request;
}

// ------------------------------------------------------------------------------------------------ connections

Descriptor::Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept
{
    std::swap(number_, other.number_);
    return *this;
}

Descriptor::~Descriptor()
{
    if (number_ >= 0)
        ::close(number_);
}

HttpServer::HttpServer(int port, std::string head_lines, Answering answering)
    : head_lines_(std::move(head_lines)), answering_(std::move(answering))
{
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0)
        throw Error("no pipe can be opened: ", message_of(errno));
    wake_ = Descriptor(ends[0]);
    waker_ = Descriptor(ends[1]);
    for (const int end : ends)
        prepare(end);

    listener_ = Descriptor(::socket(AF_INET, SOCK_STREAM, 0));
    if (listener_.number() < 0)
        throw Error("no socket can be opened: ", message_of(errno));
    prepare(listener_.number());
    const int yes = 1; // a port that was left a moment ago is free
    ::setsockopt(listener_.number(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_in address = {};
    socklen_t size = sizeof address;
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::bind(listener_.number(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
        ::listen(listener_.number(), SOMAXCONN) != 0 ||
        ::getsockname(listener_.number(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
        throw Error(port == 0 ? "no port of 127.0.0.1 can be opened: " + message_of(errno)
                              : "port " + std::to_string(port) +
                                    " is taken or not allowed; leave --port out for any free one");
    port_ = ntohs(address.sin_port);
}

void HttpServer::stop() noexcept
{
    const int error = errno; // of what a signal has interrupted
    const char byte = 0;
    [[maybe_unused]] const ssize_t written = ::write(waker_.number(), &byte, 1);
    errno = error;
}

void HttpServer::run()
{
    while (true) {
        std::vector<pollfd> polled{{wake_.number(), POLLIN, 0}, {listener_.number(), POLLIN, 0}};
        for (const Connection& connection : connections_) {
            const bool is_taking = connection.state == Connection::State::taking;
            polled.push_back({connection.socket.number(), static_cast<short>(is_taking ? POLLOUT : POLLIN), 0});
        }
        if (::poll(polled.data(), polled.size(), milliseconds_left()) < 0) {
            if (errno == EINTR)
                continue;
            throw Error("clients can't be waited for: ", message_of(errno));
        }
        if (polled[0].revents != 0)
            break;
        for (std::size_t i = 0; i < connections_.size(); ++i)
            if (polled[i + 2].revents != 0)
                go_on(connections_[i]);
        const Clock::time_point now = Clock::now();
        std::erase_if(connections_, [now](const Connection& connection) {
            return connection.state == Connection::State::gone || connection.last <= now;
        });
        if (polled[1].revents != 0)
            accept_one();
    }
    connections_.clear();
}

int HttpServer::milliseconds_left() const
{
    if (connections_.empty())
        return -1;
    const Clock::time_point first = std::ranges::min_element(connections_, {}, &Connection::last)->last;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(first - Clock::now()).count();
    return static_cast<int>(std::clamp<decltype(left)>(left, 0, std::numeric_limits<int>::max()));
}

void HttpServer::accept_one()
{
    Descriptor socket(::accept(listener_.number(), nullptr, nullptr));
    if (socket.number() < 0) {
        if (is_for_later(errno) || errno == ECONNABORTED)
            return;
        if (connections_.empty()) // too few descriptors for a single one
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
        else
            let_one_go();
        return;
    }
    prepare(socket.number());
    const int yes = 1; // the head is written before the content
    ::setsockopt(socket.number(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (connections_.size() == most_connections)
        let_one_go();
    connections_.push_back({std::move(socket), Clock::now() + patience});
}

/// One that takes an answer has been allowed to ask for it.
void HttpServer::let_one_go()
{
    const auto rank = [](const Connection& connection) {
        return std::tuple(connection.state == Connection::State::taking, connection.last);
    };
    connections_.erase(std::ranges::min_element(connections_, {}, rank));
}

void HttpServer::go_on(Connection& connection)
{
    switch (connection.state) {
    case Connection::State::asking:
        return read_more(connection);
    case Connection::State::taking:
        return write_more(connection);
    case Connection::State::leaving:
        return drop_more(connection);
    case Connection::State::gone:
        return;
    }
}

void HttpServer::read_more(Connection& connection)
{
    std::array<char, 1 << 12> buffer;
    const ssize_t found = ::recv(connection.socket.number(), buffer.data(), buffer.size(), 0);
    if (found <= 0) {
        if (found == 0 || !is_for_later(errno))
            connection.state = Connection::State::gone;
        return;
    }
    connection.request.append(buffer.data(), static_cast<std::size_t>(found));
    const std::size_t end = connection.request.find(end_of_head);
    if (end != std::string::npos || connection.request.size() > most_in_head)
        answer(connection, end);
}

void HttpServer::answer(Connection& connection, std::size_t end)
{
    const auto refused = [](int status, const std::string& why) {
        return HttpAnswer{status, "text/plain; charset=utf-8", why + "\n"};
    };
    const Clock::time_point begin = Clock::now();
    HttpAnswer answer;
    std::optional<HttpRequest> request;
    if (end > most_in_head) {
        answer = refused(431, "the request is too long");
    } else if (request = read_request(std::string_view(connection.request).substr(0, end)); !request) {
        answer = refused(400, "this is no HTTP request");
    } else {
        try {
            answer = answering_(*request);
        } catch (const std::exception& error) {
            answer = refused(500, error.what());
        }
    }
    const Clock::time_point now = Clock::now();
    for (Connection& each : connections_) // nobody has been served meanwhile
        each.last += now - begin;
    connection.last = now + patience + seconds(answer.content.size() / least_per_second);
    connection.head = "HTTP/1.1 " + std::to_string(answer.status) + " \r\nContent-Type: " + answer.type +
                      "\r\nContent-Length: " + std::to_string(answer.content.size()) +
                      "\r\nConnection: close\r\nAccept-Ranges: none\r\n" + head_lines_ + "\r\n";
    if (!request || request->method != "HEAD")
        connection.content = std::move(answer.content);
    connection.request = {};
    connection.state = Connection::State::taking;
    write_more(connection);
}

void HttpServer::write_more(Connection& connection)
{
    while (connection.sent < connection.head.size() + connection.content.size()) {
        const std::string_view rest =
            connection.sent < connection.head.size()
                ? std::string_view(connection.head).substr(connection.sent)
                : std::string_view(connection.content).substr(connection.sent - connection.head.size());
        const ssize_t written = ::send(connection.socket.number(), rest.data(), rest.size(), MSG_NOSIGNAL);
        if (written < 0) {
            if (!is_for_later(errno))
                connection.state = Connection::State::gone;
            return;
        }
        connection.sent += static_cast<std::size_t>(written);
    }
    // To close a socket that has something to be read would take the answer back: the client closes first.
    ::shutdown(connection.socket.number(), SHUT_WR);
    connection.content = {};
    connection.last = Clock::now() + patience;
    connection.state = Connection::State::leaving;
}

void HttpServer::drop_more(Connection& connection)
{
    std::array<char, 1 << 16> buffer;
    const ssize_t found = ::recv(connection.socket.number(), buffer.data(), buffer.size(), 0);
    if (found == 0 || (found < 0 && !is_for_later(errno)))
        connection.state = Connection::State::gone;
}

} // namespace attn::show
