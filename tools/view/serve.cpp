#include "tools/view/serve.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>

namespace spillway::tools::view {
namespace {

constexpr std::size_t kLongestRequest = 16384;
constexpr int kPatience = 2000;  // ms for a browser to send its request, or to take more of the page

volatile std::sig_atomic_t stop_serving = 0;
void ask_to_stop(int /*signal*/) { stop_serving = 1; }

class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  [[nodiscard]] int get() const { return descriptor_; }
  [[nodiscard]] bool wait(short what, int milliseconds) const {
    pollfd place{descriptor_, what, 0};
    return ::poll(&place, 1, milliseconds) == 1;
  }

 private:
  int descriptor_;
};

// Up to the empty line; empty if it does not come.
std::string read_request(const Socket& client) {
  std::string text;
  std::array<char, 4096> piece{};
  while (text.size() < kLongestRequest && text.find("\r\n\r\n") == std::string::npos) {
    if (!client.wait(POLLIN, kPatience)) return {};
    const ssize_t got = ::recv(client.get(), piece.data(), piece.size(), 0);
    if (got <= 0) return {};
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
  return text;
}

void send_all(const Socket& client, std::string_view text) {
  while (!text.empty() && stop_serving == 0) {
    if (!client.wait(POLLOUT, kPatience)) return;
    const ssize_t sent = ::send(client.get(), text.data(), text.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
}

std::string secret_path() {
  std::array<unsigned char, 12> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) return {};
  std::string path = "/";
  for (const unsigned char byte : bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    path += kDigits[byte >> 4U];
    path += kDigits[byte & 15U];
  }
  return path + "/";
}

// A page elsewhere may make a browser ask us under a name of its own; only our own names are answered.
bool asked_by_our_name(const std::string& request, const std::string& port) {
  std::string lower = request;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower.find("\r\nhost: 127.0.0.1:" + port + "\r\n") != std::string::npos ||
         lower.find("\r\nhost: localhost:" + port + "\r\n") != std::string::npos;
}

void answer(const Socket& client, const std::string& page, const std::string& path, const std::string& port) {
  const std::string request = read_request(client);
  if (request.empty()) return;
  const bool head = request.starts_with("HEAD ");
  const bool ours = (head || request.starts_with("GET ")) && asked_by_our_name(request, port) &&
                    request.compare(head ? 5 : 4, path.size() + 1, path + " ") == 0;
  const std::string_view body = ours ? std::string_view(page) : "not here\n";
  std::string header = ours ? "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n"
                            : "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\n";
  header += "Content-Length: " + std::to_string(body.size()) +
            "\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n\r\n";
  send_all(client, header);
  if (!head) send_all(client, body);
}

}  // namespace

std::optional<std::string> serve(const std::string& page, const ServeRequest& request) {
  const Socket listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(request.port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int yes = 1;
  ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  socklen_t size = sizeof address;
  if (listener.get() < 0 || ::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listener.get(), 8) != 0 ||
      ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return "cannot serve on 127.0.0.1:" + std::to_string(request.port) + ": " + std::strerror(errno) +
           "; choose another --port, or write a file with -o";
  }
  const std::string path = secret_path();
  if (path.empty()) return std::string("cannot serve: no random numbers: ") + std::strerror(errno);
  const std::string port = std::to_string(ntohs(address.sin_port));
  struct sigaction action {};
  action.sa_handler = ask_to_stop;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  request.ready("http://127.0.0.1:" + port + path);
  while (stop_serving == 0) {
    if (!listener.wait(POLLIN, 500)) continue;
    const Socket client(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (client.get() >= 0) answer(client, page, path, port);
  }
  return std::nullopt;
}

}  // namespace spillway::tools::view
