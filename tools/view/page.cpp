#include "tools/view/page.hpp"

#ifdef SPILLWAY_VIEWER
extern "C" {
extern const char spillway_viewer_page[];
extern const char spillway_viewer_page_end[];
}
#endif

namespace spillway::tools::view {
namespace {

constexpr std::string_view kDataMark = "<!-- data -->";

// JSON inside a script element: nothing in it may end the element or begin a comment.
std::string inside_script(const std::string& json) {
  std::string text;
  text.reserve(json.size());
  for (const char c : json) text += c == '<' ? "\\u003c" : std::string(1, c);
  return text;
}

}  // namespace

std::string_view page_template() {
#ifdef SPILLWAY_VIEWER
  return {spillway_viewer_page, static_cast<std::size_t>(spillway_viewer_page_end - spillway_viewer_page)};
#else
  return {};
#endif
}

std::string make_page(std::string_view page, const ViewData& data) {
  const std::size_t mark = page.find(kDataMark);
  const std::string_view before = page.substr(0, mark);
  const std::string_view after = mark == std::string_view::npos ? "" : page.substr(mark + kDataMark.size());
  std::string out(kPageMark);
  out += before;
  // Names in a trace are bytes; what is no UTF-8 is replaced, not an exception.
  out += "<script type=\"application/json\" id=\"directory\">" +
         inside_script(data.directory.dump(-1, ' ', false, Json::error_handler_t::replace)) + "</script>\n";
  for (std::size_t i = 0; i < data.blocks.size(); ++i) {
    out += "<script type=\"text/plain\" id=\"block-" + std::to_string(i) + "\">" + data.blocks[i] + "</script>\n";
  }
  out += after;
  return out;
}

}  // namespace spillway::tools::view
