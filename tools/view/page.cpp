#include "tools/view/page.hpp"

#include <sstream>

#include "tools/regular_file.hpp"
#include "tools/run_name.hpp"

#ifdef SPILLWAY_VIEWER
extern "C" {
extern const char spillway_viewer_page[];
extern const char spillway_viewer_page_end[];
}
#endif

namespace spillway::tools::view {
namespace {

constexpr std::string_view kDataMark = "<!-- data -->";
// Behind the page's mark, with the runs that it is of, and an end.
constexpr std::string_view kRunsMark = "<!-- of";
constexpr std::string_view kRunsEnd = " -->";
constexpr std::size_t kMostOfRuns = std::size_t{64} << 10;

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

std::vector<std::string> runs_of_page(const std::string& path) {
  std::string why;
  const std::string begin = read_regular(path, kMostOfRuns, why).value_or("");
  const std::string mark = std::string(kPageMark) + std::string(kRunsMark);
  const std::size_t end = begin.find(kRunsEnd, mark.size());
  if (!begin.starts_with(mark) || end == std::string::npos) return {};
  std::istringstream words(begin.substr(mark.size(), end - mark.size()));
  std::vector<std::string> runs;
  for (std::string run; words >> run;) runs.push_back(run);
  return runs;
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
  out += kRunsMark;
  for (const ViewData& data : traces) {
    const std::string run = run_name(data.directory.value("host", ""), data.directory.value("pid", std::uint64_t{0}),
                                     data.directory.value("start", ""));
    if (!run.empty()) out += " " + run;
  }
  out += kRunsEnd;
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
