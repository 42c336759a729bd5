#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attn::show {

/// The head of a request. Its content, if it has any, is never looked at.
struct HttpRequest {
    std::string method;
    std::string path;                                      ///< up to the ?, as it was sent: nothing in it is decoded
    std::map<std::string, std::string, std::less<>> query; ///< name=value after the ?; of two of a name the first
    std::vector<std::string> hosts;                        ///< the value of each of its Host lines
};

struct HttpAnswer {
    int status = 200;
    std::string type; ///< its content's
    std::string content;
};

/// Reads a request's head, without the empty line at its end.
/// @return nothing where it is none
std::optional<HttpRequest> read_request(std::string_view head);

/// A file descriptor that is closed with its owner.
class Descriptor {
public:
    explicit Descriptor(int number = -1) : number_(number) {}
    Descriptor(Descriptor&& other) noexcept;
    Descriptor& operator=(Descriptor&& other) noexcept;
    ~Descriptor();

    int number() const { return number_; }

private:
    int number_;
};

/// Answers HTTP requests on 127.0.0.1, each connection one, and each answer as a whole: a request for a range of bytes is
/// answered as one without it.
///
/// One thread does everything and waits for no client: it writes what a socket takes and reads what it has. A client has
/// 10 seconds for its request, and 10 more and one per MiB for its answer. Where 128 are connected and one more comes, the
/// one that has been asking for the longest is disconnected.
class HttpServer {
public:
    using Answering = std::function<HttpAnswer(const HttpRequest&)>;

    /// Opens the port, at which clients wait until run().
    /// @param port        any free one for 0
    /// @param head_lines  further lines of every answer's head, each with its end
    /// @param answering   called for every request; what it throws is answered with status 500
    /// @throws Error  where the port is taken
    HttpServer(int port, std::string head_lines, Answering answering);

    int port() const { return port_; }

    /// Answers requests until stop() is called, before or meanwhile. It then leaves every client at once.
    void run();

    /// Can be called from any thread, and by a signal handler.
    void stop() noexcept;

private:
    using Clock = std::chrono::steady_clock;

    struct Connection {
        enum class State { asking, taking, leaving, gone };

        Descriptor socket;
        Clock::time_point last; ///< when its time is up
        State state = State::asking;
        std::string request{}; ///< what has come of its head
        std::string head{}, content{};
        std::size_t sent = 0; ///< of both together
    };

    void accept_one();
    void let_one_go();
    void go_on(Connection& connection);
    void read_more(Connection& connection);
    void write_more(Connection& connection);
    void drop_more(Connection& connection);
    void answer(Connection& connection, std::size_t end_of_head);
    int milliseconds_left() const;

    std::string head_lines_;
    Answering answering_;
    Descriptor listener_, wake_, waker_; ///< the last two are the ends of a pipe
    std::vector<Connection> connections_;
    int port_ = 0;
};

} // namespace attn::show
