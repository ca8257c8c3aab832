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

void put_json(std::string& out, const std::string& id, const Json& json) {
  // Names in a trace are bytes; what is no UTF-8 is replaced, not an exception.
  out += "<script type=\"application/json\" id=\"" + id + "\">" +
         inside_script(json.dump(-1, ' ', false, Json::error_handler_t::replace)) + "</script>\n";
}

// What the page says of every trace, whichever is shown.
Json listed_of(const Json& directory) {
  Json listed = Json::object();
  for (const char* const key : {"trace", "rank", "whole", "duration", "named_on_host"}) {
    listed[key] = directory.value(key, Json());
  }
  std::uint64_t in = 0, out = 0;
  for (const Json& device : directory.value("devices", Json::array())) {
    in += device.value("moved_in", std::uint64_t{0});
    out += device.value("moved_out", std::uint64_t{0});
  }
  listed["moved_in"] = in;
  listed["moved_out"] = out;
  listed["launches"] = directory.contains("timeline") ? directory["timeline"]["launches"] : Json(0);
  return listed;
}

}  // namespace

std::string_view page_template() {
#ifdef SPILLWAY_VIEWER
  return {spillway_viewer_page, static_cast<std::size_t>(spillway_viewer_page_end - spillway_viewer_page)};
#else
  return {};
#endif
}

std::string make_page(std::string_view page, std::span<const ViewData> traces) {
  const std::size_t mark = page.find(kDataMark);
  const std::string_view before = page.substr(0, mark);
  const std::string_view after = mark == std::string_view::npos ? "" : page.substr(mark + kDataMark.size());
  std::size_t bytes = page.size();
  for (const ViewData& data : traces) {
    for (const std::string& block : data.blocks) bytes += block.size() + 64;
  }
  std::string out(kPageMark);
  out.reserve(bytes + (std::size_t{1} << 20));
  out += before;
  Json listed = Json::array();
  for (const ViewData& data : traces) listed.push_back(listed_of(data.directory));
  put_json(out, "traces-in-page", listed);
  for (std::size_t trace = 0; trace < traces.size(); ++trace) {
    put_json(out, "directory-" + std::to_string(trace), traces[trace].directory);
    for (std::size_t i = 0; i < traces[trace].blocks.size(); ++i) {
      out += "<script type=\"text/plain\" id=\"block-" + std::to_string(trace) + "-" + std::to_string(i) + "\">";
      out += traces[trace].blocks[i];
      out += "</script>\n";
    }
  }
  out += after;
  return out;
}

}  // namespace spillway::tools::view
