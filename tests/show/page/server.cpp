#include "attn/show/page/server.hpp"

#include "attn/files/npy.hpp"
#include "attn/files/trace_file.hpp"
#include "temporary_folder.hpp"
#include "test.hpp"

#include <thread>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace attn;
using namespace attn::files;
using namespace attn::show;

namespace {

Recording sample()
{
    return {{{"x", "", {"n"}, "", {}, {{3}, {1, 2, 3}}}, {"y", "x * 2", {"n"}, "", {}, {{3}, {2, 4, 7}}}}, {}};
}

/// A server of one trace, or of two, that answers as long as this lives.
class Served {
public:
    explicit Served(const std::vector<Recording>& recordings = {sample()}) : server_(written(recordings))
    {
        thread_ = std::thread([this] { server_.run(); });
    }
    ~Served()
    {
        server_.stop();
        thread_.join();
    }

    /// "GET /9f86…/tensor?run=0&step=1" from "GET tensor?run=0&step=1".
    std::string asked(const std::string& line) const
    {
        const std::string address = server_.address(), folder = address.substr(address.find('/', 7));
        const std::size_t blank = line.find(' ') + 1;
        return line.substr(0, blank) + folder + line.substr(blank);
    }

    std::string host() const { return "Host: 127.0.0.1:" + std::to_string(server_.port()); }

    /// What it answers, head and content, to a request line and lines of its head.
    std::string answer(const std::string& line, const std::string& head) const
    {
        return plain_answer(line + " HTTP/1.1\r\n" + head + "\r\nConnection: close\r\n\r\n");
    }
    std::string answer(const std::string& line) const { return answer(line, host()); }

    std::string plain_answer(const std::string& request) const
    {
        const int connection = ::socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_in address = {};
        address.sin_family = AF_INET;
        address.sin_port = htons(static_cast<std::uint16_t>(server_.port()));
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        REQUIRE(::connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
        REQUIRE(::send(connection, request.data(), request.size(), 0) == static_cast<ssize_t>(request.size()));
        std::string answer;
        char buffer[4096];
        for (ssize_t found = 0; (found = ::recv(connection, buffer, sizeof buffer, 0)) > 0;)
            answer.append(buffer, static_cast<std::size_t>(found));
        ::close(connection);
        return answer;
    }

    /// The content alone, where all is well.
    std::string content(const std::string& line, const std::string& further_head = "") const
    {
        const std::string found = answer(asked(line), host() + further_head);
        REQUIRE(found.starts_with("HTTP/1.1 200 "));
        return found.substr(found.find("\r\n\r\n") + 4);
    }

    const ViewServer& server() const { return server_; }

private:
    std::vector<TitledTrace> written(const std::vector<Recording>& recordings) const
    {
        std::vector<TitledTrace> traces;
        for (const Recording& recording : recordings) {
            const std::string name = std::to_string(traces.size()) + ".npz";
            write_trace(folder_ / name, recording);
            traces.push_back({name, folder_ / name});
        }
        return traces;
    }

    TemporaryFolder folder_;
    ViewServer server_;
    std::thread thread_;
};

} // namespace

TEST_CASE("a server gives the page, a tensor's numbers and a number's arithmetic", "[view][server]")
{
    const Served served;
    CHECK_THAT(served.content("GET "), ContainsSubstring("\"path\":\"y\",\"formula\":\"x * 2\",\"links\":[[0,1,0]]"));
    CHECK(served.content("GET tensor?run=0&step=1") == encode_npy({{3}, {2, 4, 7}}));
    CHECK(served.content("GET explain?run=0&step=1&offset=2") ==
          R"({"text":"y[2] = x * 2\n  = x[2]*2\n  = 3*2\n  = 6\n  but the trace has 7\n","cells":[[0,[2,0,1]]]})");
}

TEST_CASE("a server of two runs gives the numbers of either", "[view][server]")
{
    Recording other = sample();
    other.steps[1].value.values[1] = 5;
    const Served served({sample(), other});
    CHECK_THAT(served.content("GET "), ContainsSubstring(R"("kind":"differs","largest":"1","at":[1])"));
    CHECK(served.content("GET tensor?run=1&step=1") == encode_npy({{3}, {2, 5, 7}}));
    CHECK_THAT(served.content("GET explain?run=1&step=1&offset=1"), ContainsSubstring("but the trace has 5"));
}

TEST_CASE("a server answers only requests for this machine, and only what its page asks", "[view][server]")
{
    const Served served;
    const std::string port = served.host().substr(served.host().rfind(':'));
    const auto status = [&](const std::string& line, const std::string& head) {
        return served.answer(served.asked(line), head).substr(9, 3);
    };
    CHECK(status("GET ", "Host: localhost" + port) == "200");
    for (const std::string& head :
         {std::string("Host: attacker.example"), "Host: attacker.example" + port, std::string("Host: 127.0.0.1"),
          std::string("Host: 127.0.0.1:1"), served.host() + "\r\nHost: attacker.example", std::string("Accept: *")}) {
        CAPTURE(head);
        for (const char* line : {"GET ", "GET tensor?run=0&step=0", "GET explain?run=0&step=0&offset=0", "GET none"})
            CHECK(status(line, head) == "403");
    }
    for (const char* method : {"HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
        CHECK(status(std::string(method) + " ", served.host()) == "405");
    for (const char* path : {"index.html", "tensor/0", "../etc/passwd", "/", "tensors?run=0&step=0"})
        CHECK(status(std::string("GET ") + path, served.host()) == "404");
    for (const char* query : {"", "?run=0", "?run=0&step=", "?run=0&step=2", "?run=1&step=0", "?run=0&step=-1",
                              "?run=0&step=1e0", "?run=0&step=99999999999999999999"})
        CHECK(status(std::string("GET tensor") + query, served.host()) == "400");
    CHECK(status("GET explain?run=0&step=0&offset=3", served.host()) == "400");
}

TEST_CASE("a server's address has a key, and without it nothing is answered", "[view][server]")
{
    const Served served, another;
    const std::string key = served.asked("GET ").substr(5, 32);
    CHECK(key.find_first_not_of("0123456789abcdef") == std::string::npos);
    CHECK(served.server().address() == "http://127.0.0.1:" + std::to_string(served.server().port()) + "/" + key + "/");
    CHECK(another.asked("GET ") != served.asked("GET "));
    for (const std::string& path :
         {std::string("/"), std::string("/tensor?run=0&step=0"), "/" + key, "/" + key.substr(1) + "/", "/?" + key,
          "//" + key + "/", another.asked("GET ").substr(4)}) {
        const std::string answer = served.answer("GET " + path);
        CAPTURE(path, answer);
        CHECK(answer.substr(9, 3) == "403");
        CHECK_THAT(answer, ContainsSubstring("open the whole address that attn view printed"));
    }
}

TEST_CASE("a server gives whole answers whatever range is asked for", "[view][server]")
{
    const Served served;
    for (const char* line : {"GET ", "GET tensor?run=0&step=1", "GET explain?run=0&step=1&offset=2"})
        for (const char* range : {"bytes=0-4999", "bytes=5000-", "bytes=-5000", "bytes=100-5000", "bytes=2-1",
                                  "bytes=0-1,2-99999", "bytes=x", "bytes=9223372036854775807-", ""}) {
            CAPTURE(line, range);
            CHECK((served.content(line, "\r\nRange: " + std::string(range)) == served.content(line)));
        }
}

TEST_CASE("a server refuses what is no request, and one without an end", "[view][server]")
{
    const Served served;
    const std::string no_end = "GET / HTTP/1.1\r\n" + served.host();
    for (const std::string& text :
         std::vector<std::string>{"", "GET", "GET /", "GET / HTTP/9", " / HTTP/1.1", no_end + "\r\n folded: x",
                                  no_end + "\r\nno colon", no_end + "\r\n: x", no_end + "\r\nX : y"}) {
        CAPTURE(text);
        CHECK(served.plain_answer(text + "\r\n\r\n").substr(0, 13) == "HTTP/1.1 400 ");
    }
    CHECK(served.plain_answer("GET / HTTP/1.1\r\nX: " + std::string(20000, 'y')).substr(0, 13) == "HTTP/1.1 431 ");
}

TEST_CASE("a server's answers say that no other site may read them and nothing else may run", "[view][server]")
{
    const Served served;
    for (const std::string& line : {served.asked("GET "), served.asked("GET tensor?run=0&step=0"),
                                    served.asked("GET none"), std::string("GET /")}) {
        const std::string answer = served.answer(line);
        CAPTURE(line, answer.substr(0, 600));
        CHECK_THAT(answer, ContainsSubstring("Content-Security-Policy: default-src 'none'; script-src 'sha256-"));
        CHECK_THAT(answer, ContainsSubstring("Cross-Origin-Resource-Policy: same-origin"));
        CHECK_THAT(answer, ContainsSubstring("X-Content-Type-Options: nosniff"));
        CHECK(answer.find("Access-Control") == std::string::npos);
    }
}

TEST_CASE("a port that is taken is an error", "[view][server]")
{
    const Served served;
    const TemporaryFolder folder;
    write_trace(folder / "t.npz", sample());
    CHECK_THROWS_WITH(ViewServer({{"t", folder / "t.npz"}}, {}, served.server().port()), ContainsSubstring("is taken"));
}
